//! Commands that look into a running program: `baton stacks PID` and its sisters.
//!
//! A command is recognized only as the first argument. A script of such a name is run by a path,
//! `baton ./stacks`, or after `--`.

mod debug;
mod heap;
mod metrics;
mod profile;
mod progress;
mod rights;
mod set;
mod stacks;
mod started;
mod top;
mod trace;

use baton_lua::suggestions::nearest;
use baton_observe::client::{self, AttachError, Connection};
use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, Parser, Subcommand};
use started::{Start, Target};
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::ops::RangeInclusive;
use std::os::raw::c_int;
use std::time::Duration;

/// The names of the commands.
const COMMANDS: [&str; 8] = [
    "debug", "heap", "metrics", "profile", "set", "stacks", "top", "trace",
];

/// The exit status for a wrong command line.
const MISUSE: c_int = 2;

#[derive(Parser)]
#[command(
    name = "baton",
    about = "Looks into a running program of Baton",
    after_help = "A script of such a name is run by its path, as in: baton ./stacks\n\
                  A program can be looked into by its user and by root. It does not have to be \
                  prepared; with BATON_ATTACH=off in its environment it refuses.",
    disable_help_subcommand = true
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows every process: its stack, what it waits for, who holds that, where it was spawned
    Stacks(stacks::StacksOptions),
    /// Writes the metrics of a program as text, for Prometheus
    Metrics(metrics::MetricsOptions),
    /// Finds out where a program, or a script, spends its processor time
    Profile(profile::ProfileOptions),
    /// Shows a live table of the processes that use most, and what the VM does
    Top(top::TopOptions),
    /// Writes what happens in a program, or a script, as a file for Perfetto: who runs, who waits
    /// for what, and who wakes whom
    Trace(trace::TraceOptions),
    /// Takes a snapshot of a program's heap, or shows what has grown between two snapshots
    Heap(heap::HeapOptions),
    /// Shows the parameters of a program, or sets one while the program runs
    Set(set::SetOptions),
    /// Debugs a script, or a running program, for an editor (Debug Adapter Protocol)
    Debug(debug::DebugOptions),
}

/// What commands take that look once.
#[derive(Args)]
struct Once {
    /// The process id of a running program; or a script to start, with its arguments
    #[arg(value_name = "PID or SCRIPT", required = true, trailing_var_arg = true)]
    target: Vec<OsString>,
    /// Looks into a script so many seconds after its start
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    after: Duration,
    /// Writes JSON instead of text
    #[arg(long)]
    json: bool,
}

