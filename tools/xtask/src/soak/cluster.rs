//! `cargo xtask soak cluster`: jobs over a NATS server, while the server and the programs that do
//! the jobs are killed, and ten seconds without an answer. It is the interpreter's test
//! `cluster_robustness`, with more jobs.

use crate::Outcome;
use crate::cargo::{Steps, cargo};
use crate::readers;

const DEFAULT_JOBS: u32 = 100_000;

/// The milliseconds after which the next worker is killed.
const INTERVAL: &str = "1000";

pub(super) fn run(arguments: &[String]) -> Outcome {
    let jobs = parse(arguments)?;
    readers::NATS.install_in_target()?;
    let mut steps = Steps::of("soak");
    let mut test = cargo(&[
        "test",
        "--release",
        "-p",
        "baton",
        "--test",
        "cluster_robustness",
        "--",
        "--nocapture",
        "--test-threads=1",
    ]);
    test.env("CI", "true")
        .env("BATON_SOAK_JOBS", jobs.to_string())
        .env("BATON_SOAK_INTERVAL", INTERVAL);
    steps.run(
        "jobs while workers and the server are killed, and a silent server",
        &mut test,
    );
    steps.finish()
}

/// The number of jobs.
fn parse(arguments: &[String]) -> Result<u32, String> {
    let number = |given: &String| given.parse().ok().filter(|&jobs| jobs > 0);
    match arguments {
        [] => Some(DEFAULT_JOBS),
        [option, given] if option == "--jobs" => number(given),
        _ => None,
    }
    .ok_or_else(|| {
        format!(
            "soak cluster: '--jobs N' with a number of at least 1 expected, got '{}'",
            arguments.join(" ")
        )
    })
}

#[cfg(test)]
mod checks {
    use super::*;

    fn parsed(line: &str) -> Result<u32, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn the_number_of_jobs_may_be_given_or_left_out() {
        assert_eq!(
            (parsed(""), parsed("--jobs 70")),
            (Ok(DEFAULT_JOBS), Ok(70))
        );
    }

    #[test]
    fn a_wrong_option_is_named() {
        for line in ["--jobs", "--jobs 0", "--job 7", "7", "--jobs 1 2"] {
            let error = parsed(line).expect_err("it is wrong");
            assert!(error.contains(line), "{error}");
        }
    }
}
