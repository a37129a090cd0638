//! Decisions as text, for command lines.
//!
//! `p2@57=3` means that process 2 is preempted at its step 57, and that process 3 runs next. `o` is
//! for an order, `s` for a select. A second decision at the same step has a number: `o2@57.1=3`.
//! Commas separate decisions.

use super::{DecisionKind, Point, RunDecision};
use std::fmt;
use std::str::FromStr;

/// A text that is no decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotationError;

impl fmt::Display for NotationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a decision is written like p2@57=3, o2@57.1=3 or s2@57=1")
    }
}

impl std::error::Error for NotationError {}

impl DecisionKind {
    fn letter(self) -> char {
        match self {
            DecisionKind::Preempt => 'p',
            DecisionKind::Order => 'o',
            DecisionKind::Select => 's',
        }
    }
}

impl fmt::Display for RunDecision {
    /// ```
    /// use baton_core::recording::RunDecision;
    /// let decision: RunDecision = "o2@57.1=3".parse()?;
    /// assert_eq!((decision.point.process, decision.point.step, decision.value), (2, 57, 3));
    /// assert_eq!(decision.to_string(), "o2@57.1=3");
    /// # Ok::<(), baton_core::recording::NotationError>(())
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Point {
            process,
            step,
            again,
        } = self.point;
        write!(f, "{}{process}@{step}", self.kind.letter())?;
        if again != 0 {
            write!(f, ".{again}")?;
        }
        write!(f, "={}", self.value)
    }
}

impl FromStr for RunDecision {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<RunDecision, NotationError> {
        parse(text).ok_or(NotationError)
    }
}

fn parse(text: &str) -> Option<RunDecision> {
    let kinds = [
        DecisionKind::Preempt,
        DecisionKind::Order,
        DecisionKind::Select,
    ];
    let letter = text.chars().next()?;
    let kind = kinds.into_iter().find(|kind| kind.letter() == letter)?;
    let (process, rest) = text[1..].split_once('@')?;
    let (place, value) = rest.split_once('=')?;
    let (step, again) = match place.split_once('.') {
        Some((step, again)) => (step, number(again)?),
        None => (place, 0),
    };
    let point = Point {
        process: number(process)?,
        step: number(step)?,
        again,
    };
    Some(RunDecision {
        point,
        kind,
        value: number(value)?,
    })
}

/// Unlike `parse`, accepts digits only.
fn number<N: FromStr>(text: &str) -> Option<N> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read() {
        for text in [
            "p1@0=2",
            "o4294967295@18446744073709551615.65535=1",
            "s3@7=720719",
        ] {
            assert_eq!(
                text.parse::<RunDecision>().map(|d| d.to_string()),
                Ok(text.into())
            );
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "p",
            "x1@2=3",
            "p1@2",
            "p1=2",
            "p@2=3",
            "p1@=3",
            "p1@2=",
            "p1@2.=3",
            "p-1@2=3",
            "p+1@2=3",
            "p1@2=3,",
            "p1@2=4294967296",
            "p1@2.65536=3",
            "p1@2=3 ",
            "ö1@2=3",
        ] {
            assert_eq!(text.parse::<RunDecision>(), Err(NotationError), "{text}");
        }
    }
}
