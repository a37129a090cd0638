//! How a run failed, to tell whether another run fails in the same way.

use super::ended::{Ending, Run};

/// A failure. Two are equal if they are the same fault, as far as one can tell: the programs ended
/// in the same way, and with the same message. Addresses and numbers in the message may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) ending: Ending,
    message: String,
}

/// Begins the last line of a run that failed, which every such run has.
const REPEATS: &str = "baton: the simulated run failed ";

/// Begins the report of a deadlock.
const DEADLOCK: &str = "baton: deadlock: ";

impl Failure {
    /// `None` if the run has succeeded.
    pub(super) fn of(run: &Run) -> Option<Failure> {
        let message = match run.ending {
            Ending::Exited(0) => return None,
            // What it had written by then depends on the machine.
            Ending::TookTooLong | Ending::NotNeeded => String::new(),
            Ending::Exited(_) | Ending::Signalled(_) => {
                message_in(&String::from_utf8_lossy(&run.stderr))
            }
        };
        Some(Failure {
            ending: run.ending,
            message,
        })
    }
}

/// The last message, without its traceback and its numbers.
fn message_in(stderr: &str) -> String {
    let is_message = |line: &&str| {
        let is_trace = line.starts_with('\t') || *line == "stack traceback:";
        !is_trace && !line.is_empty() && !line.starts_with(REPEATS)
    };
    let deadlock = stderr.lines().find(|line| line.starts_with(DEADLOCK));
    let last = || stderr.lines().rfind(is_message);
    without_numbers(deadlock.or_else(last).unwrap_or_default())
}

/// Replaces numbers by `#`, except lines of sources: those between colons.
fn without_numbers(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, number) = rest.split_at(start);
        result.push_str(before);
        let is_hex = number.starts_with("0x");
        let belongs =
            |c: char| c.is_ascii_digit() || (is_hex && (c.is_ascii_hexdigit() || c == 'x'));
        let end = number.find(|c| !belongs(c)).unwrap_or(number.len());
        let is_line = result.ends_with(':') && number[end..].starts_with(':');
        result.push_str(if is_line { &number[..end] } else { "#" });
        rest = &number[end..];
    }
    result + rest
}

#[cfg(test)]
mod checks {
    use super::*;
    use std::time::Duration;

    fn failure(ending: Ending, stderr: &str) -> Option<Failure> {
        Failure::of(&Run {
            ending,
            stdout: Vec::new(),
            stderr: stderr.into(),
            took: Duration::ZERO,
        })
    }

    #[test]
    fn the_message_counts_and_the_traceback_does_not() {
        let one = "baton: a.lua:3: lost\nstack traceback:\n\t[C]: in ?\n\
                   baton: the simulated run failed (status 1); --simulate 3 repeats it\n";
        let other = "warning\nbaton: a.lua:3: lost\nstack traceback:\n\ta.lua:3: in f\n";
        let of = |text| failure(Ending::Exited(1), text);
        assert_eq!(of(one), of(other));
        assert_ne!(of(one), of("baton: a.lua:4: lost\n"));
        assert_ne!(of(one), failure(Ending::Exited(2), one));
    }

    #[test]
    fn a_deadlock_is_a_deadlock_whatever_waits() {
        let one = "baton: deadlock: no process can ever run again\nprocess 1: waiting\n";
        let other = "x\nbaton: deadlock: no process can ever run again\nprocess 7: sleeping\n";
        let of = |text| failure(Ending::Exited(1), text);
        assert_eq!(of(one), of(other));
    }

    #[test]
    fn a_run_that_took_too_long_has_no_message() {
        assert_eq!(
            failure(Ending::TookTooLong, "half a li"),
            failure(Ending::TookTooLong, "")
        );
        assert_eq!(failure(Ending::Exited(0), "a warning"), None);
    }

    #[test]
    fn numbers_are_left_out_but_for_lines() {
        assert_eq!(
            without_numbers("x1.lua:17: got 19.5, not 0x7fab (table: 0x12) in process 3"),
            "x#.lua:17: got #.#, not # (table: #) in process #"
        );
        assert_eq!(without_numbers("größe 5"), "größe #");
        assert_eq!(without_numbers(""), "");
    }
}
