//! Families as text, in both formats.
//!
//! | | Prometheus 0.0.4 | OpenMetrics 1.0 |
//! |---|---|---|
//! | a counter's name before its samples | with `_total` | without it |
//! | unit | | `# UNIT` |
//! | quotes in a help | as they are | escaped |
//! | the end | | `# EOF` |
//!
//! Written by hand: the crate `prometheus-client` would need as many lines to be told of families
//! that are known only at run time, and brings three crates that nothing else uses.

use std::fmt::Write;

use super::{Family, FamilyKind, Histogram, LabelSet, Measured, Number, TextFormat};

/// The families as text.
pub(super) fn text(families: &[Family], format: TextFormat) -> String {
    let mut out = String::new();
    for family in families {
        write_family(family, format, &mut out);
    }
    if format == TextFormat::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

fn write_family(family: &Family, format: TextFormat, out: &mut String) {
    let Family { name, kind, .. } = family;
    let total = match kind {
        FamilyKind::Counter => "_total",
        FamilyKind::Gauge | FamilyKind::Histogram => "",
    };
    let in_head = match format {
        TextFormat::Prometheus => total,
        TextFormat::OpenMetrics => "",
    };
    push(out, format_args!("# HELP {name}{in_head} "));
    let escapes_quotes = format == TextFormat::OpenMetrics;
    write_escaped(&family.help, escapes_quotes, out);
    push(
        out,
        format_args!("\n# TYPE {name}{in_head} {}\n", word(*kind)),
    );
    if let (TextFormat::OpenMetrics, Some(unit)) = (format, &family.unit) {
        push(out, format_args!("# UNIT {name} {unit}\n"));
    }
    for point in &family.points {
        match &point.measured {
            Measured::Number { value } => {
                write_sample((name, total), &point.labels, None, value, out)
            }
            Measured::Histogram(histogram) => write_histogram(name, &point.labels, histogram, out),
        }
    }
}

fn word(kind: FamilyKind) -> &'static str {
    match kind {
        FamilyKind::Counter => "counter",
        FamilyKind::Gauge => "gauge",
        FamilyKind::Histogram => "histogram",
    }
}

/// The bounds are written alike in both formats, so that a database sees the same series.
fn write_histogram(name: &str, labels: &LabelSet, histogram: &Histogram, out: &mut String) {
    let bounds = histogram.bounds.iter().copied().chain([f64::INFINITY]);
    let mut count = 0_u64;
    for (bound, here) in bounds.zip(&histogram.counts) {
        count = count.saturating_add(*here);
        let bound = Number::Real(bound).to_string();
        let value = Number::Natural(count);
        write_sample((name, "_bucket"), labels, Some(&bound), &value, out);
    }
    let sum = Number::Real(histogram.sum);
    write_sample((name, "_sum"), labels, None, &sum, out);
    write_sample((name, "_count"), labels, None, &Number::Natural(count), out);
}

/// A line with a value. `le` is the bound of a bucket.
fn write_sample(
    (name, end): (&str, &str),
    labels: &LabelSet,
    le: Option<&str>,
    value: &Number,
    out: &mut String,
) {
    push(out, format_args!("{name}{end}"));
    let own = labels.iter().map(|(name, value)| (&**name, &**value));
    let all = own.chain(le.map(|bound| ("le", bound)));
    let mut before = '{';
    for (label, value) in all {
        push(out, format_args!("{before}{label}=\""));
        write_escaped(value, true, out);
        out.push('"');
        before = ',';
    }
    if before == ',' {
        out.push('}');
    }
    push(out, format_args!(" {value}\n"));
}

fn write_escaped(text: &str, escapes_quotes: bool, out: &mut String) {
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\\' => out.push_str("\\\\"),
            '"' if escapes_quotes => out.push_str("\\\""),
            other => out.push(other),
        }
    }
}

fn push(out: &mut String, what: std::fmt::Arguments<'_>) {
    // A string takes all that is written to it.
    let _ = out.write_fmt(what);
}

#[cfg(test)]
mod checks {
    use super::super::{MetricProblem, Metrics};
    use super::*;
    use proptest::prelude::*;

    fn text_of(families: impl IntoIterator<Item = Family>, format: TextFormat) -> String {
        let mut metrics = Metrics::default();
        for family in families {
            metrics.add(family).expect("another name");
        }
        metrics.text(format)
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
lateness_seconds_bucket{vm=\"1\",le=\"0.001\"} 5
lateness_seconds_bucket{vm=\"1\",le=\"1.0\"} 7
lateness_seconds_bucket{vm=\"1\",le=\"+Inf\"} 8
lateness_seconds_sum{vm=\"1\"} 4.5
lateness_seconds_count{vm=\"1\"} 8
# EOF
";
        let families = [switches, heap, late];
        assert_eq!(text_of(families.clone(), TextFormat::OpenMetrics), expected);
        let other = expected
            .replace("P switches ", "P switches_total ")
            .replace("E switches ", "E switches_total ")
            .replace("# UNIT heap_bytes bytes\n", "")
            .replace("# UNIT lateness_seconds seconds\n", "")
            .replace("# EOF\n", "");
        assert_eq!(text_of(families.clone(), TextFormat::Prometheus), other);
        let data = serde_json::to_string(&families).expect("data");
        let read: [Family; 3] = serde_json::from_str(&data).expect("the same");
        assert_eq!(text_of(read, TextFormat::Prometheus), other);
        Ok(())
    }

    #[test]
    fn no_metrics_are_an_end_alone() {
        assert_eq!(text_of([], TextFormat::OpenMetrics), "# EOF\n");
        assert_eq!(text_of([], TextFormat::Prometheus), "");
    }

    #[test]
    fn a_help_is_escaped() {
        let family = Family::new(FamilyKind::Gauge, "g", b"a\\ \"b\"\n# EOF\xff").expect("a name");
        let expected = "# HELP g a\\\\ \\\"b\\\"\\n# EOF\u{fffd}\n# TYPE g gauge\n# EOF\n";
        assert_eq!(text_of([family.clone()], TextFormat::OpenMetrics), expected);
        // Its readers refuse an escaped quote.
        let expected = "# HELP g a\\\\ \"b\"\\n# EOF\u{fffd}\n# TYPE g gauge\n";
        assert_eq!(text_of([family], TextFormat::Prometheus), expected);
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
            let text = text_of([gauge], TextFormat::OpenMetrics);
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
