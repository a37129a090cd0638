//! Detects that the machine, or one of its CPUs, stood still during a run. A virtual machine may be
//! halted for a minute, or its kernel may keep all threads from a CPU. Tests with time limits then
//! fail without a fault in the code.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::run::allowed_cpus;

/// The interval at which each thread reads the clock.
const INTERVAL: Duration = Duration::from_millis(100);

/// The shortest gap that counts as a standstill. Our own load never keeps a mostly sleeping thread
/// from running for this long.
const STANDSTILL: Duration = Duration::from_secs(5);

/// A thread on each CPU that sleeps, and measures by how much its sleeps last too long.
pub(super) struct Clock {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// The longest gap, in milliseconds, since [`Clock::standstill`] was last called.
    longest: AtomicU64,
    ends: AtomicBool,
}

impl Clock {
    pub(super) fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let watch = |cpu: u32| {
            let of_thread = Arc::clone(&shared);
            std::thread::spawn(move || of_thread.watch(cpu))
        };
        let threads = allowed_cpus().into_iter().map(watch).collect();
        Self { shared, threads }
    }

    /// The longest time since the last call in which this program did not run. `None` if that is
    /// too short to be a standstill.
    pub(super) fn standstill(&self) -> Option<Duration> {
        // A thread that has just come back from a standstill records it within one interval.
        std::thread::sleep(2 * INTERVAL);
        // Relaxed: the number stands alone and orders nothing else.
        let longest = Duration::from_millis(self.shared.longest.swap(0, Ordering::Relaxed));
        (longest >= STANDSTILL).then_some(longest)
    }
}

/// Keeps the calling thread on a CPU, by running `taskset`. If that fails, the thread may run on
/// any CPU, and detects less.
fn stay_on(cpu: u32) {
    let Ok(path) = std::fs::read_link("/proc/thread-self") else {
        return;
    };
    let Some(thread) = path.file_name() else {
        return;
    };
    let mut taskset = Command::new("taskset");
    taskset.arg("-cp").arg(cpu.to_string()).arg(thread);
    let _ = taskset.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

impl Shared {
    fn watch(&self, cpu: u32) {
        stay_on(cpu);
        let mut seen = Instant::now();
        // Relaxed: the thread reads the flag again soon.
        while !self.ends.load(Ordering::Relaxed) {
            std::thread::sleep(INTERVAL);
            self.note(seen.elapsed());
            seen = Instant::now();
        }
    }

    fn note(&self, gap: Duration) {
        let milliseconds = u64::try_from(gap.as_millis()).unwrap_or(u64::MAX);
        // Relaxed: the number stands alone and orders nothing else.
        self.longest.fetch_max(milliseconds, Ordering::Relaxed);
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        // Relaxed: the thread reads the flag again soon.
        self.shared.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The thread cannot panic, and has no result.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod checks {
    use super::super::run::allowed_cpus_of;
    use super::*;

    #[test]
    fn each_cpu_has_a_thread_that_stays_there() {
        let cpus = allowed_cpus();
        let clock = Clock::start();
        assert_eq!(clock.threads.len(), cpus.len());
        let last = *cpus.last().expect("there is one");
        let found = std::thread::spawn(move || {
            stay_on(last);
            allowed_cpus_of("/proc/thread-self/status")
        });
        assert_eq!(found.join().expect("it does not panic"), [last]);
    }

    #[test]
    fn a_standstill_is_reported_once() {
        let clock = Clock::start();
        assert_eq!(clock.standstill(), None);
        clock.shared.note(Duration::from_secs(41));
        assert_eq!(clock.standstill(), Some(Duration::from_secs(41)));
        assert_eq!(clock.standstill(), None);
    }
}
