//! The experiment `idle`: the cost of programs that only wait, in seven ways. It compares Baton
//! with other systems, and with the published designs of OpenSmalltalk-VM.
//!
//! The programs wait at the same time, since each can be measured by itself. So seventy programs
//! take one minute, like one. The timer of a kilohertz would disturb the others, so it runs
//! afterwards.

mod conclusions;
mod energy;
mod usage;
mod waiting;

use std::time::Duration;

use anyhow::Result;

use crate::bench::{Bench, progress};
use crate::command_line::{DelayOptions, IdleCase, IdleOptions};
use crate::contest::{Arm, Case};
use crate::delay;
use crate::peers;
use crate::report::Report;
use crate::scripts;
use crate::verdict::Verdict;
use energy::Energy;
use waiting::{ArmAndCase, Times, Used};

const BATON: &str = "baton";

/// The sources of the program for other systems.
const SOURCES: [(&str, &str); 5] = [
    ("idle.py", include_str!("../../programs/idle.py")),
    ("idle.js", include_str!("../../programs/idle.js")),
    ("idle.go", include_str!("../../programs/idle.go")),
    ("Idle.java", include_str!("../../programs/Idle.java")),
    ("idle.erl", include_str!("../../programs/idle.erl")),
];

/// The cases without `crowd`, for Java before version 21. Its processes were native threads, and
/// ten thousand of those would be another experiment.
const WITHOUT_CROWD: [&str; 6] = ["nothing", "second", "listen", "hour", "busy", "kilohertz"];

impl IdleCase {
    /// The name in the programs, and the name in tables.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Nothing => ("nothing", "nothing due"),
            Self::Second => ("second", "one timer a second"),
            Self::Listen => ("listen", "a listening socket"),
            Self::Crowd => ("crowd", "10,000 waiting processes"),
            Self::Hour => ("hour", "a timer in an hour"),
            Self::Busy => ("busy", "after a busy spell"),
            Self::Kilohertz => ("kilohertz", "a timer of 1 kHz"),
        }
    }
}

/// The figures of every arm in every case.
struct Outcomes {
    arms: Vec<Arm>,
    cases: Vec<Case>,
    /// In the order in which they were measured.
    measured: Vec<(ArmAndCase, Result<Used>)>,
}

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &IdleOptions) -> Result<Report> {
    let energy = Energy::of_this_machine();
    let mut outcomes = Outcomes {
        arms: arms(bench)?,
        cases: options.cases.iter().map(|case| case_of(*case)).collect(),
        measured: Vec::new(),
    };
    let places = outcomes.places();
    let bar = progress(places.len());
    let times = Times {
        settle: Duration::from_secs_f64(options.settle),
        between_snapshots: Duration::from_secs_f64(options.seconds),
    };
    for group in groups(&outcomes, places, options.apart) {
        let counter = energy.as_ref().filter(|_| options.apart);
        let measured = waiting::measure(
            &outcomes.arms,
            &outcomes.cases,
            &group,
            times,
            counter,
            &bar,
        );
        outcomes.measured.extend(measured);
    }
    bar.finish_and_clear();
    let sleeps = DelayOptions {
        rounds: 1,
        sleeps: options.sleeps,
    };
    let exactness = delay::exactness(bench, &sleeps)?;
    Ok(conclusions::report(
        &outcomes,
        options,
        energy.is_some(),
        exactness,
    ))
}

fn arms(bench: &Bench) -> Result<Vec<Arm>> {
    let baton = bench.paths.baton()?;
    let script = bench.script("idle", include_str!("../../programs/idle.lua"))?;
    let peers = peers::directory(bench.paths.peers.as_ref())?;
    let mut arms = vec![Arm::interpreted(BATON, &baton, &script, &[])];
    for arm in scripts::arms(bench.directory(), &SOURCES)? {
        arms.push(match arm.name {
            "Java" => arm.only(&WITHOUT_CROWD),
            _ => arm,
        });
    }
    arms.extend(peers::OPENSMALLTALK.map(|(peer, design)| peer.arm(&peers, &[design, "idle"])));
    Ok(arms)
}

fn case_of(case: IdleCase) -> Case {
    let (name, title) = case.names();
    Case {
        name: name.to_string(),
        title: title.to_string(),
        arguments: vec![name.to_string()],
    }
}

