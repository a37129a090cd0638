//! What the threads of a process use, as the kernel counts it.

use std::collections::BTreeMap;
use std::fs;
use std::iter::Sum;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::machine;

/// What one thread has used since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) voluntary: u64,
    pub(super) involuntary: u64,
    pub(super) nanoseconds: u64,
    /// It was gone at a later look.
    pub(super) has_ended: bool,
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Usage>>(usages: I) -> Usage {
        usages.fold(Usage::default(), |sum, one| Usage {
            voluntary: sum.voluntary + one.voluntary,
            involuntary: sum.involuntary + one.involuntary,
            nanoseconds: sum.nanoseconds + one.nanoseconds,
            has_ended: sum.has_ended && one.has_ended,
        })
    }
}

/// What every thread of a process has used, by thread number.
pub(super) type Look = BTreeMap<u32, Usage>;

/// Looks at `/proc/PROCESS/task`.
pub(super) fn look(tasks: &Path) -> Result<Look> {
    let entries = fs::read_dir(tasks).with_context(|| format!("cannot read {}", tasks.display()))?;
    let numbers = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // A thread that ends between the two reads is passed over.
    let look: Look = numbers
        .filter_map(|number: u32| Some((number, usage(&tasks.join(number.to_string()))?)))
        .collect();
    ensure!(
        !look.is_empty(),
        "{} lists no threads: the program has ended",
        tasks.display()
    );
    Ok(look)
}

fn usage(task: &Path) -> Option<Usage> {
    let status = task.join("status");
    let switches = |name| machine::field(status.to_str()?, name)?.parse().ok();
    let schedule = fs::read_to_string(task.join("schedstat")).ok()?;
    Some(Usage {
        voluntary: switches("voluntary_ctxt_switches")?,
        involuntary: switches("nonvoluntary_ctxt_switches")?,
        nanoseconds: schedule.split_ascii_whitespace().next()?.parse().ok()?,
        has_ended: false,
    })
}

/// What the threads of a process use from a first look on, those included that end before the last one.
pub(super) struct Watch {
    first: Look,
    /// The last that was seen of each thread.
    last: Look,
}

impl Watch {
    pub(super) fn from(first: Look) -> Self {
        Self {
            last: first.clone(),
            first,
        }
    }

    /// Takes another look. A thread that is gone keeps its last value, and has woken once more: to end.
    pub(super) fn add(&mut self, now: Look) {
        for (number, thread) in &mut self.last {
            if !thread.has_ended && !now.contains_key(number) {
                thread.has_ended = true;
                thread.voluntary += 1;
            }
        }
        self.last.extend(now);
    }

    /// What was used since the first look.
    pub(super) fn used(&self) -> Look {
        between(&self.first, &self.last)
    }
}

/// What was used from one look to the next; a thread that began between counts from nothing.
fn between(before: &Look, after: &Look) -> Look {
    let used = |(&number, late): (&u32, &Usage)| {
        let early = before.get(&number).copied().unwrap_or_default();
        let used = Usage {
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
pub(super) fn to_json(used: &Look) -> Value {
    let of_one = |(number, used): (&u32, &Usage)| {
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
    fn a_look_at_ourselves_finds_this_thread_and_its_cpu_time() {
        let look = look(Path::new("/proc/self/task")).unwrap();
        assert!(look.values().any(|used| used.nanoseconds > 0), "{look:?}");
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(look(Path::new("/proc/0/task")).is_err());
    }

    fn usage(voluntary: u64) -> Usage {
        Usage {
            voluntary,
            involuntary: 1,
            nanoseconds: voluntary * 10,
            has_ended: false,
        }
    }

    #[test]
    fn a_thread_that_began_between_the_looks_counts_in_full() {
        let mut watch = Watch::from(Look::from([(1, usage(5))]));
        watch.add(Look::from([(1, usage(7)), (3, usage(4))]));
        let used = watch.used();
        let of_first = Usage {
            voluntary: 2,
            nanoseconds: 20,
            ..Usage::default()
        };
        assert_eq!(used, Look::from([(1, of_first), (3, usage(4))]));
    }

    #[test]
    fn threads_that_end_between_the_looks_count_as_last_seen_and_once_more() {
        let mut watch = Watch::from(Look::from([(1, usage(5)), (2, usage(8))]));
        // The second ends after three wake-ups, and the third begins; that one ends in its turn.
        watch.add(Look::from([(1, usage(5)), (2, usage(11))]));
        watch.add(Look::from([(1, usage(5)), (3, usage(4))]));
        watch.add(Look::from([(1, usage(6))]));
        watch.add(Look::from([(1, usage(6))]));
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
