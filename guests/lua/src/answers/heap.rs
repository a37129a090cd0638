//! Heaps, put together from records, and written for Chrome's DevTools.

use baton_formats::heap::{Counts, Edge, EdgeKind, Node, NodeKind, SnapshotWriter};
use baton_observe::heap::dominators::Dominators;
use baton_observe::heap::graph::{Call, Graph, Living, Object};
use baton_observe::heap::stream::{ObjectKind, Reader};
use baton_observe::heap::summary::Summary;
use baton_observe::protocol::Bytes;
use serde::Serialize;
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// The ending that Chrome expects.
const SUFFIX: &str = "heapsnapshot";

/// The maximal number of single objects in a summary.
const MOST_KEEPERS: usize = 10;

/// An object that keeps less than this part of the heap is not in the summary.
const LEAST_PART: u64 = 100;

/// How many steps of a path are shown: so many first ones, and so many last ones.
const STEPS: usize = 8;

/// A heap that is being read.
#[derive(Default)]
pub struct HeapAnswer {
    graph: Graph,
    reader: Reader,
}

impl std::fmt::Debug for HeapAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeapAnswer").finish_non_exhaustive()
    }
}

impl HeapAnswer {
    /// Adds a part of an answer.
    ///
    /// # Errors
    /// It is not one.
    pub fn add_part(&mut self, part: &Value) -> Result<(), String> {
        let records = part.get("records").cloned().unwrap_or_default();
        let Bytes(records) =
            serde_json::from_value(records).map_err(|error| format!("a wrong answer: {error}"))?;
        let graph = &mut self.graph;
        self.reader.read(&records, &mut |record| graph.take(record))
    }

    /// How many bytes of the heap were read, and how many there are.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        self.graph.progress()
    }

    /// The heap, and how long the program stood still, by the answer's `end`.
    ///
    /// # Errors
    /// Parts are missing.
    pub fn finish(self, end: &Value) -> Result<(Graph, Duration), String> {
        if !self.reader.has_ended() {
            return Err("the program has sent only a part of its heap".to_owned());
        }
        let pause = end.get("pause").and_then(Value::as_f64).unwrap_or(0.0);
        let pause = Duration::try_from_secs_f64(pause).unwrap_or_default();
        Ok((self.graph, pause))
    }
}

/// What a heap has, by class, and which single objects keep most of it.
#[derive(Debug, Serialize)]
pub struct HeapSummary {
    /// The sums.
    #[serde(flatten)]
    pub sums: Summary,
    /// The objects that keep most alive, the one with most first.
    pub keepers: Vec<Keeper>,
}

/// An object that keeps others alive.
#[derive(Debug, Serialize)]
pub struct Keeper {
    /// A shortest way from the root to it, such as `(root)._G.cache`.
    pub path: String,
    /// Its class.
    pub class: String,
    /// Its own bytes.
    pub bytes: u64,
    /// The bytes that would be free without it.
    pub retained: u64,
}

impl HeapSummary {
    /// Sums up a heap, for which the program stood still so long.
    #[must_use]
    pub fn of(living: &Living, pause: Duration) -> HeapSummary {
        let dominators = Dominators::of(living);
        let sums = Summary::of(living, &dominators, pause);
        let objects: Vec<&Object> = living.objects().collect();
        let is_counted = |number: usize| objects[number].kind != ObjectKind::Group;
        let mut largest = dominators.largest(sums.bytes / LEAST_PART + 1, is_counted);
        largest.truncate(MOST_KEEPERS);
        let parents = parents(living);
        let keepers = largest.into_iter().map(|number| Keeper {
            path: path(living, &parents, number),
            class: match objects[number].kind {
                ObjectKind::Text => "(strings)".to_owned(),
                _ => String::from_utf8_lossy(living.name_of(objects[number])).into_owned(),
            },
            bytes: objects[number].bytes,
            retained: dominators.retained(number),
        });
        HeapSummary {
            keepers: keepers.collect(),
            sums,
        }
    }
}

/// For each object the one before it on a shortest way from the root. The nearest come first.
fn parents(living: &Living) -> Vec<Option<u32>> {
    let mut parents = vec![None; living.objects().len()];
    for from in 0..parents.len() {
        for (_, to, is_weak) in living.references_of(from) {
            if to != 0 && !is_weak && parents[to].is_none() {
                parents[to] = Some(from as u32);
            }
        }
    }
    parents
}

