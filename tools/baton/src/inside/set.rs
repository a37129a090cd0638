//! `baton set`.

use super::{attach_to, check_write, print, print_json};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write;

#[derive(Args)]
pub(super) struct SetOptions {
    /// The process id of the program
    #[arg(value_name = "PID")]
    pid: u32,
    /// The parameter; without it, all are shown
    #[arg(value_name = "NAME", requires = "value")]
    name: Option<String>,
    /// Its new value
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    value: Option<String>,
    /// Writes JSON instead of text
    #[arg(long)]
    json: bool,
    /// Changes a program that was not started with BATON_ATTACH=all
    #[arg(long)]
    write: bool,
}

pub(super) fn run(options: &SetOptions) -> Result<(), String> {
    check_write(options.write)?;
    let mut program = attach_to(options.pid, options.write).map_err(|error| error.to_string())?;
    let no_parts = &mut |_| Ok(());
    let (Some(name), Some(value)) = (&options.name, &options.value) else {
        let all = program.ask("parameters", Value::Null, no_parts)?;
        return match options.json {
            true => print_json("baton.set", &json!({ "parameters": all })),
            false => print(&table(&all)),
        };
    };
    let set = program.ask("set", json!({ "name": name, "value": value }), no_parts)?;
    if options.json {
        return print_json(
            "baton.set",
            &json!({ "parameters": { name.as_str(): set["value"] } }),
        );
    }
    let new = set.get("value").and_then(Value::as_str).unwrap_or(value);
    print(&format!("{name} = {new}\n"))
}

fn table(parameters: &Value) -> String {
    let mut text = String::new();
    for (name, value) in parameters.as_object().into_iter().flatten() {
        // A string takes all that is written to it.
        let _ = writeln!(text, "{name:<14} {}", value.as_str().unwrap_or_default());
    }
    text
}
