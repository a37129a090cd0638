//! Work for the processor on one core and on two.

use std::time::Duration;

use anyhow::Result;

use super::arms::{self, BATON, ERLANG, GO_CORES, INTERPRETERS, NODE, PROCESSES};
use super::{BESIDES, spread};
use crate::bench::Bench;
use crate::chart::Bars;
use crate::command_line::CoresOptions;
use crate::contest::{Case, Contest, Results};
use crate::report::{Report, notes};
use crate::verdict::{Goal, Verdict};

/// The kinds of work: the name in every program, and the name in tables.
const KINDS: [(&str, &str); 3] = [
    ("queens", "seven queens"),
    ("mandelbrot", "Mandelbrot set"),
    ("trees", "binary trees"),
];

/// The time on two VMs, to that on one: a speed-up of at least 1.9.
const SPEEDUP_GOAL: Goal = Goal::at_most(1.0 / 1.9, "", 3);

pub(super) fn run(bench: &Bench, options: &CoresOptions) -> Result<Report> {
    let of_kind =
        |(kind, title): (&str, &str)| Case::new(kind, title, &[&"map", &kind, &options.work]);
    let results = Contest {
        arms: arms::arms(
            bench,
            &[BATON, NODE, PROCESSES, INTERPRETERS, GO_CORES, ERLANG],
        )?,
        cases: KINDS.map(of_kind).to_vec(),
        rounds: options.rounds,
        figure: "speedup",
        limit: BESIDES + Duration::from_secs_f64(options.work * 20.0),
    }
    .run();
    let table = |caption, figure: &'static str| {
        results.by_case(caption, "work", results.all_cases(), |arm, case| {
            spread(&results.values(arm, case, figure), 2)
        })
    };
    let chart = Bars::new("The speed-up of two cores", "times as fast; more is better")
        .from(1.0)
        .digits(2);
    let speedup = |arm, case| results.median(arm, case, "speedup");
    Ok(results.complete(Report {
        notes: notes(&[
            "Work: the same chunks by one worker, then by two that have half of them each. Workers \
             are VMs, Node's workers, processes and interpreters of Python, goroutines with \
             GOMAXPROCS 1 and 2, and Erlang's processes with one scheduler and two.",
        ]),
        tables: vec![
            table(
                "work: speed-up of two workers; median (smallest-largest)",
                "speedup",
            ),
            table(
                "work: CPU time of two workers to that of one; median (smallest-largest)",
                "cpu",
            ),
        ],
        charts: vec![results.bars(chart, results.all_cases(), speedup)],
        verdicts: verdicts(&results),
        ..Report::default()
    }))
}

fn verdicts(results: &Results) -> Vec<Verdict> {
    let Some(baton) = results.arm(BATON) else {
        return Vec::new();
    };
    let judge = |case: usize| {
        let speedup = results.median(baton, case, "speedup")?;
        let what = format!("{}: time of two VMs / of one", results.cases[case].title);
        Some(SPEEDUP_GOAL.judge(&what, Some(1.0 / speedup)))
    };
    results.all_cases().filter_map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::Arm;
    use std::process::Command;

    #[test]
    fn a_speed_up_of_one_and_nine_tenths_is_enough() {
        let start = || {
            let mut command = Command::new("sh");
            command.args(["-c", "echo speedup $1", "sh"]);
            command
        };
        let case = |speedup: &str| Case::new(speedup, "work", &[&speedup]);
        let results = Contest {
            arms: vec![Arm::present(BATON, start)],
            cases: vec![case("1.91"), case("1.89")],
            rounds: 1,
            figure: "speedup",
            limit: Duration::from_secs(20),
        }
        .run();
        let lines: Vec<String> = verdicts(&results).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "met     work: time of two VMs / of one <= 0.526  (measured 0.524)",
                "MISSED  work: time of two VMs / of one <= 0.526  (measured 0.529)",
            ]
        );
    }
}
