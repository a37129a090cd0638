//! Programs that wait, and what they use meanwhile.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use indicatif::ProgressBar;

use super::energy::Energy;
use super::usage::{self, Look, Watch};
use crate::child::{self, Owned};
use crate::contest::{Arm, Case};

/// What a program says when it has nothing left to do but wait.
const READY: &str = "ready";

/// How long from look to look: a thread that ends is counted as the last one saw it. Reading what the kernel has counted wakes nobody.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long programs may take to say so, all of one case together.
const START_LIMIT: Duration = Duration::from_secs(180);

/// For how long to wait.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) settle: Duration,
    pub(super) between_looks: Duration,
}

/// What one program used.
#[derive(Debug)]
pub(super) struct Used {
    pub(super) threads: Look,
    /// Seconds between the first look and the last.
    pub(super) seconds: f64,
    /// Joules of the whole machine, where they are counted and nothing else ran.
    pub(super) joules: Option<f64>,
}

impl Used {
    /// Wake-ups per second, of all threads.
    pub(super) fn wakeups(&self) -> f64 {
        self.threads.values().map(|used| used.voluntary).sum::<u64>() as f64 / self.seconds
    }

    /// CPU time as a percentage of one processor, of all threads.
    pub(super) fn cpu_percent(&self) -> f64 {
        self.threads.values().map(|used| used.nanoseconds).sum::<u64>() as f64 / 1e7 / self.seconds
    }
}

/// An arm and a case, by number.
pub(super) type Place = (usize, usize);

/// A program that was started, with the places of its arm and its case.
struct Started {
    place: Place,
    program: Owned,
    errors: Option<thread::JoinHandle<std::io::Result<Vec<u8>>>>,
}

/// Starts one program for each place, and measures them all at the same time. One that fails has its failure in the place of its usage.
pub(super) fn measure(
    arms: &[Arm],
    cases: &[Case],
    places: &[Place],
    times: Times,
    energy: Option<&Energy>,
    bar: &ProgressBar,
) -> Vec<(Place, Result<Used>)> {
    let mut done = Vec::new();
    let mut waiting = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let of_case: Vec<Place> = places.iter().copied().filter(|place| place.1 == number).collect();
        bar.set_message(format!("starting: {}", case.title));
        for (place, outcome) in start_all(arms, case, &of_case) {
            match outcome {
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
        .map(|started| (Instant::now(), started.look().map(Watch::from)))
        .collect();
    let first_energy = energy.and_then(Energy::read);
    look_in_between(&waiting, &mut watches, Instant::now() + times.between_looks);
    let joules = (|| Some(energy?.read()?.joules_since(first_energy.as_ref()?)))();
    for (mut started, (began, watch)) in waiting.into_iter().zip(watches) {
        done.push((started.place, started.used_since(began, watch, joules)));
        bar.inc(1);
    }
    done
}

/// Looks now and then until the time for the last look has come.
fn look_in_between(waiting: &[Started], watches: &mut [(Instant, Result<Watch>)], end: Instant) {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        thread::sleep(left.min(LOOK_EVERY));
        if left <= LOOK_EVERY {
            return;
        }
        for (started, (_, watch)) in waiting.iter().zip(&mut *watches) {
            // One that has ended is found by the last look.
            if let (Ok(watch), Ok(look)) = (watch, started.look()) {
                watch.add(look);
            }
        }
    }
}

/// Starts the programs of one case, and waits until all say that they are ready.
fn start_all(arms: &[Arm], case: &Case, places: &[Place]) -> Vec<(Place, Result<Started>)> {
    let (said, hear) = mpsc::channel();
    let mut programs: Vec<(Place, Result<Started>)> = places
        .iter()
        .map(|&place| (place, start(&arms[place.0], case, place, &said)))
        .collect();
    drop(said);
    await_ready(&mut programs, &hear);
    programs
}

fn start(arm: &Arm, case: &Case, place: Place, said: &Sender<(Place, String)>) -> Result<Started> {
    let mut command = match arm.command(case) {
        Ok(command) => command,
        Err(remedy) => bail!("{remedy}"),
    };
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut program = Owned::spawn(&mut command)?;
    let output = program.inner.stdout.take();
    let errors = Some(child::drain(program.inner.stderr.take()));
    let said = said.clone();
    thread::spawn(move || {
        let mut line = String::new();
        if let Some(output) = output {
            let mut output = BufReader::new(output);
            let _ = output.read_line(&mut line);
            // Nobody listens any more when the start was given up.
            let _ = said.send((place, line));
            // Kept open until the program ends, which may say more.
            let _ = output.read_to_end(&mut Vec::new());
        }
    });
    Ok(Started { place, program, errors })
}

fn await_ready(programs: &mut [(Place, Result<Started>)], hear: &Receiver<(Place, String)>) {
    let limit = Instant::now() + START_LIMIT;
    let mut silent: Vec<Place> = programs
        .iter()
        .filter(|program| program.1.is_ok())
        .map(|program| program.0)
        .collect();
    while !silent.is_empty() {
        let heard = hear.recv_timeout(limit.saturating_duration_since(Instant::now()));
        let failed: Vec<(Place, String)> = match heard {
            Ok((place, line)) => {
                silent.retain(|&other| other != place);
                let is_ready = line.trim() == READY;
                (!is_ready).then_some((place, line)).into_iter().collect()
            }
            Err(_) => std::mem::take(&mut silent)
                .into_iter()
                .map(|place| (place, format!("nothing within {START_LIMIT:?}")))
                .collect(),
        };
        for (place, line) in failed {
            if let Some((_, outcome)) = programs.iter_mut().find(|program| program.0 == place)
                && let Ok(started) = outcome
            {
                *outcome = Err(started.failure(&format!("it said {:?} where 'ready' was expected", line.trim())));
            }
        }
    }
}

impl Started {
    fn look(&self) -> Result<Look> {
        usage::look(&PathBuf::from(format!("/proc/{}/task", self.program.inner.id())))
    }

    fn used_since(&mut self, began: Instant, watch: Result<Watch>, joules: Option<f64>) -> Result<Used> {
        let last = self.look();
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
            _ => Err(self.failure("it ended before the last look")),
        }
    }

    /// Ends the program; the error quotes what it complained of.
    fn failure(&mut self, what: &str) -> anyhow::Error {
        // It may have ended by itself.
        let _ = self.program.inner.kill();
        let errors = self.errors.take().map(child::collect);
        let complaint = errors.and_then(Result::ok).unwrap_or_default();
        anyhow::anyhow!("{what}\n{}", complaint.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const TIMES: Times = Times {
        settle: Duration::from_millis(1),
        between_looks: Duration::from_millis(200),
    };

    fn shell(name: &'static str, script: &'static str) -> Arm {
        Arm::present(name, move || {
            let mut command = Command::new("sh");
            command.args(["-c", script, "sh"]);
            command
        })
    }

    fn measured(arms: &[Arm]) -> Vec<Result<Used>> {
        let case = Case {
            name: "nothing".to_string(),
            title: "nothing".to_string(),
            arguments: vec!["nothing".to_string()],
        };
        let places: Vec<Place> = (0..arms.len()).map(|arm| (arm, 0)).collect();
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
        assert_eq!(used[0].wakeups(), 0.0, "{:?}", used[0]);
        assert!(used[1].cpu_percent() > 1.0, "{:?}", used[1]);
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
        assert!(errors[1].contains("ended before the last look"), "{errors:?}");
        assert_eq!(errors[2], "get it");
    }
}
