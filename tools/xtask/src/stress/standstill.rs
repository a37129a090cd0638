//! Whether the machine itself stood still during a run: a virtual one may be halted for a minute, and whatever has a limit runs into it then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the thread looks at the clock.
const GLANCE: Duration = Duration::from_millis(100);

/// No load of ours keeps a thread that mostly sleeps from running for so long.
const STANDSTILL: Duration = Duration::from_secs(5);

/// A thread that sleeps, and sees by how much too long.
pub(super) struct Clock {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
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
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let mut seen = Instant::now();
            // Relaxed: the thread notices soon.
            while !of_thread.ends.load(Ordering::Relaxed) {
                std::thread::sleep(GLANCE);
                of_thread.note(seen.elapsed());
                seen = Instant::now();
            }
        });
        Self {
            shared,
            thread: Some(thread),
        }
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

impl Shared {
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
        if let Some(thread) = self.thread.take() {
            // It cannot panic, and has nothing to say.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn a_standstill_is_told_once() {
        let clock = Clock::start();
        assert_eq!(clock.standstill(), None);
        clock.shared.note(Duration::from_secs(41));
        assert_eq!(clock.standstill(), Some(Duration::from_secs(41)));
        assert_eq!(clock.standstill(), None);
    }
}
