//! Makes tables, charts and verdicts from the figures of `idle`.

use serde_json::{Value, json};

use super::usage::{self, ThreadUsage};
use super::waiting::Used;
use super::{BATON, Outcomes};
use crate::chart::{Bars, Chart, Scale, Series};
use crate::command_line::IdleOptions;
use crate::peers;
use crate::report::Report;
use crate::scripts;
use crate::table::{Table, figure};
use crate::verdict::{Goal, Verdict};

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

/// The whole report. `exactness` is the report on sleeps in the same run.
pub(super) fn report(
    outcomes: &Outcomes,
    options: &IdleOptions,
    counts_energy: bool,
    exactness: Report,
) -> Report {
    let mut tables = vec![
        by_case(outcomes, "wake-ups a second, of all threads", &|used| {
            figure(Some(used.wakeups()), 2)
        }),
        by_case(outcomes, "CPU time, in % of one processor", &|used| {
            figure(Some(used.cpu_percent()), 4)
        }),
        threads(outcomes),
    ];
    if counts_energy && options.apart {
        tables.push(by_case(
            outcomes,
            "power of the whole machine, in W",
            &|used| figure(used.joules.map(|joules| joules / used.seconds), 2),
        ));
    }
    tables.extend(exactness.tables);
    let mut charts = charts(outcomes);
    charts.extend(exactness.charts);
    let mut verdicts = verdicts(outcomes);
    verdicts.extend(outcomes.failures());
    verdicts.extend(exactness.verdicts);
    Report {
        arms: exactness.arms,
        notes: vec![
            format!(
                "Usage between two snapshots {} s apart, after at least {} s to settle. A wake-up \
                 is a voluntary context switch.",
                options.seconds, options.settle
            ),
            "A snapshot each second finds the threads that end: each counts as last seen, with one \
             more wake-up. Only a thread that begins and ends between two snapshots is missed. A \
             snapshot reads the kernel's counters, and wakes no program."
                .to_string(),
            energy_note(counts_energy, options.apart).to_string(),
        ],
        tables,
        charts,
        samples: json!({ "waits": samples(outcomes), "sleeps": exactness.samples }),
        verdicts,
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

fn by_case(outcomes: &Outcomes, caption: &str, shown: &dyn Fn(&Used) -> String) -> Table {
    let mut header = vec!["arm"];
    header.extend(outcomes.cases.iter().map(|case| case.title.as_str()));
    let mut table = Table::new(caption, &header);
    for (arm, of_arm) in outcomes.arms.iter().enumerate() {
        let cell = |case: usize| match outcomes.used(arm, case) {
            Some(used) => shown(used),
            None => outcomes.gap(arm, case).to_string(),
        };
        let mut row = vec![of_arm.name.to_string()];
        row.extend((0..outcomes.cases.len()).map(cell));
        table.row(row);
    }
    table
}

/// The number of threads of a program that have their own rows; the others share one.
const ROWS: usize = 4;

/// A table of each system's threads that switch, with the busiest first.
fn threads(outcomes: &Outcomes) -> Table {
    let header = [
        "case",
        "system",
        "thread",
        "voluntary",
        "involuntary",
        "CPU us",
    ];
    let caption = format!("switches and CPU time a second, by thread; the {ROWS} that switch most");
    let mut table = Table::new(caption, &header);
    for (number, case) in outcomes.cases.iter().enumerate() {
        for (arm, of_arm) in outcomes.arms.iter().enumerate() {
            let used = outcomes.used(arm, number);
            for (thread, usage) in used.into_iter().flat_map(busiest) {
                let seconds = used.map_or(f64::NAN, |used| used.seconds);
                let each_second = |count: f64| figure(Some(count / seconds), 2);
                table.row([
                    case.title.clone(),
                    of_arm.name.to_string(),
                    thread,
                    each_second(usage.voluntary as f64),
                    each_second(usage.involuntary as f64),
                    each_second(usage.nanoseconds as f64 / 1e3),
                ]);
            }
        }
    }
    table
}

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

fn charts(outcomes: &Outcomes) -> Vec<Chart> {
    let chart = |title: &str, label: &str, digits, value: &dyn Fn(&Used) -> f64| {
        // Zero has no place on a logarithmic axis.
        let shown = |arm, case| {
            outcomes
                .used(arm, case)
                .map(value)
                .filter(|&value| value > 0.0)
        };
        let series = |(arm, of_arm): (usize, &crate::contest::Arm)| Series {
            name: of_arm.name.to_string(),
            values: (0..outcomes.cases.len())
                .map(|case| shown(arm, case))
                .collect(),
        };
        Chart::Bars(Bars {
            title: title.to_string(),
            label: label.to_string(),
            scale: Scale::Log,
            baseline: None,
            marks: Vec::new(),
            digits,
            rows: outcomes
                .cases
                .iter()
                .map(|case| case.title.clone())
                .collect(),
            series: outcomes.arms.iter().enumerate().map(series).collect(),
        })
    };
    vec![
        chart(
            "Wake-ups of a program that waits",
            "a second, of all threads; no bar: none",
            2,
            &Used::wakeups,
        ),
        chart(
            "CPU time of a program that waits",
            "% of one processor; no bar: none",
            4,
            &Used::cpu_percent,
        ),
    ]
}

fn verdicts(outcomes: &Outcomes) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for case in &outcomes.cases {
        let used = outcomes.used_by(BATON, &case.name);
        let (title, name) = (case.title.as_str(), case.name.as_str());
        match name {
            "second" => verdicts.push(SECOND_GOAL.judge(title, used.map(Used::wakeups))),
            "kilohertz" => verdicts.push(against_best_peer(outcomes, title, used)),
            _ => {
                verdicts.push(WAKEUPS_GOAL.judge(title, used.map(Used::wakeups)));
                verdicts.push(CPU_GOAL.judge(title, used.map(Used::cpu_percent)));
            }
        }
    }
    verdicts.extend(against_designs(outcomes));
    verdicts
}

fn against_best_peer(outcomes: &Outcomes, title: &str, used: Option<&Used>) -> Verdict {
    let peers = scripts::names().filter_map(|peer| outcomes.used_by(peer, "kilohertz"));
    let best = peers.map(Used::cpu_percent).reduce(f64::min);
    let ratio = || Some(used?.cpu_percent() / best?);
    KILOHERTZ_GOAL.judge(&format!("CPU time, {title}"), ratio())
}

/// The verdicts on the worst ratio to each design, over the cases without a due timer. A missing
/// design is reported elsewhere.
fn against_designs(outcomes: &Outcomes) -> Vec<Verdict> {
    let ratio = |design: &str, case: &str| {
        let (ours, theirs) = (
            outcomes.used_by(BATON, case)?,
            outcomes.used_by(design, case)?,
        );
        Some(ours.wakeups() / theirs.wakeups())
    };
    let verdict = |&(design, word): &(peers::Peer, &str)| {
        let worst = QUIET
            .iter()
            .filter_map(|case| ratio(design.name, case))
            .reduce(f64::max)?;
        let goal = if word == "stock" {
            STOCK_GOAL
        } else {
            PULL_REQUEST_GOAL
        };
        Some(goal.judge(
            &format!("wake-ups with nothing due, beside {}", design.name),
            Some(worst),
        ))
    };
    peers::OPENSMALLTALK.iter().filter_map(verdict).collect()
}

fn samples(outcomes: &Outcomes) -> Value {
    let sample = |((arm, case), outcome): &((usize, usize), anyhow::Result<Used>)| {
        let used = outcome.as_ref().ok();
        json!({
            "arm": outcomes.arms[*arm].name,
            "case": outcomes.cases[*case].name,
            "seconds": used.map(|used| used.seconds),
            "joules": used.and_then(|used| used.joules),
            "threads": used.map(|used| usage::to_json(&used.threads)),
        })
    };
    outcomes.measured.iter().map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::{Arm, Case};
    use std::process::Command;

    /// Outcomes of arms with one thread each. The numbers are its wake-ups in ten seconds, and the
    /// nanoseconds of its CPU time.
    fn outcomes(case: &str, arms: &[(&'static str, u64, u64)]) -> Outcomes {
        let used = |voluntary, nanoseconds| Used {
            threads: usage::Snapshot::from([(
                1,
                ThreadUsage {
                    voluntary,
                    nanoseconds,
                    ..ThreadUsage::default()
                },
            )]),
            seconds: 10.0,
            joules: None,
        };
        Outcomes {
            arms: arms
                .iter()
                .map(|arm| Arm::present(arm.0, || Command::new("it")))
                .collect(),
            cases: vec![Case {
                name: case.to_string(),
                title: format!("the case {case}"),
                arguments: Vec::new(),
            }],
            measured: (0..)
                .zip(arms)
                .map(|(number, arm)| ((number, 0), Ok(used(arm.1, arm.2))))
                .collect(),
        }
    }

    fn lines(outcomes: &Outcomes) -> Vec<String> {
        verdicts(outcomes).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn without_a_due_timer_wake_ups_and_time_are_compared_with_goals_and_designs() {
        let outcomes = outcomes(
            "hour",
            &[
                (BATON, 0, 100_000),
                ("OpenSmalltalk", 9000, 1),
                ("PR 764, one wait", 20, 1),
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
            &[(BATON, 10_000, 300), ("Node", 1, 400), ("Erlang", 1, 200)],
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
        let outcomes = outcomes("second", &[(BATON, 10, 1)]);
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
        let mut outcomes = outcomes("hour", &[(BATON, 0, 0), ("Go", 0, 0)]);
        let usage = |voluntary| ThreadUsage {
            voluntary,
            nanoseconds: 1000,
            ..ThreadUsage::default()
        };
        let counts = [(7, 10), (8, 50), (9, 0), (10, 30), (11, 20), (12, 40)];
        if let Ok(used) = &mut outcomes.measured[1].1 {
            used.threads = counts
                .map(|(number, voluntary)| (number, usage(voluntary)))
                .into();
        }
        let table = threads(&outcomes).to_string();
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
