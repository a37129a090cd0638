//! What the threads of a process use, as the kernel counts it.

use std::collections::BTreeMap;
use std::fs;
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
    })
}

/// What was used from one look to the next; a thread that began between counts from nothing.
pub(super) fn between(before: &Look, after: &Look) -> Look {
    let used = |(&number, late): (&u32, &Usage)| {
        let early = before.get(&number).copied().unwrap_or_default();
        let used = Usage {
            voluntary: late.voluntary.saturating_sub(early.voluntary),
            involuntary: late.involuntary.saturating_sub(early.involuntary),
            nanoseconds: late.nanoseconds.saturating_sub(early.nanoseconds),
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

    #[test]
    fn a_thread_that_began_between_the_looks_counts_in_full() {
        let usage = |voluntary| Usage {
            voluntary,
            involuntary: 1,
            nanoseconds: voluntary * 10,
        };
        let used = between(
            &Look::from([(1, usage(5)), (2, usage(8))]),
            &Look::from([(1, usage(7)), (3, usage(4))]),
        );
        assert_eq!(
            used[&1],
            Usage {
                voluntary: 2,
                involuntary: 0,
                nanoseconds: 20
            }
        );
        assert_eq!(used[&3], usage(4));
        assert_eq!(used.len(), 2);
    }
}
