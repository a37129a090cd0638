//! The systems that `cores` compares, as arms.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::bench::Bench;
use crate::child;
use crate::contest::Arm;
use crate::peers::{self, ERLANG_OTP, GO, REMEDY};
use crate::report::{self, Found};
use crate::scripts;

pub(super) const BATON: &str = "baton";
pub(super) const NODE: &str = "Node workers";
pub(super) const PROCESSES: &str = "Python processes";
pub(super) const INTERPRETERS: &str = "Python interpreters";
pub(super) const GO_CORES: &str = GO.name;
pub(super) const ERLANG: &str = ERLANG_OTP.name;

/// The time limit for a program to say that it can run.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

/// The names of Python, the newest first. A name may exist and run nothing.
const PYTHONS: [&str; 4] = ["python3.15", "python3.14", "python3.13", "python3"];

const NO_INTERPRETERS: &str = "missing: it needs Python 3.13 or later; cargo xtask peers installs \
                               the python3 of the system";

/// These systems as arms, in this order.
pub(super) fn arms(bench: &Bench, names: &[&'static str]) -> Result<Vec<Arm>> {
    names.iter().map(|name| arm(bench, name)).collect()
}

fn arm(bench: &Bench, name: &'static str) -> Result<Arm> {
    let peers = peers::directory(bench.paths.peers.as_ref())?;
    Ok(match name {
        BATON => {
            let source = include_str!("../../programs/cores/baton.lua");
            let script = bench.script("cores", source)?;
            Arm::interpreted(BATON, &bench.paths.baton()?, &script, &[])
        }
        NODE => node(bench)?,
        PROCESSES => python(bench, PROCESSES, "processes", REMEDY)?,
        INTERPRETERS => python(bench, INTERPRETERS, "interpreters", NO_INTERPRETERS)?,
        GO_CORES => GO.arm(&peers, &["cores"]),
        // The environment's flags come after those of the command line, and win.
        ERLANG => ERLANG_OTP
            .arm(&peers, &["cores"])
            .with("ERL_ZFLAGS", "+S 2:2"),
        _ => Arm::missing(name, REMEDY),
    })
}

fn node(bench: &Bench) -> Result<Arm> {
    if !scripts::is_installed("node") {
        return Ok(Arm::missing(NODE, REMEDY));
    }
    let script = bench.directory().join("cores.js");
    report::write(&script, include_str!("../../programs/cores/node.js"))?;
    let version = said(Command::new("node").arg("--version")).unwrap_or_default();
    let mut arm = Arm::present(NODE, move || {
        let mut command = Command::new("node");
        command.arg(&script);
        command
    });
    arm.found = Some(found(NODE, version, "node"));
    Ok(arm)
}

/// The newest Python whose program can run in this way.
fn python(
    bench: &Bench,
    name: &'static str,
    way: &'static str,
    remedy: &'static str,
) -> Result<Arm> {
    let script = bench.directory().join("cores.py");
    report::write(&script, include_str!("../../programs/cores/python.py"))?;
    let start = move |python: &str| {
        let mut command = Command::new(python);
        command.arg(&script).arg(way);
        command
    };
    let usable = PYTHONS
        .iter()
        .find_map(|python| Some((python, said(start(python).arg("version"))?)));
    let Some((python, version)) = usable else {
        return Ok(Arm::missing(name, remedy));
    };
    let mut arm = Arm::present(name, move || start(python));
    arm.found = Some(found(name, version, python));
    Ok(arm)
}

fn found(name: &str, version: String, path: &str) -> Found {
    Found {
        name: name.to_string(),
        version,
        path: path.to_string(),
    }
}

/// What a program prints; `None` if it fails.
fn said(command: &mut Command) -> Option<String> {
    let run = child::run(command, PROBE_LIMIT).ok()?;
    run.status.success().then(|| run.output.trim().to_string())
}

/// Whether an interpreter of Lua finds a module.
pub(super) fn finds(interpreter: &Path, module: &str) -> bool {
    let mut command = Command::new(interpreter);
    said(command.args(["-e", &format!("require '{module}'")])).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_says_nothing() {
        let mut shell = Command::new("sh");
        assert_eq!(said(shell.args(["-c", "echo 1; exit 1"])), None);
        let mut shell = Command::new("sh");
        assert_eq!(said(shell.args(["-c", "echo 1"])), Some("1".to_string()));
        assert_eq!(said(&mut Command::new("/no/such/program")), None);
    }
}
