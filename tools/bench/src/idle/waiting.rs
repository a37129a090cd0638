//! Starts programs that wait, and measures what they use.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use indicatif::ProgressBar;

use super::energy::Energy;
use crate::child::{self, Drained, Figures, Owned};
use crate::contest::{Arm, Case};
use crate::usage::{self, Snapshot, ThreadUsage, Watch};

/// The word that a program prints when it only has to wait.
const READY: &str = "ready";

/// The interval between snapshots. A thread that ends counts as the last snapshot saw it. Reading
/// the kernel's counters wakes no process.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(1);

/// The time limit for the programs of one case to become ready.
const START_LIMIT: Duration = Duration::from_secs(180);

/// The times of the first snapshot and of the last.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) settle: Duration,
    pub(super) between_snapshots: Duration,
}

/// The usage of one program.
#[derive(Debug)]
pub(super) struct Used {
    pub(super) threads: Snapshot,
    /// Seconds between the first snapshot and the last.
    pub(super) seconds: f64,
    /// Joules of the whole machine, if it counts them and nothing else ran.
    pub(super) joules: Option<f64>,
}

impl Used {
    /// The figures: wake-ups per second and CPU time of all threads, the latter as a percentage of
    /// one processor, and watts of the whole machine.
    pub(super) fn figures(&self) -> Figures {
        let all: ThreadUsage = self.threads.values().copied().sum();
        let each_second =
            |(name, count): (&str, f64)| (name.to_string(), vec![count / self.seconds]);
        let counted = [
            ("wakeups", all.voluntary as f64),
            ("cpu_percent", all.nanoseconds as f64 / 1e7),
        ];
        let energy = self.joules.map(|joules| ("watts", joules));
        counted.into_iter().chain(energy).map(each_second).collect()
    }
}

/// The indices of an arm and a case.
pub(super) type ArmAndCase = (usize, usize);

/// A running program, with the indices of its arm and its case.
struct Started {
    place: ArmAndCase,
    program: Owned,
    lines: Receiver<String>,
    errors: Option<Drained>,
}

/// Starts one program for each place, and measures all of them at the same time. A program that
/// fails has its error instead of its usage.
pub(super) fn measure(
    arms: &[Arm],
    cases: &[Case],
    places: &[ArmAndCase],
    times: Times,
    energy: Option<&Energy>,
    bar: &ProgressBar,
) -> Vec<(ArmAndCase, Result<Used>)> {
    let mut done = Vec::new();
    let mut waiting = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let of_case: Vec<ArmAndCase> = places
            .iter()
            .copied()
            .filter(|place| place.1 == number)
            .collect();
        bar.set_message(format!("starting: {}", case.title));
        let start = |place: ArmAndCase| (place, start(&arms[place.0], case, place));
        let started: Vec<_> = of_case.into_iter().map(start).collect();
        let limit = Instant::now() + START_LIMIT;
        for (place, outcome) in started {
            match outcome.and_then(|started| started.await_ready(limit)) {
                Ok(started) => waiting.push(started),
                Err(error) => done.push((place, Err(error))),
            }
        }
    }
    bar.set_message("settling");
    thread::sleep(times.settle);
    bar.set_message("waiting");
    let mut watches: Vec<_> = waiting
        .iter()
        .map(|started| (Instant::now(), started.snapshot().map(Watch::from)))
        .collect();
    let first_energy = energy.and_then(Energy::read);
    take_snapshots_in_between(
        &waiting,
        &mut watches,
        Instant::now() + times.between_snapshots,
    );
    let joules = (|| Some(energy?.read()?.joules_since(first_energy.as_ref()?)))();
    for (mut started, (began, watch)) in waiting.into_iter().zip(watches) {
        done.push((started.place, started.used_since(began, watch, joules)));
        bar.inc(1);
    }
    done
}

/// Takes snapshots until it is time for the last one.
fn take_snapshots_in_between(
    waiting: &[Started],
    watches: &mut [(Instant, Result<Watch>)],
    end: Instant,
) {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        thread::sleep(left.min(SNAPSHOT_EVERY));
        if left <= SNAPSHOT_EVERY {
            return;
        }
        for (started, (_, watch)) in waiting.iter().zip(&mut *watches) {
            // A program that has ended is detected by the last snapshot.
            if let (Ok(watch), Ok(snapshot)) = (watch, started.snapshot()) {
                watch.add(snapshot);
            }
        }
    }
}

