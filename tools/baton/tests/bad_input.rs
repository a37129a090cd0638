//! Tests bad input, signals, deadlocks and closed streams: there must be a message and a status,
//! and no lost output.

mod harness;

use std::os::unix::process::ExitStatusExt;

use harness::{Outcome, baton, baton_path, cases, peer, redirected};

cases! {
    mod misuse from "misuse.lua":
        spawn_wants_options_and_a_function,
        spawn_refuses_options_that_it_does_not_know,
        spawn_refuses_options_of_the_wrong_type_or_range,
        process_methods_want_a_process,
        process_methods_refuse_wrong_arguments,
        sleeping_wants_a_number,
        timers_want_a_time_and_a_function,
        channels_refuse_wrong_arguments,
        select_refuses_wrong_cases,
        semaphores_refuse_wrong_arguments,
        mutexes_conditions_and_events_refuse_wrong_arguments,
        a_condition_waits_only_under_its_mutex,
        finalizers_refuse_foreign_objects_and_may_be_called_twice,
        parameters_refuse_unknown_names_and_wrong_values,
        an_error_in_a_wrong_call_leaves_the_caller_sound,
        misuse_inside_a_process_is_an_ordinary_error;
}

#[test]
fn a_missing_script_is_reported_as_by_lua() {
    baton()
        .arg("/nonexistent/script.lua")
        .run()
        .ends_with(1)
        .wrote("")
        .complained("cannot open /nonexistent/script.lua")
        .without_panic();
}

#[test]
fn a_script_that_is_a_directory_is_reported() {
    baton()
        .arg("/")
        .run()
        .ends_with(1)
        .wrote("")
        .complained("cannot read")
        .without_panic();
}

#[test]
fn a_syntax_error_is_reported_with_its_line() {
    baton()
        .code("local x = 1\nx =")
        .run()
        .ends_with(1)
        .complained("(command line):2: unexpected symbol near <eof>")
        .without_panic();
    baton()
        .arg("-")
        .stdin("if then")
        .run()
        .ends_with(1)
        .complained("stdin:1:")
        .without_panic();
}

#[test]
fn a_syntax_error_in_an_earlier_chunk_keeps_later_ones_from_running() {
    baton()
        .code("x =")
        .code("print 'ran'")
        .run()
        .ends_with(1)
        .wrote("");
}

#[test]
fn an_unknown_option_is_reported_with_the_usage() {
    let outcome = baton().arg("-Q").run();
    outcome
        .ends_with(1)
        .wrote("")
        .complained("unrecognized option '-Q'")
        .complained("  --simulate seed ")
        .complained("usage:")
        .without_panic();
    baton()
        .arg("-e")
        .run()
        .ends_with(1)
        .complained("'-e' needs argument")
        .without_panic();
}

/// A regression test: such words passed in silence, or were taken for a script.
#[test]
fn a_mistyped_word_is_recognized() {
    for (arguments, status, meant) in [
        (&["--hlep"][..], 1, "did you mean '--help'?"),
        (&["--simluate", "1"], 1, "did you mean '--simulate'?"),
        (&["stack", "4711"], 1, "did you mean the command 'stacks'?"),
        (
            &["profiel", "4711"],
            1,
            "did you mean the command 'profile'?",
        ),
        (&["top", "--hlp"], 2, "did you mean '--help'?"),
        (&["stacks", "--jsno", "4711"], 2, "did you mean '--json'?"),
        (&["profile", "--aloc", "4711"], 2, "did you mean '--alloc'?"),
    ] {
        let run = arguments.iter().fold(baton(), |run, word| run.arg(word));
        run.run().ends_with(status).wrote("").complained(meant);
    }
    for arguments in [&["--nothing-like-it"][..], &["main.lua"], &["./stack"]] {
        let run = arguments.iter().fold(baton(), |run, word| run.arg(word));
        let outcome = run.run();
        outcome.ends_with(1);
        assert!(!outcome.stderr.contains("did you mean"), "{outcome}");
    }
}

