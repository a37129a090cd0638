//! The servers that are compared: ours, and one in each other system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::bench::Bench;
use crate::child;
use crate::contest::Arm;
use crate::peers::{self, GO, HYPER, REMEDY};

use super::{HTTP_CASES, JSON_CASES, SIMPLE_CASES, UP_TO_A_THOUSAND};

pub(super) const BATON: &str = "baton";
/// The same service over LuaSocket, with its own reading of HTTP.
const BATON_LUASOCKET: &str = "baton, LuaSocket";
pub(super) const COPAS: &str = "Copas";
pub(super) const NGINX: &str = "nginx, http-lua";
pub(super) const NODE: &str = "Node";
/// The other servers that run Lua.
pub(super) const LUA_PEERS: [&str; 5] = [COPAS, "cqueues, lua-http", "luv", NGINX, "Tarantool"];

/// Lua code that finds libraries in pure Lua that Debian has for older versions of Lua only. The
/// scripts that need them do the same.
const OLDER_LIBRARIES: &str =
    "package.path = package.path .. ';/usr/share/lua/5.3/?.lua;/usr/share/lua/5.2/?.lua'";

/// One of our programs that another system runs.
struct Script {
    name: &'static str,
    file: &'static str,
    text: &'static str,
    /// The command that runs it.
    runner: &'static str,
    /// What the probe is: for Lua, libraries that it must find; otherwise, words for the shell.
    probe: &'static str,
    /// The cases in which it takes part; `None` means all.
    cases: Option<&'static [&'static str]>,
}

/// Describes a script of `programs/net`.
macro_rules! script {
    ($name:expr, $file:literal, $runner:literal, $probe:literal, $cases:expr) => {
        Script {
            name: $name,
            file: $file,
            text: include_str!(concat!("../../programs/net/", $file)),
            runner: $runner,
            probe: $probe,
            cases: $cases,
        }
    };
}

const SCRIPTS: [Script; 6] = [
    // The `select` of this system cannot handle more connections.
    script!(
        COPAS,
        "copas.lua",
        "lua5.4",
        "require 'copas'",
        Some(&UP_TO_A_THOUSAND)
    ),
    script!(
        "cqueues, lua-http",
        "cqueues.lua",
        "lua5.4",
        "require 'cqueues' require 'http.server'",
        Some(&SIMPLE_CASES)
    ),
    script!(
        "luv",
        "luv.lua",
        "lua5.4",
        "require 'luv'",
        Some(&SIMPLE_CASES)
    ),
    script!(
        NGINX,
        "nginx.sh",
        "sh",
        "nginx -v && ls /etc/nginx/modules-enabled/*http-lua*.conf",
        Some(&HTTP_CASES)
    ),
    script!(
        "Tarantool",
        "tarantool.lua",
        "tarantool",
        "tarantool -v",
        Some(&SIMPLE_CASES)
    ),
    script!(NODE, "node.js", "node", "node --version", None),
];

/// All servers as arms. Each arm runs this program in a role, which starts a server and loads it.
pub(super) fn arms(bench: &Bench, role: &str) -> Result<Vec<Arm>> {
    let drive = |name, server: Vec<String>| {
        Arm::this_program(name, &[role, &serde_json::Value::from(server).to_string()])
    };
    let baton = bench.paths.baton()?;
    let script = bench.script("net", include_str!("../../programs/net/baton.lua"))?;
    let mut ours = match succeeds(&[&text_of(&baton.path), "-e", "require 'socket'"]) {
        true => drive(BATON, vec![text_of(&baton.path), text_of(&script)])?,
        false => Arm::missing(BATON, REMEDY),
    };
    ours.found = Some(baton.found());
    let over_luasocket = include_str!("../../programs/net/baton_luasocket.lua");
    let script = bench.script("net-luasocket", over_luasocket)?;
    let words = vec![text_of(&baton.path), text_of(&script)];
    let second = drive(BATON_LUASOCKET, words)?.only(&JSON_CASES);
    let mut arms = vec![ours, second];
    for script in &SCRIPTS {
        let arm = match script.is_installed() {
            true => drive(script.name, script.command_line(bench.directory())?)?,
            false => Arm::missing(script.name, REMEDY),
        };
        arms.push(match script.cases {
            Some(cases) => arm.only(cases),
            None => arm,
        });
    }
    let directory = peers::directory(bench.paths.peers.as_ref())?;
    for (peer, cases) in [(GO, None), (HYPER, Some(&JSON_CASES))] {
        let words = vec![text_of(&peer.program(&directory)), "net".to_string()];
        let found = peer.found(&directory);
        let mut arm = match found {
            Some(_) => drive(peer.name, words)?,
            None => Arm::missing(peer.name, REMEDY),
        };
        arm.found = found;
        arms.push(match cases {
            Some(cases) => arm.only(cases),
            None => arm,
        });
    }
    Ok(arms)
}

fn text_of(path: &Path) -> String {
    path.display().to_string()
}

fn succeeds(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    child::run(command.args(&words[1..]), Duration::from_secs(20))
        .is_ok_and(|run| run.status.success())
}

impl Script {
    fn is_installed(&self) -> bool {
        match self.runner {
            "lua5.4" => succeeds(&["lua5.4", "-e", OLDER_LIBRARIES, "-e", self.probe]),
            _ => succeeds(&["sh", "-c", self.probe]),
        }
    }

    /// Writes the script to a file and returns the command line.
    fn command_line(&self, directory: &Path) -> Result<Vec<String>> {
        let path: PathBuf = directory.join(self.file);
        fs::write(&path, self.text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(vec![self.runner.to_string(), text_of(&path)])
    }
}
