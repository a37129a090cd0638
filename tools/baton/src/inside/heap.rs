//! `baton heap`.

use super::started::{Start, Target};
use super::{check_write, print, print_json, seconds};
use baton_formats::heap::{Growth, Snapshot};
use baton_lua::answers::heap::{HeapAnswer, HeapSummary, Output};
use baton_observe::client;
use baton_observe::heap::graph::Graph;
use baton_observe::heap::summary::Summary;
use clap::Args;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use serde_json::Value;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The width of the columns with numbers, in characters.
const WIDTH: usize = 12;

/// How many classes a table on the terminal has.
const MOST_CLASSES: usize = 20;

#[derive(Args)]
pub(super) struct HeapOptions {
    /// The process id of a running program; or a script to start, with its arguments
    #[arg(
        value_name = "PID or SCRIPT",
        required_unless_present = "diff",
        conflicts_with = "diff",
        trailing_var_arg = true
    )]
    target: Vec<OsString>,
    /// Looks into a script so many seconds after its start
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    after: Duration,
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
    match &options.diff {
        Some(files) => diff(&files[0], &files[1], options.json),
        None => take(options),
    }
}

fn diff(before: &Path, after: &Path, json: bool) -> Result<(), String> {
    let growth = Growth::between(&read(before)?, &read(after)?, MOST_CLASSES);
    match json {
        true => print_json("baton.heap-diff", &growth),
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

fn take(options: &HeapOptions) -> Result<(), String> {
    check_write(options.write)?;
    let mut target = Target::of(&options.target, Start::Shown)?;
    target.let_run(options.after)?;
    // Who starts a script may see its values.
    let write = options.write || target.is_script();
    let mut program = target.attach_in_time(write)?;
    // Before the program is asked: a wrong path costs it nothing.
    let output = options.output.as_deref().map(Output::create).transpose()?;
    let (graph, pause) = ask(&mut program)?;
    let living = graph.living();
    if let Some(output) = output {
        output.write(&living)?;
    }
    let summary = HeapSummary::of(&living, pause);
    match options.json {
        true => print_json("baton.heap", &summary)?,
        false => print(&table(&summary))?,
    }
    target.finish()
}

/// Reads the heap of a program. Returns it, and how long the program stood still.
fn ask(program: &mut client::Connection) -> Result<(Graph, Duration), String> {
    let mut answer = HeapAnswer::default();
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("reading {wide_bar} {bytes} of {total_bytes}") {
        bar.set_style(style);
    }
    let mut add = |part: Value| {
        answer.add_part(&part)?;
        let (done, all) = answer.progress();
        bar.set_length(all);
        bar.set_position(done);
        Ok(())
    };
    let end = program.ask("heap", Value::Null, &mut add);
    bar.finish_and_clear();
    answer.finish(&end?)
}

fn table(summary: &HeapSummary) -> String {
    let mut text = String::new();
    write_classes(&mut text, &summary.sums);
    if !summary.keepers.is_empty() {
        // A string takes all that is written to it; here and below.
        let _ = writeln!(
            text,
            "\n{:>WIDTH$}{:>WIDTH$}  what keeps most, and by which way it is reached",
            "retained", "bytes"
        );
    }
    for keeper in &summary.keepers {
        let _ = writeln!(
            text,
            "{}{}  {}: {}",
            size(keeper.retained),
            size(keeper.bytes),
            visible(&keeper.path),
            visible(&keeper.class)
        );
    }
    text
}

/// A size in a column.
fn size(bytes: u64) -> String {
    format!("{:>WIDTH$}", HumanBytes(bytes).to_string())
}

fn visible(name: &str) -> String {
    name.replace(char::is_control, "\u{fffd}")
}

fn write_classes(text: &mut String, summary: &Summary) {
    // As above.
    let _ = writeln!(
        text,
        "heap: {} in {} objects; {} in {} objects are garbage\nthe program stood still for \
         {:.1} ms\n{:>WIDTH$}{:>WIDTH$}{:>WIDTH$}  class",
        HumanBytes(summary.bytes),
        summary.objects,
        HumanBytes(summary.garbage.bytes),
        summary.garbage.objects,
        summary.pause * 1000.0,
        "retained",
        "bytes",
        "objects",
    );
    for class in summary.classes.iter().take(MOST_CLASSES) {
        let _ = writeln!(
            text,
            "{}{}{:>WIDTH$}  {}",
            size(class.retained),
            size(class.bytes),
            class.objects,
            visible(&class.class)
        );
    }
    if let Some(more) = summary.classes.len().checked_sub(MOST_CLASSES + 1) {
        let (objects, bytes) = summary.classes[MOST_CLASSES..]
            .iter()
            .fold((0, 0), |sums, class| {
                (sums.0 + class.objects, sums.1 + class.bytes)
            });
        let _ = writeln!(
            text,
            "{:>WIDTH$}{}{objects:>WIDTH$}  {} more classes",
            "",
            size(bytes),
            more + 1
        );
    }
}
