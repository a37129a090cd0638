//! Tests the ffi with several processes: concurrent calls, callbacks on the calling thread, and
//! callbacks from other threads.

mod harness;

use harness::{Outcome, baton, cases};

cases! {
    mod callbacks from "ffi/callbacks.lua":
        qsort_and_bsearch_compare_by_lua,
        arguments_and_results_of_all_kinds_are_converted,
        a_structure_that_is_passed_is_a_copy,
        a_callback_takes_a_structure_that_was_defined_after_its_type,
        callbacks_nest_to_any_depth,
        callbacks_of_many_processes_return_in_any_order,
        callbacks_in_random_nests_and_orders_keep_their_frames,
        a_callback_that_computes_is_preempted,
        a_call_that_was_retaken_finds_its_thread_again_when_it_calls_back,
        an_error_in_a_callback_returns_zero_and_is_raised_when_the_call_returns,
        an_error_of_an_inner_call_passes_through_the_outer_ones,
        a_coroutine_may_call_and_be_called_but_not_yield_across_c,
        a_kill_in_a_callback_lets_c_return_first,
        callbacks_are_set_and_freed,
        freeing_a_callback_in_use_raises,
        there_is_no_limit_on_their_number,
        a_function_that_is_passed_again_is_the_same_callback;
    mod visits from "ffi/visits.lua":
        eight_threads_call_back_at_once,
        visits_may_wait_for_each_other,
        threads_beyond_the_limit_wait,
        others_go_on_while_threads_call_back,
        an_idle_program_is_woken_by_a_visit,
        a_program_in_which_all_wait_for_a_visit_is_not_dead,
        a_long_wait_for_a_callback_is_no_deadlock,
        a_visit_waits_until_a_critical_section_ends,
        a_listener_is_complete_before_other_processes_run,
        callbacks_do_not_wait_for_the_threads_that_their_own_calls_keep;
    mod learning from "ffi/learning.lua":
        a_function_that_lasts_is_known_after_its_first_call,
        a_function_that_does_not_last_stays,
        a_function_that_becomes_short_stays_again,
        a_function_that_becomes_long_is_noticed_while_others_wait,
        classes_can_be_declared,
        processes_that_are_alone_or_bound_do_not_change_threads,
        the_vm_stays_while_callers_move,
        a_call_that_moved_may_call_back,
        an_error_and_a_kill_find_a_call_that_moved,
        calls_beyond_the_limit_of_threads_wait,
        calls_of_unknown_functions_beyond_the_limit_wait,
        functions_known_to_be_short_do_not_wait_for_a_thread,
        errno_comes_back_with_a_call_that_moved,
        collections_while_callers_are_out_move_nothing;
    mod timeout from "ffi/timeout.lua":
        a_call_in_time_answers,
        a_call_that_takes_too_long_raises_and_is_abandoned,
        a_kill_ends_a_process_whose_call_goes_on,
        memory_of_an_abandoned_call_is_not_collected,
        memory_of_a_call_that_returned_late_is_freed,
        many_calls_run_beside_each_other_and_some_time_out,
        callbacks_of_such_a_call_are_made_for_it,
        a_timeout_before_a_thread_is_free_names_the_limit,
        calls_beyond_the_limit_wait_in_order,
        leaving_the_queue_moves_no_other_waiter_back,
        a_process_that_waits_for_a_thread_continues_when_the_limit_is_raised,
        threads_are_used_again_and_end_when_idle,
        many_more_calls_than_threads_all_run,
        a_timeout_can_be_taken_away,
        the_program_ends_although_a_call_goes_on;
    mod beside from "ffi/beside.lua":
        a_long_call_does_not_stop_a_ticker,
        the_main_process_may_call_long,
        ten_long_calls_overlap,
        results_of_a_call_that_was_retaken_are_right,
        many_processes_call_shortly_while_others_call_long,
        a_first_long_call_does_not_delay_a_callback_that_waits,
        a_kill_takes_effect_when_the_call_returns,
        a_bound_process_makes_its_calls_on_its_thread,
        a_forks_child_makes_calls_that_last;
}

/// Runs `code` after declaring the tests' C library as `subject`.
fn run(code: &str) -> Outcome {
    baton()
        .process_code(&format!(
            "local ffi = require 'baton.ffi' local subject = require 'ffi.subject' {code}"
        ))
        .run()
}

