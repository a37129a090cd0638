//! Tests the texts of reports, warnings and failures, and that only the process that writes one
//! waits for it.

mod harness;

use harness::baton;

/// A name with characters that a terminal acts on, and its printed form. `\u{9b}` begins a control
/// sequence as ESC does; `\u{202e}` reverses the text.
const HOSTILE: &str = r#"a\nb\rc\t\27[31md\0e\127'f\\ \xff \u{9b} \u{202e} é"#;
const SHOWN: &str = r"process 2 'a\nb\rc\t\x1B[31md\x00e\x7F\'f\\ \xFF \xC2\x9B \xE2\x80\xAE é'";

/// Runs a program in which `hostile` is that name.
fn run_hostile(code: &str) -> harness::Outcome {
    baton()
        .process_code(&format!("local hostile = \"{HOSTILE}\"\n{code}"))
        .run()
}

#[test]
fn a_failure_shows_a_name_escaped_and_whole() {
    run_hostile("process.spawn({ name = hostile }, error, 'no')")
        .ends_with(1)
        .complained(&format!("{SHOWN} failed: no\n"));
}

#[test]
fn a_deadlock_report_shows_names_escaped() {
    let short = r"process 2 'x\n\x1B[2Jprocess 9\x00end': waiting, to receive from a channel";
    baton()
        .process_code(
            "process.spawn({ name = 'x\\n\\27[2Jprocess 9\\0end' }, function() \
             process.channel():receive() end)",
        )
        .run()
        .ends_with(1)
        .complained(short)
        .complained("process 1 'main': waiting, for the end of all other processes");
}

#[test]
fn a_long_name_is_cut_in_a_report_between_two_characters_and_whole_in_a_failure() {
    let outcome = baton()
        .process_code(
            "process.spawn({ name = ('é'):rep(60) }, function() process.channel():receive() end)
             process.spawn({ name = ('x'):rep(100) }, error, 'no')",
        )
        .run();
    outcome
        .ends_with(1)
        .complained(&format!("process 2 '{}...': waiting", "é".repeat(22)))
        .complained(&format!("process 3 '{}' failed: no", "x".repeat(100)));
}

#[test]
fn processes_are_named_in_one_form_everywhere() {
    let outcome = baton()
        .process_code(
            "local named, unnamed, empty
             process.critical(function()
               named = process.spawn({ name = 'n' }, error, 'no')
               unnamed = process.spawn(error, 'no')
               empty = process.spawn({ name = '' }, error, 'no')
               unnamed:on_exit(error)
             end)
             print(named, unnamed, empty, process.main)
             process.sleep(0)
             process.channel():receive()",
        )
        .run();
    outcome
        .ends_with(1)
        .wrote("process 2 'n'\tprocess 3\tprocess 4\tprocess 1 'main'\n")
        .complained("process 2 'n' failed: no")
        .complained("process 3 failed: no")
        .complained("process 3: its on_exit hook failed: process 3")
        .complained("process 1 'main': waiting, to receive from a channel");
}

#[test]
fn a_name_is_kept_whole() {
    run_hostile(
        "assert(process.spawn({ name = hostile }, print).name == hostile and \
                 hostile:find('\\0', 1, true))",
    )
    .succeeds();
}

#[test]
fn a_name_of_a_thread_has_no_control_characters() {
    for name in [r"\27", r"a\nb", r"\127", r"\u{9b}31m"] {
        baton()
            .process_code(&format!("process.current():bind(\"{name}\")"))
            .run()
            .ends_with(1)
            .complained("a thread's name has no control characters");
    }
}

/// More bytes than a pipe holds.
const LONG: usize = 300_000;

/// Starts a program whose stderr is not read. `fill()` fills it by a process that then waits, and
/// `tick()` requires that other processes run.
fn start_unread(code: &str) -> harness::Started {
    baton()
        .process_code(&format!(
            "local long = ('x'):rep({LONG})
             local function fill()
               local p = process.spawn({{ name = 'filler', daemon = true }}, function() \
               io.stderr:write(long) end)
               while p:status() ~= 'foreign' and p:status() ~= 'waiting' do process.sleep(0.001) end
             end
             local function goes_on(what)
               for _ = 1, 20 do process.sleep(0.001) end
               process.spawn(function() print(what, 'goes on') end):join()
             end
             {code}"
        ))
        .hold_stderr()
        .open_stdin()
        .start()
}

/// The program must run on while its stderr is not read. When it is read, all messages must be
/// there, and the program must end.
fn goes_on_unread(code: &str, said: &[&str], status: i32) {
    hears_later(start_unread(&format!("{code} io.read()")), said, status);
}

fn hears_later(mut program: harness::Started, said: &[&str], status: i32) {
    program.await_stdout("goes on");
    program.read_stderr();
    for text in said {
        program.await_stderr(text);
    }
    program.write_stdin("\n");
    program.finish().ends_with(status);
}

