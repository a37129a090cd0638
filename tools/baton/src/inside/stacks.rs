//! `baton stacks`.

use super::{Once, print, print_json};
use baton_observe::client::{AttachError, Connection};
use baton_observe::report::{Groups, Overview, Process, group};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write;

#[derive(Args)]
pub(super) struct StacksOptions {
    #[command(flatten)]
    once: Once,
    /// Merges processes with equal stacks, and counts them
    #[arg(long)]
    group: bool,
}

pub(super) fn run(options: &StacksOptions) -> Result<(), String> {
    let mut target = options.once.target()?;
    match target.attach(false) {
        Ok(mut program) => show(options, &mut program)?,
        Err(AttachError::Held(what)) => print_held(options, &what)?,
        Err(error) => return Err(error.to_string()),
    }
    target.finish()
}

fn show(options: &StacksOptions, program: &mut Connection) -> Result<(), String> {
    let mut processes: Vec<Process> = Vec::new();
    let mut add = |part: Value| {
        let some: Vec<Process> =
            serde_json::from_value(part).map_err(|error| format!("a wrong answer: {error}"))?;
        processes.extend(some);
        Ok(())
    };
    let end = program.ask("stacks", Value::Null, &mut add)?;
    if end.get("kept_inside") == Some(&Value::Bool(true)) {
        let why = end.get("why").and_then(Value::as_str);
        return print_held(options, why.unwrap_or("a process keeps the VM"));
    }
    // The holders came first.
    processes.sort_by_key(|process| process.id);
    let overview: Overview = match end.get("overview") {
        Some(overview) => serde_json::from_value(overview.clone())
            .map_err(|error| format!("a wrong answer: {error}"))?,
        None => Overview::default(),
    };
    match options.once.json {
        true => print_json("baton.stacks", &as_json(options, &processes, &overview)),
        false => print(&as_text(options, &processes, &overview)),
    }
}

fn as_json(options: &StacksOptions, processes: &[Process], overview: &Overview) -> Value {
    let mut all = json!(overview);
    match options.group {
        true => all["groups"] = json!(group(processes)),
        false => all["processes"] = json!(processes),
    }
    all
}

fn as_text(options: &StacksOptions, processes: &[Process], overview: &Overview) -> String {
    if options.group {
        let groups = Groups {
            processes,
            overview,
        };
        return groups.to_string();
    }
    let mut text = String::new();
    for process in processes {
        // A string takes all that is written to it.
        let _ = write!(text, "{process}");
    }
    text + &overview.to_string()
}

fn print_held(options: &StacksOptions, what: &str) -> Result<(), String> {
    if options.once.json {
        return print_json("baton.stacks", &json!({ "held": what }));
    }
    print(&format!("held: {what}\n"))
}
