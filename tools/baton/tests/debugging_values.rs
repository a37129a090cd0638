//! What the debugger shows of values and errors, and what it says of breakpoints that are wrong.
#![cfg(target_os = "linux")]

mod harness;

use harness::debugger::{Session, script};
use serde_json::{Value, json};
use std::fs;

fn path(code: &str) -> String {
    script(code).display().to_string()
}

/// What is shown of a variable of a scope.
fn variable(session: &mut Session, frame: i64, scope: &str, name: &str) -> Value {
    let reference = session.scope(frame, scope);
    let all = session.variables(reference);
    let found = all.iter().find(|variable| variable["name"] == name);
    found
        .cloned()
        .unwrap_or_else(|| panic!("no {name} in {all:?}"))
}

/// What is in it: names and values.
fn opened(session: &mut Session, variable: &Value) -> Vec<Value> {
    session.variables(variable["variablesReference"].as_i64().expect("a number"))
}

const VALUES: &str = "\
local key = {}
local mixed = { 10, 'two', zeta = true, alpha = { 1 }, [key] = 1, [2.5] = 'x', [1/0] = 'inf' }
local point = setmetatable({ x = 1, y = 2 }, { __name = 'Point', __tostring = error })
local long = {}
for i = 1, 1000 do long[i] = i end
local empty = {}
local words = { 'a \"quoted\" word', ('long '):rep(20) }
print(mixed, long, empty, words)
";

#[test]
fn tables_have_previews_and_their_keys_are_in_order() {
    let mut session = Session::launch(&path(VALUES), &[8]);
    let stop = session.stopped();
    let frame = stop.ids[0];
    let mut value = |name: &str| {
        let shown = variable(&mut session, frame, "Locals", name)["value"].clone();
        shown.as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(value("empty"), "{}");
    assert_eq!(value("point"), "Point {x = 1, y = 2}");
    assert_eq!(value("long"), "{1, 2, 3, 4, 5, ...} (#1000)");
    let mixed = value("mixed");
    assert!(
        mixed.starts_with(
            "{10, \"two\", [2.5] = \"x\", [inf] = \"inf\", alpha = {...}, zeta = true"
        ),
        "{mixed}"
    );
    let words = value("words");
    assert!(
        words.starts_with("{\"a \\\"quoted\\\" word\", \"long long"),
        "{words}"
    );
    assert!(words.ends_with("...\"}"), "{words}");

    let mixed = variable(&mut session, frame, "Locals", "mixed");
    let fields = opened(&mut session, &mixed);
    let names: Vec<&str> = fields
        .iter()
        .filter_map(|field| field["name"].as_str())
        .collect();
    assert_eq!(
        names[..6],
        ["[1]", "[2]", "[2.5]", "[inf]", "alpha", "zeta"]
    );
    assert!(names[6].starts_with("[{}"), "{names:?}");
    // An expression is told only where there is one.
    let told: Vec<bool> = fields
        .iter()
        .map(|field| field["evaluateName"].is_string())
        .collect();
    assert_eq!(told, [true, true, true, false, true, true, false]);
    for field in fields
        .iter()
        .filter(|field| field["evaluateName"].is_string())
    {
        let expression = field["evaluateName"].as_str().expect("a text");
        let with = json!({ "expression": expression, "frameId": frame, "context": "watch" });
        let again = session.ask("evaluate", with);
        assert_eq!(again["result"], field["value"], "{expression}");
    }
    let globals = session.shown(frame, "Globals");
    let names: Vec<&str> = globals
        .iter()
        .filter_map(|it| it.split_once('='))
        .map(|it| it.0)
        .collect();
    assert!(names.is_sorted(), "{names:?}");
    session.disconnect();
}

const ERRORS: &str = "\
local Failure = { __name = 'Failure', __tostring = function() os.exit(7) end }
pcall(error, setmetatable({ code = 42, detail = { 'here' } }, Failure))
pcall(error, nil)
pcall(error, 'a text', 0)
";

#[test]
fn an_error_that_is_a_table_is_shown_with_what_is_in_it() {
    let code = path(ERRORS);
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code }));
    session.stop_at_errors(&["all"]);
    session.configured();
    let stop = session.stopped();
    let info = session.ask("exceptionInfo", json!({ "threadId": stop.thread }));
    assert_eq!(info["description"], "Failure {code = 42, detail = {...}}");
    assert_eq!(info["details"]["typeName"], "table");
    assert_eq!(info["breakMode"], "always");
    let error = variable(&mut session, stop.ids[0], "Error", "(error)");
    let fields = opened(&mut session, &error);
    assert_eq!(
        (&fields[0]["name"], &fields[0]["value"]),
        (&json!("code"), &json!("42"))
    );
    let detail = opened(&mut session, &fields[1]);
    assert_eq!(detail[0]["value"], "\"here\"");
    for expected in ["nil", "a text"] {
        session.resume("continue", stop.thread);
        session.stopped();
        let info = session.ask("exceptionInfo", json!({ "threadId": stop.thread }));
        assert_eq!(info["description"], expected);
    }
    session.resume("continue", stop.thread);
    assert_eq!(session.exit_code(), 0);
}

