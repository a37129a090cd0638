//! `baton stacks`.

use super::{Once, print, print_json};
use baton_observe::client::{AttachError, Connection};
use baton_observe::report::{Process, group};
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
    if options.once.json {
        return match options.group {
            true => print_json("baton.stacks", &json!({ "groups": group(&processes) })),
            false => print_json("baton.stacks", &json!({ "processes": processes })),
        };
    }
    let mut text = String::new();
    if options.group {
        for group in group(&processes) {
            // A string takes all that is written to it; here and below.
            let _ = write!(text, "{group}");
        }
    } else {
        for process in &processes {
            let _ = write!(text, "{process}");
        }
    }
    print(&text)
}

fn print_held(options: &StacksOptions, what: &str) -> Result<(), String> {
    if options.once.json {
        return print_json("baton.stacks", &json!({ "held": what }));
    }
    print(&format!("held: {what}\n"))
}
