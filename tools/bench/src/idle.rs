//! What a program costs that only sleeps.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::bench::{Bench, progress};
use crate::chart::{Bars, Chart, Scale, Series};
use crate::child::Owned;
use crate::command_line::IdleOptions;
use crate::machine;
use crate::report::Report;
use crate::table::{Table, figure};
use crate::verdict::Goal;

const SWITCHES_GOAL: Goal = Goal::at_most(2.0, "", 0);
const CPU_GOAL: Goal = Goal::at_most(1.0, " ms", 3);

/// What one thread has used since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Usage {
    voluntary: u64,
    involuntary: u64,
    nanoseconds: u64,
}

/// What every thread of a process has used, by thread number.
type Look = BTreeMap<u32, Usage>;

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &IdleOptions) -> Result<Report> {
    let baton = bench.paths.baton()?;
    let asleep = (options.settle + options.seconds) * 2.0 + 15.0;
    let mut command = baton.script(Path::new(""));
    command
        .args(["-e", &format!("require'baton.process'.sleep({asleep})")])
        .stdin(Stdio::null());
    let mut child = Owned::spawn(&mut command)?;
    let tasks = PathBuf::from(format!("/proc/{}/task", child.inner.id()));

    let bar = progress(options.settle.ceil() as usize + options.seconds.ceil() as usize);
    let wait = |seconds: f64| {
        let whole = seconds.floor() as u64;
        (0..whole).for_each(|_| {
            thread::sleep(Duration::from_secs(1));
            bar.inc(1);
        });
        thread::sleep(Duration::from_secs_f64(seconds - whole as f64));
    };
    wait(options.settle);
    let before = look(&tasks)?;
    wait(options.seconds);
    let after = look(&tasks)?;
    bar.finish_and_clear();
    ensure!(child.inner.try_wait()?.is_none(), "baton ended before the second look");
    drop(child);

    let used = between(&before, &after);
    let caption = format!(
        "{} threads over {} s, after {} s to settle",
        after.len(),
        options.seconds,
        options.settle
    );
    let total = |part: fn(&Usage) -> u64| used.values().map(part).sum::<u64>() as f64;
    let over = format!("over all threads in {} s", options.seconds);
    Ok(Report {
        arms: vec![baton.found()],
        tables: vec![table(caption, &used)],
        charts: vec![chart(&used)],
        samples: to_json(&used),
        verdicts: vec![
            SWITCHES_GOAL.judge(
                &format!("voluntary context switches {over}"),
                Some(total(|used| used.voluntary)),
            ),
            CPU_GOAL.judge(&format!("CPU time {over}"), Some(total(|used| used.nanoseconds) / 1e6)),
        ],
        ..Report::default()
    })
}

fn look(tasks: &Path) -> Result<Look> {
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
        "{} lists no threads: baton has ended",
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
fn between(before: &Look, after: &Look) -> Look {
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

fn table(caption: String, used: &Look) -> Table {
    let mut table = Table::new(caption, &["thread", "voluntary", "involuntary", "CPU us"]);
    for (number, used) in used {
        let microseconds = figure(Some(used.nanoseconds as f64 / 1e3), 1, "");
        table.row([
            number.to_string(),
            used.voluntary.to_string(),
            used.involuntary.to_string(),
            microseconds,
        ]);
    }
    table
}

fn chart(used: &Look) -> Chart {
    let of_threads = |part: fn(&Usage) -> f64| used.values().map(|used| Some(part(used))).collect();
    let series = [
        ("voluntary context switches", of_threads(|used| used.voluntary as f64)),
        (
            "involuntary context switches",
            of_threads(|used| used.involuntary as f64),
        ),
        ("CPU time, us", of_threads(|used| used.nanoseconds as f64 / 1e3)),
    ];
    Chart::Bars(Bars {
        title: "A program that only sleeps".to_string(),
        label: "context switches, and us of CPU".to_string(),
        scale: Scale::Linear,
        baseline: None,
        marks: Vec::new(),
        digits: 0,
        rows: used.keys().map(|number| format!("thread {number}")).collect(),
        series: series
            .into_iter()
            .map(|(name, values)| Series {
                name: name.to_string(),
                values,
            })
            .collect(),
    })
}

fn to_json(used: &Look) -> Value {
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
