//! What the system reports about the threads of a running program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The work of each thread of a program so far, by the thread's directory.
pub(crate) struct Threads(BTreeMap<PathBuf, Work>);

/// Work of threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// How often they went to sleep. Each wake-up ends with that.
    pub(crate) sleeps: u64,
    /// How often they were preempted.
    pub(crate) preemptions: u64,
    /// Their time on a processor. A thread that is never preempted and never sleeps has some, too.
    pub(crate) time: Duration,
    /// Their time runnable while other threads had the processors.
    pub(crate) waited: Duration,
}

impl Threads {
    /// Reads the work of the threads of this program.
    pub(crate) fn of(process: u32) -> Threads {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("the program runs");
        // A thread may end meanwhile.
        let look = |task: PathBuf| Some((task.clone(), work_of(&task)?));
        let all: BTreeMap<_, _> = tasks
            .flatten()
            .filter_map(|task| look(task.path()))
            .collect();
        assert!(
            !all.is_empty(),
            "the program has ended, or the system does not tell"
        );
        Threads(all)
    }

    /// Returns the work of all threads since `before`. A thread that has ended since then counts as
    /// one wake-up.
    pub(crate) fn work_since(&self, before: &Threads) -> Work {
        let ended = before
            .0
            .keys()
            .filter(|&thread| !self.0.contains_key(thread))
            .count();
        let mut sum = Work {
            sleeps: ended as u64,
            ..Work::default()
        };
        for (thread, now) in &self.0 {
            let earlier = before.0.get(thread).copied().unwrap_or_default();
            sum.sleeps += now.sleeps - earlier.sleeps;
            sum.preemptions += now.preemptions - earlier.preemptions;
            sum.time += now.time - earlier.time;
            sum.waited += now.waited - earlier.waited;
        }
        sum
    }
}

/// Source: proc(5), `/proc/pid/status` and `schedstat`.
fn work_of(thread: &Path) -> Option<Work> {
    let status = std::fs::read_to_string(thread.join("status")).ok()?;
    if status.contains("State:\tZ") {
        return None;
    }
    let count = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().parse().ok()
    };
    let times = std::fs::read_to_string(thread.join("schedstat")).ok()?;
    // The first number: nanoseconds on the processor. The second: waiting for one.
    let mut times = times.split(' ').map(str::parse);
    let mut next = || times.next()?.ok().map(Duration::from_nanos);
    Some(Work {
        sleeps: count("voluntary_ctxt_switches:")?,
        preemptions: count("nonvoluntary_ctxt_switches:")?,
        time: next()?,
        waited: next()?,
    })
}
