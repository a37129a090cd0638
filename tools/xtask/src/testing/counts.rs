//! Counts the tests of a run from what the test programs print.

use std::fmt;
use std::ops::AddAssign;

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
    /// Counts in the output of test programs.
    pub(super) fn of(output: &str) -> TestCounts {
        let mut counts = TestCounts::default();
        output.lines().for_each(|line| counts.add(line));
        counts
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

impl AddAssign for TestCounts {
    fn add_assign(&mut self, other: TestCounts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.left_out += other.left_out;
        self.failures.extend(other.failures);
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
        let expected = TestCounts {
            passed: 6,
            failed: 1,
            ignored: 3,
            left_out: 2,
            failures: vec!["there::too".to_owned()],
        };
        assert_eq!(TestCounts::of(said), expected);
        assert_eq!(expected.to_string().len(), HEADS.len());
    }

    #[test]
    fn counts_of_two_programs_add_up() {
        let result = "test result: ok. 1 passed; 0 failed; 2 ignored; 0 measured; 4 filtered out";
        let mut sum = TestCounts::of(result);
        sum += TestCounts::of(&format!("test a ... FAILED\n{result}"));
        assert_eq!((sum.passed, sum.ignored, sum.left_out), (2, 4, 8));
        assert_eq!(sum.failures, ["a"]);
    }
}
