//! The conclusions of an experiment: one verdict for each goal.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The outcome of a goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", content = "reason", rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// The figure is within the goal.
    Met,
    /// The figure is not within the goal.
    Missed,
    /// There is no figure, for this reason.
    Unmet(String),
}

/// The largest value that a figure may have, and the format of such figures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goal {
    limit: f64,
    digits: usize,
    unit: &'static str,
}

impl Goal {
    /// A limit in `unit`. Figures are printed with `digits` decimals.
    pub(crate) const fn at_most(limit: f64, unit: &'static str, digits: usize) -> Self {
        Self {
            limit,
            digits,
            unit,
        }
    }

    /// The limit, for charts.
    pub(crate) const fn limit(self) -> f64 {
        self.limit
    }

    /// Compares a figure with the limit. A missing figure leaves the goal unmet.
    pub(crate) fn judge(self, what: &str, measured: Option<f64>) -> Verdict {
        Verdict {
            goal: format!("{what} <= {}{}", plain(self.limit), self.unit),
            measured,
            shown: measured.map(|figure| format!("{figure:.*}{}", self.digits, self.unit)),
            outcome: match measured {
                Some(figure) if figure <= self.limit => Outcome::Met,
                Some(_) => Outcome::Missed,
                None => Outcome::Unmet("nothing was measured".to_string()),
            },
        }
    }
}

/// A goal with its figure, as a number and as text, and the outcome.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Verdict {
    goal: String,
    measured: Option<f64>,
    shown: Option<String>,
    #[serde(flatten)]
    outcome: Outcome,
}

impl Verdict {
    /// The verdict on a goal that either holds or does not.
    pub(crate) fn holds(what: &str, holds: bool) -> Self {
        Self {
            goal: what.to_string(),
            measured: None,
            shown: None,
            outcome: if holds { Outcome::Met } else { Outcome::Missed },
        }
    }

    /// The verdict on a goal that could not be tried, or whose trial failed.
    pub(crate) fn unmet(what: &str, reason: impl Into<String>) -> Self {
        Self {
            goal: what.to_string(),
            measured: None,
            shown: None,
            outcome: Outcome::Unmet(reason.into()),
        }
    }

    /// The outcome.
    pub(crate) fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// The goal with its figure, or with the reason why there is none.
    pub(crate) fn sentence(&self) -> String {
        let mut sentence = self.goal.clone();
        if let Some(figure) = &self.shown {
            sentence.push_str(&format!("  (measured {figure})"));
        }
        if let Outcome::Unmet(reason) = &self.outcome {
            sentence.push_str(&format!("  ({reason})"));
        }
        sentence
    }
}

/// Adds verdicts, except those that are already there.
pub(crate) fn add_new(verdicts: &mut Vec<Verdict>, more: impl IntoIterator<Item = Verdict>) {
    for verdict in more {
        if verdicts
            .iter()
            .all(|line| line.sentence() != verdict.sentence())
        {
            verdicts.push(verdict);
        }
    }
}

/// A limit with at most three decimals, and without zeros at the end.
fn plain(limit: f64) -> String {
    let text = format!("{limit:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.outcome {
            Outcome::Met => "met   ",
            Outcome::Missed => "MISSED",
            Outcome::Unmet(_) => "UNMET ",
        };
        write!(f, "{word}  {}", self.sentence())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATIO: Goal = Goal::at_most(1.2, "", 3);

    #[test]
    fn a_limit_is_kept_by_the_figure_that_equals_it() {
        assert_eq!(*RATIO.judge("mean", Some(1.2)).outcome(), Outcome::Met);
        assert_eq!(*RATIO.judge("mean", Some(1.21)).outcome(), Outcome::Missed);
    }

    #[test]
    fn a_figure_that_is_missing_or_not_a_number_never_meets_a_goal() {
        assert!(matches!(
            RATIO.judge("mean", None).outcome(),
            Outcome::Unmet(_)
        ));
        assert_eq!(
            *RATIO.judge("mean", Some(f64::NAN)).outcome(),
            Outcome::Missed
        );
    }

    #[test]
    fn limits_are_printed_without_needless_digits() {
        assert_eq!(plain(1.0 / 3.0), "0.333");
        assert_eq!(plain(1.20), "1.2");
        assert_eq!(plain(30.0), "30");
    }

    #[test]
    fn a_line_names_goal_and_figure() {
        let line = RATIO.judge("worst program", Some(1.25)).to_string();
        assert_eq!(line, "MISSED  worst program <= 1.2  (measured 1.250)");
        let line = Goal::at_most(9.0, " GiB", 1)
            .judge("memory", Some(7.0))
            .to_string();
        assert_eq!(line, "met     memory <= 9 GiB  (measured 7.0 GiB)");
        let line = Verdict::unmet("against Debian", "no lua5.4 here").to_string();
        assert_eq!(line, "UNMET   against Debian  (no lua5.4 here)");
    }

    #[test]
    fn a_verdict_says_in_json_how_it_came_out_and_why() {
        let missed = serde_json::to_value(RATIO.judge("mean", Some(1.5))).unwrap();
        assert_eq!(
            (&missed["outcome"], &missed["measured"]),
            (&"missed".into(), &1.5.into())
        );
        let unmet =
            serde_json::to_value(Verdict::unmet("against Debian", "no lua5.4 here")).unwrap();
        assert_eq!(
            (&unmet["outcome"], &unmet["reason"]),
            (&"unmet".into(), &"no lua5.4 here".into())
        );
        let read: Verdict = serde_json::from_value(unmet).unwrap();
        assert_eq!(
            *read.outcome(),
            Outcome::Unmet("no lua5.4 here".to_string())
        );
    }
}
