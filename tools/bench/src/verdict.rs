//! What an experiment concludes: one line per goal.

use std::fmt;

use serde_json::{Value, json};

/// How a goal came out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The figure keeps to the goal.
    Met,
    /// The figure does not keep to the goal.
    Missed,
    /// There is no figure, for this reason.
    Unmet(String),
}

/// A goal, what was measured against it, and the outcome.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    goal: String,
    measured: Option<f64>,
    digits: usize,
    unit: &'static str,
    outcome: Outcome,
}

impl Verdict {
    /// A goal of the form "`what` is at most `limit`". A figure that is missing makes it unmet.
    pub(crate) fn at_most(
        what: &str,
        measured: Option<f64>,
        limit: f64,
        digits: usize,
        unit: &'static str,
    ) -> Self {
        Self {
            goal: format!("{what} <= {limit}{unit}"),
            measured,
            digits,
            unit,
            outcome: match measured {
                Some(figure) if figure <= limit => Outcome::Met,
                Some(_) => Outcome::Missed,
                None => Outcome::Unmet("nothing was measured".to_string()),
            },
        }
    }

    /// A goal that holds or does not.
    pub(crate) fn holds(what: &str, holds: bool) -> Self {
        Self {
            goal: what.to_string(),
            measured: None,
            digits: 0,
            unit: "",
            outcome: if holds { Outcome::Met } else { Outcome::Missed },
        }
    }

    /// A goal that could not be tried.
    pub(crate) fn unmet(what: &str, reason: impl Into<String>) -> Self {
        Self {
            goal: what.to_string(),
            measured: None,
            digits: 0,
            unit: "",
            outcome: Outcome::Unmet(reason.into()),
        }
    }

    /// How the goal came out.
    pub(crate) fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// The verdict for the JSON report.
    pub(crate) fn to_json(&self) -> Value {
        let (outcome, reason) = match &self.outcome {
            Outcome::Met => ("met", None),
            Outcome::Missed => ("missed", None),
            Outcome::Unmet(reason) => ("unmet", Some(reason)),
        };
        json!({"goal": self.goal, "measured": self.measured, "outcome": outcome, "reason": reason})
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.outcome {
            Outcome::Met => "met   ",
            Outcome::Missed => "MISSED",
            Outcome::Unmet(_) => "UNMET ",
        };
        write!(f, "{word}  {}", self.goal)?;
        if let Some(figure) = self.measured {
            write!(f, "  (measured {figure:.*}{})", self.digits, self.unit)?;
        }
        if let Outcome::Unmet(reason) = &self.outcome {
            write!(f, "  ({reason})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_kept_by_the_figure_that_equals_it() {
        assert_eq!(
            *Verdict::at_most("mean", Some(1.05), 1.05, 2, "").outcome(),
            Outcome::Met
        );
        assert_eq!(
            *Verdict::at_most("mean", Some(1.06), 1.05, 2, "").outcome(),
            Outcome::Missed
        );
    }

    #[test]
    fn a_figure_that_is_missing_or_not_a_number_never_meets_a_goal() {
        assert!(matches!(
            Verdict::at_most("mean", None, 1.0, 2, "").outcome(),
            Outcome::Unmet(_)
        ));
        assert_eq!(
            *Verdict::at_most("mean", Some(f64::NAN), 1.0, 2, "").outcome(),
            Outcome::Missed
        );
    }

    #[test]
    fn a_line_names_goal_and_figure() {
        let line = Verdict::at_most("worst program", Some(1.25), 1.2, 3, "").to_string();
        assert_eq!(line, "MISSED  worst program <= 1.2  (measured 1.250)");
        let line = Verdict::unmet("against Debian", "no lua5.4 here").to_string();
        assert_eq!(line, "UNMET   against Debian  (no lua5.4 here)");
    }
}
