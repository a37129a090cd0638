//! Metrics: counters, gauges and histograms, as text for Prometheus or as OpenMetrics text.
//!
//! Fill families with points, add them to [`Metrics`], and take the [text](Metrics::text). Families
//! can also be sent as data.

mod exposition;
mod number;
mod problem;

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

pub use problem::MetricProblem;

/// A number that a metric has. As data, one that is not finite is the text "NaN", "+Inf" or "-Inf".
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A number from 0.
    Natural(u64),
    /// A whole number.
    Whole(i64),
    /// Any number.
    Real(f64),
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self::Natural(number)
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        Self::Whole(number)
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

/// How often something was how large.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// The upper bounds of the buckets, each larger than the one before it. The last bucket, which
    /// has no bound, is not among them.
    pub bounds: Vec<f64>,
    /// How many values each bucket has, not counting those of the buckets before it. There is one
    /// more than there are bounds.
    pub counts: Vec<u64>,
    /// The sum of all values.
    #[serde(with = "number::real")]
    pub sum: f64,
}

/// What a family has for one set of labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Measured {
    Number { value: Number },
    Histogram(Histogram),
}

/// What kind of metric a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FamilyKind {
    /// A sum that only grows.
    Counter,
    /// A number that grows and shrinks.
    Gauge,
    /// Counts by size.
    Histogram,
}

/// Names and values of labels.
type LabelSet = BTreeMap<String, String>;

/// A value for a set of labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Point {
    labels: LabelSet,
    #[serde(flatten)]
    measured: Measured,
}

/// A metric: its name, and a value for each set of labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Family {
    /// With the unit, and without the `_total` of a counter.
    name: String,
    help: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    kind: FamilyKind,
    points: Vec<Point>,
    /// The sets of labels that have a value.
    #[serde(skip)]
    known: HashSet<LabelSet>,
}

impl Family {
    /// A counter, gauge or histogram without values.
    ///
    /// `name` is without its unit and without the `_total` of a counter, which are appended. The
    /// first character is a letter, `_` or `:`, and the others may be digits, too. `help` is a
    /// sentence; bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    ///
    /// The name is not one.
    pub fn new(
        kind: FamilyKind,
        name: &str,
        help: impl AsRef<[u8]>,
    ) -> Result<Self, MetricProblem> {
        const RESERVED: [&str; 5] = ["_total", "_created", "_count", "_sum", "_bucket"];
        if !is_name(name, ":") || RESERVED.iter().any(|end| name.ends_with(end)) {
            return Err(MetricProblem::Name(name.to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            help: crate::text::lossy(help),
            unit: None,
            kind,
            points: Vec::new(),
            known: HashSet::new(),
        })
    }

    /// The same family with a unit, which is appended to its name: `seconds`, `bytes`.
    ///
    /// # Errors
    ///
    /// The unit could not be a part of a name.
    pub fn in_unit(mut self, unit: &str) -> Result<Self, MetricProblem> {
        if !is_name(unit, "") {
            return Err(MetricProblem::Name(unit.to_owned()));
        }
        self.name = format!("{}_{unit}", self.name);
        self.unit = Some(unit.to_owned());
        Ok(self)
    }

    /// Adds the value of a counter or gauge for a set of labels. Bytes of labels that are not UTF-8
    /// become U+FFFD.
    ///
    /// # Errors
    ///
    /// The family is a histogram, the labels are wrong or have a value already, or it is a counter
    /// and the number is negative or none.
    pub fn add(
        &mut self,
        labels: &[(&str, &[u8])],
        number: impl Into<Number>,
    ) -> Result<(), MetricProblem> {
        let number = number.into();
        if self.kind == FamilyKind::Histogram {
            return Err(MetricProblem::Kind(self.name.clone()));
        }
        let is_count = match number {
            Number::Natural(_) => true,
            Number::Whole(number) => number >= 0,
            Number::Real(number) => number >= 0.0,
        };
        if self.kind == FamilyKind::Counter && !is_count {
            return Err(MetricProblem::Counter(self.name.clone()));
        }
        self.add_point(labels, Measured::Number { value: number })
    }

    /// Adds a histogram for a set of labels. Bytes of labels that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    ///
    /// The family is not a histogram, the labels are wrong or have a value already, or the numbers
    /// of the histogram do not fit each other.
    pub fn add_histogram(
        &mut self,
        labels: &[(&str, &[u8])],
        histogram: Histogram,
    ) -> Result<(), MetricProblem> {
        if self.kind != FamilyKind::Histogram {
            return Err(MetricProblem::Kind(self.name.clone()));
        }
        let Histogram { bounds, counts, .. } = &histogram;
        let is_ascending = bounds.windows(2).all(|pair| pair[0] < pair[1]);
        let is_finite = bounds.iter().all(|bound| bound.is_finite());
        if !is_ascending || !is_finite || counts.len() != bounds.len() + 1 {
            return Err(MetricProblem::Buckets(self.name.clone()));
        }
        self.add_point(labels, Measured::Histogram(histogram))
    }

    fn add_point(
        &mut self,
        labels: &[(&str, &[u8])],
        measured: Measured,
    ) -> Result<(), MetricProblem> {
        let mut set = LabelSet::new();
        for &(name, value) in labels {
            check_label(self.kind, name)?;
            if set
                .insert(name.to_owned(), crate::text::lossy(value))
                .is_some()
            {
                return Err(MetricProblem::Repeated(self.name.clone()));
            }
        }
        if !self.known.insert(set.clone()) {
            return Err(MetricProblem::Repeated(self.name.clone()));
        }
        self.points.push(Point {
            labels: set,
            measured,
        });
        Ok(())
    }

    /// Its name: with the unit, and without the `_total` of a counter.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Checks the name of a label of a metric of this kind.
///
/// # Errors
///
/// It is none: other characters than letters, digits and `_`, a digit at first, `__` at first, or a
/// histogram's `le`.
pub fn check_label(kind: FamilyKind, name: &str) -> Result<(), MetricProblem> {
    let is_reserved = name == "le" && kind == FamilyKind::Histogram;
    match !is_name(name, "") || name.starts_with("__") || is_reserved {
        true => Err(MetricProblem::Label(name.to_owned())),
        false => Ok(()),
    }
}

/// A format of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// Prometheus' own, version 0.0.4
    /// (<https://prometheus.io/docs/instrumenting/exposition_formats/>). All its relatives read it.
    Prometheus,
    /// OpenMetrics 1.0 (<https://prometheus.io/docs/specs/om/open_metrics_spec/>).
    OpenMetrics,
}

/// All metrics of a program at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    families: Vec<Family>,
}

impl Metrics {
    /// Adds a family. One without points is shown with its name only.
    ///
    /// # Errors
    ///
    /// Another family has this name.
    pub fn add(&mut self, family: Family) -> Result<(), MetricProblem> {
        if self.families.iter().any(|other| other.name == family.name) {
            return Err(MetricProblem::Repeated(family.name));
        }
        self.families.push(family);
        Ok(())
    }

    /// The metrics as text.
    #[must_use]
    pub fn text(&self, format: TextFormat) -> String {
        exposition::text(&self.families, format)
    }
}

/// Whether a text is a name: letters, digits, `_` and those of `more`, and no digit at first.
fn is_name(text: &str, more: &str) -> bool {
    let is_allowed = |character: char| {
        character.is_ascii_alphanumeric() || character == '_' || more.contains(character)
    };
    !text.is_empty()
        && !text.starts_with(|first: char| first.is_ascii_digit())
        && text.chars().all(is_allowed)
}
