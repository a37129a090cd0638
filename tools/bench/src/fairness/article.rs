//! Restates the 1997 analysis of the Thread Manager's performance on one machine. It measures what
//! a calculation loses to the event loop beside it.
//!
//! The score is the time of the calculation, divided by that of the same work without yielding.
//! Both run in the same program, in turns; the score is the median over the groups of turns. If
//! other programs run too, CPU times are divided, so that their share of the CPU does not count.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::bench::{Bench, progress};
use crate::child::{self, Figures, first};
use crate::command_line::FairnessOptions;
use crate::interpreters::Interpreter;
use crate::neighbour::Neighbour;
use crate::places::Place;
use crate::stats;

/// The slices that are tried, in milliseconds, and the usual one.
pub(super) const SLICES: [u32; 4] = [1, 5, 10, 20];
pub(super) const SLICE: u32 = 10;

/// The owner of the display and of the events: our program, or another one beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ground {
    Foreground,
    Background,
}

impl Ground {
    pub(super) fn name(self) -> &'static str {
        match self {
            Ground::Foreground => "foreground",
            Ground::Background => "background",
        }
    }
}

/// One way to run the calculation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Trial {
    /// The index in the list of places.
    pub(super) place: usize,
    pub(super) ground: Ground,
    /// The method's name in the program.
    pub(super) method: &'static str,
    /// The slice in milliseconds.
    pub(super) slice: u32,
}

impl Trial {
    pub(super) fn new(place: usize, ground: Ground, method: &'static str) -> Trial {
        Trial {
            place,
            ground,
            method,
            slice: SLICE,
        }
    }
}

/// All figures of all runs that count.
pub(super) struct ArticleResults {
    pub(super) places: Vec<Place>,
    runs: BTreeMap<Trial, Vec<Figures>>,
}

impl ArticleResults {
    pub(super) fn runs(&self, trial: Trial) -> &[Figures] {
        self.runs.get(&trial).map_or(&[], Vec::as_slice)
    }

    /// The score of every run.
    pub(super) fn scores(&self, trial: Trial) -> Vec<f64> {
        let others_run = trial.ground == Ground::Background || self.places[trial.place].is_loaded;
        let [beside, never] = match others_run {
            true => ["cpu", "never_cpu"],
            false => ["seconds", "never_seconds"],
        };
        let score = |run: &Figures| stats::median_of_ratios(run.get(beside)?, run.get(never)?);
        self.runs(trial).iter().filter_map(score).collect()
    }

    /// The elapsed time of every run, as the article counted. It is divided by that of the same
    /// work without yielding and without another program that owns the events.
    pub(super) fn elapsed(&self, trial: Trial) -> Vec<f64> {
        let foreground = Trial {
            ground: Ground::Foreground,
            ..trial
        };
        let pairs = self.runs(trial).iter().zip(self.runs(foreground));
        pairs
            .filter_map(|(run, never)| Some(sum(run, "seconds")? / sum(never, "never_seconds")?))
            .collect()
    }

    pub(super) fn to_json(&self) -> Value {
        let of_one = |(trial, runs): (&Trial, &Vec<Figures>)| {
            json!({
                "place": self.places[trial.place].name,
                "ground": trial.ground.name(),
                "method": trial.method,
                "slice_ms": trial.slice,
                "runs": runs,
                "scores": self.scores(*trial),
            })
        };
        self.runs.iter().map(of_one).collect()
    }
}

/// The sum of a figure over all groups.
pub(super) fn sum(run: &Figures, name: &str) -> Option<f64> {
    Some(run.get(name)?.iter().sum())
}

