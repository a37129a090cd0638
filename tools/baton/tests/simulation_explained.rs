//! Tests what `baton --simulate` does about a seed that fails, and its options `--jobs`, `--limit`
//! and `--explain`.

mod harness;

use harness::{Outcome, Run, baton, baton_path, with_process};
use nix::pty::{Winsize, openpty};
use std::io::Read;
use std::path::Path;

const LOST_UPDATE: &str = "simulation/bugs/lost_update.lua";

fn simulated(arguments: &[&str]) -> Run {
    let run = baton().arg("--simulate");
    arguments
        .iter()
        .fold(run, |run, argument| run.arg(argument))
}

/// The table of switches, as rows of cells.
fn rows_in(outcome: &Outcome) -> Vec<Vec<&str>> {
    let lines = outcome
        .stderr
        .lines()
        .skip_while(|line| !line.starts_with("  switch "));
    let lines = lines.skip(1).take_while(|line| line.starts_with("  "));
    lines
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect()
}

#[test]
fn the_switches_of_the_failing_run_are_shown() {
    let outcome = simulated(&["1-1000"]).script(LOST_UPDATE).run();
    outcome
        .ends_with(1)
        .wrote("")
        .complained("an update is lost")
        .complained("repeats it")
        .complained("baton: it fails so with 1 preemption instead of ")
        .complained("; none can be left out (");
    let rows = rows_in(&outcome);
    let preempted: Vec<_> = rows
        .iter()
        .filter(|row| row.contains(&"it is preempted"))
        .collect();
    assert_eq!(preempted.len(), 1, "{outcome}");
    assert!(preempted[0][2].ends_with("lost_update.lua:7"), "{outcome}");
    let first = &rows[0];
    assert_eq!(first[..2], ["1", "process 1 'main'"], "{outcome}");
    assert_eq!(
        first[3..],
        ["it waits for the end of process 2 (join)", "process 2"],
        "{outcome}"
    );
    assert!(rows.iter().any(|row| row[2] == "it has ended"), "{outcome}");
}

#[test]
fn a_single_seed_is_explained_too() {
    let found = simulated(&["1-1000", "--explain", "0"])
        .script(LOST_UPDATE)
        .run();
    let seed = found
        .stderr
        .split("--simulate ")
        .nth(1)
        .expect("the seed is told");
    let seed = seed.split(' ').next().expect("a number");
    let search = simulated(&["1-1000"]).script(LOST_UPDATE).run();
    let single = simulated(&[seed]).script(LOST_UPDATE).run();
    single.ends_with(1);
    assert_eq!(single.stderr, search.stderr);
}

/// The number of lost hits differs between the run of the seed and shorter ones. Numbers in a
/// message do not count.
#[test]
fn of_a_long_run_the_switches_that_matter_are_shown() {
    // Earlier seeds have longer explanations, of which nothing can be left out either.
    let outcome = simulated(&["57-500", "--jobs", "2"])
        .script("simulation/long_run.lua")
        .run();
    outcome
        .ends_with(1)
        .complained("hits are lost: ")
        .complained("; none can be left out (");
    let (few, all) = counts_of(&outcome);
    assert_eq!(few, 2, "{outcome}");
    assert!(all > 100, "{outcome}");
    let rows = rows_in(&outcome);
    assert!(rows.len() < 20, "{outcome}");
    assert_eq!(rows[0], ["..."], "{outcome}");
    let preempted = rows.iter().filter(|row| row.contains(&"it is preempted"));
    let places: Vec<_> = preempted.map(|row| row[2]).collect();
    assert!(
        matches!(places[..], [.., place] if place.ends_with("long_run.lua:12")),
        "{outcome}"
    );
}

/// How many preemptions the explanation has, and how many the run had.
fn counts_of(outcome: &Outcome) -> (u32, u32) {
    let line = outcome.stderr.lines().find_map(|line| {
        let rest = line.strip_prefix("baton: it fails so with ")?;
        rest.split_once(" instead of ")
    });
    let (few, all) = line.unwrap_or_else(|| panic!("the failure is explained\n{outcome}"));
    let number = |text: &str| {
        let digits = text.split(|letter: char| !letter.is_ascii_digit()).next();
        digits
            .and_then(|digits| digits.parse().ok())
            .expect("a number")
    };
    (number(few), number(all))
}

#[test]
fn without_runs_nothing_is_explained() {
    let outcome = simulated(&["1-1000", "--explain", "0"])
        .script(LOST_UPDATE)
        .run();
    outcome.ends_with(1).complained("an update is lost");
    assert!(outcome.stderr.ends_with(" repeats it\n"), "{outcome}");
}

#[test]
fn an_explanation_that_runs_out_of_runs_says_so() {
    let outcome = simulated(&["1-1000", "--explain", "2"])
        .script(LOST_UPDATE)
        .run();
    outcome
        .ends_with(1)
        .complained("; fewer may suffice (2 runs)");
    assert!(rows_in(&outcome).len() > 3, "{outcome}");
}