const LOOP: &str = "\
local sum = 0
local list = { first = { second = 2 } }
for i = 1, 3 do
  sum = sum + i
end
print(sum)
";

#[test]
fn conditions_and_log_messages_are_checked_when_they_are_set() {
    let code = path(LOOP);
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code }));
    let wishes = json!([
        { "line": 4, "condition": "i ==" },
        { "line": 4, "condition": "i = 2" },
        { "line": 4, "logMessage": "i is {i} and {sum +}" },
        { "line": 4, "logMessage": "i is {i}, {sum}, } {" },
        { "line": 6, "condition": "sum == 6" },
    ]);
    let set = session.set_breakpoints(&code, wishes);
    for (n, expected) in [
        "the condition 'i ==' is wrong: unexpected symbol near <eof>",
        "the condition 'i = 2' is wrong: it is a statement",
        "the expression 'sum +' is wrong: unexpected symbol near <eof>",
    ]
    .iter()
    .enumerate()
    {
        let message = set[n]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(expected), "{message}");
    }
    assert!(set[3]["message"].is_null() || set[3]["message"] == "no code is loaded here yet");
    session.configured();
    // They stay unverified when the file is loaded.
    let mut verified = Vec::new();
    for _ in 0..5 {
        let changed = session.event("breakpoint");
        verified.push((
            changed["breakpoint"]["id"].as_i64(),
            changed["breakpoint"]["verified"].clone(),
        ));
    }
    verified.sort_by_key(|it| it.0);
    let verified: Vec<bool> = verified.iter().map(|it| it.1 == true).collect();
    assert_eq!(verified, [false, false, false, true, true]);
    session.disconnect();
}

#[test]
fn a_log_message_with_a_wrong_expression_names_its_breakpoint_and_shows_the_rest() {
    let code = path(LOOP);
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code }));
    let message = "{i}: {nosuch.field} of {sum}";
    session.set_breakpoints(&code, json!([{ "line": 4, "logMessage": message }]));
    session.configured();
    assert_eq!(session.exit_code(), 0);
    // Among what the program has written itself.
    let line = session.output.lines().find(|line| line.ends_with(" of 0"));
    let line = line.unwrap_or_else(|| panic!("{}", session.output));
    assert_eq!(
        line,
        "script.lua:4: the log message: 1: {expression:1: attempt to index a nil value (global \
         'nosuch')} of 0"
    );
    let told = session.output_event("of 0");
    assert_eq!(
        (&told["line"], &told["source"]["path"]),
        (&json!(4), &json!(code))
    );
}

#[test]
fn a_breakpoint_behind_the_end_of_a_file_moves_to_its_last_line() {
    let code = path("local module = require 'module'\nprint(module.x)\n");
    let module = code.replace("script.lua", "module.lua");
    fs::write(
        &module,
        "local module = {}\n\nmodule.x = 1\nreturn module\n\n-- end\n",
    )
    .expect("the directory is writable");
    let directory = code.replace("script.lua", "?.lua");
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code, "env": { "LUA_PATH": directory } }));
    let set = session.set_breakpoints(&module, json!([{ "line": 500 }]));
    assert_eq!(set[0]["verified"], false);
    session.configured();
    let changed = session.event("breakpoint");
    assert_eq!(
        (
            &changed["breakpoint"]["verified"],
            &changed["breakpoint"]["line"]
        ),
        (&json!(true), &json!(4))
    );
    let stop = session.stopped();
    assert_eq!(stop.frames[0].1, 4);
    let set = session.set_breakpoints(&module, json!([{ "line": 6 }]));
    assert_eq!(
        (&set[0]["verified"], &set[0]["line"]),
        (&json!(true), &json!(4))
    );
    session.disconnect();
}

