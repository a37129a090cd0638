//! Reads what the threads of a process have used, from the kernel's counters.

use std::collections::BTreeMap;
use std::fs;
use std::iter::Sum;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::machine;

/// The usage of one thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ThreadUsage {
    pub(crate) voluntary: u64,
    pub(crate) involuntary: u64,
    pub(crate) nanoseconds: u64,
    /// Whether the thread was gone at a later snapshot.
    pub(crate) has_ended: bool,
}

impl Sum for ThreadUsage {
    fn sum<I: Iterator<Item = ThreadUsage>>(usages: I) -> ThreadUsage {
        usages.fold(ThreadUsage::default(), |sum, one| ThreadUsage {
            voluntary: sum.voluntary + one.voluntary,
            involuntary: sum.involuntary + one.involuntary,
            nanoseconds: sum.nanoseconds + one.nanoseconds,
            has_ended: sum.has_ended && one.has_ended,
        })
    }
}

/// The usage of every thread of a process, by thread number.
pub(crate) type Snapshot = BTreeMap<u32, ThreadUsage>;

/// Reads `/proc/PROCESS/task`.
pub(crate) fn snapshot(tasks: &Path) -> Result<Snapshot> {
    let entries =
        fs::read_dir(tasks).with_context(|| format!("cannot read {}", tasks.display()))?;
    let numbers = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // A thread may end between the two reads; it is left out.
    let snapshot: Snapshot = numbers
        .filter_map(|number: u32| Some((number, usage(&tasks.join(number.to_string()))?)))
        .collect();
    ensure!(
        !snapshot.is_empty(),
        "{} lists no threads: the program has ended",
        tasks.display()
    );
    Ok(snapshot)
}

fn usage(task: &Path) -> Option<ThreadUsage> {
    let status = task.join("status");
    let switches = |name| machine::number(status.to_str()?, name);
    let schedule = fs::read_to_string(task.join("schedstat")).ok()?;
    Some(ThreadUsage {
        voluntary: switches("voluntary_ctxt_switches")?,
        involuntary: switches("nonvoluntary_ctxt_switches")?,
        nanoseconds: schedule.split_ascii_whitespace().next()?.parse().ok()?,
        has_ended: false,
    })
}

/// The usage of a process's threads since a first snapshot. It includes threads that end before the
/// last snapshot.
pub(crate) struct Watch {
    first: Snapshot,
    /// The last snapshot of each thread.
    last: Snapshot,
}

impl Watch {
    pub(crate) fn from(first: Snapshot) -> Self {
        Self {
            last: first.clone(),
            first,
        }
    }

    /// Adds another snapshot. A thread that is gone keeps its last value. It also gets one more
    /// wake-up, because it woke to end.
    pub(crate) fn add(&mut self, now: Snapshot) {
        for (number, thread) in &mut self.last {
            if !thread.has_ended && !now.contains_key(number) {
                thread.has_ended = true;
                thread.voluntary += 1;
            }
        }
        self.last.extend(now);
    }

    /// The usage since the first snapshot.
    pub(crate) fn used(&self) -> Snapshot {
        between(&self.first, &self.last)
    }
}

/// The usage from one snapshot to the next. A thread that began in between counts from zero.
fn between(before: &Snapshot, after: &Snapshot) -> Snapshot {
    let used = |(&number, late): (&u32, &ThreadUsage)| {
        let early = before.get(&number).copied().unwrap_or_default();
        let used = ThreadUsage {
            voluntary: late.voluntary.saturating_sub(early.voluntary),
            involuntary: late.involuntary.saturating_sub(early.involuntary),
            nanoseconds: late.nanoseconds.saturating_sub(early.nanoseconds),
            has_ended: late.has_ended,
        };
        (number, used)
    };
    after.iter().map(used).collect()
}

/// The threads as samples.
pub(crate) fn to_json(used: &Snapshot) -> Value {
    let of_one = |(number, used): (&u32, &ThreadUsage)| {
        json!({
            "thread": number,
            "voluntary": used.voluntary,
            "involuntary": used.involuntary,
            "cpu_nanoseconds": used.nanoseconds,
            "has_ended": used.has_ended,
        })
    };
    used.iter().map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_of_this_program_has_this_thread_and_its_cpu_time() {
        let snapshot = snapshot(Path::new("/proc/self/task")).unwrap();
        assert!(
            snapshot.values().any(|used| used.nanoseconds > 0),
            "{snapshot:?}"
        );
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(snapshot(Path::new("/proc/0/task")).is_err());
    }

    fn usage(voluntary: u64) -> ThreadUsage {
        ThreadUsage {
            voluntary,
            involuntary: 1,
            nanoseconds: voluntary * 10,
            has_ended: false,
        }
    }

    #[test]
    fn a_thread_that_began_between_snapshots_counts_in_full() {
        let mut watch = Watch::from(Snapshot::from([(1, usage(5))]));
        watch.add(Snapshot::from([(1, usage(7)), (3, usage(4))]));
        let used = watch.used();
        let of_first = ThreadUsage {
            voluntary: 2,
            nanoseconds: 20,
            ..ThreadUsage::default()
        };
        assert_eq!(used, Snapshot::from([(1, of_first), (3, usage(4))]));
    }

    #[test]
    fn threads_that_end_between_snapshots_keep_their_last_usage_plus_one_wake_up() {
        let mut watch = Watch::from(Snapshot::from([(1, usage(5)), (2, usage(8))]));
        // The second thread ends after three wake-ups, and the third begins. Later that one ends
        // too.
        watch.add(Snapshot::from([(1, usage(5)), (2, usage(11))]));
        watch.add(Snapshot::from([(1, usage(5)), (3, usage(4))]));
        watch.add(Snapshot::from([(1, usage(6))]));
        watch.add(Snapshot::from([(1, usage(6))]));
        let used = watch.used();
        let figures = |number: u32| {
            (
                used[&number].voluntary,
                used[&number].nanoseconds,
                used[&number].has_ended,
            )
        };
        assert_eq!(figures(1), (1, 10, false));
        assert_eq!(figures(2), (3 + 1, 30, true));
        assert_eq!(figures(3), (4 + 1, 40, true));
        assert_eq!(used.values().map(|used| used.voluntary).sum::<u64>(), 10);
    }
}
