//! `baton debug`: breakpoints, steps, variables and expressions, as an editor asks for them.
#![cfg(target_os = "linux")]

mod harness;

use harness::debugger::{Session, script};
use serde_json::json;

const SUMS: &str = "\
local function add(a, b)
  local sum = a + b
  return sum
end
local total = 0
for i = 1, 5 do
  total = total + add(i, i * 10)
end
print('total', total)
";

fn launch(code: &str, lines: &[i64]) -> Session {
    Session::launch(&path(code), lines)
}

fn path(code: &str) -> String {
    script(code).display().to_string()
}

#[test]
fn a_breakpoint_stops_the_process_and_its_frame_is_shown() {
    let mut session = launch(SUMS, &[3]);
    let stop = session.stopped();
    assert_eq!(stop.reason, "breakpoint");
    assert_eq!(stop.frames[0], ("add".to_owned(), 3));
    assert_eq!(stop.frames[1], ("main chunk".to_owned(), 7));
    assert_eq!(
        session.shown(stop.ids[0], "Locals"),
        ["a=1", "b=10", "sum=11"]
    );
    assert_eq!(
        session.shown(stop.ids[1], "Locals")[1..],
        ["total=0", "i=1"]
    );
    for _ in 0..4 {
        session.resume("continue", stop.thread);
        session.stopped();
    }
    session.resume("continue", stop.thread);
    assert_eq!(session.exit_code(), 0);
    assert_eq!(session.output, "total\t165\n");
    assert!(session.disconnect().success());
}

#[test]
fn breakpoints_are_verified_when_their_chunk_is_loaded() {
    let code = path("local x = 1\n\n-- a comment\nx = x + 1\nprint(x)\n");
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code }));
    let set = session.set_breakpoints(&code, json!([{ "line": 2 }]));
    assert_eq!(set[0]["verified"], false);
    session.configured();
    let changed = session.event("breakpoint");
    assert_eq!(changed["breakpoint"]["verified"], true);
    assert_eq!(changed["breakpoint"]["line"], 4); // the next line with code
    let stop = session.stopped();
    assert_eq!(stop.frames[0].1, 4);
    let set = session.set_breakpoints(&code, json!([{ "line": 5 }]));
    assert_eq!(
        (&set[0]["verified"], &set[0]["line"]),
        (&true.into(), &5.into())
    );
    session.resume("continue", stop.thread);
    assert_eq!(session.stopped().frames[0].1, 5);
}

#[test]
fn conditions_and_counts_of_hits_decide_where_it_stops() {
    let code = path(SUMS);
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code }));
    let set = session.set_breakpoints(
        &code,
        json!([
            { "line": 3, "condition": "sum == 33" },
            { "line": 2, "hitCondition": "5" },
            { "line": 9, "hitCondition": "often" },
        ]),
    );
    assert_eq!(set[2]["verified"], false);
    assert!(
        set[2]["message"]
            .as_str()
            .is_some_and(|why| why.contains("'> 5'"))
    );
    session.configured();
    let stop = session.stopped();
    assert_eq!(
        (stop.frames[0].1, session.evaluate(stop.ids[0], "a")),
        (3, "3".to_owned())
    );
    session.resume("continue", stop.thread);
    let stop = session.stopped();
    assert_eq!(
        (stop.frames[0].1, session.evaluate(stop.ids[0], "a")),
        (2, "5".to_owned())
    );
    session.resume("continue", stop.thread);
    assert_eq!(session.exit_code(), 0);
}

#[test]
fn log_points_write_and_do_not_stop() {
    let code = path(SUMS);
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code }));
    session.set_breakpoints(
        &code,
        json!([{ "line": 3, "logMessage": "{a} and {b}: {sum}" }]),
    );
    session.configured();
    assert_eq!(session.exit_code(), 0);
    for line in ["1 and 10: 11\n", "5 and 50: 55\n", "total\t165\n"] {
        assert!(session.output.contains(line), "{}", session.output);
    }
}

#[test]
fn a_wrong_condition_is_reported_and_stops() {
    let code = path(SUMS);
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code }));
    session.set_breakpoints(&code, json!([{ "line": 3, "condition": "nothing.here" }]));
    session.configured();
    let stop = session.stopped();
    assert_eq!(stop.frames[0].1, 3);
    session.await_output("attempt to index a nil value (global 'nothing')");
}

