//! The metrics that the program keeps itself: `inspect.counter`, `inspect.gauge` and
//! `inspect.histogram`. All VMs of the program share them, by their names.
//!
//! A metric is made once and stays. Its number is its place in a list; a place is written once, by
//! whoever has the mutex [`NEXT`]. The values of a metric have a mutex of its own, which is a leaf:
//! whoever holds it takes no other lock and does not wait. A fork's child keeps metrics and values.
//! If another thread was changing values at the fork, the child begins with none of that metric.

use crate::inside;
use baton_formats::metrics::{Family, FamilyKind, Histogram, MetricProblem, Number, check_label};
use baton_sys::forking::{Child, ForkMutex};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

/// The most metrics of a program.
const MOST_METRICS: usize = 1000;

/// The most sets of labels of one metric with a value of their own, and their number unless the
/// program says less. Later ones share one.
const MOST_SERIES: usize = 1000;

/// The value of each label of the set that they share.
const OTHERS: &[u8] = b"(others)";

/// The most labels, and the most buckets, of one metric.
const MOST_LABELS: usize = 16;
const MOST_BOUNDS: usize = 100;

static METRICS: [OnceLock<Metric>; MOST_METRICS] = [const { OnceLock::new() }; MOST_METRICS];

/// The place of the next metric.
static NEXT: ForkMutex<usize> = ForkMutex::new(0);

/// A metric. Only its values change.
struct Metric {
    kind: FamilyKind,
    name: String,
    help: String,
    labels: Vec<String>,
    bounds: Vec<f64>,
    /// How many sets of labels have a value of their own.
    most: usize,
    series: ForkMutex<HashMap<Vec<Vec<u8>>, Value>>,
}

/// The value for a set of labels.
#[derive(Clone)]
enum Value {
    /// Of a counter or gauge.
    Number(f64),
    Buckets {
        counts: Vec<u64>,
        sum: f64,
    },
}

/// What happens to a value.
#[derive(Clone, Copy)]
enum Change {
    Add(f64),
    Set(f64),
    Observe(f64),
}

impl Metric {
    /// # Errors
    /// What was expected, and what came.
    fn new(
        kind: FamilyKind,
        name: &str,
        help: &str,
        labels: Vec<String>,
        bounds: Vec<f64>,
    ) -> Result<Metric, String> {
        let text = |problem: MetricProblem| problem.to_string();
        // A counter may have its full name.
        let name = match kind {
            FamilyKind::Counter => name.strip_suffix("_total").unwrap_or(name),
            FamilyKind::Gauge | FamilyKind::Histogram => name,
        };
        Family::new(kind, name, help).map_err(text)?;
        for (place, label) in labels.iter().enumerate() {
            check_label(kind, label).map_err(text)?;
            if labels[..place].contains(label) {
                return Err(format!("the label '{label}' is given twice"));
            }
        }
        let ascends = bounds.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascends || !bounds.iter().all(|bound| bound.is_finite()) {
            return Err("'bounds' must be ascending finite numbers".to_owned());
        }
        if inside::has_metric(name) {
            return Err(format!("'{name}' is a metric of Baton; use another name"));
        }
        let series = match labels.is_empty() {
            // It is there from the beginning.
            true => HashMap::from([(Vec::new(), Value::new(kind, &bounds))]),
            false => HashMap::new(),
        };
        Ok(Metric {
            kind,
            name: name.to_owned(),
            help: help.to_owned(),
            labels,
            bounds,
            most: MOST_SERIES,
            series: ForkMutex::new(series),
        })
    }

    /// The same with fewer sets of labels.
    fn with_most(self, most: usize) -> Metric {
        Metric {
            most: most.clamp(1, MOST_SERIES),
            ..self
        }
    }

    fn is_like(&self, other: &Metric) -> bool {
        (self.kind, &self.labels, &self.bounds) == (other.kind, &other.labels, &other.bounds)
    }

