//! Tests `baton --simulate`: virtual time, and runs that their seed repeats.

mod harness;

use harness::{Run, baton, lua_dir, missing};

const RANDOM_PROGRAM: &str = "simulation/random_program.lua";

fn simulated(seeds: &str) -> Run {
    baton().arg("--simulate").arg(seeds)
}

fn output_of(run: Run) -> String {
    let outcome = run.run();
    outcome.succeeds().quietly();
    outcome.stdout
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in ["0", "7", "18446744073709551615"] {
        let program = || output_of(simulated(seed).script(RANDOM_PROGRAM));
        let first = program();
        assert!(first.lines().count() > 5, "{first}");
        assert_eq!(first, program(), "the seed {seed}");
    }
}

#[test]
fn the_same_seed_gives_the_same_counters_too() {
    let program =
        "local function work() for _ = 1, 20 do process.sleep(0.001) process.yield() end \
                   end
                   local all = {}
                   for i = 1, 10 do all[i] = process.spawn({ thread = i % 3 == 0 and 't' .. i or \
                   nil }, work) end
                   for i = 1, 10 do all[i]:join() end
                   local lines = { 'threads: ' .. process.threads() }
                   for name, value in pairs(process.stats()) do lines[#lines + 1] = name .. ' ' .. \
                   value end
                   table.sort(lines)
                   print(table.concat(lines, '\\n'))";
    let first = output_of(simulated("7").process_code(program));
    assert!(
        first.contains("threads: ") && first.contains("switches "),
        "{first}"
    );
    for _ in 0..5 {
        assert_eq!(first, output_of(simulated("7").process_code(program)));
    }
}

/// The speed of native threads decides nothing.
#[test]
fn processes_on_threads_of_their_own_run_in_the_same_order_too() {
    let program = "local log, all = {}, {}
                   for i = 1, 4 do
                     all[i] = process.spawn(i < 3 and { thread = 't' .. i } or {}, function()
                       for k = 1, 20 do log[#log + 1] = i process.sleep(0.001) end
                     end)
                   end
                   for i = 1, 4 do all[i]:join() end
                   print(table.concat(log), process.now())";
    let first = output_of(simulated("3").process_code(program));
    for _ in 0..20 {
        assert_eq!(first, output_of(simulated("3").process_code(program)));
    }
}

#[test]
fn a_coroutine_whose_hooks_are_cleared_counts_as_well() {
    let program =
        "local co = coroutine.create(function() local t = process.now() repeat until process.now() \
         > t + 0.1 end)
                   debug.sethook(co)
                   print(coroutine.resume(co))";
    assert_eq!(output_of(simulated("1").process_code(program)), "true\n");
}

#[test]
fn programs_that_seed_themselves_by_the_date_draw_other_numbers() {
    let program = "math.randomseed(os.time()) print(math.random(1 << 40))";
    let drawn: std::collections::HashSet<String> = (1..=5)
        .map(|seed| output_of(simulated(&seed.to_string()).process_code(program)))
        .collect();
    assert_eq!(drawn.len(), 5);
}

#[test]
fn other_seeds_give_other_runs() {
    let program = "local log = {}
                   for i = 1, 5 do process.spawn(function() for _ = 1, 5 do log[#log + 1] = i \
                   process.yield() end end) end
                   process.sleep(1) print(table.concat(log))";
    let runs: std::collections::HashSet<String> = (0..10)
        .map(|seed| output_of(simulated(&seed.to_string()).process_code(program)))
        .collect();
    assert!(runs.len() > 5, "{runs:?}");
}

/// The program checks its own invariants.
#[test]
fn a_thousand_random_programs_keep_their_invariants() {
    let outcome = simulated("1-1000")
        .script(RANDOM_PROGRAM)
        .patiently(10)
        .run();
    outcome
        .succeeds()
        .wrote("")
        .complained("1000 seeds, none failed");
}

#[test]
fn sleeps_cost_nothing() {
    let program = "local t = process.now() process.sleep(86400 * 365) print(process.now() - t >= \
                   86400 * 365)
                   process.every(3600, function() n = (n or 0) + 1 end) process.sleep(36000.5) \
                   print(n) os.exit(0)";
    assert_eq!(
        output_of(simulated("1").process_code(program)),
        "true\n10\n"
    );
}

/// The executable exports none of the C library's functions, which LuaSocket asks for the time.
#[test]
fn luasockets_time_is_virtual_too() {
    if missing::is_luasocket("LuaSocket's time in a simulated run") {
        return;
    }
    let code = "local gettime = require('socket').gettime
         local before = gettime()
         process.sleep(1000)
         print(gettime() - before >= 1000, math.abs(gettime() - os.time()) < 2)";
    let run = simulated("1").process_code(code);
    assert_eq!(output_of(run), "true\ttrue\n");
}

#[test]
fn computing_takes_virtual_time() {
    let program = "local now, clock, date = process.now(), os.clock(), os.time()
                   repeat until process.now() - now > 1
                   repeat until os.clock() - clock > 2
                   repeat until os.time() - date > 3
                   print(process.features().clock, 'done')";
    assert_eq!(
        output_of(simulated("1").process_code(program)),
        "simulated\tdone\n"
    );
}

/// Two processes read a value and then write it. Some of a thousand seeds find the lost update; the
/// message has the seed, which finds it again.
#[test]
fn a_lost_update_is_found_and_its_seed_printed() {
    let program = "local n, all = 0, {}
                   for i = 1, 2 do all[i] = process.spawn(function() local v = n n = v + 1 end) end
                   for i = 1, 2 do all[i]:join() end
                   assert(n == 2, 'an update is lost')";
    let outcome = simulated("1-1000").process_code(program).run();
    outcome
        .ends_with(1)
        .complained("an update is lost")
        .complained("--simulate");
    let told = outcome
        .stderr
        .split("--simulate ")
        .nth(1)
        .expect("the seed is told");
    let seed = told.split_whitespace().next().expect("a number");
    simulated(seed)
        .process_code(program)
        .run()
        .ends_with(1)
        .complained("an update is lost")
        .complained(&format!("--simulate {seed} repeats it"));
}

#[test]
fn without_slices_no_process_is_preempted() {
    let program = "process.params.slice = 3600
                   local n, all = 0, {}
                   for i = 1, 4 do all[i] = process.spawn(function() for _ = 1, 1000 do local v = \
                   n n = v + 1 end end) end
                   for i = 1, 4 do all[i]:join() end
                   print(n)";
    for seed in 0..20 {
        assert_eq!(
            output_of(simulated(&seed.to_string()).process_code(program)),
            "4000\n"
        );
    }
}

#[test]
fn hooks_coroutines_and_finalizers_work_as_in_any_run() {
    let program = "local lines = 0
                   debug.sethook(function() lines = lines + 1 end, 'l')
                   local x = 1
                   x = x + 1
                   debug.sethook()
                   local collected = 0
                   for _ = 1, 100 do setmetatable({}, { __gc = function() collected = collected + \
                   1 end }) end
                   collectgarbage()
                   local co = coroutine.wrap(function() for i = 1, 100 do coroutine.yield(i) end \
                   end)
                   local sum = 0
                   for _ = 1, 100 do sum = sum + co() end
                   print(lines > 2, collected, sum, debug.gethook())";
    assert_eq!(
        output_of(simulated("4").process_code(program)),
        "true\t100\t5050\tnil\n"
    );
}

#[test]
fn foreign_calls_are_neither_retaken_nor_offloaded() {
    let program = "local done, all, before = {}, {}, process.now()
                   for i = 1, 3 do all[i] = process.spawn(function() assert(os.execute 'true') \
                   done[i] = true end) end
                   local pipe <close> = io.popen 'sleep 0.05; echo text'
                   local text = pipe:read 'l'
                   for i = 1, 3 do all[i]:join() end
                   print(#done, text, process.now() - before < 1, process.stats().retakes, \
                   process.stats().moves)";
    assert_eq!(
        output_of(simulated("2").process_code(program)),
        "3\ttext\ttrue\t0\t0\n"
    );
}

#[test]
fn waiting_for_a_descriptor_is_refused() {
    let outcome = simulated("1")
        .process_code(
            "local socket = require 'socket'
             local server = assert(socket.udp4())
             assert(server:setsockname('127.0.0.1', 0))
             print(pcall(server.receive, server))
             print(pcall(function() return server:receivefrom() end))
             print(pcall(socket.select, { server }, nil, 2))
             print(process.spawn({ quiet = true }, server.receive, server):join())
             local before = process.now()
             socket.select(nil, nil, 5)
             print(process.now() - before >= 5)
             print 'goes on'",
        )
        .run();
    if outcome.stderr.contains("module 'socket' not found") {
        harness::peer::skip("sockets in virtual time", "install lua-socket");
        return;
    }
    outcome.succeeds().quietly();
    let refused = outcome.stdout.lines().filter(|line| {
        line.starts_with("false\t") && line.contains("a simulated run cannot wait for a descriptor")
    });
    assert_eq!(refused.count(), 4, "{outcome}");
    assert!(outcome.stdout.ends_with("true\ngoes on\n"), "{outcome}");
}

#[test]
fn a_deadlock_is_reported_with_its_seed() {
    simulated("17")
        .process_code("process.channel():receive()")
        .run()
        .ends_with(1)
        .complained("deadlock")
        .complained("--simulate 17 repeats it");
}

#[test]
fn a_range_ends_with_its_first_failure() {
    let outcome = simulated("3-9")
        .process_code("print 'output' process.sleep(0) os.exit(os.getenv 'SCRATCH' and 3)")
        .run();
    outcome
        .ends_with(3)
        .wrote("output\n")
        .complained("--simulate 3 repeats it");
}

/// Processes are killed anywhere, while they borrow from a pool and while they are in a shield.
#[test]
fn a_kill_loses_nothing_of_a_pool_and_cuts_no_shield() {
    for program in ["simulation/pool.lua", "simulation/shield.lua"] {
        simulated("1-1000")
            .arg("--jobs")
            .arg("2")
            .script(program)
            .run()
            .succeeds()
            .complained("1000 seeds, none failed");
    }
}

#[test]
fn wrong_seeds_are_refused() {
    for seeds in [
        "x",
        "",
        "1x",
        "-1",
        "1-",
        "5-2",
        "1-2-3",
        "18446744073709551616",
        "0x10",
        " 1",
    ] {
        simulated(seeds)
            .arg("-e")
            .arg("print 'runs'")
            .run()
            .ends_with(1)
            .wrote("")
            .complained("'--simulate' needs a seed: a number, or a range such as 1-1000");
    }
    baton()
        .arg("--simulate")
        .run()
        .ends_with(1)
        .complained("'--simulate' needs a seed");
}

#[test]
fn a_range_of_seeds_does_not_read_its_program_from_the_input() {
    for arguments in [&["-"][..], &[], &["-i", "-e", ""]] {
        let mut run = simulated("1-5");
        for argument in arguments {
            run = run.arg(argument);
        }
        run.stdin("error 'runs'")
            .run()
            .ends_with(1)
            .complained("the input can be read only once");
    }
    assert_eq!(
        output_of(simulated("5").arg("-").stdin("print 'runs'")),
        "runs\n"
    );
}

/// Cases that hold in real time only.
const REAL_TIME_ONLY: &[(&str, &str)] = &[
    // Equals have no fixed order in a simulated run.
    (
        "processes/critical.lua",
        "a_directed_yield_ignores_the_order_of_equals",
    ),
    (
        "processes/hooks.lua",
        "a_scheduler_that_declines_changes_nothing",
    ),
    ("processes/hooks.lua", "a_switch_hook_alone_is_enough"),
    (
        "processes/hooks.lua",
        "a_switch_hook_may_end_the_one_that_would_run_next",
    ),
    (
        "processes/hooks.lua",
        "switch_hooks_are_called_around_each_run",
    ),
    ("processes/hooks.lua", "one_that_cannot_run_is_not_chosen"),
    (
        "processes/kill.lua",
        "a_killed_owner_passes_its_mutex_to_the_first_waiter",
    ),
    (
        "processes/life.lua",
        "processes_start_in_the_order_of_their_spawning",
    ),
    (
        "processes/priorities.lua",
        "a_less_urgent_child_waits_for_all_others",
    ),
    (
        "processes/priorities.lua",
        "yield_goes_to_the_back_of_the_level",
    ),
    (
        "processes/priorities.lua",
        "waiters_of_one_priority_are_served_in_order",
    ),
    (
        "processes/time.lua",
        "sleepers_of_one_deadline_wake_in_order",
    ),
    ("sync/locks.lua", "a_semaphore_serves_its_waiters_in_order"),
    ("sync/rwlock.lua", "a_barrier_holds_until_all_have_come"),
    // A C call is not retaken, and no process runs meanwhile.
    (
        "service/signals.lua",
        "a_call_that_blocks_does_not_hold_signals_up",
    ),
    (
        "processes/kill.lua",
        "a_kill_waits_for_the_return_of_a_c_function",
    ),
    (
        "processes/ends.lua",
        "a_join_waits_for_a_retaken_call_of_a_failing_process",
    ),
    (
        "processes/kill.lua",
        "a_kill_counts_although_the_process_was_at_its_end",
    ),
    (
        "processes/states.lua",
        "a_process_in_a_long_c_call_is_foreign",
    ),
    (
        "processes/states.lua",
        "the_cpu_time_of_a_process_excludes_time_off_the_processor",
    ),
    (
        "processes/suspend.lua",
        "a_process_suspended_in_a_c_call_stays_so_after_its_return",
    ),
    (
        "processes/threads.lua",
        "a_busy_thread_holds_up_only_those_that_are_bound_to_it",
    ),
    (
        "processes/threads.lua",
        "binding_to_a_busy_thread_waits_for_that_thread",
    ),
    (
        "processes/threads.lua",
        "a_process_that_waits_for_a_thread_can_be_unbound",
    ),
    (
        "processes/threads.lua",
        "kill_suspend_and_set_priority_reach_a_process_that_waits_for_a_thread",
    ),
    (
        "processes/threads.lua",
        "other_processes_run_when_all_threads_are_named_or_in_calls",
    ),
];

/// The cases for processes, synchronization and services, in virtual time.
fn conform(directory: &str, seed: u32) {
    let mut ran = 0;
    let mut files: Vec<String> = std::fs::read_dir(lua_dir().join(directory))
        .expect("the directory is there")
        .map(|entry| {
            entry
                .expect("readable")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| name.ends_with(".lua"))
        .collect();
    files.sort();
    for file in files {
        let path = format!("{directory}/{file}");
        let text = std::fs::read_to_string(lua_dir().join(&path)).expect("readable");
        for case in text
            .lines()
            .filter_map(|line| line.strip_prefix("function case."))
        {
            let name = case.split('(').next().unwrap_or(case);
            if REAL_TIME_ONLY.contains(&(path.as_str(), name)) {
                continue;
            }
            let outcome = simulated(&seed.to_string()).script(&path).arg(name).run();
            outcome.succeeds();
            assert!(
                outcome.stdout.ends_with(&format!("passed {name}\n")),
                "{outcome}"
            );
            ran += 1;
        }
    }
    assert!(ran > 20, "{ran} cases of {directory}");
}

#[test]
fn processes_conform_in_virtual_time() {
    (1..=3).for_each(|seed| conform("processes", seed));
}

#[test]
fn synchronization_conforms_in_virtual_time() {
    (1..=3).for_each(|seed| conform("sync", seed));
}

#[test]
fn services_conform_in_virtual_time() {
    (1..=3).for_each(|seed| conform("service", seed));
}

#[test]
fn a_select_over_a_descriptor_is_refused_in_virtual_time() {
    let program = "print(pcall(process.select, { { fd = 0 } }))";
    let output = output_of(simulated("1").process_code(program));
    assert!(
        output.contains("a simulated run cannot wait for descriptors"),
        "{output}"
    );
}

#[test]
fn requests_that_wait_take_as_long_beside_endless_handlers_that_decay() {
    for seed in ["1", "5"] {
        let output = output_of(simulated(seed).script("simulation/decay.lua"));
        assert_eq!(output, "ok\n", "the seed {seed}");
    }
}