const STEPS: &str = "\
local function leaf(x)
  local y = x * 2
  return y
end
local function twice(f, x)
  local first = f(x)
  local second = f(first)
  return second
end
local a = twice(leaf, 1)
local ok, b = pcall(twice, leaf, 2)
local co = coroutine.wrap(function(n)
  local m = coroutine.yield(n + 1)
  return m + 1
end)
local c = co(1)
local d = co(10)
print(a, b, c, d)
";

#[test]
fn steps_go_in_over_and_out() {
    let mut session = launch(STEPS, &[10]);
    let stop = session.stopped();
    let main = stop.thread;
    let at = |stop: &harness::debugger::Stop| stop.frames[0].clone();
    let stop = session.step("stepIn", main);
    assert_eq!(at(&stop), ("twice".to_owned(), 6));
    let stop = session.step("stepIn", main);
    assert_eq!(stop.frames[0].1, 2);
    let stop = session.step("next", main);
    assert_eq!(stop.frames[0].1, 3);
    let stop = session.step("stepOut", main);
    assert_eq!(at(&stop), ("twice".to_owned(), 7)); // the call was the end of line 6
    let stop = session.step("next", main); // over a call
    assert_eq!(at(&stop), ("twice".to_owned(), 8));
    let stop = session.step("stepOut", main);
    assert_eq!(at(&stop).1, 11);
    let stop = session.step("stepIn", main); // through pcall
    assert_eq!(at(&stop).1, 6);
    let stop = session.step("stepOut", main); // out through pcall
    assert_eq!(at(&stop).1, 12);
    session.disconnect();
}

#[test]
fn steps_cross_coroutines() {
    let mut session = launch(STEPS, &[16]);
    let stop = session.stopped();
    let main = stop.thread;
    let stop = session.step("stepIn", main);
    assert_eq!(stop.frames[0].1, 13);
    let lines: Vec<i64> = stop.frames.iter().map(|frame| frame.1).collect();
    assert_eq!(lines[..3], [13, 0, 16], "{:?}", stop.frames); // its resumer is below
    let stop = session.step("next", main); // it yields, at the end of line 16
    assert_eq!(stop.frames[0].1, 17);
    let stop = session.step("next", main); // over the rest of the coroutine
    assert_eq!(stop.frames[0].1, 18);
    session.resume("continue", main);
    assert_eq!(session.exit_code(), 0);
    assert_eq!(session.output, "4\t8\t2\t11\n");
}

#[test]
fn it_stops_at_the_first_line_if_asked_to() {
    let code = path(SUMS);
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code, "stopOnEntry": true }));
    session.configured();
    let stop = session.stopped();
    assert_eq!((stop.reason.as_str(), stop.frames[0].1), ("entry", 4));
}

const VALUES: &str = "\
local setting = { deep = { deeper = { 1, 2, 3 } }, ['a key'] = true, [2.5] = 'x' }
local many = {}
for i = 1, 1000 do many[i] = i end
many.name = 'many'
local function show(text, ...)
  local text = text .. '\\n\"quoted\"'
  local extra = select('#', ...)
  setting.seen = text
  return text
end
visible = 'global'
print(show('shown', 1, nil, 'three'))
print(setting.deep.deeper[2], visible)
";

