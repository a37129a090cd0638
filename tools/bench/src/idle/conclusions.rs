//! Makes tables, charts and verdicts from the figures of `idle`.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::{Value, json};

use super::waiting::{ArmAndCase, Used};
use super::{BATON, squeak};
use crate::chart::{Bars, Chart};
use crate::command_line::IdleOptions;
use crate::contest::{Arm, Case, Results};
use crate::peers;
use crate::report::Report;
use crate::scripts;
use crate::table::{Table, figure};
use crate::usage::{self, ThreadUsage};
use crate::verdict::{Goal, Verdict, add_new};

/// The goal for the cases without a due timer.
const WAKEUPS_GOAL: Goal = Goal::at_most(0.05, " wake-ups a second", 3);
const CPU_GOAL: Goal = Goal::at_most(0.002, " % CPU", 4);
/// The goal with a timer that fires once a second.
const SECOND_GOAL: Goal = Goal::at_most(1.1, " wake-ups a second", 3);
/// The goal with a timer that fires a thousand times a second, relative to the best peer.
const KILOHERTZ_GOAL: Goal = Goal::at_most(1.0, " of the best peer's", 2);
/// The goal relative to OpenSmalltalk-VM, before and after its pull request.
const STOCK_GOAL: Goal = Goal::at_most(0.01, " of OpenSmalltalk's", 4);
const PULL_REQUEST_GOAL: Goal = Goal::at_most(0.1, " of PR 764's", 3);

/// The cases without a due timer.
const QUIET: [&str; 5] = ["nothing", "listen", "crowd", "hour", "busy"];

/// What every program used.
pub(super) struct Outcomes {
    /// The figures `wakeups`, `cpu_percent` and `watts`.
    results: Results,
    used: BTreeMap<ArmAndCase, Used>,
}

impl Outcomes {
    pub(super) fn of(
        arms: Vec<Arm>,
        cases: Vec<Case>,
        measured: Vec<(ArmAndCase, Result<Used>)>,
    ) -> Self {
        let mut all = BTreeMap::new();
        let measured = measured.into_iter().map(|(place, used)| {
            let figures = used.map(|used| {
                let figures = used.figures();
                all.insert(place, used);
                figures
            });
            (place, figures)
        });
        Self {
            results: Results::of(arms, cases, measured),
            used: all,
        }
    }

    /// The whole report. `exactness` is the report on sleeps in the same run.
    pub(super) fn report(
        &self,
        options: &IdleOptions,
        counts_energy: bool,
        exactness: Report,
    ) -> Report {
        let results = &self.results;
        let table = |caption: &str, name: &str, digits| {
            let value = |arm, case| Some(figure(results.median(arm, case, name)?, digits));
            results.by_arm(caption, "arm", value)
        };
        let mut tables = vec![
            table("wake-ups a second, of all threads", "wakeups", 2),
            table("CPU time, in % of one processor", "cpu_percent", 4),
            self.threads(),
        ];
        if counts_energy && options.apart {
            tables.push(table("power of the whole machine, in W", "watts", 2));
        }
        let mut report = Report {
            arms: exactness.arms.clone(),
            notes: vec![
                format!(
                    "Usage between two snapshots {} s apart, after at least {} s to settle. A \
                     wake-up is a voluntary context switch.",
                    options.seconds, options.settle
                ),
                "A snapshot each second finds the threads that end: each counts as last seen, with \
                 one more wake-up. Only a thread that begins and ends between two snapshots is \
                 missed. A snapshot reads the kernel's counters, and wakes no program."
                    .to_string(),
                energy_note(counts_energy, options.apart).to_string(),
            ],
            tables,
            charts: charts(results),
            verdicts: verdicts(results),
            samples: self.samples(),
        };
        report.tables.extend(exactness.tables);
        report.charts.extend(exactness.charts);
        // The same systems take part in the sleeps, and the missing ones are named once.
        add_new(&mut report.verdicts, results.failures());
        add_new(&mut report.verdicts, exactness.verdicts);
        report.samples = json!({"waits": report.samples, "sleeps": exactness.samples});
        report
    }

    /// A table of each system's threads that switch, with the busiest first.
    fn threads(&self) -> Table {
        let header = [
            "case",
            "system",
            "thread",
            "voluntary",
            "involuntary",
            "CPU us",
        ];
        let caption =
            format!("switches and CPU time a second, by thread; the {ROWS} that switch most");
        let mut table = Table::new(caption, header);
        let mut used: Vec<_> = self.used.iter().collect();
        used.sort_by_key(|((arm, case), _)| (*case, *arm));
        for (&(arm, case), used) in used {
            for (thread, usage) in busiest(used) {
                let (times, switches) = (usage.nanoseconds as f64 / 1e3, usage.involuntary);
                let counts = [usage.voluntary as f64, switches as f64, times];
                let system = [self.results.arms[arm].name.to_string(), thread];
                let counts = counts.map(|count| figure(count / used.seconds, 2));
                table.named(
                    &self.results.cases[case].title,
                    system.into_iter().chain(counts),
                );
            }
        }
        table
    }

