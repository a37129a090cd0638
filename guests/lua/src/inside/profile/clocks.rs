//! Processor time of a VM's native threads that no sample has got yet.
//!
//! There are two sums, and what is in one never comes into the other:
//!
//! - The time of all threads outside of calls beside which others run: samples of the running
//!   process get it.
//! - For each thread, the time of such calls: samples of calls on that thread get it.
//!
//! So the time of a long call is never charged to what its thread does next, and the shares of
//! calls and of Lua are exact. Within a sum, a sample stands for what was used since the last one.

use baton_core::sched::CarrierId;
use baton_core::vm::ThreadTime;
use std::collections::HashMap;
use std::time::Duration;

/// The sums.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    threads: HashMap<CarrierId, ThreadClock>,
    /// What threads have used outside of calls.
    running: Duration,
    /// What calls have used on threads that are gone.
    gone: Duration,
    /// Whether the system tells the time of threads.
    is_told: bool,
}

/// The last reading of a thread's clock.
#[derive(Debug, Default)]
struct ThreadClock {
    thread: i32,
    /// The time outside of calls.
    own: Duration,
    in_calls: Duration,
    /// What calls have used and no sample has got.
    calls: Duration,
}

impl Clocks {
    /// Nothing is left of what these threads have used so far.
    pub(super) fn since(times: &[ThreadTime]) -> Clocks {
        let mut clocks = Clocks::default();
        clocks.read(times);
        clocks.running = Duration::ZERO;
        for clock in clocks.threads.values_mut() {
            clock.calls = Duration::ZERO;
        }
        clocks
    }

    /// Adds what was used since the last reading. A thread that is new has begun since.
    pub(super) fn read(&mut self, times: &[ThreadTime]) {
        for time in times {
            let clock = self.threads.entry(time.carrier).or_default();
            if clock.thread != time.thread {
                self.gone += clock.calls;
                *clock = ThreadClock {
                    thread: time.thread,
                    ..ThreadClock::default()
                };
            }
            clock.calls += time.in_calls.saturating_sub(clock.in_calls);
            clock.in_calls = clock.in_calls.max(time.in_calls);
            let Some(cpu) = time.cpu else { continue };
            let own = cpu.saturating_sub(time.in_calls);
            self.running += own.saturating_sub(clock.own);
            clock.own = clock.own.max(own);
            self.is_told = true;
        }
        let is_there = |carrier: &CarrierId| times.iter().any(|time| time.carrier == *carrier);
        let gone = &mut self.gone;
        self.threads.retain(|carrier, clock| {
            let stays = is_there(carrier);
            if !stays {
                *gone += clock.calls;
            }
            stays
        });
    }

    /// Adds a thread that has used so much before, of which nothing is left.
    pub(super) fn add(&mut self, carrier: CarrierId, thread: i32, before: Duration) {
        let clock = ThreadClock {
            thread,
            own: before,
            ..ThreadClock::default()
        };
        self.threads.entry(carrier).or_insert(clock);
    }

    /// Whether the system tells the time of threads.
    pub(super) fn are_told(&self) -> bool {
        self.is_told
    }

    /// What calls on this thread have used and no sample has got.
    pub(super) fn of_calls(&self, carrier: CarrierId) -> Duration {
        let clock = self.threads.get(&carrier);
        clock.map(|clock| clock.calls).unwrap_or_default()
    }

    /// Takes what calls on this thread have used, and calls on threads that are gone.
    pub(super) fn take_calls(&mut self, carrier: CarrierId) -> Duration {
        let clock = self.threads.get_mut(&carrier);
        let calls = clock.map(|clock| std::mem::take(&mut clock.calls));
        calls.unwrap_or_default() + std::mem::take(&mut self.gone)
    }

    /// Takes what threads have used outside of calls.
    pub(super) fn take_running(&mut self) -> Duration {
        std::mem::take(&mut self.running)
    }

    /// Takes what all calls have used.
    pub(super) fn take_all_calls(&mut self) -> Duration {
        let threads = self.threads.values_mut();
        let calls: Duration = threads.map(|clock| std::mem::take(&mut clock.calls)).sum();
        calls + std::mem::take(&mut self.gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: CarrierId = CarrierId(0);

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn time(carrier: CarrierId, thread: i32, cpu: u64, in_calls: u64) -> ThreadTime {
        ThreadTime {
            carrier,
            thread,
            cpu: Some(ms(cpu)),
            in_calls: ms(in_calls),
            call: None,
        }
    }

    #[test]
    fn what_calls_use_is_never_what_the_thread_uses_outside_of_them() {
        let mut clocks = Clocks::since(&[time(HOME, 7, 100, 40)]);
        assert_eq!(
            (clocks.take_running(), clocks.of_calls(HOME)),
            (ms(0), ms(0))
        );
        clocks.read(&[time(HOME, 7, 250, 188)]);
        assert_eq!(clocks.take_running(), ms(2));
        assert_eq!(clocks.take_calls(HOME), ms(148));
        assert_eq!(
            (clocks.take_running(), clocks.of_calls(HOME)),
            (ms(0), ms(0))
        );
    }

    #[test]
    fn all_of_a_new_thread_counts_and_nothing_of_one_that_was_there() {
        let other = CarrierId(1);
        let mut clocks = Clocks::since(&[time(HOME, 7, 100, 0)]);
        clocks.read(&[time(HOME, 7, 100, 0), time(other, 8, 5, 3)]);
        assert_eq!(
            (clocks.take_running(), clocks.take_calls(other)),
            (ms(2), ms(3))
        );
        // Another thread has its number in the VM.
        clocks.read(&[time(HOME, 7, 100, 0), time(other, 9, 4, 1)]);
        assert_eq!(
            (clocks.take_running(), clocks.take_calls(other)),
            (ms(3), ms(1))
        );
    }

    #[test]
    fn the_calls_of_a_thread_that_is_gone_go_to_the_next_sample_of_a_call() {
        let other = CarrierId(1);
        let mut clocks = Clocks::since(&[time(HOME, 7, 100, 0)]);
        clocks.read(&[time(HOME, 7, 100, 0), time(other, 8, 5, 5)]);
        clocks.read(&[time(HOME, 7, 101, 1)]);
        assert_eq!(clocks.take_calls(HOME), ms(6));
    }

    #[test]
    fn an_older_reading_takes_nothing_back() {
        let mut clocks = Clocks::since(&[time(HOME, 7, 100, 0)]);
        clocks.read(&[time(HOME, 7, 110, 4)]);
        clocks.read(&[time(HOME, 7, 105, 2)]);
        clocks.read(&[time(HOME, 7, 110, 4)]);
        assert_eq!(
            (clocks.take_running(), clocks.take_all_calls()),
            (ms(6), ms(4))
        );
    }
}