impl Once {
    /// The program, or a script after some time.
    fn target(&self) -> Result<Target, String> {
        let mut target = Target::of(&self.target, Start::default())?;
        target.let_run(self.after)?;
        Ok(target)
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    const RANGE: RangeInclusive<f64> = 0.0..=86_400.0;
    let seconds: Option<f64> = text.parse().ok();
    match seconds.filter(|seconds| RANGE.contains(seconds)) {
        Some(seconds) => Ok(Duration::from_secs_f64(seconds)),
        None => Err("from 0 to 86400 seconds expected".to_owned()),
    }
}

/// Runs the command that these arguments of the program ask for. Returns the exit status; `None`
/// if they ask for none.
pub(crate) fn run(arguments: &[OsString]) -> Option<c_int> {
    let first = arguments.get(1)?.to_str()?;
    if !COMMANDS.contains(&first) {
        return None;
    }
    let command = match CommandLine::try_parse_from(with_options_first(arguments)) {
        Ok(line) => line.command,
        Err(error) => {
            // An error of these writes cannot be reported.
            let _ = error.print();
            if let Some(option) = option_meant(first, &error) {
                let _ = writeln!(std::io::stderr(), "\ndid you mean '{option}'?");
            }
            return Some(if error.use_stderr() { MISUSE } else { 0 });
        }
    };
    let result = match command {
        Command::Stacks(options) => stacks::run(&options),
        Command::Metrics(options) => metrics::run(&options),
        Command::Profile(options) => profile::run(&options),
        Command::Top(options) => top::run(&options),
        Command::Trace(options) => trace::run(&options),
        Command::Heap(options) => heap::run(&options),
        Command::Set(options) => set::run(&options),
        Command::Debug(options) => debug::run(&options),
    };
    Some(match result {
        Ok(()) => 0,
        Err(why) => {
            // As above.
            let _ = writeln!(std::io::stderr(), "baton: {why}");
            1
        }
    })
}

/// The option of the command that an unknown one was meant to be.
fn option_meant(command: &str, error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let mut line = CommandLine::command();
    line.build();
    let options = line.find_subcommand(command)?.get_arguments();
    let names: Vec<String> = options
        .filter_map(|option| Some(format!("--{}", option.get_long()?)))
        .collect();
    nearest(unknown, names.iter().map(String::as_str)).map(str::to_owned)
}

/// `baton trace PID OPTIONS` as `baton trace OPTIONS PID`. What follows a script is the script's.
fn with_options_first(arguments: &[OsString]) -> Vec<OsString> {
    let mut arguments = arguments.to_vec();
    let text = |place: usize| arguments.get(place).and_then(|word| word.to_str());
    let takes_scripts = text(1) != Some("set");
    let is_number = text(2).is_some_and(|word| word.parse::<u32>().is_ok());
    if takes_scripts && is_number && text(3).is_some_and(|word| word.starts_with('-')) {
        arguments[2..].rotate_left(1);
    }
    arguments
}

fn attach_to(pid: u32, write: bool) -> Result<Connection, AttachError> {
    let _own = rights::of_the_user_of(pid).map_err(AttachError::Refused)?;
    client::attach(pid, write)
}

/// Whether `--write` may be used: by a person, on a terminal.
fn check_write(write: bool) -> Result<(), String> {
    if write && !std::io::stdin().is_terminal() {
        return Err(
            "--write is for a person on a terminal; start the program with BATON_ATTACH=all to \
             change it from a script"
                .to_owned(),
        );
    }
    Ok(())
}

/// A text without characters that a terminal would act on: names and paths are the program's.
fn harmless(text: &str) -> String {
    let mut harmless = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => harmless.push(character),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                harmless.extend(character.escape_unicode());
            }
            _ if character.is_control() => harmless.extend(character.escape_unicode()),
            _ => harmless.push(character),
        }
    }
    harmless
}

/// Writes to stdout. A reader that is gone ends the command without a message, as usual.
fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    let text = harmless(text);
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write: {error}"))
        }
        _ => Ok(()),
    }
}

/// The version of what `--json` writes. It grows if a field is taken away or means something else;
/// new fields may come at any time.
const JSON_VERSION: u32 = 1;

/// What `--json` writes: an object that says what it is. The book has a page with all fields.
#[derive(serde::Serialize)]
struct Document<'a, T> {
    format: &'a str,
    version: u32,
    #[serde(flatten)]
    content: &'a T,
}

impl<'a, T: serde::Serialize> Document<'a, T> {
    fn of(format: &'a str, content: &'a T) -> Document<'a, T> {
        Document {
            format,
            version: JSON_VERSION,
            content,
        }
    }
}

/// Writes an object of this format on one line.
fn print_line(format: &str, content: &impl serde::Serialize) -> Result<(), String> {
    let text = serde_json::to_string(&Document::of(format, content));
    print(&(text.map_err(|error| error.to_string())? + "\n"))
}

/// Writes an object of this format, such as `baton.stacks`.
fn print_json(format: &str, content: &impl serde::Serialize) -> Result<(), String> {
    let text = serde_json::to_string_pretty(&Document::of(format, content));
    print(&(text.map_err(|error| error.to_string())? + "\n"))
}
