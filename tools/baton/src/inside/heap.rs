//! `baton heap`.

use super::{check_write, print, print_json};
use baton_formats::heap::{
    Counts, Edge, EdgeKind, Growth, Node, NodeKind, Snapshot, SnapshotWriter,
};
use baton_observe::client;
use baton_observe::heap::graph::{Call, Graph, Living, Object};
use baton_observe::heap::stream::{ObjectKind, Reader};
use baton_observe::heap::summary::Summary;
use baton_observe::protocol::Bytes;
use clap::Args;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The width of the columns with numbers, in characters.
const WIDTH: usize = 12;

/// How many classes a table on the terminal has.
const MOST_CLASSES: usize = 20;

/// The ending that Chrome expects.
const SUFFIX: &str = "heapsnapshot";

#[derive(Args)]
pub(super) struct HeapOptions {
    /// The process id of the program
    #[arg(
        value_name = "PID",
        required_unless_present = "diff",
        conflicts_with = "diff"
    )]
    pid: Option<u32>,
    /// Writes the snapshot to a file that ends with .heapsnapshot, for Chrome's DevTools and for
    /// --diff. It has texts of the program's strings
    #[arg(short, long, value_name = "FILE", conflicts_with = "diff")]
    output: Option<PathBuf>,
    /// Shows what has grown from one snapshot to another, and what keeps it
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    diff: Option<Vec<PathBuf>>,
    /// Writes JSON instead of text
    #[arg(long)]
    json: bool,
    /// Reads a program that was not started with BATON_ATTACH=all
    #[arg(long, conflicts_with = "diff")]
    write: bool,
}

pub(super) fn run(options: &HeapOptions) -> Result<(), String> {
    match (&options.diff, options.pid) {
        (Some(files), _) => diff(&files[0], &files[1], options.json),
        (None, Some(pid)) => take(pid, options),
        (None, None) => Err("a process id or --diff expected".to_owned()),
    }
}

fn diff(before: &Path, after: &Path, json: bool) -> Result<(), String> {
    let growth = Growth::between(&read(before)?, &read(after)?, MOST_CLASSES);
    match json {
        true => print_json(&growth),
        false => print(&growth.to_string()),
    }
}

fn read(path: &Path) -> Result<Snapshot, String> {
    let file =
        File::open(path).map_err(|error| format!("cannot open {}: {error}", path.display()))?;
    Snapshot::read(file).map_err(|error| {
        format!(
            "cannot read {} as a snapshot of baton heap: {error}",
            path.display()
        )
    })
}

fn take(pid: u32, options: &HeapOptions) -> Result<(), String> {
    check_write(options.write)?;
    if let Some(path) = &options.output
        && path.extension().is_none_or(|extension| extension != SUFFIX)
    {
        return Err(format!(
            "a file that ends with .{SUFFIX} expected, as Chrome expects it, got {}",
            path.display()
        ));
    }
    let mut program = client::attach(pid, options.write).map_err(|error| error.to_string())?;
    // Before the program is asked: a wrong path costs it nothing.
    let output = options.output.as_deref().map(Output::create).transpose()?;
    let (graph, pause) = ask(&mut program)?;
    let living = graph.living();
    if let Some(output) = output {
        output.finish(|file| write(&living, file))?;
    }
    let summary = Summary::of(&living, pause);
    match options.json {
        true => print_json(&summary),
        false => print(&table(&summary)),
    }
}

/// A file that is removed unless it is finished.
struct Output<'a> {
    path: &'a Path,
    file: Option<File>,
}

impl<'a> Output<'a> {
    /// Only its owner may read a new file, as it has texts of the program.
    fn create(path: &'a Path) -> Result<Output<'a>, String> {
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

    fn finish(mut self, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), String> {
        let Some(mut file) = self.file.take() else {
            return Ok(());
        };
        write(&mut file).map_err(|error| {
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

/// Reads the heap of a program. Returns it, and how long the program stood still.
fn ask(program: &mut client::Connection) -> Result<(Graph, Duration), String> {
    let mut graph = Graph::default();
    let mut reader = Reader::default();
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("reading {wide_bar} {bytes} of {total_bytes}") {
        bar.set_style(style);
    }
    let mut add = |part: Value| {
        let records = part.get("records").cloned().unwrap_or_default();
        let Bytes(records) =
            serde_json::from_value(records).map_err(|error| format!("a wrong answer: {error}"))?;
        reader.read(&records, &mut |record| graph.take(record))?;
        let (done, all) = graph.progress();
        bar.set_length(all);
        bar.set_position(done);
        Ok(())
    };
    let end = program.ask("heap", Value::Null, &mut add);
    bar.finish_and_clear();
    let end = end?;
    if !reader.has_ended() {
        return Err("the program has sent only a part of its heap".to_owned());
    }
    let pause = end.get("pause").and_then(Value::as_f64).unwrap_or(0.0);
    let pause = Duration::try_from_secs_f64(pause).unwrap_or_default();
    Ok((graph, pause))
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

fn table(summary: &Summary) -> String {
    let mut text = format!(
        "heap: {} in {} objects; {} in {} objects are garbage\nthe program stood still for \
         {:.1} ms\n{:>WIDTH$}{:>WIDTH$}  class\n",
        HumanBytes(summary.bytes),
        summary.objects,
        HumanBytes(summary.garbage.bytes),
        summary.garbage.objects,
        summary.pause * 1000.0,
        "bytes",
        "objects",
    );
    for class in summary.classes.iter().take(MOST_CLASSES) {
        let bytes = HumanBytes(class.bytes).to_string();
        // A string takes all that is written to it; here and below.
        let _ = writeln!(
            text,
            "{bytes:>WIDTH$}{:>WIDTH$}  {}",
            class.objects,
            class.class.replace(char::is_control, "\u{fffd}")
        );
    }
    if let Some(more) = summary.classes.len().checked_sub(MOST_CLASSES + 1) {
        let (objects, bytes) = summary.classes[MOST_CLASSES..]
            .iter()
            .fold((0, 0), |sums, class| {
                (sums.0 + class.objects, sums.1 + class.bytes)
            });
        let bytes = HumanBytes(bytes).to_string();
        let _ = writeln!(
            text,
            "{bytes:>WIDTH$}{objects:>WIDTH$}  {} more classes",
            more + 1
        );
    }
    text
}
