//! Runs several systems in several cases. The systems take turns, and their figures are compared
//! round by round.

mod views;

use std::ffi::OsStr;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, anyhow};
use serde_json::{Value, json};

use crate::bench::progress;
use crate::child::{self, Figures};
use crate::interpreters::Interpreter;
use crate::report::Found;
use crate::stats;
use crate::verdict::Verdict;

/// One of the compared systems. It takes part in all cases, or only in the named ones.
pub(crate) struct Arm {
    pub(crate) name: &'static str,
    start: Result<Box<dyn Fn() -> Command>, String>,
    cases: Option<Vec<&'static str>>,
    pub(crate) found: Option<Found>,
}

impl Arm {
    /// An installed system. `start` makes the command, to which the arguments of a case are added.
    pub(crate) fn present(name: &'static str, start: impl Fn() -> Command + 'static) -> Self {
        Self {
            name,
            start: Ok(Box::new(start)),
            cases: None,
            found: None,
        }
    }

    /// This program itself, in another role. `words` precede the arguments of a case.
    pub(crate) fn this_program(name: &'static str, words: &[&str]) -> Result<Self> {
        let program = child::this_program(words)?;
        let (path, words) = (program.get_program(), program.get_args());
        let (path, words) = (
            path.to_owned(),
            words.map(OsStr::to_owned).collect::<Vec<_>>(),
        );
        Ok(Self::present(name, move || {
            let mut command = Command::new(&path);
            command.args(&words);
            command
        }))
    }

    /// A system that is a script in an interpreter. `words` precede the arguments of a case.
    pub(crate) fn interpreted(
        name: &'static str,
        interpreter: &Interpreter,
        script: &Path,
        words: &'static [&'static str],
    ) -> Self {
        let found = interpreter.found();
        let (interpreter, script) = (interpreter.clone(), script.to_path_buf());
        let mut arm = Self::present(name, move || {
            let mut command = interpreter.script(&script);
            command.args(words);
            command
        });
        arm.found = Some(Found {
            name: name.to_string(),
            ..found
        });
        arm
    }

    /// A system that is not installed. `remedy` appears in the place of its figures.
    pub(crate) fn missing(name: &'static str, remedy: impl Into<String>) -> Self {
        Self {
            name,
            start: Err(remedy.into()),
            cases: None,
            found: None,
        }
    }

    /// The same system with an environment variable set.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        let value = value.into();
        self.start = self.start.map(|start| {
            let start: Box<dyn Fn() -> Command> = Box::new(move || {
                let mut command = start();
                command.env(name, &value);
                command
            });
            start
        });
        self
    }

    /// The same system, restricted to these cases.
    pub(crate) fn only(mut self, cases: &[&'static str]) -> Self {
        self.cases = Some(cases.to_vec());
        self
    }

    /// Whether the system takes part in this case.
    pub(crate) fn takes_part(&self, case: &Case) -> bool {
        self.cases
            .as_ref()
            .is_none_or(|cases| cases.contains(&case.name.as_str()))
    }

    /// The command that runs a case. For a missing system, the error is its remedy.
    pub(crate) fn command(&self, case: &Case) -> Result<Command, &str> {
        let start = self.start.as_ref().map_err(String::as_str)?;
        let mut command = start();
        command.args(&case.arguments);
        Ok(command)
    }
}

/// One case of the experiment.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) title: String,
    /// The arguments that are added to the command of every arm.
    pub(crate) arguments: Vec<String>,
}

impl Case {
    pub(crate) fn new(
        name: impl ToString,
        title: impl ToString,
        arguments: &[&dyn ToString],
    ) -> Self {
        Self {
            name: name.to_string(),
            title: title.to_string(),
            arguments: arguments.iter().map(|word| word.to_string()).collect(),
        }
    }
}

/// The numbers up to `largest`: the steps below it, and itself.
pub(crate) fn steps_up_to(steps: &[u64], largest: u64) -> Vec<u64> {
    let below = steps.iter().copied().filter(|&step| step < largest);
    below.chain([largest]).collect()
}

/// The description of the whole experiment.
pub(crate) struct Contest {
    pub(crate) arms: Vec<Arm>,
    pub(crate) cases: Vec<Case>,
    pub(crate) rounds: u32,
    /// The figure that every run must print.
    pub(crate) figure: &'static str,
    /// The time limit of one run.
    pub(crate) limit: Duration,
}

/// All figures of one arm in one case, by round. After a failure, no more rounds run.
#[derive(Clone, Debug, Default)]
struct Cell {
    rounds: Vec<Figures>,
    failure: Option<String>,
}

impl Cell {
    fn add(&mut self, figures: Result<Figures>) {
        match figures {
            Ok(figures) => self.rounds.push(figures),
            Err(error) => self.failure = Some(format!("{error:#}")),
        }
    }
}

/// The results of a contest.
pub(crate) struct Results {
    pub(crate) arms: Vec<Arm>,
    pub(crate) cases: Vec<Case>,
    /// The cells by arm, then by case.
    cells: Vec<Vec<Cell>>,
}