/// A shortest way from the root to an object.
fn path(living: &Living, parents: &[Option<u32>], number: usize) -> String {
    let mut steps = Vec::new();
    let mut here = number;
    while let Some(before) = parents[here] {
        let before = before as usize;
        let mut references = living.references_of(before);
        let call = references.find(|&(_, to, is_weak)| to == here && !is_weak);
        let step = call.map(|(call, ..)| edge_kind(living, call, false).shown());
        steps.push(step.unwrap_or_default());
        here = before;
    }
    steps.reverse();
    if steps.len() > 2 * STEPS {
        let left_out = steps.len() - 2 * STEPS;
        steps.splice(
            STEPS..STEPS + left_out,
            [format!(" ... {left_out} more ... ")],
        );
    }
    format!("(root){}", steps.concat())
}

/// A file for a heap, which is removed unless it is written.
#[derive(Debug)]
pub struct Output<'a> {
    path: &'a Path,
    file: Option<File>,
}

impl<'a> Output<'a> {
    /// Creates a file. Only its owner may read a new one, as it has texts of the program.
    ///
    /// # Errors
    /// The path does not end with `.heapsnapshot`, or what the system says.
    pub fn create(path: &'a Path) -> Result<Output<'a>, String> {
        if path.extension().is_none_or(|extension| extension != SUFFIX) {
            return Err(format!(
                "a file that ends with .{SUFFIX} expected, as Chrome expects it, got {}",
                path.display()
            ));
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        match options.open(path) {
            Ok(file) => Ok(Output {
                path,
                file: Some(file),
            }),
            Err(error) => Err(format!("cannot write {}: {error}", path.display())),
        }
    }

    /// Writes the heap, and keeps the file.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub fn write(mut self, living: &Living) -> Result<(), String> {
        let Some(mut file) = self.file.take() else {
            return Ok(());
        };
        write(living, &mut file).map_err(|error| {
            self.file = Some(file);
            format!("cannot write {}: {error}", self.path.display())
        })
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        if self.file.is_some() {
            // What is left is not complete; a refusal leaves it.
            let _ = std::fs::remove_file(self.path);
        }
    }
}

/// Writes a heap as Chrome reads it.
fn write(living: &Living, file: &mut File) -> io::Result<()> {
    let edges: Vec<u32> = (0..living.objects().len())
        .map(|number| living.references_of(number).count() as u32)
        .collect();
    let counts = Counts {
        nodes: edges.len(),
        edges: edges.iter().map(|&count| count as usize).sum(),
    };
    let mut writer = SnapshotWriter::new(BufWriter::new(file), counts)?;
    for (object, &edges) in living.objects().zip(&edges) {
        writer.node(&node(living, object).with_edges(edges))?;
    }
    for number in 0..edges.len() {
        for (call, to, is_weak) in living.references_of(number) {
            let kind = edge_kind(living, call, is_weak);
            writer.edge(&Edge { kind, to })?;
        }
    }
    writer.finish()?.flush()
}

/// Objects are aligned to 8 bytes, and so are the addresses of groups.
fn node(living: &Living, object: &Object) -> Node {
    let kind = match object.kind {
        ObjectKind::Group => NodeKind::Synthetic,
        ObjectKind::Text => NodeKind::String,
        ObjectKind::Table | ObjectKind::Thread => NodeKind::Object,
        ObjectKind::Function | ObjectKind::ForeignFunction => NodeKind::Closure,
        ObjectKind::ForeignObject => NodeKind::Native,
        ObjectKind::Code => NodeKind::Code,
        ObjectKind::Variable | ObjectKind::Internal => NodeKind::Hidden,
    };
    Node::new(
        kind,
        living.name_of(object),
        object.address / 8,
        object.bytes,
    )
}

fn edge_kind(living: &Living, call: Call, is_weak: bool) -> EdgeKind {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let name = match call {
        Call::Field(address) => text(living.text_at(address)),
        Call::Element(key) => match u32::try_from(key) {
            Ok(key) if !is_weak => return EdgeKind::Element(key.into()),
            _ => key.to_string(),
        },
        Call::Named(name) => text(living.name(name)),
        Call::Variable(name) if !is_weak => return EdgeKind::Context(text(living.name(name))),
        Call::Part(name) if !is_weak => return EdgeKind::Internal(text(living.name(name))),
        Call::Variable(name) | Call::Part(name) => text(living.name(name)),
        Call::Hidden => return EdgeKind::Hidden(0),
    };
    match is_weak {
        true => EdgeKind::Weak(name),
        false => EdgeKind::Property(name),
    }
}