    fn samples(&self) -> Value {
        let sample = |(&(arm, case), used): (&ArmAndCase, &Used)| {
            json!({
                "arm": self.results.arms[arm].name,
                "case": self.results.cases[case].name,
                "seconds": used.seconds,
                "joules": used.joules,
                "threads": usage::to_json(&used.threads),
            })
        };
        self.used.iter().map(sample).collect()
    }
}

fn energy_note(is_counted: bool, apart: bool) -> &'static str {
    match (is_counted, apart) {
        (true, true) => "Energy is that of all processors, as they count it (RAPL).",
        (true, false) => {
            "Energy is counted for the whole machine: --apart measures it, one program at a time."
        }
        (false, _) => {
            "Energy was not measured: this machine shows no RAPL counter (/sys/class/powercap) \
             that may be read."
        }
    }
}

/// The number of threads of a program that have their own rows; the others share one.
const ROWS: usize = 4;

/// The threads that switch most, and all others as one. Threads are numbered in the order in which
/// they began; the first is the program's main thread.
fn busiest(used: &Used) -> Vec<(String, ThreadUsage)> {
    let mut threads: Vec<(String, ThreadUsage)> = (1..)
        .zip(used.threads.values())
        .map(|(number, usage): (u32, &ThreadUsage)| {
            let end = if usage.has_ended { ", ended" } else { "" };
            (format!("{number}{end}"), *usage)
        })
        .collect();
    threads.sort_by_key(|(_, usage)| {
        std::cmp::Reverse((usage.voluntary + usage.involuntary, usage.nanoseconds))
    });
    let switch = threads
        .iter()
        .take_while(|(_, usage)| usage.voluntary + usage.involuntary > 0);
    let shown = switch.count().min(ROWS);
    if threads.len() - shown > 1 {
        let others = threads.split_off(shown);
        let name = match shown {
            0 => format!("all {}", others.len()),
            _ => format!("{} others", others.len()),
        };
        threads.push((name, others.iter().map(|(_, usage)| *usage).sum()));
    }
    threads
}

fn charts(results: &Results) -> Vec<Chart> {
    let chart = |title: &str, label: &str, digits, name: &str| {
        // Zero has no place on a logarithmic axis.
        let value = |arm, case| results.median(arm, case, name).filter(|&value| value > 0.0);
        let chart = Bars::new(title, label).log().digits(digits);
        results.bars(chart, results.all_cases(), value)
    };
    vec![
        chart(
            "Wake-ups of a program that waits",
            "a second, of all threads; no bar: none",
            2,
            "wakeups",
        ),
        chart(
            "CPU time of a program that waits",
            "% of one processor; no bar: none",
            4,
            "cpu_percent",
        ),
    ]
}

fn verdicts(results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for case in &results.cases {
        let (title, name) = (case.title.as_str(), case.name.as_str());
        let wakeups = || value(results, BATON, name, "wakeups");
        let cpu = || value(results, BATON, name, "cpu_percent");
        match name {
            "second" => verdicts.push(SECOND_GOAL.judge(title, wakeups())),
            "kilohertz" => {
                let peers = scripts::names();
                let best = peers.filter_map(|peer| value(results, peer, name, "cpu_percent"));
                let ratio = cpu()
                    .zip(best.reduce(f64::min))
                    .map(|(own, best)| own / best);
                verdicts.push(KILOHERTZ_GOAL.judge(&format!("CPU time, {title}"), ratio));
            }
            _ => {
                verdicts.push(WAKEUPS_GOAL.judge(title, wakeups()));
                verdicts.push(CPU_GOAL.judge(title, cpu()));
            }
        }
    }
    verdicts.extend(against_designs(results));
    verdicts.extend(squeak::verdict(results));
    verdicts
}

/// A figure of a system in a case, by their names.
fn value(results: &Results, arm: &str, case: &str, name: &str) -> Option<f64> {
    let (arm, case) = results.place(arm, case)?;
    results.median(arm, case, name)
}

