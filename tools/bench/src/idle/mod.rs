//! The experiment `idle`: the cost of programs that only wait, in seven ways. It compares Baton
//! with other systems, and with the published designs of OpenSmalltalk-VM.
//!
//! The programs wait at the same time, since each can be measured by itself. So seventy programs
//! take one minute, like one. The timer of a kilohertz would disturb the others, so it runs
//! afterwards.

mod conclusions;
mod energy;
mod squeak;
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
use conclusions::Outcomes;
use energy::Energy;
use waiting::{ArmAndCase, Times};

const BATON: &str = "baton";

/// The cases without `crowd`, for Java before version 21. Its processes were native threads, and
/// ten thousand of those would be another experiment.
const WITHOUT_CROWD: [&str; 6] = ["nothing", "second", "listen", "hour", "busy", "kilohertz"];

/// The case with its name in the programs, and its name in tables.
fn case_of(case: IdleCase) -> Case {
    let (name, title) = match case {
        IdleCase::Nothing => ("nothing", "nothing due"),
        IdleCase::Second => ("second", "one timer a second"),
        IdleCase::Listen => ("listen", "a listening socket"),
        IdleCase::Crowd => ("crowd", "10,000 waiting processes"),
        IdleCase::Hour => ("hour", "a timer in an hour"),
        IdleCase::Busy => ("busy", "after a busy spell"),
        IdleCase::Kilohertz => ("kilohertz", "a timer of 1 kHz"),
    };
    Case::new(name, title, &[&name])
}

/// Runs the experiment.
pub(crate) fn run(bench: &Bench, options: &IdleOptions) -> Result<Report> {
    let energy = Energy::of_this_machine();
    let arms = arms(bench)?;
    let cases: Vec<Case> = options.cases.iter().map(|case| case_of(*case)).collect();
    let places = places(&arms, &cases);
    let bar = progress(places.len());
    let times = Times {
        settle: Duration::from_secs_f64(options.settle),
        between_snapshots: Duration::from_secs_f64(options.seconds),
    };
    let counter = energy.as_ref().filter(|_| options.apart);
    let mut measured = Vec::new();
    for group in groups(&cases, places, options.apart) {
        measured.extend(waiting::measure(
            &arms, &cases, &group, times, counter, &bar,
        ));
    }
    bar.finish_and_clear();
    let sleeps = DelayOptions {
        rounds: 1,
        sleeps: options.sleeps,
    };
    let exactness = delay::exactness(bench, &sleeps)?;
    let outcomes = Outcomes::of(arms, cases, measured);
    Ok(outcomes.report(options, energy.is_some(), exactness))
}

fn arms(bench: &Bench) -> Result<Vec<Arm>> {
    let baton = bench.paths.baton()?;
    let script = bench.script("idle", include_str!("../../programs/idle.lua"))?;
    let peers = peers::directory(bench.paths.peers.as_ref())?;
    let mut arms = vec![Arm::interpreted(BATON, &baton, &script, &[])];
    for arm in scripts::arms(bench.directory(), "idle")? {
        arms.push(match arm.name {
            "Java" => arm.only(&WITHOUT_CROWD),
            _ => arm,
        });
    }
    arms.extend(peers::OPENSMALLTALK.map(|(peer, design)| peer.arm(&peers, &[design, "idle"])));
    arms.extend(squeak::arms(bench.directory()));
    Ok(arms)
}

/// Every installed arm with every case in which it takes part.
fn places(arms: &[Arm], cases: &[Case]) -> Vec<ArmAndCase> {
    let of_case = |(number, case): (usize, &Case)| {
        let arms = arms.iter().enumerate();
        let present = arms.filter(|(_, arm)| arm.takes_part(case) && arm.command(case).is_ok());
        present
            .map(move |(arm, _)| (arm, number))
            .collect::<Vec<_>>()
    };
    cases.iter().enumerate().flat_map(of_case).collect()
}

/// The groups of programs that wait together.
fn groups(cases: &[Case], places: Vec<ArmAndCase>, apart: bool) -> Vec<Vec<ArmAndCase>> {
    if apart {
        return places.into_iter().map(|place| vec![place]).collect();
    }
    let is_busy = |&(_, case): &ArmAndCase| cases[case].name == "kilohertz";
    let (busy, quiet): (Vec<ArmAndCase>, Vec<ArmAndCase>) = places.into_iter().partition(is_busy);
    [quiet, busy]
        .into_iter()
        .filter(|group| !group.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use std::process::Command;

    fn groups_of_three_arms(apart: bool) -> Vec<Vec<ArmAndCase>> {
        let arms = [
            Arm::present("one", || Command::new("one")),
            Arm::missing("none", "get it"),
            Arm::present("Java", || Command::new("java")).only(&WITHOUT_CROWD),
        ];
        let cases: Vec<Case> = IdleCase::value_variants()
            .iter()
            .map(|&it| case_of(it))
            .collect();
        groups(&cases, places(&arms, &cases), apart)
    }

    #[test]
    fn all_programs_wait_together_except_the_timer_of_a_kilohertz() {
        let groups = groups_of_three_arms(false);
        assert_eq!((groups[0].len(), groups[1].len()), (11, 2));
        assert_eq!(groups[1], [(0, 6), (2, 6)]);
    }

    #[test]
    fn with_apart_each_program_waits_alone() {
        let groups = groups_of_three_arms(true);
        assert_eq!(groups.len(), 13);
        assert!(groups.iter().all(|group| group.len() == 1));
    }
}
