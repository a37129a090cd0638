//! The parser of the Python package `prometheus_client` reads OpenMetrics text.

use baton_formats::metrics::{Family, FamilyKind, Histogram, MetricProblem, Metrics, TextFormat};
use serde_json::{Value, json};

use crate::{HOSTILE, file, lossy, python};

/// The families that the parser finds. None if it is not installed.
fn parsed(metrics: &Metrics) -> Option<Value> {
    let file = file(".txt", metrics.text(TextFormat::OpenMetrics).as_bytes());
    let what = "metrics, by the parser of prometheus_client";
    python(what, "openmetrics.py", &[file.path()]).map(|text| crate::json(&text))
}

#[test]
fn the_parser_reads_each_kind_of_metric() -> Result<(), MetricProblem> {
    let mut switches = Family::new(FamilyKind::Counter, "baton_switches", "Switches.")?;
    switches.add(&[("vm", b"a")], u64::from(u32::MAX))?;
    switches.add(&[("vm", b"b")], 1.5)?;
    let mut heap = Family::new(FamilyKind::Gauge, "baton_heap", "Memory.")?.in_unit("bytes")?;
    heap.add(&[], 123_456_789_u64)?;
    let mut change = Family::new(FamilyKind::Gauge, "baton_change", "It may shrink.")?;
    change.add(&[("of", b"heap")], -12_i64)?;
    let mut late = Family::new(FamilyKind::Histogram, "baton_late", "Delays.")?;
    late = late.in_unit("seconds")?;
    let histogram = Histogram {
        bounds: vec![0.000_1, 0.01, 1.0],
        counts: vec![7, 0, 2, 1],
        sum: 3.25,
    };
    late.add_histogram(&[("vm", b"a")], histogram)?;
    let empty = Family::new(FamilyKind::Counter, "baton_none", "")?;
    let mut metrics = Metrics::default();
    for family in [switches, heap, change, late, empty] {
        metrics.add(family)?;
    }
    let Some(families) = parsed(&metrics) else {
        return Ok(());
    };
    let expected = json!([
        {
            "name": "baton_switches", "type": "counter", "unit": "", "help": "Switches.",
            "samples": [
                ["baton_switches_total", {"vm": "a"}, 4_294_967_295_u64],
                ["baton_switches_total", {"vm": "b"}, 1.5],
            ],
        },
        {
            "name": "baton_heap_bytes", "type": "gauge", "unit": "bytes", "help": "Memory.",
            "samples": [["baton_heap_bytes", {}, 123_456_789]],
        },
        {
            "name": "baton_change", "type": "gauge", "unit": "", "help": "It may shrink.",
            "samples": [["baton_change", {"of": "heap"}, -12]],
        },
        {
            "name": "baton_late_seconds", "type": "histogram", "unit": "seconds",
            "help": "Delays.",
            "samples": [
                ["baton_late_seconds_bucket", {"le": "0.0001", "vm": "a"}, 7],
                ["baton_late_seconds_bucket", {"le": "0.01", "vm": "a"}, 7],
                ["baton_late_seconds_bucket", {"le": "1.0", "vm": "a"}, 9],
                ["baton_late_seconds_bucket", {"le": "+Inf", "vm": "a"}, 10],
                ["baton_late_seconds_sum", {"vm": "a"}, 3.25],
                ["baton_late_seconds_count", {"vm": "a"}, 10],
            ],
        },
        {"name": "baton_none", "type": "counter", "unit": "", "help": "", "samples": []},
    ]);
    assert_eq!(families, expected);
    Ok(())
}

#[test]
fn the_parser_reads_hostile_labels_and_helps() -> Result<(), MetricProblem> {
    let mut metrics = Metrics::default();
    for (number, name) in HOSTILE.into_iter().enumerate() {
        let mut family = Family::new(FamilyKind::Gauge, &format!("g{number}"), name)?;
        family.add(&[("process", name), ("other", b"1")], 1_u64)?;
        metrics.add(family)?;
    }
    let Some(families) = parsed(&metrics) else {
        return Ok(());
    };
    for (number, name) in HOSTILE.into_iter().enumerate() {
        let family = &families[number];
        assert_eq!(family["help"], lossy(name), "{families}");
        assert_eq!(
            family["samples"][0][1]["process"],
            lossy(name),
            "{families}"
        );
        assert_eq!(family["samples"][0][1]["other"], "1", "{families}");
    }
    Ok(())
}
