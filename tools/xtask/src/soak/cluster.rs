//! `cargo xtask soak cluster`: jobs over a NATS server, while the server and the programs that do
//! the jobs are killed. It is the interpreter's test `cluster_robustness`, for longer.

use crate::Outcome;
use crate::cargo::{Steps, cargo};
use crate::readers;

/// How many jobs a round has, and for how many seconds rounds begin.
#[derive(Debug, PartialEq, Eq)]
struct Rounds {
    seconds: u32,
    jobs: u32,
}

const DEFAULT: Rounds = Rounds {
    seconds: 600,
    jobs: 20_000,
};

pub(super) fn run(arguments: &[String]) -> Outcome {
    let extent = Rounds::parse(arguments)?;
    readers::NATS.install_in_target()?;
    let mut steps = Steps::of("soak");
    let mut test = cargo(&[
        "test",
        "-p",
        "baton",
        "--test",
        "cluster_robustness",
        "--",
        "no_job_is_lost",
        "--nocapture",
    ]);
    test.env("CI", "true")
        .env("BATON_SOAK_SECONDS", extent.seconds.to_string())
        .env("BATON_SOAK_JOBS", extent.jobs.to_string());
    steps.run("jobs while workers and the server are killed", &mut test);
    steps.finish()
}

impl Rounds {
    fn parse(arguments: &[String]) -> Result<Rounds, String> {
        let mut extent = DEFAULT;
        for pair in arguments.chunks(2) {
            let number = pair.get(1).and_then(|given| given.parse().ok());
            match (pair[0].as_str(), number) {
                ("--seconds", Some(number)) if number > 0 => extent.seconds = number,
                ("--jobs", Some(number)) if number > 0 => extent.jobs = number,
                _ => {
                    return Err(format!(
                        "soak cluster: '--seconds N' and '--jobs N' with a number of at least 1 \
                         expected, got '{}'",
                        pair.join(" ")
                    ));
                }
            }
        }
        Ok(extent)
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    fn parse(line: &str) -> Result<Rounds, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Rounds::parse(&words)
    }

    #[test]
    fn both_options_may_be_given_or_left_out() {
        assert_eq!(parse(""), Ok(DEFAULT));
        let (seconds, jobs) = (5, 70);
        assert_eq!(parse("--jobs 70 --seconds 5"), Ok(Rounds { seconds, jobs }));
        assert_eq!(parse("--jobs 70").map(|extent| extent.seconds), Ok(600));
    }

    #[test]
    fn a_wrong_option_is_named() {
        for line in ["--jobs", "--jobs 0", "--job 7", "7"] {
            let error = parse(line).expect_err("it is wrong");
            assert!(error.contains(line), "{error}");
        }
    }
}
