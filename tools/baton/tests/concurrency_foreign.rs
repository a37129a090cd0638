//! Foreign calls: a call that blocks in C does not stop other processes.

mod harness;

use harness::{baton, cases};

cases! {
    mod blocking from "foreign/blocking.lua":
        ten_commands_that_wait_overlap,
        ten_pipes_that_wait_overlap,
        a_command_does_not_stop_a_ticker,
        the_main_process_may_block_too,
        os_execute_reports_as_in_lua,
        popen_reports_as_in_lua,
        a_read_from_a_fifo_that_nobody_writes_does_not_stop_a_ticker,
        a_pattern_match_that_lasts_does_not_stop_a_ticker,
        two_long_matches_and_a_sleep_all_go_on,
        long_matches_give_the_right_answers,
        busy_lua_and_long_matches_share_the_program,
        forty_processes_read_forty_pipes,
        a_string_that_takes_long_to_build_does_not_stop_a_ticker,
        the_limit_of_threads_holds_and_all_calls_run,
        native_threads_are_counted;
    mod files from "foreign/files.lua":
        closing_a_file_that_another_process_reads_waits,
        a_file_stays_open_while_a_finalizer_interrupts_its_reader,
        a_file_is_closed_once_by_several_processes_when_threads_are_short,
        a_second_reader_waits_for_the_first,
        lines_written_by_many_processes_stay_whole,
        lines_read_by_many_processes_are_read_once,
        many_processes_work_on_files_of_their_own,
        a_file_closed_by_one_process_is_closed_for_all,
        opening_closing_and_using_files_at_random_is_safe,
        default_files_are_shared_by_all_processes;
    mod loading from "foreign/loading.lua":
        by_the_ffi,
        by_package_loadlib,
        by_require,
        beside_a_module_that_opens,
        beside_calls_that_need_new_threads;
    mod kept from "foreign/kept.lua":
        a_wait_beside_the_opening_of_a_fifo,
        a_wait_beside_the_closing_of_a_command,
        a_wait_beside_the_call_of_a_declared_module,
        a_wait_beside_a_function_of_c_that_was_short_so_far,
        variables_of_a_thread_beneath_a_callback_of_a_module,
        variables_of_a_thread_beneath_a_callback_of_the_ffi,
        variables_of_a_thread_are_not_set_by_others_calls,
        a_lock_beneath_a_callback_is_waited_for_and_given_back,
        a_recursive_lock_keeps_others_out,
        preemption_in_a_callback_keeps_the_lock_too,
        a_wait_of_the_main_process_in_a_callback,
        home_is_used_again_when_the_frames_are_gone,
        a_bound_process_goes_on_beside_a_wait_on_its_thread,
        more_waits_than_threads_share_them,
        one_thread_is_enough,
        a_killed_one_gives_its_thread_back,
        calls_beside_waits_are_not_counted_as_waits,
        a_thread_is_given_up_that_was_kept_before_a_call_that_lasts,
        calls_beside_more_waits_than_threads_go_on_beside_each_other,
        waits_in_callbacks_of_callbacks;
}

/// A daemon that prints a tick on stderr each millisecond.
const TICKER: &str = "process.spawn({ daemon = true }, function()
    for i = 1, math.huge do process.sleep(0.001) io.stderr:write('tick ', i, ' ') end
  end)\n";

#[test]
fn a_print_into_a_full_pipe_does_not_stop_the_others_and_loses_nothing() {
    let code =
        format!("{TICKER} print(('x'):rep(1000000)) io.stderr:write 'printed' os.exit(0, true)");
    let mut program = baton().process_code(&code).hold_stdout().start();
    program.await_stderr("tick 100 ");
    program.read_stdout();
    program.await_stderr("printed");
    let outcome = program.finish();
    outcome.succeeds();
    assert_eq!(outcome.stdout.len(), 1_000_001, "the output came whole");
    assert!(outcome.stdout.trim_end().bytes().all(|byte| byte == b'x'));
}

#[test]
fn many_writes_into_a_full_pipe_do_not_stop_the_others_and_lose_nothing() {
    for print in [
        "print(line)",
        "io.write(line, '\\n')",
        "io.stdout:write(line, '\\n')",
    ] {
        let code = format!(
            "{TICKER}
             local all = {{}}
             for i = 1, 5 do
               all[i] = process.spawn(function()
                 for k = 1, 400 do
                   local line = i .. ' ' .. k .. ' ' .. ('y'):rep(100)
                   {print}
                 end
               end)
             end
             for i = 1, 5 do all[i]:join() end"
        );
        let mut program = baton().process_code(&code).hold_stdout().start();
        program.await_stderr("tick 50 ");
        program.read_stdout();
        assert_lines_of_five_writers(&program.finish());
    }
}

