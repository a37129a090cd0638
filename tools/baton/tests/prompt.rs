//! The prompt's line editor, on a terminal. `standalone` tests what the prompt prints.
#![cfg(target_os = "linux")]

mod harness;

use harness::baton_path;
use harness::screen::OnTerminal;
use std::process::Command;

/// The objects that names are completed of.
const OBJECTS: &str = "process = require 'baton.process' p = process.main c = process.channel() \
                       s = process.semaphore(1)";

#[test]
fn tab_completes_methods_and_fields_of_userdata() {
    let mut command = Command::new(baton_path());
    command.env("BATON_HISTORY", "").env_remove("LUA_INIT");
    let mut prompt = OnTerminal::start(command);
    prompt.wait_for("\n>");
    prompt.press(&format!("{OBJECTS}\r"));
    prompt.wait_until("the next prompt", |text| {
        text.contains("semaphore(1)") && text.trim_end().ends_with("\n>")
    });
    for (typed, completed) in [
        ("p:jo", "p:join"),
        ("p:set_", "p:set_priority"),
        ("process.main:tr", "process.main:traceback"),
        ("p.dae", "p.daemon"),
        ("p.na", "p.name"),
        ("c:rec", "c:receive"),
        ("s:si", "s:signal"),
        ("process.params.fli", "process.params.flight"),
        ("io.stdout:setv", "io.stdout:setvbuf"),
    ] {
        prompt.press(&format!("{typed}\t"));
        prompt.wait_until(completed, |text| {
            let line = text.lines().last().unwrap_or_default();
            line.trim_end() == format!("> {completed}")
        });
        prompt.press("\x15");
    }
    prompt.press("p:na\tme\x15"); // a field is no method
    prompt.press("\x04");
    assert!(prompt.finish().success());
}
