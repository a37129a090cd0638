//! Passes families to the encoder of `prometheus-client`.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::{Family, FamilyKind, Histogram, Measured, Number};

/// The families of one text.
#[derive(Debug)]
pub(super) struct Families(pub(super) Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        for family in &self.0 {
            let unit = family.unit.clone().map(Unit::Other);
            let metric = encoder.encode_descriptor(
                &family.name,
                &escaped(&family.help),
                unit.as_ref(),
                kind(family.kind),
            )?;
            encode_points(family, metric)?;
        }
        Ok(())
    }
}

fn kind(kind: FamilyKind) -> MetricType {
    match kind {
        FamilyKind::Counter => MetricType::Counter,
        FamilyKind::Gauge => MetricType::Gauge,
        FamilyKind::Histogram => MetricType::Histogram,
    }
}

fn encode_points(family: &Family, mut metric: MetricEncoder<'_>) -> Result<(), Error> {
    for (labels, measured) in &family.points {
        let mut point = metric.encode_family(labels)?;
        match measured {
            Measured::Counter(number) => encode_counter(&mut point, *number)?,
            Measured::Gauge(number) => encode_gauge(&mut point, *number)?,
            Measured::Histogram(histogram) => encode_histogram(&mut point, histogram)?,
        }
    }
    Ok(())
}

fn encode_counter(point: &mut MetricEncoder<'_>, number: Number) -> Result<(), Error> {
    match number {
        Number::Natural(number) => point.encode_counter::<NoLabelSet, _, u64>(&number, None),
        Number::Whole(number) => {
            point.encode_counter::<NoLabelSet, _, u64>(&number.unsigned_abs(), None)
        }
        Number::Real(number) => point.encode_counter::<NoLabelSet, _, u64>(&number, None),
    }
}

fn encode_gauge(point: &mut MetricEncoder<'_>, number: Number) -> Result<(), Error> {
    match number {
        Number::Natural(number) => point.encode_gauge(&number),
        Number::Whole(number) => point.encode_gauge(&number),
        Number::Real(number) => point.encode_gauge(&number),
    }
}

fn encode_histogram(point: &mut MetricEncoder<'_>, histogram: &Histogram) -> Result<(), Error> {
    let bounds = histogram.bounds.iter().copied().chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(histogram.counts.iter().copied()).collect();
    let count = histogram
        .counts
        .iter()
        .copied()
        .fold(0, u64::saturating_add);
    point.encode_histogram::<NoLabelSet>(histogram.sum, count, &buckets, None)
}

/// A help text with the escapes of OpenMetrics. The encoder leaves it as it is.
fn escaped(help: &str) -> String {
    help.replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('"', "\\\"")
}

#[cfg(test)]
mod checks {
    use super::super::{MetricProblem, Metrics};
    use super::*;
    use proptest::prelude::*;

    fn text_of(families: impl IntoIterator<Item = Family>) -> String {
        let mut metrics = Metrics::default();
        for family in families {
            metrics.add(family).expect("another name");
        }
        metrics.into_text()
    }

    fn family(kind: FamilyKind, name: &str) -> Family {
        Family::new(kind, name, "A help.").expect("a name")
    }