fn assert_lines_of_five_writers(outcome: &harness::Outcome) {
    outcome.succeeds();
    let mut next = [1; 6];
    for line in outcome.stdout.lines() {
        let mut words = line.split(' ');
        let mut number = || words.next().and_then(|word| word.parse::<usize>().ok());
        let (writer, count) = (number(), number());
        let whole = words.next() == Some(&"y".repeat(100)) && words.next().is_none();
        match (writer, count) {
            (Some(writer @ 1..=5), Some(count)) if whole => {
                assert_eq!(count, next[writer], "the lines of writer {writer} in order");
                next[writer] += 1;
            }
            _ => panic!("a line was torn: {line:?}"),
        }
    }
    assert_eq!(next[1..], [401; 5], "every line came");
}

#[test]
fn lines_of_concurrent_prints_do_not_mix() {
    let outcome = baton()
        .process_code(
            "process.params.slice = 0.0005
             for i = 1, 40 do
               process.spawn(function()
                 for k = 1, 100 do print('process', i, 'line', k, ('z'):rep(50)) end
               end)
             end",
        )
        .run();
    outcome.succeeds().quietly();
    assert_eq!(outcome.stdout.lines().count(), 4000);
    for line in outcome.stdout.lines() {
        let words: Vec<_> = line.split('\t').collect();
        let whole = words.len() == 5
            && words[0] == "process"
            && words[2] == "line"
            && words[4] == "z".repeat(50);
        assert!(whole, "a line was torn: {line:?}");
    }
}

#[test]
fn lines_of_concurrent_prints_that_call_tostring_do_not_mix() {
    let outcome = baton()
        .process_code(
            "process.params.slice = 0.0005
             local slow = setmetatable({}, { __tostring = function() process.yield() return 'slow' \
             end })
             for i = 1, 20 do
               process.spawn(function() for k = 1, 20 do print('a', slow, 'b', slow, 'c') end end)
             end",
        )
        .run();
    outcome.succeeds().quietly();
    assert_eq!(outcome.stdout, "a\tslow\tb\tslow\tc\n".repeat(400));
}

#[test]
fn an_unknown_module_that_blocks_is_warned_about_once_by_its_name() {
    // On a busy machine, the monitor may miss one or two calls.
    let mut program = baton()
        .process_code(
            "local blocker = require 'blocker'
             process.spawn({ daemon = true, name = 'other' }, function() while true do \
             process.sleep(0.001) end end)
             local was_warned = os.getenv 'SCRATCH' .. '/was_warned'
             local p = process.spawn({ name = 'the blocked' }, function()
               process.sleep(0.005)
               repeat blocker.block_ms(400) until io.open(was_warned)
               blocker.block_ms(400)
               blocker.block_ms(400)
             end)
             print(p:join())",
        )
        .start();
    program.await_stderr("block_ms");
    std::fs::write(program.scratch().join("was_warned"), "")
        .expect("the directory of the run is there");
    let outcome = program.finish();
    outcome
        .succeeds()
        .wrote("true\n")
        .complained("block_ms")
        .complained("the blocked");
    assert_eq!(
        outcome.stderr.matches("block_ms").count(),
        1,
        "one warning for one function\n{outcome}"
    );
    assert!(
        outcome.stderr.contains("process.concurrent") || outcome.stderr.contains("concurrent"),
        "no remedy\n{outcome}"
    );
}

#[test]
fn a_function_that_keeps_the_vm_while_it_uses_the_api_is_warned_about_too() {
    // On a busy machine, the monitor may miss one or two sorts.
    let mut program = baton()
        .process_code(
            "process.params.warn_blocked = 0.02
             process.spawn({ daemon = true }, function() while true do process.sleep(0.001) end end)
             process.yield()
             local was_warned = os.getenv 'SCRATCH' .. '/was_warned'
             local list, size = {}, 200000
             local function sort()
               for i = 1, size do list[i] = i * 7919 % 1000003 end
               table.sort(list)
             end
             repeat
               sort()
               size = math.min(size * 2, 1600000)
             until io.open(was_warned)
             sort()
             print 'sorted'",
        )
        .start();
    program.await_stderr("'sort' keeps all other processes waiting");
    std::fs::write(program.scratch().join("was_warned"), "")
        .expect("the directory of the run is there");
    let outcome = program.finish();
    outcome.succeeds().wrote("sorted\n");
    assert_eq!(
        outcome
            .stderr
            .matches("'sort' keeps all other processes waiting")
            .count(),
        1,
        "one warning for one function\n{outcome}"
    );
}

