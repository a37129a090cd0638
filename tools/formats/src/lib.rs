//! Writes what was seen of a running program as files that other tools read.
//!
//! The crate knows no language and no runtime. You fill plain data, and choose a format:
//!
//! | data | formats | read by |
//! |---|---|---|
//! | [`profile::Profile`] | `.svg` | a browser: a flame graph |
//! | | `.pb.gz` | `go tool pprof`, Grafana Pyroscope |
//! | | `.json` | speedscope |
//! | | `.folded` | FlameGraph's scripts, inferno |
//! | | a table, and JSON | people, and programs |
//! | [`trace::TraceWriter`] | `.pftrace` | Perfetto |
//! | [`metrics::Metrics`] | Prometheus text, OpenMetrics text | Prometheus and its relatives |
//! | [`heap::SnapshotWriter`] | `.heapsnapshot` | Chrome's DevTools |
//! | [`heap::Growth`] | a table, and JSON | people, and programs |
//!
//! Nothing here starts a thread or opens a file. Results are texts, or go to any
//! [`Write`](std::io::Write). Names may hold any bytes: what is not UTF-8 becomes U+FFFD, and no
//! name can end the text, the line or the element that it stands in.
//!
//! # A profile
//!
//! A [`Profile`](profile::Profile) has stacks, and what was measured at each. Stacks begin with the
//! innermost frame.
//!
//! ```
//! use baton_formats::profile::{Format, Frame, Labels, Measure, Profile};
//!
//! let mut profile = Profile::new(Measure::CpuTime, "server.lua");
//! profile.period = 10_000_000;
//! let main = Frame::lua("main", "server.lua", 90).beginning_at(80);
//! let parse = Frame::lua("parse", "json.lua", 17).beginning_at(12);
//! let in_parse = profile.stack([parse.clone(), main.clone()]);
//! let in_find = profile.stack([Frame::c("string.find", ""), parse, main]);
//! profile.add(in_parse, 30_000_000, 3, Labels::of_process("client", 4));
//! profile.add(in_find, 70_000_000, 7, Labels::of_process("client", 5));
//!
//! let mut folded = Vec::new();
//! profile.write(Format::of_path("out.folded")?, &mut folded)?;
//! assert_eq!(
//!     String::from_utf8(folded)?,
//!     "main (server.lua:80);parse (json.lua:12) 30000000\n\
//!      main (server.lua:80);parse (json.lua:12);string.find [C] 70000000\n"
//! );
//! let table = profile.summary().to_string();
//! assert!(table.contains("  70.0 ms  70.0 %  70.0 ms  70.0 %  string.find [C]"), "{table}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A trace
//!
//! A [`TraceWriter`](trace::TraceWriter) appends events to its output as they come. Slices lie on
//! tracks, and a [`Flow`](trace::Flow) is an arrow between two events.
//!
//! ```
//! use baton_formats::trace::{Event, Flow, TraceWriter};
//! use std::time::Duration;
//!
//! let at = Duration::from_micros;
//! let mut trace = TraceWriter::new(Vec::new(), "server.lua", 4242)?;
//! let client = trace.process_track(4, "client")?;
//! let server = trace.process_track(5, "server")?;
//! trace.begin(client, &Event::new(at(10), "run", "running"))?;
//! let wake = Event::new(at(12), "wake", "send").with("channel", "requests");
//! trace.instant(client, &wake.causing(Flow(1)))?;
//! trace.end(client, at(15))?;
//! trace.begin(server, &Event::new(at(15), "run", "running").caused_by(Flow(1)))?;
//! trace.end(server, at(20))?;
//! let file: Vec<u8> = trace.finish()?;
//! # assert!(!file.is_empty());
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Metrics
//!
//! ```
//! use baton_formats::metrics::{Family, FamilyKind, Metrics, TextFormat};
//!
//! let mut switches = Family::new(FamilyKind::Counter, "baton_switches", "Switches.")?;
//! switches.add(&[("vm", b"main")], 1024_u64)?;
//! let mut metrics = Metrics::default();
//! metrics.add(switches)?;
//! assert_eq!(
//!     metrics.text(TextFormat::Prometheus),
//!     "# HELP baton_switches_total Switches.\n# TYPE baton_switches_total counter\n\
//!      baton_switches_total{vm=\"main\"} 1024\n"
//! );
//! # Ok::<(), baton_formats::metrics::MetricProblem>(())
//! ```
//!
//! # Heaps
//!
//! A snapshot is written in one go, so its writer is told the number of objects and references
//! first. All objects come before all references. [`Growth`](heap::Growth) then says what has
//! grown between two snapshots, and what keeps it.
//!
//! ```
//! use baton_formats::heap::{Counts, Edge, EdgeKind, Growth, Node, NodeKind};
//! use baton_formats::heap::{Snapshot, SnapshotWriter};
//!
//! /// A snapshot of a table of globals with this many tables in its field `cache`.
//! fn snapshot(count: u32) -> std::io::Result<Snapshot> {
//!     let nodes = count as usize + 2;
//!     let edges = count as usize + 1;
//!     let mut writer = SnapshotWriter::new(Vec::new(), Counts { nodes, edges })?;
//!     writer.node(&Node::new(NodeKind::Synthetic, "(root)", 0, 0).with_edges(1))?;
//!     writer.node(&Node::new(NodeKind::Object, "cache", 1, 56).with_edges(count))?;
//!     for number in 0..count {
//!         writer.node(&Node::new(NodeKind::Object, "entry", 2 + u64::from(number), 56))?;
//!     }
//!     let kind = EdgeKind::Property("cache".to_owned());
//!     writer.edge(&Edge { kind, to: 1 })?;
//!     for number in 0..count {
//!         let kind = EdgeKind::Element(u64::from(number) + 1);
//!         writer.edge(&Edge { kind, to: number as usize + 2 })?;
//!     }
//!     Snapshot::read(&writer.finish()?[..])
//! }
//!
//! let growth = Growth::between(&snapshot(1)?, &snapshot(501)?, 10);
//! assert_eq!(
//!     growth.to_string(),
//!     "heap: 112 B in 3 objects, then 27.5 KiB in 503 objects\n\
//!      \x20      bytes     objects  class\n\
//!      \x20  +27.3 KiB        +500  entry\n\
//!      \x20                         500 new like (root).cache[2]\n"
//! );
//! # Ok::<(), std::io::Error>(())
//! ```

#![forbid(unsafe_code)]

pub mod heap;
mod interned;
pub mod metrics;
pub mod profile;
mod quantity;
mod text;
pub mod trace;