    /// What messages say of it.
    fn description(&self) -> String {
        let kind = match self.kind {
            FamilyKind::Counter => "a counter",
            FamilyKind::Gauge => "a gauge",
            FamilyKind::Histogram => "a histogram",
        };
        let labels = match &self.labels[..] {
            [] => "without labels".to_owned(),
            labels => format!("with the labels {}", labels.join(", ")),
        };
        let bounds = match &self.bounds[..] {
            [] => String::new(),
            bounds => format!(" and the bounds {bounds:?}"),
        };
        format!("{kind} {labels}{bounds}")
    }

    fn check_count(&self, labels: &[&[u8]]) -> Result<(), String> {
        match labels.len() == self.labels.len() {
            true => Ok(()),
            false => Err(format!(
                "expected {} label values for {}, which is {}, got {}",
                self.labels.len(),
                self.name,
                self.description(),
                labels.len(),
            )),
        }
    }

    fn change(&self, labels: &[&[u8]], change: Change) -> Result<(), String> {
        self.check_count(labels)?;
        let is_counter = self.kind == FamilyKind::Counter;
        match change {
            Change::Add(number) if is_counter && !(number >= 0.0 && number.is_finite()) => {
                return Err(format!(
                    "a counter only grows: a finite number from 0 expected, got {number}"
                ));
            }
            Change::Observe(number) if number.is_nan() => {
                return Err("a number expected, got NaN".to_owned());
            }
            _ => {}
        }
        let mut key: Vec<Vec<u8>> = labels.iter().map(|label| label.to_vec()).collect();
        let mut series = self.series.lock();
        if series.len() >= self.most && !series.contains_key(&key) {
            key.fill(OTHERS.to_vec());
        }
        let value = series
            .entry(key)
            .or_insert_with(|| Value::new(self.kind, &self.bounds));
        value.change(change, &self.bounds);
        Ok(())
    }

    fn remove(&self, labels: &[&[u8]]) -> Result<bool, String> {
        self.check_count(labels)?;
        let key: Vec<Vec<u8>> = labels.iter().map(|label| label.to_vec()).collect();
        Ok(self.series.lock().remove(&key).is_some())
    }

    fn family(&self) -> Result<Family, MetricProblem> {
        let mut family = Family::new(self.kind, &self.name, &self.help)?;
        let mut series: Vec<_> = {
            let series = self.series.lock();
            series
                .iter()
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        series.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (key, value) in series {
            let names = self.labels.iter().map(String::as_str);
            let labels: Vec<(&str, &[u8])> = names.zip(key.iter().map(Vec::as_slice)).collect();
            let added = match value {
                Value::Number(number) => family.add(&labels, shortest(number)),
                Value::Buckets { counts, sum } => {
                    let bounds = self.bounds.clone();
                    family.add_histogram(
                        &labels,
                        Histogram {
                            bounds,
                            counts,
                            sum,
                        },
                    )
                }
            };
            match added {
                // Two texts that are not UTF-8 may look alike. The first one stands for both.
                Ok(()) | Err(MetricProblem::Repeated(_)) => {}
                Err(problem) => return Err(problem),
            }
        }
        Ok(family)
    }
}

impl Value {
    fn new(kind: FamilyKind, bounds: &[f64]) -> Value {
        match kind {
            FamilyKind::Counter | FamilyKind::Gauge => Value::Number(0.0),
            FamilyKind::Histogram => Value::Buckets {
                counts: vec![0; bounds.len() + 1],
                sum: 0.0,
            },
        }
    }