/// A regression test: BATON_SLCIE=1 was without an effect and without a word.
#[test]
fn a_variable_that_baton_does_not_know_is_told() {
    baton()
        .env("BATON_SLCIE", "0.1")
        .env("BATON_MAX_THREADS", "70")
        .code("print(require 'baton.vm'.spawn(print, 'in another VM'):join())")
        .run()
        .succeeds()
        .wrote("in another VM\ntrue\n")
        .complained("BATON_SLCIE, which Baton does not know: did you mean BATON_SLICE?");
    for (name, value) in [
        ("BATON_SLICE", "0.01"),
        ("BATON_CONCURRENT", "a=serial"),
        ("BATON_ATTACH", "off"),
        ("BATON_HISTORY", ""),
        ("BATON_FFI", "0"),
        ("BATON_HOME", "/"), // somebody else's
    ] {
        baton().env(name, value).code("").run().succeeds().quietly();
    }
    let ignored = baton().env("BATON_SLCIE", "1").arg("-E").code("");
    ignored.run().succeeds().quietly();
}

#[test]
fn the_environment_can_give_the_ffi_its_name_in_luajit() {
    let code = "print(pcall(require, 'ffi') and require 'ffi' == require 'baton.ffi')";
    for (value, wanted) in [("1", "true\n"), ("0", "false\n")] {
        let run = baton().env("BATON_FFI", value).code(code);
        run.run().succeeds().wrote(wanted);
    }
    baton().code(code).run().succeeds().wrote("false\n");
    baton()
        .env("BATON_FFI", "yes")
        .code(code)
        .run()
        .ends_with(1)
        .complained("BATON_FFI: 1 or 0 expected, got 'yes'");
}

#[test]
fn a_start_that_fails_says_what_the_system_refused() {
    harness::Run::of(std::path::Path::new("/bin/sh"))
        .arg("-c")
        .arg("ulimit -n 4 && exec \"$0\" -e 'print(1)'") // 3 is for the loader
        .arg(baton_path())
        .run()
        .ends_with(1)
        .complained("baton: cannot start: e") // epoll_create1 or eventfd
        .complained(": Too many open files");
}

#[test]
fn an_unknown_module_is_reported_with_where_it_was_searched() {
    for run in [
        baton().arg("-l").arg("no_such_module"),
        baton().code("require 'no_such_module'"),
    ] {
        run.run()
            .ends_with(1)
            .complained("module 'no_such_module' not found:")
            .complained("no field package.preload['no_such_module']")
            .without_panic();
    }
    baton()
        .code("require 'baton.no_such_module'")
        .run()
        .ends_with(1)
        .complained("not found");
}

#[test]
fn a_module_with_a_syntax_error_is_reported() {
    baton()
        .code(
            "local path = os.getenv 'SCRATCH' .. '/broken.lua'
             local file = io.open(path, 'w') file:write 'x =' file:close()
             package.path = os.getenv 'SCRATCH' .. '/?.lua'
             require 'broken'",
        )
        .run()
        .ends_with(1)
        .complained("error loading module 'broken' from file")
        .without_panic();
}

#[test]
fn a_file_that_is_no_shared_object_is_reported() {
    baton()
        .code(
            "local path = os.getenv 'SCRATCH' .. '/broken.so'
             local file = io.open(path, 'w') file:write 'no object' file:close()
             package.cpath = os.getenv 'SCRATCH' .. '/?.so'
             require 'broken'",
        )
        .run()
        .ends_with(1)
        .complained("error loading module 'broken' from file")
        .without_panic();
}

#[test]
fn a_sigint_wakes_the_main_process_and_raises_in_it() {
    let mut program = baton()
        .process_code("io.stderr:write 'ready' process.sleep(1000) print 'slept'")
        .start();
    program.await_stderr("ready");
    program.signal("INT");
    program
        .finish()
        .ends_with(1)
        .wrote("")
        .complained("interrupted!")
        .complained("stack traceback:");
}

/// The signal is delivered to the first native thread, which the main process has left.
#[test]
fn a_sigint_raises_in_a_main_process_that_is_bound_to_another_thread() {
    let mut program = baton()
        .process_code("process.main:bind 'elsewhere' io.stderr:write 'ready' while true do end")
        .start();
    program.await_stderr("ready");
    program.signal("INT");
    program.finish().ends_with(1).complained("interrupted!");
}

