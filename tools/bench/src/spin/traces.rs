//! Traces of waits: five built-in ones for all policies, and those from files.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use baton_core::spin::replay::TracedWait;

/// The number of waits in each built-in trace.
const LENGTH: usize = 20_000;

/// A named list of waits, in order.
pub(super) struct Trace {
    pub(super) name: String,
    pub(super) events: Vec<TracedWait>,
}

/// The five traces. They are the same in every run.
pub(super) fn five() -> Vec<Trace> {
    let mut chance = Chance::new();
    let mut exponential = |mean: f64| {
        let waits = (0..LENGTH).map(|_| -mean * (1.0 - chance.next()).ln());
        waits.collect::<Vec<f64>>()
    };
    let (short, long) = (exponential(20.0), exponential(300.0));
    let numbered = |wait: fn(usize) -> f64| (0..LENGTH).map(wait).collect();
    vec![
        trace("exponential 20 us", short),
        trace("exponential 300 us", long),
        trace("periodic 1.9 ms", numbered(|_| 1900.0)),
        trace(
            "20 us / 10 ms alternating",
            numbered(|number| if number % 2 == 0 { 20.0 } else { 10_000.0 }),
        ),
        trace(
            "bursts of 10 us, 10 ms between",
            numbered(|number| if number % 200 == 199 { 10_000.0 } else { 10.0 }),
        ),
    ]
}

fn trace(name: &str, micros: Vec<f64>) -> Trace {
    Trace {
        name: name.to_string(),
        events: micros
            .into_iter()
            .map(|wait| TracedWait::signal(duration(wait)))
            .collect(),
    }
}

fn duration(micros: f64) -> Duration {
    Duration::from_nanos((micros * 1000.0) as u64)
}

/// An endless sequence of random numbers from 0 to 1 (xorshift64*, Vigna 2016).
pub(super) struct Chance(u64);

impl Chance {
    /// A new sequence, always with the same numbers.
    pub(super) fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    pub(super) fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Reads a trace. Each line has a wait in microseconds, and then `timer` if a deadline ended the
/// wait. Empty lines, and text after `#`, are ignored.
pub(super) fn read(file: &Path) -> Result<Trace> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut events = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words = line.split('#').next().unwrap_or(line).trim();
        if !words.is_empty() {
            events
                .push(event(words).with_context(|| format!("{}, line {number}", file.display()))?);
        }
    }
    ensure!(!events.is_empty(), "{} has no waits", file.display());
    let name = file.file_name().unwrap_or(file.as_os_str());
    Ok(Trace {
        name: name.to_string_lossy().into_owned(),
        events,
    })
}

/// The longest wait that is accepted, in microseconds. A longer one is not a wait between two
/// events of a program.
const LONGEST_MICROS: f64 = 3600.0 * 1e6;

fn event(words: &str) -> Result<TracedWait> {
    let mut words = words.split_ascii_whitespace();
    let length = words.next().unwrap_or_default();
    let micros: f64 = length
        .parse()
        .with_context(|| format!("microseconds expected, got '{length}'"))?;
    ensure!(
        (0.0..=LONGEST_MICROS).contains(&micros),
        "from 0 to {LONGEST_MICROS} microseconds expected, got {length}"
    );
    let after = duration(micros);
    match (words.next(), words.next()) {
        (None, _) => Ok(TracedWait::signal(after)),
        (Some("timer"), None) => Ok(TracedWait::timer(after)),
        (Some("timer"), Some(more)) => {
            bail!("the end of the line expected after 'timer', got '{more}'")
        }
        (Some(other), _) => bail!("'timer' or nothing expected after the length, got '{other}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_five_traces_match_their_names() {
        let traces = five();
        let mean = |trace: &Trace| {
            let sum: Duration = trace.events.iter().map(|event| event.after).sum();
            sum.as_secs_f64() * 1e6 / trace.events.len() as f64
        };
        let expected = [20.0, 300.0, 1900.0, 5010.0, 59.95];
        for (trace, expected) in traces.iter().zip(expected) {
            let mean = mean(trace);
            assert!(
                (mean / expected - 1.0).abs() < 0.02,
                "{}: {mean}",
                trace.name
            );
        }
        assert_eq!(five()[0].events, traces[0].events, "the same each time");
    }

    #[test]
    fn a_file_has_a_wait_on_each_line() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("waits");
        fs::write(&file, "# recorded\n12.5\n\n1000 timer # a frame\n").unwrap();
        let trace = read(&file).unwrap();
        let expected = [
            TracedWait::signal(Duration::from_nanos(12_500)),
            TracedWait::timer(Duration::from_millis(1)),
        ];
        assert_eq!(
            (trace.name.as_str(), trace.events.as_slice()),
            ("waits", &expected[..])
        );
    }

    #[test]
    fn a_line_that_is_no_wait_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("waits");
        for (text, expected) in [
            ("1\nsoon\n", "line 2: microseconds expected, got 'soon'"),
            (
                "-1\n",
                "line 1: from 0 to 3600000000 microseconds expected, got -1",
            ),
            ("nan\n", "expected, got nan"),
            (
                "5 clock\n",
                "'timer' or nothing expected after the length, got 'clock'",
            ),
            (
                "5 timer 6\n",
                "the end of the line expected after 'timer', got '6'",
            ),
            ("# nothing\n", "has no waits"),
        ] {
            fs::write(&file, text).unwrap();
            let error = format!("{:#}", read(&file).err().expect("it is wrong"));
            assert!(error.contains(expected), "{error}");
        }
    }
}
