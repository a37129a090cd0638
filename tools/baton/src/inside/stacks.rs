//! `baton stacks`.

use super::{Once, print, print_json};
use baton_observe::client::{AttachError, Connection};
use baton_observe::report::{Groups, Overview, Process, group};
use clap::Args;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
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
    // The holders came first, in each VM.
    for of_vm in processes.chunk_by_mut(|one, next| one.vm == next.vm) {
        of_vm.sort_by_key(|process| process.id);
    }
    let overview: Overview = part_of(&end, "overview")?;
    let kept: Vec<KeptVm> = part_of(&end, "kept")?;
    match options.once.json {
        true => {
            let mut all = as_json(options, &processes, &overview);
            if !kept.is_empty() {
                all["kept"] = json!(kept);
            }
            print_json("baton.stacks", &all)
        }
        false => {
            let mut text = String::new();
            for KeptVm { vm, why } in &kept {
                // A string takes all that is written to it.
                let _ = writeln!(text, "VM '{vm}' is held: {why}");
            }
            print(&(text + &as_text(options, &processes, &overview)))
        }
    }
}

/// A VM of which nothing could be read, beside others.
#[derive(Serialize, Deserialize)]
struct KeptVm {
    vm: String,
    why: String,
}

/// A part of the end of an answer, which programs of earlier versions may not send.
fn part_of<T: DeserializeOwned + Default>(end: &Value, name: &str) -> Result<T, String> {
    match end.get(name) {
        Some(part) => T::deserialize(part).map_err(|error| format!("a wrong answer: {error}")),
        None => Ok(T::default()),
    }
}

fn as_json(options: &StacksOptions, processes: &[Process], overview: &Overview) -> Value {
    let mut all = json!(overview);
    match options.group {
        true => all["groups"] = json!(group(processes, &overview.objects)),
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