impl Contest {
    /// Runs everything. The outer loop is over the rounds, and a different arm begins each round.
    /// So no arm gets the quiet moments of the machine to itself.
    pub(crate) fn run(self) -> Results {
        let (limit, figure) = (self.limit, self.figure);
        self.run_by(|arm, case, command| {
            let what = format!("{} of {}", case.title, arm.name);
            child::measure(command, limit, &what, figure)
        })
    }

    /// Runs everything in the same way. `measure` runs the command of an arm in a case, and returns
    /// the figures.
    pub(crate) fn run_by(
        self,
        mut measure: impl FnMut(&Arm, &Case, &mut Command) -> Result<Figures>,
    ) -> Results {
        let Self { arms, cases, .. } = &self;
        let mut cells = vec![vec![Cell::default(); cases.len()]; arms.len()];
        let bar = progress(self.rounds as usize * cases.len() * arms.len());
        for round in 0..self.rounds as usize {
            for (number, case) in cases.iter().enumerate() {
                for turn in 0..arms.len() {
                    let index = (round + turn) % arms.len();
                    let (arm, cell) = (&arms[index], &mut cells[index][number]);
                    bar.set_message(format!("{}, {}", arm.name, case.title));
                    if arm.takes_part(case) && cell.failure.is_none() {
                        let command = arm.command(case).map_err(|remedy| anyhow!("{remedy}"));
                        cell.add(command.and_then(|mut it| measure(arm, case, &mut it)));
                    }
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        Results {
            arms: self.arms,
            cases: self.cases,
            cells,
        }
    }
}

impl Results {
    /// Figures that were measured otherwise, by the indices of arm and case.
    pub(crate) fn of(
        arms: Vec<Arm>,
        cases: Vec<Case>,
        measured: impl IntoIterator<Item = ((usize, usize), Result<Figures>)>,
    ) -> Self {
        let mut cells = vec![vec![Cell::default(); cases.len()]; arms.len()];
        for ((arm, case), figures) in measured {
            cells[arm][case].add(figures);
        }
        Self { arms, cases, cells }
    }

    /// The index of the arm with this name.
    pub(crate) fn arm(&self, name: &str) -> Option<usize> {
        self.arms.iter().position(|arm| arm.name == name)
    }

    /// The index of the case with this name.
    pub(crate) fn case(&self, name: &str) -> Option<usize> {
        self.cases.iter().position(|case| case.name == name)
    }

    /// The indices of an arm and a case, by their names.
    pub(crate) fn place(&self, arm: &str, case: &str) -> Option<(usize, usize)> {
        Some((self.arm(arm)?, self.case(case)?))
    }

    /// The figures of every round.
    pub(crate) fn rounds(&self, arm: usize, case: usize) -> &[Figures] {
        &self.cells[arm][case].rounds
    }

    /// The values of one figure in every round.
    pub(crate) fn values(&self, arm: usize, case: usize, figure: &str) -> Vec<f64> {
        let rounds = self.rounds(arm, case).iter();
        rounds
            .filter_map(|round| child::first(round, figure))
            .collect()
    }

    /// The median of a figure over the rounds.
    pub(crate) fn median(&self, arm: usize, case: usize, figure: &str) -> Option<f64> {
        stats::median(&self.values(arm, case, figure))
    }

    /// The mean of a figure over the rounds.
    pub(crate) fn mean(&self, arm: usize, case: usize, figure: &str) -> Option<f64> {
        stats::mean(&self.values(arm, case, figure))
    }

    /// The median ratio of two arms. Each ratio divides one arm's figure by the other arm's figure
    /// of the same round.
    pub(crate) fn ratio(
        &self,
        (arm, case): (usize, usize),
        to: (usize, usize),
        figure: &str,
    ) -> Option<f64> {
        let ratio = stats::median_of_ratios(
            &self.values(arm, case, figure),
            &self.values(to.0, to.1, figure),
        );
        // A run that is too short for an arm's clock has a time of zero.
        ratio.filter(|ratio| ratio.is_finite())
    }

    /// The indices of all cases.
    pub(crate) fn all_cases(&self) -> Range<usize> {
        0..self.cases.len()
    }

    /// The systems that were found.
    pub(crate) fn found(&self) -> Vec<Found> {
        let found = self.arms.iter().map(|arm| arm.found.clone());
        found.flatten().collect()
    }

    /// The geometric mean of the ratios of two arms, over all cases that have one.
    pub(crate) fn mean_ratio(&self, arm: usize, to: usize, figure: &str) -> Option<f64> {
        let ratio = |case| self.ratio((arm, case), (to, case), figure);
        stats::geometric_mean(&self.all_cases().filter_map(ratio).collect::<Vec<_>>())
    }

    /// The text in the place of a missing figure. It is empty if the arm does not take part;
    /// otherwise it says that the system is missing or failed.
    pub(crate) fn gap(&self, arm: usize, case: usize) -> &'static str {
        match (&self.arms[arm].start, &self.cells[arm][case].failure) {
            (Err(_), _) => "missing",
            (_, Some(_)) => "failed",
            _ => "-",
        }
    }

    /// Why an arm failed in a case.
    pub(crate) fn failure(&self, arm: usize, case: usize) -> Option<&str> {
        self.cells[arm][case].failure.as_deref()
    }

    /// An unmet verdict for every missing arm and for every case that failed.
    pub(crate) fn failures(&self) -> Vec<Verdict> {
        let mut lines = Vec::new();
        for (arm, cells) in self.arms.iter().zip(&self.cells) {
            if let Err(remedy) = &arm.start {
                lines.push(Verdict::unmet(
                    &format!("beside {}", arm.name),
                    remedy.as_str(),
                ));
                continue;
            }
            for (case, cell) in self.cases.iter().zip(cells) {
                if let Some(failure) = &cell.failure {
                    let what = format!("{}, {}", arm.name, case.title);
                    lines.push(Verdict::unmet(&what, failure.as_str()));
                }
            }
        }
        lines
    }

    /// All samples as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let mut list = Vec::new();
        for (arm, cells) in self.arms.iter().zip(&self.cells) {
            for (case, cell) in self.cases.iter().zip(cells) {
                if arm.takes_part(case) {
                    list.push(json!({
                        "arm": arm.name,
                        "case": case.name,
                        "rounds": cell.rounds,
                        "failure": cell.failure,
                    }));
                }
            }
        }
        list.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Outcome;

    fn shell(script: &'static str) -> impl Fn() -> Command {
        move || {
            let mut command = Command::new("sh");
            command.args(["-c", script, "sh"]);
            command
        }
    }

    fn case(name: &str, argument: &str) -> Case {
        Case::new(name, format!("the case {name}"), &[&argument])
    }

    fn results(arms: Vec<Arm>) -> Results {
        let contest = Contest {
            arms,
            cases: vec![case("short", "1"), case("long", "10")],
            rounds: 2,
            figure: "ns",
            limit: Duration::from_secs(60),
        };
        contest.run()
    }

    #[test]
    fn every_arm_runs_every_case_in_every_round_and_ratios_are_taken() {
        let results = results(vec![
            Arm::present("one", shell("echo ns $1")),
            Arm::present("double", shell("echo \"{\\\"ns\\\": $(($1 * 2))}\"")),
            Arm::present("too quick", shell("echo ns 0")),
        ]);
        assert_eq!(results.values(0, 1, "ns"), [10.0, 10.0]);
        assert_eq!(results.median(1, 0, "ns"), Some(2.0));
        assert_eq!(results.ratio((0, 1), (1, 1), "ns"), Some(0.5));
        assert_eq!(results.ratio((0, 1), (1, 0), "ns"), Some(5.0));
        assert_eq!(results.ratio((0, 0), (2, 0), "ns"), None);
        assert!(results.failures().is_empty());
    }

    #[test]
    fn a_missing_arm_is_one_unmet_line_that_says_what_to_do() {
        let results = results(vec![Arm::missing("Go", "missing: run cargo xtask peers")]);
        let lines: Vec<String> = results.failures().iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            ["UNMET   beside Go  (missing: run cargo xtask peers)"]
        );
        assert_eq!(
            (results.gap(0, 0), results.median(0, 0, "ns")),
            ("missing", None)
        );
    }

    #[test]
    fn a_run_that_fails_or_prints_no_figure_is_reported_once_per_case() {
        let results = results(vec![
            Arm::present("broken", shell("echo no >&2; exit 1")),
            Arm::present("silent", shell("echo hello world")),
        ]);
        let failures = results.failures();
        assert_eq!(failures.len(), 4);
        assert!(
            failures
                .iter()
                .all(|line| matches!(line.outcome(), Outcome::Unmet(_)))
        );
        assert!(
            failures[2].to_string().contains("printed no figure 'ns'"),
            "{}",
            failures[2]
        );
        assert_eq!(results.gap(0, 0), "failed");
    }

    #[test]
    fn an_arm_has_the_environment_that_it_was_given() {
        let results = results(vec![
            Arm::present("one", shell("echo ns $AMOUNT")).with("AMOUNT", "7"),
        ]);
        assert_eq!(results.mean(0, 0, "ns"), Some(7.0));
        let missing = Arm::missing("none", "get it").with("AMOUNT", "7");
        assert_eq!(missing.start.err(), Some("get it".to_string()));
    }

    #[test]
    fn steps_go_up_to_the_largest_number_and_end_there() {
        let steps = |largest| steps_up_to(&[1_000, 10_000, 100_000], largest);
        assert_eq!(steps(100_000), [1_000, 10_000, 100_000]);
        assert_eq!(steps(50_000), [1_000, 10_000, 50_000]);
        assert_eq!(steps(7), [7]);
    }

    #[test]
    fn an_arm_runs_only_in_the_cases_it_has() {
        let results = results(vec![
            Arm::present("one", shell("echo ns $1")).only(&["long"]),
        ]);
        assert_eq!(
            (results.rounds(0, 0).len(), results.rounds(0, 1).len()),
            (0, 2)
        );
        assert_eq!((results.gap(0, 0), results.failures().len()), ("-", 0));
    }
}
