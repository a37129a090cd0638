//! How long the machine has kept threads from a processor. Tests subtract that from the times that
//! they check.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The system's directory for the calling thread.
pub(crate) fn this_thread() -> &'static Path {
    Path::new("/proc/thread-self")
}

/// The system's directory for the thread with this name; `None` if there is none.
pub(crate) fn thread_named(name: &str) -> Option<PathBuf> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the system lists threads");
    let mut directories = tasks.flatten().map(|task| task.path());
    directories.find(|directory| {
        std::fs::read_to_string(directory.join("comm")).is_ok_and(|comm| comm.trim() == name)
    })
}

/// A thread's times.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ThreadTimes {
    /// Its time on a processor.
    pub(crate) ran: Duration,
    /// Its time ready to run, while others had the processor.
    pub(crate) waited: Duration,
}

/// The times of the thread of this directory, since it started.
///
/// Source: the kernel's `Documentation/scheduler/sched-stats.rst`, `/proc/<pid>/schedstat`.
pub(crate) fn times_of(thread: &Path) -> ThreadTimes {
    let text = std::fs::read_to_string(thread.join("schedstat")).expect("a thread has times");
    let mut numbers = text
        .split(' ')
        .map(|number| number.parse().map(Duration::from_nanos));
    let mut next = || numbers.next().and_then(Result::ok).expect("nanoseconds");
    ThreadTimes {
        ran: next(),
        waited: next(),
    }
}