#[test]
fn a_sigint_raises_in_main_while_others_run() {
    let mut program = baton()
        .process_code(
            "process.spawn({ daemon = true }, function() while true do end end)
             process.spawn({ daemon = true }, function() while true do pcall(process.sleep, 0.001) \
             end end)
             process.spawn({ daemon = true }, function()
               while process.main:status() ~= 'sleeping' do process.yield() end
               io.stderr:write 'ready'
             end)
             local ok, message = pcall(process.sleep, 1000)
             print(ok, message)",
        )
        .start();
    program.await_stderr("ready");
    program.signal("INT");
    let outcome = program.finish();
    outcome.succeeds();
    assert!(
        outcome.stdout.starts_with("false\t") && outcome.stdout.contains("interrupted!"),
        "{outcome}"
    );
}

#[test]
fn a_sigint_ends_an_endless_loop_of_main() {
    for code in [
        "while true do end",
        "while true do math.abs(1) end",
        "coroutine.wrap(function() while true do end end)()",
    ] {
        let mut program = baton()
            .code(&format!("io.stderr:write 'ready' {code}"))
            .start();
        program.await_stderr("ready");
        program.signal("INT");
        program.finish().ends_with(1).complained("interrupted!");
    }
}

#[test]
fn a_sigint_is_raised_in_main_whatever_main_waits_for() {
    for wait in [
        "process.channel():receive()",
        "process.event():wait()",
        "process.spawn(process.sleep, 1000):join()",
        "process.semaphore(0):wait()",
        "process.select { process.channel() }",
    ] {
        let code = format!(
            "process.spawn({{ daemon = true }}, function() while true do process.sleep(0.01) end \
             end)
             io.stderr:write 'ready' {wait}"
        );
        let mut program = baton().process_code(&code).start();
        program.await_stderr("ready");
        program.signal("INT");
        program.finish().ends_with(1).complained("interrupted!");
    }
}

#[test]
fn a_sigint_is_raised_in_main_while_another_process_runs_a_command() {
    let mut program = baton()
        .process_code(
            "local p = process.spawn({ daemon = true }, os.execute, 'sleep 1')
             repeat process.sleep(0.001) until p:status() == 'waiting'
             io.stderr:write 'ready'
             process.sleep(1000)",
        )
        .start();
    program.await_stderr("ready");
    program.signal("INT");
    program.finish().ends_with(1).complained("interrupted!");
}

#[test]
fn a_sigint_reaches_only_the_command_that_main_runs() {
    for interpreter in [Some(baton()), peer::lua()].into_iter().flatten() {
        interpreter
            .code(
                "print(os.execute 'kill -INT $PPID; exit 3') while true do break end print 'went \
                   on'",
            )
            .run()
            .succeeds()
            .wrote("nil\texit\t3\nwent on\n");
    }
}

#[test]
fn a_second_sigint_ends_the_program() {
    let mut program = baton()
        .process_code(
            "pcall(function()
               io.stderr:write 'ready'
               process.sleep(1000)
             end)
             io.stderr:write 'caught'
             while true do pcall(function() while true do end end) end",
        )
        .start();
    program.await_stderr("ready");
    program.signal("INT");
    program.await_stderr("caught");
    program.signal("INT");
    let outcome = program.finish();
    assert!(!outcome.status.success(), "{outcome}");
    outcome.without_panic();
}