fn start(arm: &Arm, case: &Case, place: ArmAndCase) -> Result<Started> {
    let mut command = arm.command(case).map_err(|remedy| anyhow!("{remedy}"))?;
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut program = Owned::spawn(&mut command)?;
    let output = program.inner.stdout.take();
    Ok(Started {
        place,
        lines: child::lines(output.context("it has no standard output")?),
        errors: Some(child::drain(program.inner.stderr.take())),
        program,
    })
}

impl Started {
    /// Waits until the program says that it only waits.
    fn await_ready(mut self, limit: Instant) -> Result<Self> {
        let left = limit.saturating_duration_since(Instant::now());
        let line = match self.lines.recv_timeout(left) {
            Ok(line) if line.trim() == READY => return Ok(self),
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => format!("nothing within {START_LIMIT:?}"),
            Err(_) => String::new(),
        };
        let what = format!("it said {:?} where 'ready' was expected", line.trim());
        Err(self.failure(&what))
    }

    fn snapshot(&self) -> Result<Snapshot> {
        usage::snapshot(&PathBuf::from(format!(
            "/proc/{}/task",
            self.program.inner.id()
        )))
    }

    fn used_since(
        &mut self,
        began: Instant,
        watch: Result<Watch>,
        joules: Option<f64>,
    ) -> Result<Used> {
        let last = self.snapshot();
        let seconds = began.elapsed().as_secs_f64();
        let is_alive = self.program.inner.try_wait()?.is_none();
        match (watch, last) {
            (Ok(mut watch), Ok(last)) if is_alive => {
                watch.add(last);
                Ok(Used {
                    threads: watch.used(),
                    seconds,
                    joules,
                })
            }
            _ => Err(self.failure("it ended before the last snapshot")),
        }
    }

    /// Ends the program. The error quotes its standard error.
    fn failure(&mut self, what: &str) -> anyhow::Error {
        // The program may already have ended.
        let _ = self.program.inner.kill();
        let errors = self.errors.take().map(child::collect);
        let complaint = errors.and_then(Result::ok).unwrap_or_default();
        anyhow!("{what}\n{}", complaint.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const TIMES: Times = Times {
        settle: Duration::from_millis(1),
        between_snapshots: Duration::from_millis(200),
    };

    fn shell(name: &'static str, script: &'static str) -> Arm {
        Arm::present(name, move || {
            let mut command = Command::new("sh");
            command.args(["-c", script, "sh"]);
            command
        })
    }

    fn measured(arms: &[Arm]) -> Vec<Result<Used>> {
        let case = Case::new("nothing", "nothing", &[&"nothing"]);
        let places: Vec<ArmAndCase> = (0..arms.len()).map(|arm| (arm, 0)).collect();
        let mut done = measure(arms, &[case], &places, TIMES, None, &ProgressBar::hidden());
        done.sort_by_key(|one| one.0);
        done.into_iter().map(|one| one.1).collect()
    }

    #[test]
    fn a_program_that_waits_uses_nothing_and_one_that_computes_uses_the_processor() {
        let arms = [
            shell("waits", "echo ready; read -r never"),
            shell("computes", "echo ready; while :; do :; done"),
        ];
        let used: Vec<Used> = measured(&arms).into_iter().map(Result::unwrap).collect();
        let figure = |arm: usize, name| used[arm].figures()[name][0];
        assert_eq!(figure(0, "wakeups"), 0.0, "{:?}", used[0]);
        assert!(figure(1, "cpu_percent") > 1.0, "{:?}", used[1]);
        assert!(used[0].seconds >= 0.2);
    }

    #[test]
    fn programs_that_fail_are_errors_that_quote_them() {
        let arms = [
            shell("broken", "echo no >&2; exit 1"),
            shell("leaves", "echo ready; echo bye >&2; exit 0"),
            Arm::missing("absent", "get it"),
        ];
        let errors: Vec<String> = measured(&arms)
            .into_iter()
            .map(|outcome| outcome.unwrap_err().to_string())
            .collect();
        assert!(
            errors[0].contains("'ready' was expected") && errors[0].ends_with("no"),
            "{errors:?}"
        );
        assert!(
            errors[1].contains("ended before the last snapshot"),
            "{errors:?}"
        );
        assert_eq!(errors[2], "get it");
    }
}