/// Runs every trial in every run. The first run is discarded, as in the article.
pub(super) fn measure(
    bench: &Bench,
    baton: &Interpreter,
    options: &FairnessOptions,
) -> Result<ArticleResults> {
    let script = bench.script(
        "calculation",
        include_str!("../../programs/calculation.lua"),
    )?;
    let places = Place::all()?;
    let trials = trials(&places);
    let amount = amount(baton, &script, &places[0], options.work)?;
    let bar = progress(trials.len() * (options.runs as usize + 1));
    let mut runs: BTreeMap<Trial, Vec<Figures>> = BTreeMap::new();
    for number in 0..=options.runs {
        for trial in &trials {
            bar.set_message(format!(
                "{}, {}, {}",
                trial.method,
                trial.ground.name(),
                places[trial.place].name
            ));
            let command = baton.script(&script);
            let work = (amount, options.work);
            let figures = run_one(command, &places[trial.place], trial, work)?;
            if number > 0 {
                runs.entry(*trial).or_default().push(figures);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(ArticleResults { places, runs })
}

/// All trials. Each place has each method. Other slices, and a more urgent loop, are tried in the
/// first place only.
fn trials(places: &[Place]) -> Vec<Trial> {
    let mut list = Vec::new();
    for place in 0..places.len() {
        for ground in [Ground::Foreground, Ground::Background] {
            list.extend(
                ["time", "count", "preemptive"].map(|method| Trial::new(place, ground, method)),
            );
        }
    }
    list.push(Trial::new(0, Ground::Foreground, "urgent"));
    for slice in SLICES {
        for method in ["preemptive", "balance"] {
            let trial = Trial {
                slice,
                ..Trial::new(0, Ground::Foreground, method)
            };
            if !list.contains(&trial) {
                list.push(trial);
            }
        }
    }
    list
}

/// The number of groups into which the work is divided. Beside a loop that spins, one slice more or
/// less changes a part's time, so these parts are longer.
fn groups(method: &str) -> u32 {
    if method == "balance" { 5 } else { 20 }
}

/// The rounds of the calculation that take `seconds`.
fn amount(baton: &Interpreter, script: &Path, place: &Place, seconds: f64) -> Result<u64> {
    let trial_seconds = (seconds / 5.0).min(0.5).to_string();
    let mut command = baton.script(script);
    command.args(["calibrate", &trial_seconds]);
    let name = "rounds_per_second";
    let found =
        place.within(|| child::measure(&mut command, limit(seconds), "the calculation", name))?;
    Ok((first(&found, name).unwrap_or_default() * seconds).ceil() as u64)
}

fn run_one(
    mut command: Command,
    place: &Place,
    trial: &Trial,
    (amount, seconds): (u64, f64),
) -> Result<Figures> {
    command
        .args([trial.method, &amount.to_string()])
        .arg((f64::from(trial.slice) / 1e3).to_string())
        .arg(groups(trial.method).to_string());
    let is_background = trial.ground == Ground::Background;
    let others = [(place.is_loaded, "compute"), (is_background, "events")];
    place.within(|| {
        let others = others.into_iter().filter(|(runs, _)| *runs);
        let others = others
            .map(|(_, way)| Neighbour::start(way))
            .collect::<Result<Vec<_>>>()?;
        let found = child::measure(&mut command, limit(seconds), "the calculation", "seconds")?;
        others
            .into_iter()
            .try_for_each(|other| other.end().map(drop))?;
        Ok(found)
    })
}

/// The time limit of a run. On a busy machine everything takes many times as long.
fn limit(seconds: f64) -> Duration {
    Duration::from_secs_f64(60.0 + 80.0 * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_tried_once() {
        let trials = trials(&Place::all().unwrap());
        for (index, trial) in trials.iter().enumerate() {
            assert!(!trials[..index].contains(trial), "{trial:?}");
        }
    }

    #[test]
    fn a_score_is_the_median_of_groups_of_elapsed_time_alone_and_of_cpu_time_beside_others() {
        let figures = |seconds: [f64; 3], cpu: [f64; 3], never: [f64; 3]| {
            Figures::from([
                ("seconds".to_string(), seconds.to_vec()),
                ("cpu".to_string(), cpu.to_vec()),
                ("never_seconds".to_string(), never.to_vec()),
                ("never_cpu".to_string(), never.to_vec()),
            ])
        };
        let of = |ground| Trial::new(0, ground, "time");
        let foreground = figures([1.5, 8.0, 3.0], [9.0; 3], [1.0, 4.0, 3.0]);
        let background = figures([4.0; 3], [1.25, 0.5, 2.5], [1.0, 1.0, 2.0]);
        let results = ArticleResults {
            places: Place::all().unwrap(),
            runs: BTreeMap::from([
                (of(Ground::Foreground), vec![foreground]),
                (of(Ground::Background), vec![background]),
            ]),
        };
        assert_eq!(results.scores(of(Ground::Foreground)), [1.5]);
        assert_eq!(results.scores(of(Ground::Background)), [1.25]);
        assert_eq!(results.elapsed(of(Ground::Background)), [1.5]);
        assert!(
            results
                .scores(Trial::new(0, Ground::Background, "count"))
                .is_empty()
        );
    }
}
