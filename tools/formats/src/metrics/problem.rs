//! What is wrong with a metric.

use std::error::Error;
use std::fmt;

use crate::text::visible;

/// Why a metric cannot be written. The texts name it, or the label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricProblem {
    /// This is no name for a metric or a unit.
    Name(String),
    /// This is no name for a label.
    Label(String),
    /// The metric has the name of another, or two values for the same labels.
    Repeated(String),
    /// The metric takes another kind of value.
    Kind(String),
    /// A counter is negative or not a number.
    Counter(String),
    /// The numbers of a histogram do not fit each other.
    Buckets(String),
}

impl fmt::Display for MetricProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(
                out,
                "expected a name of letters, digits and '_', without an end such as '_total', \
                 got '{}'",
                visible(name)
            ),
            Self::Label(name) => write!(
                out,
                "expected a label's name of letters, digits and '_', neither '__...' nor a \
                 histogram's 'le', got '{}'",
                visible(name)
            ),
            Self::Repeated(name) => write!(
                out,
                "'{name}' is given twice; each name and each set of labels may come once"
            ),
            Self::Kind(name) => write!(
                out,
                "'{name}' got a value of another kind; histograms take histograms, others numbers"
            ),
            Self::Counter(name) => {
                write!(
                    out,
                    "the counter '{name}' must be a number that is not negative"
                )
            }
            Self::Buckets(name) => write!(
                out,
                "expected for '{name}' ascending bounds, and one count more than bounds"
            ),
        }
    }
}

impl Error for MetricProblem {}