/// A regression test: all that a report said of a table was its address.
#[test]
fn a_failure_with_a_table_shows_its_fields() {
    let outcome = baton()
        .process_code(
            "local vm = require 'baton.vm'
             local function fails(value) process.spawn(error, value):status() end
             fails { code = 42 }
             fails { 'first', 2.5 }
             fails(setmetatable({ text = ('x'):rep(100) }, { __index = error }))
             fails(setmetatable({}, { __tostring = function() return 'its own text' end }))
             fails(print)
             fails {}
             local long = {} for i = 1, 100 do long[i] = i end
             fails(long)
             process.sleep(0)
             vm.spawn({ name = 'v' }, function() error { code = 43 } end)",
        )
        .run();
    for text in [
        "failed: (error object is a table value: code = 42)\n",
        "failed: (error object is a table value: [1] = \"first\", [2] = 2.5)\n",
        &format!("value: text = \"{}...\")\n", "x".repeat(60)),
        "failed: its own text\n",
        "failed: (error object is a function value)\n",
        "failed: (error object is a table value)\n",
        "[8] = 8, ...)\n",
        // of another VM: its keeper's name is not quoted twice, and the trace is the other one's
        "'VM v' failed: (error object is a table value: code = 43)\n",
        "in VM 'v':\nstack traceback:\n\t[C]: in function 'error'\n\t(command line):",
    ] {
        outcome.complained(text);
    }
    outcome.ends_with(1);
}

#[test]
fn an_unread_failure_stops_only_the_process_that_failed() {
    let all = format!("process 2 failed: {}\n", "x".repeat(LONG));
    goes_on_unread(
        "local p = process.spawn(error, long, 0) process.sleep(0.01) \
         assert(p:status() ~= 'dead') goes_on 'main'",
        &[&all, "stack traceback:"],
        1,
    );
}

#[test]
fn an_unread_failure_of_an_exit_hook_stops_only_its_process() {
    goes_on_unread(
        "local p = process.spawn({ suspended = true }, print) p:on_exit(function() error(long) \
         end) p:resume() process.sleep(0.01) goes_on 'main'",
        &["its on_exit hook failed: "],
        0,
    );
}

#[test]
fn an_unread_warning_of_the_program_stops_only_the_process_that_warns() {
    let all = format!("Lua warning: {}{0}end\n", "x".repeat(LONG));
    goes_on_unread(
        "warn '@on' local p = process.spawn(function() warn(long, long, 'end') end) \
         process.sleep(0.01) assert(p:status() ~= 'dead') goes_on 'main'",
        &[&all],
        0,
    );
}

#[test]
fn an_unread_warning_about_a_finalizer_stops_no_process() {
    goes_on_unread(
        "fill() warn '@on' for _ = 1, 10 do setmetatable({}, { __gc = function() error 'in a \
         finalizer' end }) end collectgarbage() goes_on 'main'",
        &["Lua warning: error in __gc", "in a finalizer"],
        0,
    );
}

#[test]
fn an_unread_report_stops_no_process() {
    let mut program = start_unread(
        "process.spawn({ name = 'witness' }, process.sleep, 0.5) fill() print 'full' \
         process.sleep(0.3) goes_on 'main' io.read()",
    );
    program.await_stdout("full");
    program.signal("QUIT");
    hears_later(program, &["baton: processes\n", "'witness': "], 0);
}

#[test]
fn an_unread_warning_of_the_runtime_stops_no_process() {
    let mut program = start_unread(
        "process.spawn({ daemon = true }, function() while true do process.sleep(0.005) end end)
         fill() process.params.warn_blocked = 0.02 print 'full'
         process.critical(io.read) goes_on 'main' io.read()",
    );
    program.await_stdout("full");
    std::thread::sleep(std::time::Duration::from_millis(200));
    program.write_stdin("a line\n");
    let warning = "called inside process.critical, keeps all other processes waiting";
    hears_later(program, &[warning], 0);
}

#[test]
fn an_unread_failure_of_a_scheduler_hook_stops_no_process() {
    goes_on_unread(
        "fill() process.set_scheduler(function() error 'no idea' end) goes_on 'main'",
        &[
            "the scheduler failed: (command line)",
            "no idea; it is not used any more",
        ],
        0,
    );
}

#[test]
fn a_program_ends_although_its_messages_are_unread() {
    let mut program = start_unread("fill() print 'full' process.sleep(0.3) os.exit(7)");
    program.await_stdout("full");
    program.signal("QUIT");
    program.finish().ends_with(7);
}

#[test]
fn a_deadlock_is_reported_whole_to_a_slow_reader() {
    let mut program = baton()
        .process_code(
            "for i = 1, 2000 do process.spawn({ name = 'waiter' .. i }, function() \
             process.channel():receive() end) end
             process.yield() print 'waits'",
        )
        .hold_stderr()
        .start();
    program.await_stdout("waits");
    std::thread::sleep(std::time::Duration::from_millis(100));
    program.read_stderr();
    let outcome = program.finish();
    outcome
        .ends_with(1)
        .complained("process 2 'waiter1': waiting")
        .complained("process 2001 'waiter2000': waiting");
}
