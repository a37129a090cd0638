//! Perfetto's published schema describes its format. Its own reader, the trace processor, is no
//! part of a package.

use std::io;
use std::time::{Duration, UNIX_EPOCH};

use baton_formats::trace::{CounterUnit, CounterValue, Event, Flow, TraceWriter, Value};
use serde_json::json;

use crate::{HOSTILE, file, lossy, python};

/// What the schema's classes find in a trace. None if they are not installed.
fn read(trace: TraceWriter<Vec<u8>>) -> Option<serde_json::Value> {
    let file = file(
        ".pftrace",
        &trace.finish().expect("a vector takes everything"),
    );
    let what = "traces, by Perfetto's schema";
    python(what, "perfetto.py", &[file.path()]).map(|text| crate::json(&text))
}

fn at(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[test]
fn perfetto_knows_all_that_is_written() -> io::Result<()> {
    let mut trace = TraceWriter::new(Vec::new(), "server.lua", 4242)?;
    trace.time_of_day(at(1), UNIX_EPOCH + at(5))?;
    let client = trace.process_track(4, "client")?;
    let home = trace.thread_track(4243, "home")?;
    let heap = trace.counter_track("heap", CounterUnit::Bytes)?;
    let flow = Flow(u64::MAX);
    let wake = Event::new(at(1), "wake", "send")
        .with("channel", "requests")
        .with("size", 3_u64)
        .with("change", -3_i64)
        .with("share", 0.5)
        .with("urgent", true);
    trace.instant(home, &wake.causing(flow))?;
    trace.begin(client, &Event::new(at(2), "run", "running").caused_by(flow))?;
    trace.begin(client, &Event::new(at(3), "run", "running"))?;
    trace.end(client, at(4))?;
    trace.count(heap, at(5), CounterValue::Whole(1 << 40))?;
    trace.count(heap, at(6), CounterValue::Real(0.25))?;
    let Some(read) = read(trace) else {
        return Ok(());
    };
    assert_eq!(read["unknown"], false, "{read}");
    assert_eq!(read["clocks"], json!([[6, 1_000_000], [1, 5_000_000]]));
    let tracks = json!([
        {"uuid": 1, "parent": 0, "name": "", "process": [4242, "server.lua"]},
        {"uuid": 2, "parent": 1, "name": "processes", "order": "EXPLICIT"},
        {
            "uuid": 3, "parent": 2, "name": "client #4",
            "merge": "SIBLING_MERGE_BEHAVIOR_NONE",
        },
        {"uuid": 4, "parent": 1, "name": "", "thread": [4242, 4243, "home"]},
        {"uuid": 5, "parent": 1, "name": "heap", "counter": "UNIT_SIZE_BYTES"},
    ]);
    assert_eq!(read["tracks"], tracks);
    let none = json!({});
    let event = |at: u64, track: u64, kind: &str, name: &str, category: &[&str]| {
        json!({
            "at": at * 1_000_000, "track": track, "type": kind, "name": name,
            "categories": category, "arguments": none, "flows": [], "ends": [],
        })
    };
    let mut events = [
        event(1, 4, "TYPE_INSTANT", "send", &["wake"]),
        event(2, 3, "TYPE_SLICE_BEGIN", "running", &["run"]),
        event(3, 3, "TYPE_SLICE_BEGIN", "running", &["run"]),
        event(4, 3, "TYPE_SLICE_END", "", &[]),
        event(5, 5, "TYPE_COUNTER", "", &[]),
        event(6, 5, "TYPE_COUNTER", "", &[]),
    ];
    events[0]["arguments"] = json!({
        "channel": "requests", "size": 3, "change": -3, "share": 0.5, "urgent": true,
    });
    events[0]["flows"] = json!([u64::MAX]);
    events[1]["ends"] = json!([u64::MAX]);
    events[4]["value"] = json!(1_u64 << 40);
    events[5]["value"] = json!(0.25);
    assert_eq!(read["events"], json!(events));
    Ok(())
}

#[test]
fn perfetto_reads_hostile_names() -> io::Result<()> {
    let mut trace = TraceWriter::new(Vec::new(), HOSTILE.concat(), 1)?;
    for (number, name) in HOSTILE.into_iter().enumerate() {
        let track = trace.process_track(number as u64, name)?;
        let event = Event::new(at(1), name, name).with(name, Value::text(name));
        trace.instant(track, &event)?;
    }
    let Some(read) = read(trace) else {
        return Ok(());
    };
    assert_eq!(read["tracks"][0]["process"][1], lossy(&HOSTILE.concat()));
    for (number, name) in HOSTILE.into_iter().enumerate() {
        let event = &read["events"][number];
        assert_eq!(event["name"], lossy(name));
        assert_eq!(event["arguments"][lossy(name)], lossy(name));
        let track = read["tracks"][number + 2]["name"].as_str().expect("a name");
        assert!(track.ends_with(&format!("#{number}")), "{track}");
    }
    Ok(())
}