/// The groups of programs that wait together.
fn groups(outcomes: &Outcomes, places: Vec<ArmAndCase>, apart: bool) -> Vec<Vec<ArmAndCase>> {
    if apart {
        return places.into_iter().map(|place| vec![place]).collect();
    }
    let is_busy = |&(_, case): &ArmAndCase| outcomes.cases[case].name == "kilohertz";
    let (busy, quiet): (Vec<ArmAndCase>, Vec<ArmAndCase>) = places.into_iter().partition(is_busy);
    [quiet, busy]
        .into_iter()
        .filter(|group| !group.is_empty())
        .collect()
}

impl Outcomes {
    /// Every installed arm with every case in which it takes part.
    fn places(&self) -> Vec<ArmAndCase> {
        let mut places = Vec::new();
        for (number, case) in self.cases.iter().enumerate() {
            let takes_part = |arm: &Arm| arm.takes_part(case) && arm.command(case).is_ok();
            places.extend(
                (0..self.arms.len())
                    .filter(|&arm| takes_part(&self.arms[arm]))
                    .map(|arm| (arm, number)),
            );
        }
        places
    }

    fn used(&self, arm: usize, case: usize) -> Option<&Used> {
        let measured = self.measured.iter().find(|one| one.0 == (arm, case));
        measured?.1.as_ref().ok()
    }

    /// The figures of an arm and a case by their names.
    fn used_by(&self, arm: &str, case: &str) -> Option<&Used> {
        let arm = self.arms.iter().position(|one| one.name == arm)?;
        let case = self.cases.iter().position(|one| one.name == case)?;
        self.used(arm, case)
    }

    /// The text in the place of a missing figure.
    fn gap(&self, arm: usize, case: usize) -> &'static str {
        let (arm, case) = (&self.arms[arm], &self.cases[case]);
        match (arm.takes_part(case), arm.command(case)) {
            (false, _) => "-",
            (_, Err(_)) => "missing",
            (_, Ok(_)) => "failed",
        }
    }

    /// An unmet verdict for every program that failed. Missing systems are reported with the
    /// sleeps, in which the same systems take part.
    fn failures(&self) -> Vec<Verdict> {
        let failed = |((arm, case), outcome): &(ArmAndCase, Result<Used>)| {
            let error = outcome.as_ref().err()?;
            let what = format!("{}, {}", self.arms[*arm].name, self.cases[*case].title);
            Some(Verdict::unmet(&what, format!("{error:#}")))
        };
        self.measured.iter().filter_map(failed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use std::process::Command;

    fn outcomes() -> Outcomes {
        Outcomes {
            arms: vec![
                Arm::present("one", || Command::new("one")),
                Arm::missing("none", "get it"),
                Arm::present("Java", || Command::new("java")).only(&WITHOUT_CROWD),
            ],
            cases: IdleCase::value_variants()
                .iter()
                .map(|&case| case_of(case))
                .collect(),
            measured: Vec::new(),
        }
    }

    #[test]
    fn all_programs_wait_together_except_the_timer_of_a_kilohertz() {
        let outcomes = outcomes();
        let groups = groups(&outcomes, outcomes.places(), false);
        assert_eq!((groups[0].len(), groups[1].len()), (11, 2));
        assert_eq!(groups[1], [(0, 6), (2, 6)]);
    }

    #[test]
    fn with_apart_each_program_waits_alone() {
        let outcomes = outcomes();
        let groups = groups(&outcomes, outcomes.places(), true);
        assert_eq!(groups.len(), 13);
        assert!(groups.iter().all(|group| group.len() == 1));
    }

    #[test]
    fn a_place_without_a_figure_says_why() {
        let mut outcomes = outcomes();
        outcomes
            .measured
            .push(((0, 0), Err(anyhow::anyhow!("it broke"))));
        assert_eq!(
            (outcomes.gap(0, 0), outcomes.gap(1, 0), outcomes.gap(2, 3)),
            ("failed", "missing", "-")
        );
        let lines: Vec<String> = outcomes
            .failures()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(lines, ["UNMET   one, nothing due  (it broke)"]);
    }
}