#[test]
fn a_freed_callback_returns_zero_and_is_reported_once() {
    let outcome = run("local f = ffi.cast('unary', function(n) return n end)
         subject.subject_keep(f)
         f:free()
         for i = 1, 3 do print(subject.subject_call_kept(5)) end");
    outcome.succeeds();
    assert_eq!(outcome.stdout, "0\n0\n0\n");
    assert_eq!(
        outcome
            .stderr
            .matches("a callback that has been freed")
            .count(),
        1,
        "{outcome}"
    );
}

/// A regression test: C found the callback alive, waited to enter the VM, and then called the
/// function that had replaced it.
#[test]
fn a_callback_that_is_freed_while_c_waits_to_enter_returns_zero() {
    let outcome = run("local flag = ffi.new 'char[1]'
         local f = ffi.cast('unary', function(n) return n end)
         local p = process.spawn(subject.subject_await_and_call, flag, f, 5)
         while p:status() ~= 'foreign' do process.yield() end
         local other = process.critical(function()
           flag[0] = 1
           while p:status() ~= 'runnable' do end
           f:free()
           return ffi.cast('unary', function() print 'called' return 99 end)
         end)
         print(p:join())
         other:free()");
    outcome.succeeds();
    assert_eq!(outcome.stdout, "true\t0\n", "{outcome}");
    assert!(
        outcome
            .stderr
            .contains("a callback that was freed meanwhile"),
        "{outcome}"
    );
}

#[test]
fn a_callback_from_a_signal_handler_while_all_processes_wait_returns_zero() {
    let mut program = baton()
        .process_code(
            "local ffi = require 'baton.ffi'
             local called = 0
             local handler = ffi.cast('void (*)(int)', function() called = called + 1 end)
             ffi.fn 'void *signal(int number, void (*handler)(int))'(14, handler)
             local wakes = process.signals 'USR1'
             io.stderr:write 'waits'
             wakes:receive()
             print('went on', called)",
        )
        .start();
    program.await_stderr("waits");
    program.await_rest();
    program.signal("ALRM");
    program.await_stderr("from a signal handler?");
    program.signal("USR1");
    program.finish().succeeds().wrote("went on\t0\n");
}

#[test]
fn an_error_in_a_callback_on_an_unknown_thread_is_reported_and_returns_zero() {
    let outcome = run("print(subject.subject_call_from_threads(function(_, i)
           if i == 2 then error 'told' end
           return 1
         end, 1, 3))");
    assert_eq!(outcome.stdout, "2\n", "{outcome}");
    assert!(outcome.stderr.contains("'callbacks' failed: "), "{outcome}");
    assert!(
        outcome.stderr.contains("told\nstack traceback:"),
        "{outcome}"
    );
    outcome.ends_with(1);
}

#[test]
fn threads_that_call_back_while_the_program_ends_do_no_harm() {
    for end in [
        "",
        "os.exit(0)",
        "os.exit(0, true)",
        "error 'end'",
        "process.main:kill()",
    ] {
        let outcome = run(&format!(
            "local calls = 0
             subject.subject_keep(function() calls = calls + 1 return 1 end)
             for i = 1, 3 do subject.subject_haunt() end
             while calls < 50 do process.sleep(0.001) end
             {end}"
        ));
        outcome.without_panic().ends_with(i32::from(
            end.starts_with("error") || end.ends_with("kill()"),
        ));
    }
}

#[test]
fn a_callback_after_the_vm_has_ended_is_refused() {
    let outcome = run(
        "subject.subject_keep(function() print 'called' return 1 end)
         subject.subject_call_kept_at_exit()
         os.exit(0, true)",
    );
    outcome.succeeds();
    assert_eq!(outcome.stdout, "");
    assert!(
        outcome.stderr.contains("whose program has ended"),
        "{outcome}"
    );
}

/// A regression test: with Lua's state, the end lost sight of calls with a timeout. The C library
/// then flushed their files without a time limit.
#[test]
fn an_abandoned_call_that_flushes_a_full_pipe_does_not_delay_the_end() {
    for end in ["", "os.exit(0)", "os.exit(0, true)"] {
        let outcome = run(&format!(
            "local ends, room = ffi.new 'int[2]', 65536
             ffi.fn 'int pipe(int *)' (ends)
             local file = ffi.fn 'FILE *fdopen(int, const char *)' (ends[1], 'w')
             local write = ffi.fn 'size_t fwrite(const void *, size_t, size_t, FILE *)'
             write(('x'):rep(room), 1, room, file)
             write('y', 1, 1, file)
             local flush = ffi.timeout(ffi.fn 'int fflush(FILE *)', 0.05)
             print(select(2, pcall(flush, file)))
             {end}"
        ));
        outcome.succeeds().wrote("'fflush' timed out\n");
    }
}

#[test]
fn a_finalizer_may_still_call_c_when_the_state_is_closed() {
    let outcome = run(
        "older = setmetatable({}, {__gc = function() print(subject.subject_add(1, \
                       2)) end})
         younger = ffi.gc(ffi.new('int[1]', 5), function(p) print(p[0], \
         subject.subject_call(function(n) return n end, 6)) end)",
    );
    outcome.succeeds().quietly();
    assert_eq!(outcome.stdout, "5\t6\n3\n");
}

/// A regression test: the library's handle had been released although the library was still open.
#[test]
fn a_finalizer_may_still_look_functions_up_when_the_state_is_closed() {
    let outcome = baton()
        .process_code(
            "older = setmetatable({}, {__gc = function() print(subject.subject_add(1, 2)) end})
             subject = require 'ffi.subject'",
        )
        .run();
    outcome.succeeds().quietly();
    assert_eq!(outcome.stdout, "3\n");
}

#[test]
fn waiting_in_a_critical_section_for_a_callback_is_reported_and_can_be_interrupted() {
    let mut program = baton()
        .process_code(
            "local subject = require 'ffi.subject'
             process.critical(function() subject.subject_call_from_threads(function() return 1 \
             end, 1, 1) end)",
        )
        .start();
    program.await_stderr(
        "called inside process.critical, keeps all other processes, and a callback from another \
         thread, waiting",
    );
    program.await_stderr("If it waits for that thread, it waits for ever.");
    // Two interrupts that come before the first one is handled count as one.
    program.signal_until_it_ends("INT").ended_by_signal(2);
}

/// Without `/proc` the number of threads is unknown.
#[cfg(not(baton_portable))]
#[test]
fn a_deadlock_is_reported_although_callbacks_exist_if_no_thread_can_call_them() {
    let outcome = run("local array = ffi.new('int[3]', {3, 1, 2})
         ffi.cdef 'void qsort(void *, size_t, size_t, int (*)(const int *, const int *));'
         ffi.C.qsort(array, 3, 4, function(a, b) return a[0] - b[0] end)
         local kept = ffi.cast('unary', function(n) return n end)
         ffi.timeout(ffi.fn 'int getpid(void)', 60)()
         process.spawn({ name = 'sleeper' }, process.sleep, 0.01)
         process.event():wait()");
    outcome
        .ends_with(1)
        .complained("deadlock: no process can ever run again");
}

/// Without `/proc` the number of threads is unknown.
#[cfg(not(baton_portable))]
#[test]
fn a_deadlock_is_reported_once_the_last_thread_that_could_call_back_has_ended() {
    let outcome = run("subject.subject_keep(function() return 1 end)
         subject.subject_call_kept_later(1500)
         process.event():wait()");
    outcome
        .ends_with(1)
        .complained("deadlock: no process can ever run again");
}

#[test]
fn a_deadlock_is_reported_although_an_abandoned_call_goes_on() {
    let outcome = run("local flag = ffi.new 'char[1]'
         print(pcall(ffi.timeout(ffi.fn('int subject_await(const volatile char *flag)', subject), \
         0.01), flag))
         process.event():wait()");
    outcome
        .ends_with(1)
        .complained("deadlock: no process can ever run again");
    assert!(outcome.stdout.contains("timed out"), "{outcome}");
}

/// Guards against a program that stands still without a word.
#[test]
fn a_callback_that_may_wait_for_ever_for_others_is_told_of() {
    for (limit, threads, why) in [
        ("", 65, "64 callbacks of threads are in progress"),
        (
            "process.params.max_threads = 1",
            1,
            "process.params.max_threads is 1",
        ),
    ] {
        let mut program = baton()
            .process_code(&format!(
                "local subject = require 'ffi.subject'
                 process.params.warn_blocked = 0.01
                 {limit}
                 local all = process.barrier(65)
                 local function wait() all:wait() return 0 end
                 subject.subject_call_from_threads(wait, {threads}, 1)"
            ))
            .start();
        program.await_stderr(why);
    }
}