#[test]
fn values_can_be_opened_and_paged() {
    let mut session = launch(VALUES, &[8, 13]);
    let stop = session.stopped();
    let frame = stop.ids[0];
    // A variable that another one hides is not shown.
    assert_eq!(
        session.shown(frame, "Locals"),
        ["text=\"shown\\n\\\"quoted\\\"\"", "extra=3"]
    );
    assert_eq!(
        session.shown(frame, "Extra arguments"),
        ["[1]=1", "[2]=nil", "[3]=\"three\""]
    );
    let globals = session.shown(frame, "Globals");
    assert!(
        globals.contains(&"visible=\"global\"".to_owned()),
        "{globals:?}"
    );
    let upvalues = session.scope(frame, "Upvalues");
    let setting = session.variables(upvalues);
    let setting = setting
        .iter()
        .find(|variable| variable["name"] == "setting");
    let reference = setting.expect("it is there")["variablesReference"].as_i64();
    let fields = session.variables(reference.expect("a number"));
    let field = |name: &str| {
        let found = fields.iter().find(|field| field["name"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {fields:?}"))
    };
    assert_eq!(field("[\"a key\"]")["value"], "true");
    assert_eq!(field("[2.5]")["value"], "\"x\"");
    assert_eq!(field("deep")["evaluateName"], "setting.deep");
    let deep = field("deep")["variablesReference"]
        .as_i64()
        .expect("a number");
    let deeper = session.variables(deep)[0]["variablesReference"].as_i64();
    let elements = session.variables(deeper.expect("a number"));
    assert_eq!(elements.len(), 3);
    assert_eq!(elements[2]["evaluateName"], "setting.deep.deeper[3]");

    let main = *stop.ids.get(1).expect("the main chunk");
    let locals = session.scope(main, "Locals");
    let locals = session.variables(locals);
    let many = locals.iter().find(|variable| variable["name"] == "many");
    let many = many.expect("it is there");
    assert_eq!(many["indexedVariables"], 1000);
    let page = session.ask(
        "variables",
        json!({
            "variablesReference": many["variablesReference"],
            "filter": "indexed", "start": 500, "count": 2,
        }),
    );
    let page = page["variables"].as_array().expect("a list");
    assert_eq!(page.len(), 2);
    assert_eq!(
        (&page[0]["name"], &page[0]["value"]),
        (&json!("[501]"), &json!("501"))
    );
    let named = session.ask(
        "variables",
        json!({ "variablesReference": many["variablesReference"], "filter": "named" }),
    );
    assert_eq!(named["variables"][0]["name"], "name");
    session.disconnect();
}

#[test]
fn variables_are_set_in_every_scope() {
    let mut session = launch(VALUES, &[8, 13]);
    let stop = session.stopped();
    let frame = stop.ids[0];
    let set = |session: &mut Session, scope: &str, name: &str, value: &str| {
        let reference = session.scope(frame, scope);
        let with = json!({ "variablesReference": reference, "name": name, "value": value });
        session.ask("setVariable", with)["value"].clone()
    };
    assert_eq!(set(&mut session, "Locals", "extra", "40 + 2"), "42");
    assert_eq!(
        set(&mut session, "Extra arguments", "[3]", "'third'"),
        "\"third\""
    );
    assert_eq!(
        set(&mut session, "Globals", "visible", "'changed'"),
        "\"changed\""
    );
    assert_eq!(
        session.evaluate(frame, "extra, visible, ..."),
        "42, \"changed\", 1, nil, \"third\""
    );
    assert_eq!(
        session.evaluate(frame, "setting.deep.deeper[2] = extra"),
        ""
    );
    assert_eq!(session.evaluate(frame, "text = 'from the debugger'"), "");
    let wrong = json!({
        "variablesReference": session.scope(frame, "Locals"), "name": "none", "value": "1",
    });
    let why = session
        .try_ask("setVariable", wrong)
        .expect_err("there is no such variable");
    assert!(why.contains("no variable 'none'"), "{why}");
    session.resume("continue", stop.thread);
    session.stopped();
    session.await_output("from the debugger\n");
    session.resume("continue", stop.thread);
    assert_eq!(session.exit_code(), 0);
    assert!(
        session.output.ends_with("42\tchanged\n"),
        "{}",
        session.output
    );
}

#[test]
fn a_reference_is_gone_when_its_process_has_gone_on() {
    let mut session = launch(SUMS, &[3]);
    let stop = session.stopped();
    let locals = session.scope(stop.ids[0], "Locals");
    session.resume("continue", stop.thread);
    session.stopped();
    let why = session.try_ask("variables", json!({ "variablesReference": locals }));
    assert!(why.expect_err("it is gone").contains("is gone"));
}

const ERRORS: &str = "\
local ok = pcall(function() error('caught') end)
local thread = coroutine.create(function() error('in a coroutine') end)
coroutine.resume(thread)
local sorted = pcall(table.sort, { 1, 2, 3 }, function() error('in sort') end)
local outer = coroutine.wrap(function() return nil + 1 end)
outer()
";

#[test]
fn errors_that_nothing_catches_stop_where_they_are_raised() {
    let code = path(ERRORS);
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code }));
    session.stop_at_errors(&["uncaught"]);
    session.configured();
    let stop = session.stopped();
    assert_eq!((stop.reason.as_str(), stop.frames[0].1), ("exception", 5));
    let text = stop.event["text"].as_str().unwrap_or_default();
    assert!(
        text.ends_with("attempt to perform arithmetic on a nil value"),
        "{text}"
    );
    let info = session.ask("exceptionInfo", json!({ "threadId": stop.thread }));
    assert_eq!(info["description"], stop.event["text"]);
    session.resume("continue", stop.thread);
    assert_eq!(session.exit_code(), 1); // no second stop for the same error
}