/// The verdicts on the worst ratio to each design, over the cases without a due timer. A missing
/// design is reported elsewhere.
fn against_designs(results: &Results) -> Vec<Verdict> {
    let wakeups = |arm: &str, case: &str| value(results, arm, case, "wakeups");
    let verdict = |&(design, word): &(peers::Peer, &str)| {
        let ratio = |case: &&str| Some(wakeups(BATON, case)? / wakeups(design.name, case)?);
        let worst = QUIET.iter().filter_map(ratio).reduce(f64::max)?;
        let goal = if word == "stock" {
            STOCK_GOAL
        } else {
            PULL_REQUEST_GOAL
        };
        let what = format!("wake-ups with nothing due, beside {}", design.name);
        Some(goal.judge(&what, Some(worst)))
    };
    peers::OPENSMALLTALK.iter().filter_map(verdict).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Outcomes of arms with these threads. The numbers are a thread's wake-ups in ten seconds, and
    /// the nanoseconds of its CPU time.
    fn outcomes(case: &str, arms: &[(&'static str, &[(u64, u64)])]) -> Outcomes {
        let thread = |&(voluntary, nanoseconds): &(u64, u64)| ThreadUsage {
            voluntary,
            nanoseconds,
            ..ThreadUsage::default()
        };
        let used = |threads: &[(u64, u64)]| Used {
            threads: (7..).zip(threads.iter().map(thread)).collect(),
            seconds: 10.0,
            joules: None,
        };
        let measured = arms.iter().enumerate();
        Outcomes::of(
            arms.iter()
                .map(|(name, _)| Arm::present(name, || Command::new("it")))
                .collect(),
            vec![Case::new(case, format!("the case {case}"), &[])],
            measured
                .map(|(arm, (_, threads))| ((arm, 0), Ok(used(threads))))
                .collect(),
        )
    }

    fn lines(outcomes: &Outcomes) -> Vec<String> {
        let verdicts = verdicts(&outcomes.results);
        verdicts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn without_a_due_timer_wake_ups_and_time_are_compared_with_goals_and_designs() {
        let outcomes = outcomes(
            "hour",
            &[
                (BATON, &[(0, 100_000)]),
                ("OpenSmalltalk", &[(9000, 1)]),
                ("PR 764, one wait", &[(20, 1)]),
            ],
        );
        assert_eq!(
            lines(&outcomes),
            [
                "met     the case hour <= 0.05 wake-ups a second  (measured 0.000 wake-ups a \
                 second)",
                "met     the case hour <= 0.002 % CPU  (measured 0.0010 % CPU)",
                "met     wake-ups with nothing due, beside OpenSmalltalk <= 0.01 of \
                 OpenSmalltalk's  (measured 0.0000 of OpenSmalltalk's)",
                "met     wake-ups with nothing due, beside PR 764, one wait <= 0.1 of PR 764's  \
                 (measured 0.000 of PR 764's)",
            ]
        );
    }

    #[test]
    fn a_timer_of_a_kilohertz_is_compared_with_the_best_peer() {
        let outcomes = outcomes(
            "kilohertz",
            &[
                (BATON, &[(10_000, 300)]),
                ("Node", &[(1, 400)]),
                ("Erlang", &[(1, 200)]),
            ],
        );
        assert_eq!(
            lines(&outcomes),
            [
                "MISSED  CPU time, the case kilohertz <= 1 of the best peer's  (measured 1.50 of \
                 the best peer's)"
            ]
        );
    }

    #[test]
    fn a_timer_of_a_second_may_wake_once_a_second() {
        let outcomes = outcomes("second", &[(BATON, &[(10, 1)])]);
        assert_eq!(
            lines(&outcomes),
            [
                "met     the case second <= 1.1 wake-ups a second  (measured 1.000 wake-ups a \
                 second)"
            ]
        );
    }

    #[test]
    fn threads_that_switch_most_have_rows_and_the_others_one_together() {
        let threads = [10, 50, 0, 30, 20, 40].map(|wakeups| (wakeups, 1000));
        let table = outcomes("hour", &[(BATON, &[(0, 0)]), ("Go", &threads)])
            .threads()
            .to_string();
        let rows: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        let ends: Vec<String> = rows
            .iter()
            .map(|row| row[row.len().saturating_sub(5)..].join(" "))
            .collect();
        for row in [
            "baton 1 0.00 0.00 0.00",
            "Go 2 5.00 0.00 0.10",
            "Go 6 4.00 0.00 0.10",
            "Go 4 3.00 0.00 0.10",
            "Go 5 2.00 0.00 0.10",
            "2 others 1.00 0.00 0.20",
        ] {
            assert!(ends.iter().any(|end| end == row), "{row}: {table}");
        }
    }
}