#[test]
fn several_jobs_find_the_same_seed() {
    let of = |jobs| {
        simulated(&["1-1000", "--jobs", jobs])
            .script(LOST_UPDATE)
            .run()
    };
    let (one, many) = (of("1"), of("7"));
    one.ends_with(1);
    many.ends_with(1);
    assert_eq!(one.stderr, many.stderr);
}

#[test]
fn all_seeds_run_with_several_jobs() {
    let list = Path::new(env!("CARGO_TARGET_TMPDIR")).join("seeds_that_ran");
    let _ = std::fs::remove_file(&list);
    let outcome = simulated(&["1-20", "--jobs", "3"])
        .env("LIST", &list)
        .code("io.open(os.getenv 'LIST', 'a'):write(arg[2], '\\n'):close()")
        .run();
    outcome
        .succeeds()
        .wrote("")
        .complained("20 seeds, none failed");
    let mut seeds: Vec<u32> = std::fs::read_to_string(&list)
        .expect("the program has written")
        .lines()
        .map(|line| line.parse().expect("a seed"))
        .collect();
    seeds.sort_unstable();
    assert_eq!(seeds, (1..=20).collect::<Vec<_>>());
}

#[test]
fn a_terminal_shows_the_progress_and_a_pipe_does_not() {
    let size = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let terminal = openpty(Some(&size), None).expect("a terminal");
    let mut search = std::process::Command::new(baton_path())
        .args(["--simulate", "1-20", "-e", "x = 1"])
        .env("TERM", "xterm")
        .stderr(terminal.slave)
        .spawn()
        .expect("baton starts");
    let mut shown = Vec::new();
    // A terminal whose other end is closed fails at last.
    let _ = std::fs::File::from(terminal.master).read_to_end(&mut shown);
    let shown = String::from_utf8_lossy(&shown);
    assert!(search.wait().expect("it ends").success(), "{shown}");
    assert!(shown.contains(" of 20 seeds, "), "{shown}");
    assert!(shown.contains("baton: 20 seeds, none failed"), "{shown}");

    let outcome = simulated(&["1-20"]).code("x = 1").run();
    assert_eq!(outcome.stderr, "baton: 20 seeds, none failed\n");
}

/// The run starts a program that holds its output. The search would wait for that program's end.
#[test]
fn a_run_that_takes_too_long_is_killed_with_what_it_has_started() {
    let outcome = simulated(&["1-3", "--limit", "0.5"])
        .code("print 'begins' io.stdout:flush() os.execute 'sleep 1000'")
        .run();
    outcome
        .ends_with(1)
        .wrote("begins\n")
        .complained("the run with the seed 1 did not end within 0.5 s; --simulate 1 repeats it");
}

#[test]
fn a_limit_suffices_for_a_run_that_ends() {
    simulated(&["5", "--limit", "100"])
        .code("print 'output'")
        .run()
        .succeeds()
        .wrote("output\n");
    let outcome = simulated(&["5-6", "--limit", "100"])
        .code("print 'output'")
        .run();
    outcome
        .succeeds()
        .wrote("")
        .complained("2 seeds, none failed");
}

/// Two processes wait for each other in loops that never wait.
#[test]
fn a_run_that_hangs_is_explained() {
    let program = with_process(
        "local turn, a = 0
         a = process.spawn(function() if turn == 0 then turn = 1 end end)
         process.spawn(function() if turn == 0 then while true do end end end)
         a:join()",
    );
    let outcome = simulated(&["1-300", "--limit", "2", "--explain", "6"])
        .code(&program)
        .run();
    outcome
        .ends_with(1)
        .complained("did not end within 2 s")
        .complained("it fails so with ");
}

#[test]
fn a_run_that_a_signal_ends_is_explained() {
    let program = with_process("process.yield() os.execute 'kill -KILL $PPID'");
    let outcome = simulated(&["3-4"]).code(&program).run();
    outcome
        .ends_with(1)
        .complained("the run with the seed 3 ended by the signal SIGKILL; --simulate 3 repeats it")
        .complained("it fails so with 0 preemptions");
}