    fn change(&mut self, change: Change, bounds: &[f64]) {
        match (self, change) {
            (Value::Number(own), Change::Add(number)) => *own += number,
            (Value::Number(own), Change::Set(number) | Change::Observe(number)) => *own = number,
            (
                Value::Buckets { counts, sum },
                Change::Observe(number) | Change::Add(number) | Change::Set(number),
            ) => {
                let bucket = bounds.partition_point(|&bound| bound < number);
                if let Some(count) = counts.get_mut(bucket) {
                    *count += 1;
                }
                *sum += number;
            }
        }
    }
}

/// A whole number is written without a point.
fn shortest(number: f64) -> Number {
    const LARGEST: f64 = (1_u64 << 53) as f64;
    match number.fract() == 0.0 && number.abs() <= LARGEST {
        true => Number::Whole(number as i64),
        false => Number::Real(number),
    }
}

/// The families of all metrics of the program.
pub(crate) fn families() -> Result<Vec<Family>, MetricProblem> {
    let made = METRICS.iter().filter_map(OnceLock::get);
    made.map(Metric::family).collect()
}

/// Frees what other threads had locked at the fork.
pub(crate) fn renew_in_child(child: &Child) {
    let made = METRICS.iter().rposition(|place| place.get().is_some());
    // A thread that is gone may have been writing the place after the last one.
    NEXT.free_in_child(child, made.map_or(1, |last| last + 2));
    for metric in METRICS.iter().filter_map(OnceLock::get) {
        metric.series.free_in_child(child, HashMap::new());
    }
}

/// The number of the metric with this name. Makes it if there is none.
fn number_of(metric: Metric) -> Result<usize, String> {
    let mut next = NEXT.lock();
    let known = METRICS
        .iter()
        .take(*next)
        .position(|place| place.get().is_some_and(|known| known.name == metric.name));
    if let Some((number, known)) = known.and_then(|number| Some((number, METRICS[number].get()?))) {
        return match known.is_like(&metric) {
            true => Ok(number),
            false => Err(format!(
                "'{}' is {} already, and cannot be {}",
                metric.name,
                known.description(),
                metric.description()
            )),
        };
    }
    let number = *next;
    let place = METRICS.get(number).ok_or_else(|| {
        format!("there are {MOST_METRICS} metrics already, which is the most; use labels")
    })?;
    // Nobody else writes places.
    let _ = place.set(metric);
    *next += 1;
    Ok(number)
}

/// A text of the C half.
#[repr(C)]
struct Text {
    bytes: *const c_char,
    size: usize,
}

/// Writes a message, cut to its room, with a zero byte.
///
/// # Safety
/// `message` is writable for `room` bytes, of which there is at least one.
unsafe fn tell(text: &str, message: *mut c_char, room: usize) {
    let size = text.len().min(room - 1);
    // SAFETY: the caller's condition.
    unsafe {
        message.copy_from(text.as_ptr().cast(), size);
        message.add(size).write(0);
    }
}

/// The number of the metric with this name, which is made if there is none; -1 and a message if
/// that is not possible. `kind` is 0 for a counter, 1 for a gauge, 2 for a histogram. `most` sets
/// of labels have a value of their own.
///
/// # Safety
/// The texts are C strings; there are as many labels and bounds as told; `message` is writable for
/// `room` bytes, of which there is at least one.
// SAFETY: the only definition of this symbol, with the signature of `c/modules/inspect.c`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_metric_number(
    kind: c_int,
    name: *const c_char,
    help: *const c_char,
    labels: *const Text,
    label_count: usize,
    bounds: *const f64,
    bound_count: usize,
    most: usize,
    message: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: the caller's conditions.
    let (name, help, labels, bounds) = unsafe {
        let texts = texts(labels, label_count);
        let bounds = match bound_count {
            0 => &[],
            count => std::slice::from_raw_parts(bounds, count),
        };
        let text = |text| CStr::from_ptr(text).to_string_lossy();
        (text(name), text(help), texts, bounds.to_vec())
    };
    let labels = labels
        .into_iter()
        .map(|label| String::from_utf8_lossy(label).into_owned());
    let kind = match kind {
        0 => FamilyKind::Counter,
        1 => FamilyKind::Gauge,
        _ => FamilyKind::Histogram,
    };
    let made = if label_count > MOST_LABELS || bound_count > MOST_BOUNDS {
        Err(format!(
            "at most {MOST_LABELS} labels and {MOST_BOUNDS} bounds expected"
        ))
    } else {
        Metric::new(kind, &name, &help, labels.collect(), bounds)
            .and_then(|metric| number_of(metric.with_most(most)))
    };
    match made {
        Ok(number) => c_int::try_from(number).unwrap_or(-1),
        Err(why) => {
            // SAFETY: the caller's condition.
            unsafe { tell(&why, message, room) };
            -1
        }
    }
}

