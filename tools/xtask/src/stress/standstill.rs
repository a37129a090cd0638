//! Whether the machine itself, or a CPU of it, stood still during a run: a virtual one may be halted for a minute, or its kernel may keep a CPU from
//! everybody, and whatever has a limit runs into it then.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::run::allowed_cpus;

/// How often the thread looks at the clock.
const GLANCE: Duration = Duration::from_millis(100);

/// No load of ours keeps a thread that mostly sleeps from running for so long.
const STANDSTILL: Duration = Duration::from_secs(5);

/// A thread for each CPU that sleeps, and sees by how much too long.
pub(super) struct Clock {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// The longest time between two looks since it was last asked for, in milliseconds.
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

    /// The longest time since the last call, in which this program did not run, if that is a standstill.
    pub(super) fn standstill(&self) -> Option<Duration> {
        // A thread that has not come back from a standstill yet notes it within a glance.
        std::thread::sleep(2 * GLANCE);
        // Relaxed: a number by itself.
        let longest = Duration::from_millis(self.shared.longest.swap(0, Ordering::Relaxed));
        (longest >= STANDSTILL).then_some(longest)
    }
}

/// Keeps the calling thread on a CPU, by the program that does so for whole programs. Where it cannot, the thread is on any, and sees less.
fn stay_on(cpu: u32) {
    let Ok(path) = std::fs::read_link("/proc/thread-self") else {
        return;
    };
    let Some(thread) = path.file_name() else { return };
    let mut taskset = Command::new("taskset");
    taskset.arg("-cp").arg(cpu.to_string()).arg(thread);
    let _ = taskset.stdout(Stdio::null()).stderr(Stdio::null()).status();
}

impl Shared {
    fn watch(&self, cpu: u32) {
        stay_on(cpu);
        let mut seen = Instant::now();
        // Relaxed: the thread notices soon.
        while !self.ends.load(Ordering::Relaxed) {
            std::thread::sleep(GLANCE);
            self.note(seen.elapsed());
            seen = Instant::now();
        }
    }

    fn note(&self, gap: Duration) {
        let milliseconds = u64::try_from(gap.as_millis()).unwrap_or(u64::MAX);
        // Relaxed: a number by itself.
        self.longest.fetch_max(milliseconds, Ordering::Relaxed);
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        // Relaxed: the thread notices soon.
        self.shared.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It cannot panic, and has nothing to say.
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
    fn a_standstill_is_told_once() {
        let clock = Clock::start();
        assert_eq!(clock.standstill(), None);
        clock.shared.note(Duration::from_secs(41));
        assert_eq!(clock.standstill(), Some(Duration::from_secs(41)));
        assert_eq!(clock.standstill(), None);
    }
}
