// The peer Boost.Fiber. See ../README.md.
#include <boost/fiber/all.hpp>
#include <boost/version.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <thread>
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

[[noreturn]] void fail(const std::string &message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(EXIT_FAILURE);
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
  if (sum != n * (n + 1) / 2)
    fail("values were lost");
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
  if (sum != n * (n + 1) / 2)
    fail("results were lost");
  return n;
}

const std::map<std::string, std::function<Count(Count)>> cases = {
    {"yield", yield}, {"channel", channel}, {"semaphore", semaphore}, {"spawn_join", spawn_join}};

// The CPU time of all threads of this program, in nanoseconds.
double cpu_time() {
  timespec time;
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0)
    fail("no clock for CPU time");
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

void run_switch(const std::string &name, Count n) {
  auto found = cases.find(name);
  if (found == cases.end() || n == 0)
    fail("no such case or count: " + name);
  double begun = cpu_time();
  Count operations = found->second(n);
  std::printf("{\"ns\": %.3f}\n", (cpu_time() - begun) / static_cast<double>(operations));
}

// Thread-Metric. Fibers have no priorities, so they check the clock's flag after each count.
std::atomic<bool> stopped{false};

template <typename Body> Count counting(Body body) {
  Count counter = 0;
  start([&] {
    while (!stopped.load(std::memory_order_relaxed)) {
      body();
      ++counter;
    }
  }).join();
  return counter;
}

Count metric_basic() {
  static volatile std::uint64_t words[1024];
  std::uint64_t passes = 0;
  return counting([&] {
    for (auto &word : words) {
      std::uint64_t old = word;
      word = (old + passes) ^ old;
    }
    ++passes;
  });
}

Count metric_cooperative() {
  std::array<Count, 5> counters{};
  std::vector<fibers::fiber> all;
  for (Count &counter : counters)
    all.push_back(start([&counter] {
      while (!stopped.load(std::memory_order_relaxed)) {
        boost::this_fiber::yield();
        ++counter;
      }
    }));
  for (fibers::fiber &fiber : all)
    fiber.join();
  // Counters of fibers that take turns must be within one of their mean.
  auto [least, most] = std::minmax_element(counters.begin(), counters.end());
  if (*least == 0 || *most - *least > 1)
    fail("the counters are more than one from each other: " + std::to_string(*least) + " to " + std::to_string(*most));
  return std::accumulate(counters.begin(), counters.end(), Count(0));
}

Count metric_message() {
  using Message = std::array<std::uint64_t, 2>;
  fibers::buffered_channel<Message> queue(16); // a power of two
  std::uint64_t sent = 0;
  return counting([&] {
    queue.push(Message{sent, ~sent});
    if (queue.value_pop() != Message{sent, ~sent})
      fail("a message is not what was sent");
    ++sent;
  });
}

Count metric_synchronization() {
  Semaphore semaphore(1);
  return counting([&] {
    semaphore.wait();
    semaphore.signal();
  });
}

Count metric_memory() {
  return counting([] {
    void *volatile block = std::malloc(128);
    std::free(block);
  });
}

const std::map<std::string, std::function<Count()>> metrics = {{"basic", metric_basic},
                                                               {"cooperative", metric_cooperative},
                                                               {"message", metric_message},
                                                               {"synchronization", metric_synchronization},
                                                               {"memory", metric_memory}};

void run_metric(const std::string &name, double seconds) {
  auto found = metrics.find(name);
  if (found == metrics.end() || !(seconds > 0))
    fail("no such test or interval: " + name);
  using Clock = std::chrono::steady_clock;
  Clock::time_point begun = Clock::now();
  double cpu = cpu_time();
  std::thread alarm([seconds] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    stopped.store(true, std::memory_order_relaxed);
  });
  Count counts = found->second();
  std::chrono::duration<double> took = Clock::now() - begun;
  alarm.join();
  std::printf("{\"counts\": %llu, \"seconds\": %.6f, \"cpu\": %.6f}\n", static_cast<unsigned long long>(counts), took.count(),
              (cpu_time() - cpu) / 1e9);
}

} // namespace

int main(int argc, char **argv) {
  std::string command = argc > 1 ? argv[1] : "";
  if (command == "version" && argc == 2)
    std::printf("Boost %d.%d\n", BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000);
  else if (command == "switch" && argc == 4)
    run_switch(argv[2], std::strtoull(argv[3], nullptr, 10));
  else if (command == "thread-metric" && argc == 4)
    run_metric(argv[2], std::strtod(argv[3], nullptr));
  else
    fail("usage: peer version | switch CASE COUNT | thread-metric TEST SECONDS");
}