const DEEP: &str = "\
local function down(n)
  if n == 0 then return 0 end
  return 1 + down(n - 1)
end
print(down(6000))
";

#[test]
fn all_frames_of_a_deep_stack_are_told_or_a_page_of_them() {
    let code = path(DEEP);
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code }));
    session.set_breakpoints(&code, json!([{ "line": 2, "condition": "n == 0" }]));
    session.configured();
    let thread = session.event("stopped")["threadId"].clone();
    let mut stack = |first: i64, levels: i64| {
        let with = json!({ "threadId": thread, "startFrame": first, "levels": levels });
        let stack = session.ask("stackTrace", with);
        assert_eq!(stack["totalFrames"], 6003);
        stack["stackFrames"].as_array().cloned().expect("a list")
    };
    let all = stack(0, 0);
    assert_eq!(all.len(), 6003);
    assert_eq!(all[6001]["name"], "main chunk");
    let page = stack(5990, 50);
    assert_eq!(page.len(), 13);
    assert_eq!(page[..], all[5990..]);
    assert_eq!(stack(7000, 10).len(), 0);
    session.disconnect();
}

#[test]
fn names_are_completed_and_expressions_are_set() {
    let mut session = Session::launch(&path(LOOP), &[4]);
    let stop = session.stopped();
    let frame = stop.ids[0];
    let mut completed = |text: &str| {
        let with = json!({ "frameId": frame, "text": text, "column": text.len() + 1 });
        let targets = session.ask("completions", with)["targets"].clone();
        let targets = targets.as_array().cloned().expect("a list");
        let all: Vec<String> = targets
            .iter()
            .filter_map(|target| Some(target["label"].as_str()?.to_owned()))
            .collect();
        (all, targets)
    };
    assert_eq!(completed("1 + su").0, ["sum"]);
    assert_eq!(completed("list.first.").0, ["second"]);
    assert_eq!(completed("string.rep").0, ["rep"]);
    assert_eq!(completed("list.first.second.").0.len(), 0);
    assert_eq!(completed("f().x").0.len(), 0);
    assert!(completed("pr").0.contains(&"print".to_owned()));
    assert!(completed("wh").0.contains(&"while".to_owned()));
    let (_, targets) = completed("print(list.fi");
    let first = json!({ "label": "first", "type": "field", "start": 12, "length": 2 });
    assert_eq!(targets, [first]);

    let set = |expression: &str, value: &str| {
        let mut with = json!({ "expression": expression, "frameId": frame });
        with["value"] = value.into();
        with
    };
    let shown = session.ask("setExpression", set("list.first.second", "{ sum + 5 }"));
    assert_eq!(shown["value"], "{5}");
    assert_eq!(session.evaluate(frame, "list.first.second[1]"), "5");
    let shown = session.ask("setExpression", set("sum", "100 -- more"));
    assert_eq!(shown["value"], "100");
    let wrong = set("sum + 1", "2");
    session
        .try_ask("setExpression", wrong)
        .expect_err("no place for a value");
    session.ask(
        "setBreakpoints",
        json!({ "source": { "path": "none" }, "breakpoints": [] }),
    );
    session.disconnect();
}

#[test]
fn a_program_is_started_again_with_its_breakpoints() {
    let code = path(LOOP);
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code }));
    session.set_breakpoints(&code, json!([{ "line": 4, "condition": "i == 2" }]));
    session.configured();
    let first = session.program();
    let stop = session.stopped();
    assert_eq!(session.evaluate(stop.ids[0], "sum"), "1");
    session.evaluate(stop.ids[0], "sum = 50");
    session.ask("restart", json!({}));
    assert_ne!(session.program(), first);
    let again = session.stopped();
    assert_eq!(session.evaluate(again.ids[0], "sum"), "1");
    let with = json!({ "expression": "sum", "frameId": stop.ids[0] });
    session
        .try_ask("evaluate", with)
        .expect_err("that frame is gone");
    session.set_breakpoints(&code, json!([]));
    session.resume("continue", again.thread);
    assert_eq!(session.exit_code(), 0);
    assert_eq!(session.output, "6\n");
}
