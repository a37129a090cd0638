// The peer Boost.Fiber. See ../README.md.
#include <boost/fiber/all.hpp>
#include <boost/version.hpp>

#include "../metric.h"

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace fibers = boost::fibers;

namespace {

using Count = std::uint64_t;

// Stacks are reused, as in the other systems.
fibers::pooled_fixedsize_stack stacks;

template <typename Body> fibers::fiber start(Body body) {
  return fibers::fiber(fibers::launch::post, std::allocator_arg, stacks, body);
}

template <typename First, typename Second> void together(First first, Second second) {
  fibers::fiber one = start(first), other = start(second);
  one.join();
  other.join();
}

// The library has no semaphore, so this is the usual implementation.
class Semaphore {
public:
  explicit Semaphore(unsigned count) : count_(count) {}

  void signal() {
    {
      std::lock_guard<fibers::mutex> lock(mutex_);
      ++count_;
    }
    changed_.notify_one();
  }

  void wait() {
    std::unique_lock<fibers::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return count_ > 0; });
    --count_;
  }

private:
  fibers::mutex mutex_;
  fibers::condition_variable changed_;
  unsigned count_;
};

// Each case returns the number of its operations.
Count yield(Count n) {
  Count turns = n / 2;
  auto body = [turns] {
    for (Count i = 0; i < turns; i++)
      boost::this_fiber::yield();
  };
  together(body, body);
  return turns * 2;
}

Count channel(Count n) {
  fibers::unbuffered_channel<Count> values;
  Count sum = 0;
  together(
      [&] {
        for (Count i = 1; i <= n; i++)
          values.push(i);
      },
      [&] {
        for (Count i = 0; i < n; i++)
          sum += values.value_pop();
      });
  must(sum == n * (n + 1) / 2, "values were lost");
  return n;
}

Count semaphore(Count n) {
  Semaphore mine(1), yours(0);
  Count turns = n / 2;
  together(
      [&] {
        for (Count i = 0; i < turns; i++) {
          mine.wait();
          yours.signal();
        }
      },
      [&] {
        for (Count i = 0; i < turns; i++) {
          yours.wait();
          mine.signal();
        }
      });
  return turns * 2;
}

Count spawn_join(Count n) {
  Count sum = 0;
  for (Count i = 1; i <= n; i++)
    start([&sum, i] { sum += i; }).join();
  must(sum == n * (n + 1) / 2, "results were lost");
  return n;
}

const std::map<std::string, std::function<Count(Count)>> cases = {
    {"yield", yield}, {"channel", channel}, {"semaphore", semaphore}, {"spawn_join", spawn_join}};

void run_switch(const std::string &name, Count n) {
  auto found = cases.find(name);
  must(found != cases.end() && n > 0, "no such case or count");
  double begun = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  Count operations = found->second(n);
  double took = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - begun;
  std::printf("{\"ns\": %.3f}\n", took * 1e9 / static_cast<double>(operations));
}

// Thread-Metric. Fibers have no priorities, so they check whether to stop after each count.
Count metric_cooperative() {
  std::array<Count, 5> counters{};
  std::vector<fibers::fiber> all;
  for (Count &counter : counters)
    all.push_back(start([&counter] {
      while (goes_on()) {
        boost::this_fiber::yield();
        ++counter;
      }
    }));
  for (fibers::fiber &fiber : all)
    fiber.join();
  return sum_of_turns(counters.data(), static_cast<int>(counters.size()));
}

Count metric_message() {
  using Message = std::array<std::uint64_t, 2>;
  fibers::buffered_channel<Message> queue(16); // a power of two
  Count sent = 0;
  for (; goes_on(); ++sent) {
    queue.push(Message{sent, ~sent});
    must(queue.value_pop() == Message{sent, ~sent}, "a message is not what was sent");
  }
  return sent;
}

Count metric_synchronization() {
  Semaphore semaphore(1);
  Count counter = 0;
  for (; goes_on(); ++counter) {
    semaphore.wait();
    semaphore.signal();
  }
  return counter;
}

const metric metrics[] = {{"basic", metric_basic},
                          {"cooperative", metric_cooperative},
                          {"message", metric_message},
                          {"synchronization", metric_synchronization},
                          {"memory", metric_memory},
                          {nullptr, nullptr}};

void print_version() {
  std::printf("Boost %d.%d\n", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000);
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 4 || std::string(argv[1]) != "switch")
    return run_peer(argc, argv, print_version, metrics);
  run_switch(argv[2], std::strtoull(argv[3], nullptr, 10));
}