    #[test]
    fn each_kind_of_metric_is_written_with_its_names() -> Result<(), MetricProblem> {
        let mut switches = family(FamilyKind::Counter, "switches");
        switches.add(&[("vm", b"1")], 7_u64)?;
        let mut heap = family(FamilyKind::Gauge, "heap").in_unit("bytes")?;
        heap.add(&[], -3_i64)?;
        let mut late = family(FamilyKind::Histogram, "lateness").in_unit("seconds")?;
        late.add_histogram(
            &[("vm", b"1")],
            Histogram {
                bounds: vec![0.001, 1.0],
                counts: vec![5, 2, 1],
                sum: 4.5,
            },
        )?;
        let expected = "\
# HELP switches A help.
# TYPE switches counter
switches_total{vm=\"1\"} 7
# HELP heap_bytes A help.
# TYPE heap_bytes gauge
# UNIT heap_bytes bytes
heap_bytes -3
# HELP lateness_seconds A help.
# TYPE lateness_seconds histogram
# UNIT lateness_seconds seconds
lateness_seconds_sum{vm=\"1\"} 4.5
lateness_seconds_count{vm=\"1\"} 8
lateness_seconds_bucket{le=\"0.001\",vm=\"1\"} 5
lateness_seconds_bucket{le=\"1.0\",vm=\"1\"} 7
lateness_seconds_bucket{le=\"+Inf\",vm=\"1\"} 8
# EOF
";
        assert_eq!(text_of([switches, heap, late]), expected);
        Ok(())
    }

    #[test]
    fn no_metrics_are_an_end_alone() {
        assert_eq!(Metrics::default().into_text(), "# EOF\n");
    }

    #[test]
    fn a_help_is_escaped() {
        let family = Family::new(FamilyKind::Gauge, "g", b"a\\ \"b\"\n# EOF\xff").expect("a name");
        let expected = "# HELP g a\\\\ \\\"b\\\"\\n# EOF\u{fffd}\n# TYPE g gauge\n# EOF\n";
        assert_eq!(text_of([family]), expected);
    }

    #[test]
    fn what_no_reader_would_take_is_refused() {
        use MetricProblem as P;
        for name in ["", "1a", "a b", "a-b", "a_total", "ä"] {
            let problem = Family::new(FamilyKind::Counter, name, "").expect_err(name);
            assert_eq!(problem, P::Name(name.to_owned()));
        }
        let mut counter = family(FamilyKind::Counter, "c");
        assert_eq!(counter.add(&[], -1_i64), Err(P::Counter("c".to_owned())));
        assert_eq!(counter.add(&[], f64::NAN), Err(P::Counter("c".to_owned())));
        for label in ["", "__a", "a:b", "1"] {
            assert_eq!(
                counter.add(&[(label, b"")], 1_u64),
                Err(P::Label(label.to_owned()))
            );
        }
        let both: [(&str, &[u8]); 2] = [("a", b"1"), ("a", b"2")];
        assert_eq!(counter.add(&both, 1_u64), Err(P::Repeated("c".to_owned())));
        assert_eq!(counter.add(&[("a", b"1")], 1_u64), Ok(()));
        assert_eq!(
            counter.add(&[("a", b"1")], 2_u64),
            Err(P::Repeated("c".to_owned()))
        );
        let mut histogram = family(FamilyKind::Histogram, "h");
        assert_eq!(histogram.add(&[], 1_u64), Err(P::Kind("h".to_owned())));
        for (bounds, counts) in [
            (vec![1.0], vec![1]),
            (vec![1.0, 1.0], vec![1, 1, 1]),
            (vec![f64::INFINITY], vec![1, 1]),
        ] {
            let sum = 0.0;
            let bad = Histogram {
                bounds,
                counts,
                sum,
            };
            let why = histogram.add_histogram(&[], bad);
            assert_eq!(why, Err(P::Buckets("h".to_owned())));
        }
        let fine = Histogram {
            bounds: vec![],
            counts: vec![1],
            sum: 1.0,
        };
        let why = histogram.add_histogram(&[("le", b"")], fine.clone());
        assert_eq!(why, Err(P::Label("le".to_owned())));
        assert_eq!(
            counter.add_histogram(&[], fine),
            Err(P::Kind("c".to_owned()))
        );
        let mut metrics = Metrics::default();
        assert_eq!(metrics.add(family(FamilyKind::Gauge, "g")), Ok(()));
        let why = metrics.add(family(FamilyKind::Counter, "g"));
        assert_eq!(why, Err(P::Repeated("g".to_owned())));
    }

    proptest! {
        #[test]
        fn a_label_stays_on_its_line_and_can_be_read_back(value: Vec<u8>, number: i64) {
            let mut gauge = family(FamilyKind::Gauge, "g");
            gauge.add(&[("name", &value)], number)?;
            let text = text_of([gauge]);
            let line = text.split('\n').nth(2).expect("a line for the value");
            let rest = line.strip_prefix("g{name=\"").expect("the label");
            let (escaped, read) = rest.rsplit_once("\"} ").expect("the number");
            prop_assert_eq!(read.parse(), Ok(number));
            let mut plain = String::new();
            let mut characters = escaped.chars();
            while let Some(character) = characters.next() {
                plain.push(match character {
                    '\\' => match characters.next() {
                        Some('n') => '\n',
                        Some(other) => other,
                        None => '\\',
                    },
                    other => other,
                });
            }
            prop_assert_eq!(plain, crate::text::lossy(&value));
            prop_assert_eq!(text.split('\n').count(), 5);
        }
    }
}