/// The message is where the arguments of the call would be, below the frame's other registers.
#[test]
fn the_text_of_an_error_at_a_call_is_shown() {
    let code = path("local function f() nofunc(); print(1, 2, 3, 4, 5, 6, 7, 8) end\nf()\n");
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code }));
    session.stop_at_errors(&["uncaught"]);
    session.configured();
    let stop = session.stopped();
    let text = stop.event["text"].as_str().unwrap_or_default();
    assert!(
        text.ends_with("attempt to call a nil value (global 'nofunc')"),
        "{text}"
    );
    session.resume("continue", stop.thread);
    assert_eq!(session.exit_code(), 1);
}

/// Its frame is gone when the program calls it.
#[test]
fn a_function_made_by_an_expression_outlives_its_frame() {
    let code = "\
local function f(secret)
  local stays = secret
  return stays
end
f('hidden')
collectgarbage()
local function g(...) return handler(...) end
print(g(1, 2, 3))
print(pcall(other))
";
    let mut session = launch(code, &[3]);
    let stop = session.stopped();
    for expression in [
        "handler = function(...) return tostring(stays), ... end",
        "other = function() stays = 1 return stays end",
    ] {
        assert_eq!(session.evaluate(stop.ids[0], expression), "");
    }
    session.resume("continue", stop.thread);
    assert_eq!(session.exit_code(), 0);
    assert_eq!(session.output, "nil\t1\t2\t3\ntrue\t1\n");
}

/// The condition runs for most of the time, so the breakpoints are set anew in the middle of it.
#[test]
fn a_breakpoint_is_removed_while_its_condition_runs() {
    let code = path("local n = 0\nwhile true do\n  n = n + 1\nend\n");
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code }));
    let slow = "(function() for i = 1, 20000 do local t = { i } end return false end)()";
    session.set_breakpoints(&code, json!([{ "line": 3, "condition": slow }]));
    session.configured();
    for _ in 0..50 {
        session.set_breakpoints(&code, json!([{ "line": 3, "condition": slow }]));
        session.set_breakpoints(&code, json!([]));
        session.set_breakpoints(&code, json!([{ "line": 3, "condition": slow }]));
    }
    session.set_breakpoints(&code, json!([{ "line": 3 }]));
    let stop = session.stopped();
    assert_eq!(stop.frames[0].1, 3);
    session.ask("disconnect", json!({ "terminateDebuggee": true }));
}

#[test]
fn all_errors_stop_if_asked_to() {
    let code = path(ERRORS);
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code }));
    session.stop_at_errors(&["all", "uncaught"]);
    session.configured();
    for expected in ["caught", "in a coroutine", "in sort", "a nil value"] {
        let stop = session.stopped();
        let text = stop.event["text"].as_str().unwrap_or_default();
        assert!(text.ends_with(expected), "{text}, not {expected}");
        session.resume("continue", stop.thread);
    }
    assert_eq!(session.exit_code(), 1);
}

#[test]
fn hooks_of_the_program_keep_working() {
    let code = "\
local lines = 0
local function work()
  local x = 1
  x = x + 1
  return x
end
debug.sethook(function(event, line) lines = lines + 1 end, 'l')
work()
debug.sethook()
local counted = lines
print('lines', counted)
work()
";
    let mut session = launch(code, &[4]);
    let stop = session.stopped();
    let stop = session.step("next", stop.thread);
    assert_eq!(stop.frames[0].1, 5);
    session.resume("continue", stop.thread);
    let stop = session.stopped(); // after the program has removed its hook, too
    assert_eq!(stop.frames[0].1, 4);
    session.resume("continue", stop.thread);
    assert_eq!(session.exit_code(), 0);
    assert_eq!(session.output, "lines\t5\n");
}