#[test]
fn a_sigquit_prints_every_process_and_the_program_goes_on() {
    let mut program = baton()
        .process_code(
            "local ch, stop = process.channel(), false
             local function waiting_function() ch:receive() end
             local waiter = process.spawn({ name = 'the waiter' }, function() waiting_function() \
             end)
             process.spawn({ name = 'the sleeper', daemon = true }, function() process.sleep(1000) \
             end)
             process.spawn({ name = 'the busy one' }, function() while not stop do end end)
             require 'check'.becomes(waiter, 'waiting')
             io.stderr:write 'ready'
             io.read 'l'
             stop = true
             ch:close()
             print 'went on'",
        )
        .open_stdin()
        .start();
    program.await_stderr("ready");
    program.signal("QUIT");
    for text in [
        "the waiter",
        "the sleeper",
        "the busy one",
        "waiting_function",
        "stack traceback:",
    ] {
        program.await_stderr(text);
    }
    program.write_stdin("go on\n");
    program
        .finish()
        .succeeds()
        .wrote("went on\n")
        .without_panic();
}

#[test]
fn a_sigquit_is_answered_by_an_idle_program_and_by_a_busy_one() {
    for code in ["process.sleep(1000)", "while true do end"] {
        let mut program = baton()
            .process_code(&format!(
                "process.spawn({{ name = 'witness' }}, process.sleep, 1000) \
                                    process.yield() io.stderr:write 'ready' {code}"
            ))
            .start();
        program.await_stderr("ready");
        program.signal("QUIT");
        program.await_stderr("witness");
    }
}

#[test]
fn a_deadlock_is_reported_with_names_and_tracebacks() {
    let outcome = baton()
        .process_code(
            "local a, b = process.mutex(), process.mutex()
             local locked, both = 0, process.event()
             local function first_then_second(x, y)
               x:lock()
               locked = locked + 1
               if locked == 2 then both:set() end
               both:wait()
               y:lock()
             end
             process.spawn({ name = 'left' }, function() first_then_second(a, b) end)
             process.spawn({ name = 'right' }, function() first_then_second(b, a) end)",
        )
        .run();
    outcome.ends_with(1).without_panic();
    for text in ["left", "right", "first_then_second", "stack traceback:"] {
        outcome.complained(text);
    }
    assert!(
        outcome.stderr.to_lowercase().contains("deadlock"),
        "the word is missing\n{outcome}"
    );
}

#[test]
fn every_kind_of_endless_wait_is_a_deadlock() {
    for wait in [
        "process.channel():receive()",
        "process.channel():send(1)",
        "process.select { process.channel() }",
        "process.semaphore(0):wait()",
        "process.event():wait()",
        "process.suspend()",
        "local m = process.mutex() m:lock() process.condition(m):wait()",
        "process.spawn({ suspended = true }, print):join()",
        "local p p = process.spawn(function() process.main:join() end) p:join()",
    ] {
        let outcome = baton().process_code(wait).run();
        outcome.ends_with(1).without_panic();
        assert!(
            outcome.stderr.to_lowercase().contains("deadlock"),
            "no deadlock for {wait}\n{outcome}"
        );
    }
}

#[test]
fn a_wait_with_a_pending_deadline_is_no_deadlock() {
    baton()
        .process_code(
            "local ch = process.channel()
             process.after(0.02, function() ch:send 'due' end)
             print(ch:receive())
             print(ch:receive(0.01))
             process.spawn(function() os.execute 'sleep 0.05' ch:send 'returned' end)
             print(ch:receive())
             process.spawn({ daemon = true }, function() ch:receive() end)
             process.spawn({ daemon = true }, process.suspend)",
        )
        .run()
        .succeeds()
        .wrote("due\nnil\ttimeout\nreturned\n")
        .quietly();
}

#[test]
fn a_closed_stdout_neither_hangs_nor_panics() {
    let code = "print(('x'):rep(100)) io.write 'y' io.stdout:flush() io.stderr:write 'end'";
    for redirection in [">&-", ">/dev/full", "<&- >&-"] {
        let got = redirected(baton_path(), redirection).code(code).run();
        got.without_panic().complained("end");
        let Some(lua) = peer::find_lua() else { return };
        let wanted = redirected(&lua, redirection).code(code).run();
        assert_eq!(
            wanted.status.code(),
            got.status.code(),
            "{redirection}: {wanted}\n{got}"
        );
    }
}

