//! Counts the tests of a run from what cargo and the test programs print.

use std::fmt;
use std::io::{self, BufRead, BufReader};
use std::process::{Command, ExitStatus};

/// How many tests of a run ended how.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct TestCounts {
    pub(super) passed: usize,
    pub(super) failed: usize,
    /// Those that are marked so in the sources.
    pub(super) ignored: usize,
    /// Those that an argument left out.
    pub(super) left_out: usize,
    /// The names of those that failed.
    pub(super) failures: Vec<String>,
}

impl TestCounts {
    /// Runs a `cargo test` command, shows its output, and counts.
    pub(super) fn of(command: &mut Command) -> io::Result<(TestCounts, ExitStatus)> {
        let (output, for_stdout) = io::pipe()?;
        let for_stderr = for_stdout.try_clone()?;
        let mut child = command.stdout(for_stdout).stderr(for_stderr).spawn()?;
        // The command still has the pipe's ends, which keep it open.
        command
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        let mut counts = TestCounts::default();
        for line in BufReader::new(output).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            println!("{line}");
            counts.add(&line);
        }
        Ok((counts, child.wait()?))
    }

    /// Takes a line into account.
    fn add(&mut self, line: &str) {
        if let Some(name) = line
            .strip_prefix("test ")
            .and_then(|line| line.strip_suffix(" ... FAILED"))
        {
            self.failures.push(name.to_owned());
        }
        let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|line| line.split_once(". "))
        else {
            return;
        };
        for part in counts.split("; ") {
            let Some((count, what)) = part.split_once(' ') else {
                continue;
            };
            let sum = match what {
                "passed" => &mut self.passed,
                "failed" => &mut self.failed,
                "ignored" => &mut self.ignored,
                "filtered out" => &mut self.left_out,
                _ => continue,
            };
            *sum += count.parse::<usize>().unwrap_or(0);
        }
    }
}

impl fmt::Display for TestCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TestCounts {
            passed,
            failed,
            ignored,
            left_out,
            ..
        } = self;
        write!(f, "{passed:>7} {failed:>7} {ignored:>8} {left_out:>9}")
    }
}

/// The heads of the columns that a [`TestCounts`] prints.
pub(super) const HEADS: &str = " passed  failed  ignored  left out";

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn all_programs_of_a_run_are_counted() {
        let said = "\
     Running unittests src/lib.rs (target/debug/deps/a-1)
test here ... ok
test there::too ... FAILED
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.1s
   Doc-tests a
test result: ok. 5 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 2.00s";
        let mut counts = TestCounts::default();
        said.lines().for_each(|line| counts.add(line));
        let expected = TestCounts {
            passed: 6,
            failed: 1,
            ignored: 3,
            left_out: 2,
            failures: vec!["there::too".to_owned()],
        };
        assert_eq!(counts, expected);
        assert_eq!(counts.to_string().len(), HEADS.len());
    }

    #[test]
    fn both_streams_of_a_command_are_read_to_their_end() {
        let result = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        let script = format!("echo '{result}'; echo '{result}' >&2; exit 3");
        let (counts, status) =
            TestCounts::of(Command::new("sh").args(["-c", &script])).expect("there is a shell");
        assert_eq!((counts.passed, status.code()), (2, Some(3)));
    }
}
