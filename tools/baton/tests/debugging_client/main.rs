//! A client that others have published debugs a program with 1,000 processes, of which 999 go on.
//! `cargo xtask readers` installs it. And the extension for VS Code starts the debugger.
#![cfg(target_os = "linux")]

#[path = "../harness/mod.rs"]
mod harness;

use harness::debugger::script;
use harness::readers::readers;
use harness::skip::skip;
use harness::{Run, baton_path};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Where `cargo xtask readers` installs the client.
fn installed() -> PathBuf {
    readers("debugger")
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/debugging_client")
}

/// Whether the client is there, in the version that is expected.
fn is_installed() -> bool {
    let wanted = fs::read_to_string(sources().join("package-lock.json")).expect("the list");
    fs::read_to_string(installed().join("installed.txt")).is_ok_and(|found| found == wanted)
}

const PROGRAM: &str = "\
local process = require 'baton.process'
local counts = {}
local function total()
  local sum = 0
  for _, count in pairs(counts) do sum = sum + count end
  return sum
end
for i = 1, 999 do
  process.spawn(function()
    while true do
      counts[i] = (counts[i] or 0) + 1
      process.sleep(0.002)
    end
  end)
end
local function probe()
  local own = 0
  while total() >= 0 do
    own = own + 1
    process.sleep(0.001)
  end
end
probe()
";

#[test]
fn the_client_sets_a_breakpoint_steps_and_evaluates_while_999_processes_go_on() {
    if !is_installed() {
        skip(
            "the debugger with a client from npm",
            "run cargo xtask readers",
        );
        return;
    }
    let outcome = Run::of(Path::new("node"))
        .arg(sources().join("client.mjs"))
        .arg(installed().join("node_modules"))
        .arg(baton_path())
        .arg(script(PROGRAM))
        .arg("19")
        .run();
    outcome.succeeds();
    let seen: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!(seen["threads"], 1000, "{seen}");
    assert_eq!(
        (&seen["line"], &seen["stepped"]),
        (&20.into(), &1.into()),
        "{seen}"
    );
    assert_eq!(seen["locals"], json!(["own"]), "{seen}");
}

const WHOLE: &str = "\
local process = require 'baton.process' local channel = process.channel(nil, 'results')
local values = { 1, 2, name = 'a name' }
local function work(n)
  local here = n
  return here + values[1]
end
process.spawn({ name = 'waiter' }, function()
  local function await()
    local wanted = { 'a result' }
    return channel:receive(), wanted
  end
  await()
end)
process.yield()
work(1)
pcall(error, { code = 42 })
print 'idle'
process.sleep(1000)
";

const LOST_UPDATE: &str = "\
local process = require 'baton.process' local balance = 0
local function deposit(amount)
  local seen = balance
  for _ = 1, 3 do end
  balance = seen + amount
end
local clerks = {}
for i = 1, 4 do clerks[i] = process.spawn(deposit, 10) end
for i = 1, 4 do clerks[i]:join() end
assert(balance == 40)
";

#[test]
fn the_client_drives_each_request() {
    if !is_installed() {
        skip(
            "the debugger with a client from npm",
            "run cargo xtask readers",
        );
        return;
    }
    let simulated = script(LOST_UPDATE);
    let found = Run::of(baton_path())
        .arg("--simulate")
        .arg("1-50")
        .arg(&simulated)
        .run();
    let told = found.stderr.split("--simulate ").find_map(|rest| {
        let (run, after) = rest.split_once(' ')?;
        after.starts_with("repeats these").then_some(run)
    });
    let outcome = Run::of(Path::new("node"))
        .arg(sources().join("whole.mjs"))
        .arg(installed().join("node_modules"))
        .arg(baton_path())
        .arg(script(WHOLE))
        .arg(told.expect("the fewest switches"))
        .arg(&simulated)
        .run();
    outcome.succeeds();
    let seen: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    for capability in [
        "supportsCancelRequest",
        "supportsCompletionsRequest",
        "supportsRestartRequest",
        "supportsSetExpression",
    ] {
        let all = seen["capabilities"].as_array().expect("a list");
        assert!(all.contains(&capability.into()), "{capability}");
    }
    let wrong = seen["wrong"].as_array().expect("a list");
    assert!(wrong[1].as_str().is_some_and(|it| it.contains("write ==")));
    assert!(wrong[2].as_str().is_some_and(|it| it.contains("'n +'")));
    assert_eq!(seen["pages"], json!([true, true]));
    assert_eq!(
        seen["ended"],
        json!(["cancelled", "the expression was ended"])
    );
    let limited = seen["limited"].as_str().unwrap_or_default();
    assert!(limited.contains("watchLimit"), "{limited}");
    assert_eq!(seen["preview"], "{1, 2, name = \"a name\"}");
    assert_eq!(seen["completions"], json!(["name"]));
    assert_eq!(seen["changed"], "\"new\"");
    assert_eq!(seen["waiting"], "{\"a result\"}");
    assert_eq!(seen["again"], "breakpoint");
    assert_eq!(seen["error"], json!(["exception", "{code = 42}", "table"]));
    assert_eq!(seen["idle"], json!(["pause", 1, true]));
    assert_eq!(seen["replayed"], 1);
}

#[test]
fn the_extension_for_vs_code_starts_the_debugger() {
    let is_there = std::process::Command::new("node").arg("--version").output();
    if is_there.is_err() {
        skip(
            "the extension for VS Code",
            "install the Debian package nodejs",
        );
        return;
    }
    let extension = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../editor/vscode/extension.js");
    let outcome = Run::of(Path::new("node"))
        .arg(sources().join("extension.mjs"))
        .arg(fs::canonicalize(extension).expect("the extension"))
        .arg(baton_path())
        .run();
    outcome.succeeds();
    let seen: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let baton = baton_path().display().to_string();
    assert_eq!(seen["started"], json!([baton, ["debug"]]));
    assert_eq!(seen["status"], 0);
    assert_eq!(
        seen["capabilities"]["supportsConditionalBreakpoints"], true,
        "{seen}"
    );
    assert_eq!(seen["subscriptions"], 5);
    assert_eq!(seen["open"]["program"], "/program/open.lua");
    assert_eq!(seen["attach"], 42);
    assert_eq!(
        (&seen["refused"], &seen["wrong"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(seen["messages"].as_array().map(Vec::len), Some(2));
    assert_eq!(seen["task"], json!([baton, ["--", "/program/open.lua"]]));
    assert_eq!(seen["library"], json!(["/extension/library"]));
}