#[test]
fn a_chunk_without_a_file_shows_its_text() {
    let code = "\
local f = load('local inner = ...\\nerror(inner)')
f('from a chunk')
";
    let code = path(code);
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code }));
    session.stop_at_errors(&["uncaught"]);
    session.configured();
    let stop = session.stopped();
    let stack = session.ask("stackTrace", json!({ "threadId": stop.thread }));
    let frame = &stack["stackFrames"][1];
    let reference = frame["source"]["sourceReference"]
        .as_i64()
        .expect("a number");
    let source = session.ask("source", json!({ "sourceReference": reference }));
    assert_eq!(source["content"], "local inner = ...\nerror(inner)");
}

#[test]
fn breakpoints_in_a_module_stop_when_it_is_required() {
    let code = path("local m = require 'part'\nprint(m.double(4))\n");
    let part = std::path::Path::new(&code).with_file_name("part.lua");
    std::fs::write(
        &part,
        "local m = {}\nfunction m.double(x)\n  return x * 2\nend\nreturn m\n",
    )
    .expect("it is writable");
    let part = part.display().to_string();
    let directory = std::path::Path::new(&code).parent().expect("a directory");
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": "script.lua", "cwd": directory }));
    session.set_breakpoints(&part, json!([{ "line": 3 }]));
    session.configured();
    let stop = session.stopped();
    assert_eq!(stop.frames[0].1, 3);
    session.resume("continue", stop.thread);
    assert_eq!(session.exit_code(), 0);
    assert_eq!(session.output, "8\n");
}

/// The function is left in each of the ways that Lua's machine has.
#[test]
fn a_breakpoint_after_a_call_stops_however_the_call_has_returned() {
    let code = path(
        "local function plain(x) return x end
         local function none() end
         local function loops(t) for _, v in pairs(t) do if v == 2 then return v end end end
         local function extra(...) local n = ... return n end
         local function tail(x) return plain(x) end
         local function tail_in_c(x) return math.abs(x) end
         local function kept() local v = 1 return function() v = v + 1 return v end end
         local function closes() local c <close> = setmetatable({}, { __close = none }) return 1 end
         local all = { plain, none, loops, extra, tail, tail_in_c, kept, closes }
         local function call(f, x)
           f(x)
           local here = 1
           return here
         end
         for i, f in ipairs(all) do call(f, i == 3 and { 2 } or 1) end",
    );
    let mut session = Session::start(&[]);
    session.begin(json!({ "program": code }));
    session.set_breakpoints(&code, json!([{ "line": 12 }]));
    session.configured();
    for number in 1..=8 {
        let stop = session.stopped();
        assert_eq!(stop.frames[0].1, 12, "function {number}");
        assert_eq!(session.evaluate(stop.ids[1], "i"), number.to_string());
        session.resume("continue", stop.thread);
    }
    assert_eq!(session.exit_code(), 0);
}

/// What the page "Debugging" of the guide says of its example.
#[test]
fn the_guides_example_is_debugged_as_its_page_says() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let example = std::fs::canonicalize(root.join("examples/invoices_wrong.lua")).expect("it");
    let example = example.display().to_string();
    let page = std::fs::read_to_string(root.join("docs/book/src/debugging.md")).expect("the page");
    let mut session = Session::start(&[&example]);
    session.begin(json!({}));
    session.set_breakpoints(
        &example,
        json!([{ "line": 21, "condition": "customer.name == \"Dan\"" }]),
    );
    session.configured();
    let stop = session.stopped();
    assert_eq!(stop.frames[0], ("terms_of".to_owned(), 21));
    for line in ["customer.regular", "terms == STANDARD", "STANDARD.discount"] {
        let result = session.evaluate(stop.ids[0], line);
        let shown = format!("> {line}\n{result}\n");
        assert!(page.contains(&shown), "{shown}");
    }
    session.set_breakpoints(&example, json!([{ "line": 21 }]));
    session.resume("continue", stop.thread);
    assert_eq!(session.exit_code(), 0);
    assert!(page.contains(&session.output), "{}", session.output);

    let mut session = Session::launch(&example, &[19]);
    let stop = session.stopped();
    assert_eq!(session.evaluate(stop.ids[0], "customer.name"), "\"Cleo\"");
    assert_eq!(session.evaluate(stop.ids[0], "terms == STANDARD"), "true");
}