/// Changes a value of a metric: 0 adds, 1 sets, 2 observes, 3 removes it. Returns 1; 0 if there is
/// none to remove; -1 and a message if that is not possible.
///
/// # Safety
/// There are as many labels as told; `message` is as above.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_metric_change(
    number: u32,
    what: c_int,
    value: f64,
    labels: *const Text,
    label_count: usize,
    message: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: the caller's condition.
    let labels = unsafe { texts(labels, label_count) };
    let metric = METRICS.get(number as usize).and_then(OnceLock::get);
    let changed = metric
        .ok_or_else(|| "there is no such metric".to_owned())
        .and_then(|metric| {
            let change = match what {
                0 => Change::Add(value),
                1 => Change::Set(value),
                2 => Change::Observe(value),
                _ => return metric.remove(&labels),
            };
            metric.change(&labels, change).map(|()| true)
        });
    match changed {
        Ok(done) => done.into(),
        Err(why) => {
            // SAFETY: the caller's condition.
            unsafe { tell(&why, message, room) };
            -1
        }
    }
}

/// # Safety
/// There are so many texts, each readable, and they stay during `'a`.
unsafe fn texts<'a>(all: *const Text, count: usize) -> Vec<&'a [u8]> {
    if count == 0 {
        return Vec::new();
    }
    // SAFETY: the caller's conditions.
    let all = unsafe { std::slice::from_raw_parts(all, count) };
    let read = |text: &Text| {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(text.bytes.cast(), text.size) }
    };
    all.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(kind: FamilyKind, name: &str, labels: &[&str], bounds: &[f64]) -> Metric {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        Metric::new(kind, name, "a help", labels, bounds.to_vec()).expect("it is right")
    }

    #[test]
    fn sets_of_labels_beyond_the_bound_share_one() {
        let counter = metric(FamilyKind::Counter, "c_total", &["a"], &[]);
        for number in 0..MOST_SERIES + 500 {
            let text = number.to_string();
            for _ in 0..2 {
                counter
                    .change(&[text.as_bytes()], Change::Add(1.0))
                    .expect("it counts");
            }
        }
        let series = counter.series.lock();
        assert_eq!(series.len(), MOST_SERIES + 1);
        let Value::Number(others) = series[&vec![OTHERS.to_vec()]] else {
            panic!("it is a number");
        };
        assert!((others - 1000.0).abs() < 0.1, "{others}");
    }

    #[test]
    fn a_metric_may_have_fewer_sets_of_labels() {
        let counter = metric(FamilyKind::Counter, "c", &["route"], &[]).with_most(2);
        for route in ["/a", "/b", "/c", "/d", "/a"] {
            let changed = counter.change(&[route.as_bytes()], Change::Add(1.0));
            changed.expect("it counts");
        }
        let series = counter.series.lock();
        assert_eq!(series.len(), 3);
        let Value::Number(others) = series[&vec![OTHERS.to_vec()]] else {
            panic!("it is a number");
        };
        assert!((others - 2.0).abs() < 0.1, "{others}");
    }

    #[test]
    fn a_value_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let histogram = metric(FamilyKind::Histogram, "h", &[], &[1.0, 2.0]);
        for value in [0.5, 1.0, 1.5, 2.0, 7.0] {
            histogram
                .change(&[], Change::Observe(value))
                .expect("it counts");
        }
        let series = histogram.series.lock();
        let Value::Buckets { counts, sum } = &series[&Vec::new()] else {
            panic!("it has buckets");
        };
        assert_eq!(counts, &[2, 2, 1]);
        assert!((sum - 12.0).abs() < 1e-9);
    }
}