#[test]
fn no_process_runs_during_a_call_of_an_unknown_module() {
    baton()
        .process_code(
            "local blocker = require 'blocker'
             process.params.warn_blocked = 10
             local n = 0
             process.spawn({ daemon = true }, function() while true do process.sleep(0.001) n = n \
             + 1 end end)
             process.spawn({ daemon = true, priority = 60 }, function() while true do \
             process.sleep(0.001) n = n + 1 end end)
             process.sleep(0.01)
             local worker = process.spawn({ priority = 70 }, function()
               local before = n
               blocker.block_ms(100)
               local between = n
               blocker.spin_ms(50)
               return between - before, n - between
             end)
             print(worker:join())",
        )
        .run()
        .succeeds()
        .wrote("true\t0\t0\n")
        .quietly();
}

/// A kill waits for a `__close` method, for at most five seconds of the method's own running time.
/// A regression test: time in which other processes ran was counted too, and the method was ended
/// halfway.
#[test]
fn a_close_method_that_starts_late_still_runs_to_its_end() {
    baton()
        .process_code(
            "local blocker = require 'blocker'
             local check = require 'check'
             process.params.warn_blocked = 60
             local closed, begun, go = {}, {}, false
             local function victim(number, body, seconds)
               return process.spawn(function()
                 local _ <close> = check.closing(function()
                   begun[number] = true
                   body()
                   closed[number] = true
                 end)
                 process.sleep(seconds)
               end)
             end
             local function until_told() repeat until go end
             local waits = victim(1, function() for _ = 1, 1000 do end end, 1000)
             local closes = victim(2, until_told, 1000)
             local returns = victim(3, until_told, 0)
             check.becomes(waits, 'sleeping')
             check.becomes(closes, 'sleeping')
             closes:kill()
             while not (begun[2] and begun[3]) do process.yield() end
             process.critical(function()
               waits:kill()
               returns:kill()
               blocker.block_ms(5500)
             end)
             go = true
             print(waits:join())
             print(closes:join())
             print(returns:join())
             print(closed[1], closed[2], closed[3])",
        )
        .run()
        .succeeds()
        .wrote("false\tkilled\nfalse\tkilled\nfalse\tkilled\ntrue\ttrue\ttrue\n")
        .quietly();
}

#[test]
fn functions_of_loops_that_call_back_let_others_run_in_any_order() {
    baton()
        .env("BATON_CONCURRENT", "blocker=loop")
        .process_code(
            "local blocker = require 'blocker'
             local gates, all, log = {}, {}, {}
             for i = 1, 10 do gates[i] = process.event() end
             for i = 1, 10 do
               all[i] = process.spawn(function()
                 return blocker.call_and_return(function(x)
                   local y = blocker.call_and_return(function(z) gates[i]:wait() return z + 1 end, \
                   x)
                   log[#log + 1] = i
                   return y
                 end, i * 100)
               end)
             end
             local check = require 'check'
             for i = 1, 10 do check.becomes(all[i], 'waiting') end
             for _, i in ipairs { 3, 1, 10, 5, 2, 9, 4, 8, 6, 7 } do gates[i]:set() \
             check.becomes(all[i], 'dead') end
             for i = 1, 10 do
               local ok, result = all[i]:join()
               assert(ok and result == i * 100 + 1, result)
             end
             print(table.concat(log, ' '))",
        )
        .run()
        .succeeds()
        .wrote("3 1 10 5 2 9 4 8 6 7\n")
        .quietly();
}

#[test]
fn a_kill_lets_c_functions_on_the_stack_free_their_memory() {
    baton()
        .process_code(
            "local blocker = require 'blocker'
             local after = false
             local p = process.spawn(function()
               pcall(blocker.protected_call, function()
                 blocker.protected_call(function() process.sleep(1000) end)
                 after = true
               end)
               after = true
             end)
             require 'check'.becomes(p, 'sleeping')
             p:kill()
             print(p:join())
             print(blocker.count_frees(), after)",
        )
        .run()
        .succeeds()
        .wrote("false\tkilled\n2\tfalse\n")
        .quietly();
}