#[test]
fn given_decisions_are_made() {
    let program = with_process(
        "local log, all = {}, {}
         for i = 1, 3 do all[i] = process.spawn(function() log[#log + 1] = i end) end
         for i = 1, 3 do all[i]:join() end
         print(table.concat(log))",
    );
    let printed = |seeds: &str| {
        let outcome = simulated(&[seeds]).code(&program).run();
        outcome.succeeds().quietly();
        outcome.stdout
    };
    assert_eq!(printed("1:"), "123\n");
    assert_eq!(printed("2:"), "123\n");
    // Process 2, the first child, is preempted before its first step. Process 4 is the last one.
    assert_eq!(printed("1:p2@1=4"), "321\n");
}

#[test]
fn a_run_in_plain_order_gives_way_to_an_equal_that_it_waits_for() {
    let program = with_process(
        "local done
         local waiter = process.spawn(function() while not done do end end)
         process.spawn(function() done = true end)
         waiter:join()",
    );
    simulated(&["1:"]).code(&program).run().succeeds().quietly();
}

/// Each run of an explanation has the addresses of the run that it explains. Otherwise the message,
/// which shows the order of `pairs`, would differ.
#[test]
fn a_failure_that_depends_on_addresses_is_explained() {
    let program = with_process(
        "local mutex, keys, order = process.mutex { name = 'lock' }, {}, {}
         local function add(letter) mutex:with(function() keys[{}] = letter end) end
         local all = {}
         for i = 1, 8 do all[i] = process.spawn({ name = 'p' .. i }, add, string.char(96 + i)) end
         for _, p in ipairs(all) do p:join() end
         for _, letter in pairs(keys) do order[#order + 1] = letter end
         error(table.concat(order), 0)",
    );
    for seed in ["1", "2", "3"] {
        let outcome = simulated(&[seed]).code(&program).run();
        outcome.ends_with(1).complained("baton: it fails so with ");
    }
}

#[test]
fn a_program_from_the_input_is_not_run_again() {
    let outcome = simulated(&["3", "-"]).stdin("error 'fails'").run();
    outcome.ends_with(1).complained("fails");
    assert!(
        outcome.stderr.ends_with("--simulate 3 repeats it\n"),
        "{outcome}"
    );
}

/// The message has a random number of the system, so that no two runs fail alike.
#[test]
fn a_run_that_does_not_repeat_itself_is_not_explained() {
    let outcome = simulated(&["1-2"])
        .code(
            "local bytes = io.open('/dev/urandom'):read(40)
             error(bytes:gsub('.', function(c) return string.char(97 + c:byte() % 26) end), 0)",
        )
        .run();
    outcome
        .ends_with(1)
        .complained("recorded, the run with the seed 1 ends otherwise");
}

#[test]
fn the_program_sees_neither_its_role_nor_options_that_are_not_for_it() {
    let program = "print(os.getenv 'BATON_SIMULATION', arg[1], arg[2], arg[3]) os.exit(2)";
    let outcome = simulated(&["4-5", "--jobs", "2", "--explain", "3"])
        .code(program)
        .run();
    outcome.ends_with(2).wrote("nil\t--simulate\t4\t-e\n");
}

#[test]
fn a_role_that_there_is_not_is_ignored() {
    simulated(&["4"])
        .env("BATON_SIMULATION", "nonsense")
        .code("print 'runs'")
        .run()
        .succeeds()
        .wrote("runs\n")
        .quietly();
}

#[test]
fn an_interrupted_search_kills_its_runs() {
    let search = simulated(&["1-2", "--jobs", "2"])
        .code("os.execute 'echo $PPID > $SCRATCH/$PPID.pid; sleep 1000'")
        .start();
    let scratch = search.scratch().to_owned();
    let pids = || -> Vec<String> {
        let entries = std::fs::read_dir(&scratch).expect("it is there").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names
            .filter_map(|name| name.strip_suffix(".pid").map(String::from))
            .collect()
    };
    while pids().len() < 2 {
        std::thread::yield_now();
    }
    let pids = pids();
    search.signal("TERM");
    let outcome = search.finish();
    assert!(
        outcome.status.code().is_none(),
        "the signal ends it\n{outcome}"
    );
    for pid in pids {
        let path = Path::new("/proc").join(pid).join("exe");
        while path.read_link().is_ok() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn wrong_values_are_refused() {
    for (option, values, why) in [
        (
            "--jobs",
            &["", "0", "x", "-1", "1025", "2x", "1.5"][..],
            "needs a number from 1 to 1024",
        ),
        (
            "--limit",
            &["", "0", "x", "-1", "1e3", ".", "1000001", "2s"],
            "needs seconds",
        ),
        (
            "--explain",
            &["", "x", "-1", "1000001", "2x"],
            "needs a number of runs, or 0",
        ),
    ] {
        for value in values {
            simulated(&["1", option, value, "-e", "print 'runs'"])
                .run()
                .ends_with(1)
                .wrote("")
                .complained(&format!("'{option}' {why}"));
        }
        simulated(&["1", option])
            .run()
            .ends_with(1)
            .complained(&format!("'{option}' {why}"));
        baton()
            .arg(option)
            .arg("1")
            .code("print 'runs'")
            .run()
            .ends_with(1)
            .wrote("")
            .complained(&format!("'{option}' needs --simulate"));
    }
}

#[test]
fn wrong_decisions_are_refused() {
    for seeds in [
        "1:x",
        "1:p",
        "1:p2",
        "1:p2@",
        "1:p2@5",
        "1:p2@5=",
        "1:p2@5=3,",
        "1:,p2@5=3",
        "1-2:p2@5=3",
        "1:p2@5.=3",
        "1:p2@5=4294967296",
        "1:p2@5.65536=3",
        "1:p-2@5=3",
        "1:p2@5=3-4",
        ":p2@5=3",
    ] {
        simulated(&[seeds, "-e", "print 'runs'"])
            .run()
            .ends_with(1)
            .wrote("")
            .complained("'--simulate' needs a seed: a number, or a range such as 1-1000");
    }
}

#[test]
fn a_limit_needs_a_program_that_is_not_from_the_input() {
    simulated(&["1", "--limit", "5", "-"])
        .stdin("print 'runs'")
        .run()
        .ends_with(1)
        .wrote("")
        .complained("'--limit' needs a script or -e");
}