#[test]
fn a_closed_stdout_does_not_stop_processes() {
    redirected(baton_path(), ">/dev/full")
        .process_code(
            "for i = 1, 10 do process.spawn(function() for k = 1, 100 do print(('x'):rep(1000)) \
             end end) end
             process.sleep(0.01)
             io.stderr:write 'end'",
        )
        .run()
        .succeeds()
        .complained("end")
        .without_panic();
}

#[test]
fn a_closed_stderr_neither_hangs_nor_panics() {
    let run = redirected(baton_path(), "2>&-")
        .process_code("process.spawn(function() error 'unseen' end)")
        .run();
    run.ends_with(1);
}

#[test]
fn a_pipe_without_a_reader_ends_the_program_as_it_ends_lua() {
    let code = "io.stderr:write 'ready' io.read 'l' for i = 1, 1000000 do print(i) end";
    let mut program = baton().code(code).hold_stdout().open_stdin().start();
    program.await_stderr("ready");
    program.close_stdout();
    program.write_stdin("\n");
    let outcome = program.finish();
    assert_eq!(outcome.status.signal(), Some(SIGPIPE), "{outcome}");
}

const SIGPIPE: i32 = 13;

#[test]
fn stdin_at_its_end_is_an_empty_program_and_an_empty_file() {
    baton().arg("-").run().succeeds().wrote("").quietly();
    baton().run().succeeds().wrote("").quietly();
    baton()
        .code("print(io.read(), io.read 'a', io.read 'n', io.read(0))")
        .run()
        .succeeds()
        .wrote("nil\t\tnil\tnil\n");
    baton()
        .process_code("print(process.spawn(io.read):join())")
        .run()
        .succeeds()
        .wrote("true\tnil\n");
}

#[test]
fn out_of_memory_is_an_error_as_in_lua() {
    baton()
        .process_code(
            "print(pcall(io.read, 1 << 46))
             print(process.spawn({ quiet = true }, io.read, 1 << 46):join())",
        )
        .run()
        .succeeds()
        .wrote("false\tnot enough memory\nfalse\tnot enough memory\n")
        .quietly();
}

/// Runs a chunk whose process "the digger" overflows its C stack in the module `endless`. The
/// overflow must be reported.
fn overflows(chunk: &str) -> Outcome {
    let outcome = baton().process_code(chunk).run();
    assert!(
        outcome.status.signal().is_some(),
        "an end by a signal expected\n{outcome}"
    );
    outcome
        .complained("the digger")
        .complained("stack_size")
        .without_panic();
    outcome
}

#[test]
fn a_stack_overflow_inside_foreign_c_is_reported_and_ends_the_program() {
    overflows(
        "local endless = require 'endless'
         process.spawn({ name = 'the digger' }, function() endless.dig_for_ever() end)
         process.sleep(1000)",
    )
    .complained("dig_for_ever");
}

#[test]
fn a_stack_overflow_in_a_retaken_call_is_reported() {
    overflows(
        "process.concurrent('endless', 'concurrent')
         local endless = require 'endless'
         process.spawn({ name = 'the digger' }, function() endless.wait_and_dig() end)
         while true do process.yield() end",
    );
}

#[test]
fn an_error_in_a_message_handler_is_no_crash() {
    baton()
        .process_code(
            "local nasty = setmetatable({}, { __tostring = function() error 'again' end })
             process.spawn({ name = 'nasty' }, function() error(nasty) end)",
        )
        .run()
        .ends_with(1)
        .complained("nasty")
        .without_panic();
    baton()
        .process_code("print(process.spawn(xpcall, error, error, 1):join())")
        .run()
        .succeeds()
        .without_panic();
}

#[test]
fn every_function_survives_every_kind_of_argument() {
    baton()
        .process_code(
            "local p = process.spawn(function() end)
             p:join()
             local kept = { suspend = true, spawn = true, after = true, every = true, \
             set_scheduler = true, select = true }
             for name, f in pairs(process) do
               if type(f) == 'function' and not kept[name] then
                 for _, argument in ipairs { false, 'x', {}, print, -1, p } do
                   if not (name == 'critical' and argument == print) then pcall(f, argument) end
                 end
               end
             end
             io.stderr:write 'survived'",
        )
        .run()
        .complained("survived")
        .without_panic();
}
