//! `baton top`, on a terminal and elsewhere. `top_screen.rs` tests what it draws.
#![cfg(target_os = "linux")]

mod harness;

use harness::observed::{self, assert_has};
use harness::screen::OnTerminal;
use harness::{Outcome, Run, Started, baton_path};
use serde_json::Value;
use std::io::Read;
use std::num::NonZeroU16;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// A program that has written "ready", and has its requests in its own scratch directory.
fn ready(code: &str) -> Started {
    observed::ready(observed::observed(code))
}

/// Two processes that share the processor, and two that sleep.
const WORKERS: &str = "
    local function compute() while true do end end
    process.spawn({ name = 'first' }, compute)
    process.spawn({ name = 'second' }, compute)
    process.spawn({ name = 'sleeper' }, process.sleep, 3600)
    print 'ready'
    io.stdout:flush()
    process.sleep(3600)";

fn top(program: &Started, more: &[&str]) -> Outcome {
    observed::ask("top", program, more)
}

fn live(program: &Started, more: &[&str]) -> OnTerminal {
    let mut command = Command::new(baton_path());
    command.arg("top").arg(program.pid().to_string()).args(more);
    OnTerminal::start(command)
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// The share of a process, by its name.
fn share(table: &Value, name: &str) -> f64 {
    let rows = table["rows"].as_array().expect("rows");
    let quoted = format!("'{name}'");
    let row = rows.iter().find(|row| {
        row["title"]
            .as_str()
            .is_some_and(|it| it.ends_with(&quoted))
    });
    let row = row.unwrap_or_else(|| panic!("no {name} in {table:#}"));
    row["share"].as_f64().expect("a number")
}

#[test]
fn shares_are_those_of_the_interval() {
    let program = ready(WORKERS);
    let outcome = top(&program, &["--json", "-n", "2", "-d", "3"]);
    outcome.succeeds();
    let tables: Vec<Value> = outcome.stdout.lines().map(json).collect();
    assert_eq!(tables.len(), 2);
    for table in &tables {
        let (first, second) = (share(table, "first"), share(table, "second"));
        let both = first + second;
        assert!((0.4..0.6).contains(&(first / both)), "{table:#}");
        assert!(both <= 1.01, "{table:#}");
        assert!(share(table, "sleeper") < 0.01, "{table:#}");
        // That of all threads: the monitor's too, whose wake-ups may cost 100 us each in a virtual
        // machine.
        let all = table["share"].as_f64().expect("a number");
        assert!((all - both).abs() < 0.05, "{table:#}");
        assert_eq!(table["processes"], 4);
        assert!(
            table["totals"]["heap"]
                .as_u64()
                .is_some_and(|heap| heap > 10_000)
        );
        assert!(
            table["rates"]["preemptions"]
                .as_f64()
                .is_some_and(|rate| rate > 1.0)
        );
        assert!(table["passed"].as_f64().is_some_and(|passed| passed >= 3.0));
    }
    program.signal_until_it_ends("KILL");
}

#[test]
fn the_plain_table_has_the_vm_and_the_first_processes() {
    let program = ready(WORKERS);
    let outcome = top(&program, &["-d", "0.1", "--rows", "3"]);
    outcome.succeeds();
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines.len(), 7, "{outcome}");
    assert!(
        lines[0].starts_with(&format!("baton top {}  up ", program.pid())),
        "{outcome}"
    );
    assert_has(lines[1], "4 processes: ");
    assert!(lines[2].starts_with("switches "), "{outcome}");
    assert_has(lines[3], "NAME");
    let two = lines[4..6].join("\n");
    assert_has(&two, "first");
    assert_has(&two, "second");
    program.signal_until_it_ends("KILL");
}

#[test]
fn other_orders_and_filters_choose_the_rows() {
    let program = ready(WORKERS);
    let asleep = top(&program, &["-d", "0.1", "--filter", "SLEEPER"]);
    assert_has(&asleep.succeeds().stdout, "until a time");
    assert_eq!(asleep.stdout.lines().count(), 5, "{asleep}");
    let idle = top(&program, &["--json", "-d", "0.1", "--sort", "idle"]);
    let rows = json(&idle.succeeds().stdout)["rows"].clone();
    assert_eq!(rows.as_array().map(Vec::len), Some(4));
    let state = rows[0]["state"].as_str();
    assert_eq!(state, Some("sleeping"), "{rows:#}");
    program.signal_until_it_ends("KILL");
}

#[test]
fn the_live_table_answers_keys_and_puts_the_terminal_back() {
    let program = ready(WORKERS);
    let mut table = live(&program, &["-d", "0.2"]);
    let text = table.wait_until("a share of both", |text| {
        let shares = text
            .lines()
            .filter(|line| line.contains("running") || line.contains("runnable"));
        // The screen may be read while it is being drawn.
        let has_all = ["first", "second", "sleeper"].map(|name| text.contains(name));
        has_all == [true; 3] && shares.count() >= 1
    });
    assert_has(&text, "baton top");
    table.wait_until("a rate", |text| {
        text.contains("switches ") && !text.contains("switches -")
    });
    table.press("s");
    table.wait_for("sorted by total");
    table.press("h");
    table.wait_for("Help: any key leads back");
    table.press("h");
    table.wait_for("q quit");
    table.press("/sleep");
    table.wait_until("only the sleeper", |text| {
        text.contains("/sleep_") && text.contains("sleeper") && !text.contains("second")
    });
    table.press("\r\r"); // keeps the filter; opens the stack
    table.wait_for("[C]: in ");
    let text = table.wait_for("'sleeper': sleeping, until a time");
    assert_has(&text, "Stack of process ");
    table.press("q");
    table.wait_for("filter: sleep");
    table.press("p");
    table.wait_for("PAUSED");
    table.press("q");
    assert!(table.finish().success());
    program.signal_until_it_ends("KILL");
}

#[test]
fn any_size_will_do() {
    let of = |size: u16| NonZeroU16::new(size).expect("a size");
    let program = ready(WORKERS);
    let mut table = live(&program, &["-d", "0.1"]);
    table.wait_for("sleeper");
    for (lines, columns) in [(1, 1), (2, 80), (24, 3), (5, 20)] {
        table.resize(of(lines), of(columns));
        table.press("jhhsk");
    }
    table.resize(of(40), of(120));
    table.wait_until("the whole table", |text| {
        text.contains("q quit") && text.contains("sleeper") && text.contains("processes: ")
    });
    table.press("q");
    assert!(table.finish().success());
    program.signal_until_it_ends("KILL");
}

#[test]
fn the_last_table_stays_when_the_program_is_killed() {
    let program = ready(WORKERS);
    let mut table = live(&program, &["-d", "0.1"]);
    table.wait_for("sleeper");
    let pid = program.pid();
    program.signal_until_it_ends("KILL");
    let text = table.wait_for(&format!("process {pid} has ended; q: quit"));
    assert_has(&text, "sleeper");
    table.press("q");
    assert!(table.finish().success());
}

#[test]
fn a_program_that_ends_ends_the_printed_tables() {
    let mut program = observed::ready(
        observed::observed("print 'ready' io.stdout:flush() io.read()").open_stdin(),
    );
    let mut command = Command::new(baton_path());
    command
        .args([
            "top",
            &program.pid().to_string(),
            "-n",
            "1000000",
            "-d",
            "0.1",
        ])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut printing = command.spawn().expect("it starts");
    let tables = printing.stdout.as_mut().expect("it is piped");
    tables.read_exact(&mut [0]).expect("it has attached");
    std::thread::sleep(std::time::Duration::from_millis(300)); // between two tables, or in one
    let pid = program.pid();
    program.write_stdin("\n");
    program.finish().succeeds();
    let output = printing.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_has(&said, &format!("process {pid} has ended"));
}

/// The names of the processes on a screen.
fn names(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices("number ");
    starts.map(|(start, _)| &text[start..start + "number 10000 ".len()])
}

#[test]
fn ten_thousand_processes_are_listed_by_need() {
    let program = ready(
        "for i = 1, 10000 do
           process.spawn({ name = 'number ' .. i }, process.sleep, 3600)
         end
         process.sleep(0)
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    );
    let one = top(&program, &["-d", "0.1", "--filter", "number 7777"]);
    assert_has(&one.succeeds().stdout, "10001 processes: ");
    assert_has(&one.stdout, "  number 7777 ");
    assert_eq!(one.stdout.lines().count(), 5, "{one}");
    let mut table = live(&program, &["-d", "0.1"]);
    let mut before = table.wait_for("number ");
    assert_has(&before, "10001 processes: ");
    for _ in 0..3 {
        before = table.press_until("G", "other processes", |text| {
            text.contains("number ") && names(text).all(|name| !before.contains(name))
        });
    }
    table.press("q");
    assert!(table.finish().success());
    program.signal_until_it_ends("KILL");
}

/// A victim, and what its end looks like.
const VICTIM: &str = "
    local victim = process.spawn({ name = 'victim' }, function()
      local closed <close> = setmetatable({}, { __close = function() print 'closed' end })
      process.sleep(3600)
    end)
    process.spawn(function()
      print(victim:join())
      io.stdout:flush()
    end)
    process.sleep(0)
    print 'ready'
    io.stdout:flush()";

fn victims(rest: &str) -> Started {
    ready(&format!("{VICTIM}\n{rest}"))
}

/// Chooses the victim, and kills it. Its line of spawn tells it from the process that joins it.
fn kill_victim(table: &mut OnTerminal) {
    table.wait_for("victim");
    table.press("/line):3");
    table.wait_until("the victim alone", |text| {
        let rows = text.lines().filter(|line| !line.contains("processes:"));
        let numbers: Vec<&str> = rows
            .filter_map(|row| row.split_whitespace().next())
            .filter(|word| word.parse::<u32>().is_ok())
            .collect();
        numbers == ["2"]
    });
    table.press("\r");
    table.wait_for("filter: line):3");
    table.press("x");
    table.wait_for("Kill process 2 'victim'? y: yes");
    table.press("y");
}

#[test]
fn a_process_is_killed_by_a_person() {
    let mut program = victims("process.sleep(3600)");
    let mut table = live(&program, &["-d", "0.1", "--write"]);
    kill_victim(&mut table);
    program.await_stdout("closed\nfalse\tkilled from outside\n");
    table.press("q");
    assert!(table.finish().success());
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_process_that_computes_is_killed_in_the_middle() {
    let mut program = ready(
        "
         local victim = process.spawn({ name = 'victim' }, function()
           while true do pcall(function() while true do end end) end
         end)
         process.spawn(function()
           print(victim:join())
           io.stdout:flush()
         end)
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    );
    let mut table = live(&program, &["-d", "0.1", "--write"]);
    kill_victim(&mut table);
    program.await_stdout("false\tkilled from outside\n");
    table.press("q");
    assert!(table.finish().success());
    program.signal_until_it_ends("KILL");
}

/// Nothing else can run, so only the kill makes the VM leave the call.
#[test]
fn a_process_is_killed_beside_a_foreign_call() {
    let mut program = victims(
        "process.concurrent('blocker', 'concurrent')
         require 'blocker'.block_ms(3600000)",
    );
    let mut table = live(&program, &["-d", "0.1", "--write"]);
    kill_victim(&mut table);
    program.await_stdout("closed\nfalse\tkilled from outside\n");
    table.press("q");
    assert!(table.finish().success());
    program.signal_until_it_ends("KILL");
}

#[test]
fn nothing_is_killed_without_write_or_without_a_terminal() {
    let program = victims("process.sleep(3600)");
    let mut table = live(&program, &["-d", "0.1"]);
    table.wait_for("victim");
    table.press("x");
    table.wait_for("start top with --write to kill processes");
    table.press("q");
    assert!(table.finish().success());
    top(&program, &["--write"])
        .ends_with(1)
        .complained("--write is for a person on a terminal");
    program.signal_until_it_ends("KILL");
}

/// As the book says of this value.
#[test]
fn a_program_that_allows_everything_needs_no_write() {
    let run = observed::observed(&format!("{VICTIM}\nprocess.sleep(3600)"));
    let mut program = observed::ready(run.env("BATON_ATTACH", "all"));
    let mut table = live(&program, &["-d", "0.1"]);
    kill_victim(&mut table);
    program.await_stdout("closed\nfalse\tkilled from outside\n");
    table.press("q");
    assert!(table.finish().success());
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_signal_ends_the_live_table_and_puts_the_terminal_back() {
    let program = ready(WORKERS);
    for (name, number) in [("TERM", 15), ("HUP", 1), ("INT", 2), ("QUIT", 3)] {
        let mut command = Command::new("prlimit");
        command.arg("--core=0").arg(baton_path()).arg("top");
        command.arg(program.pid().to_string());
        let table = OnTerminal::start(command);
        table.wait_for("sleeper");
        table.signal(name);
        assert_eq!(table.finish().signal(), Some(number), "{name}");
    }
    program.signal_until_it_ends("KILL");
}

/// The script would run on unseen.
#[test]
fn a_signal_ends_the_script_too() {
    let file = std::env::temp_dir().join(format!("baton-top-script-{}.lua", std::process::id()));
    let code = "require 'baton.process'.sleep(3600)";
    std::fs::write(&file, code).expect("it can be written");
    let mut command = Command::new(baton_path());
    command.arg("top").arg(&file);
    let table = OnTerminal::start(command);
    let text = table.wait_for("processes: ");
    let pid = text
        .split("baton top ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .expect("its process id")
        .to_owned();
    table.signal("TERM");
    assert_eq!(table.finish().signal(), Some(15));
    std::fs::remove_file(&file).expect("it can be removed");
    assert!(!std::path::Path::new("/proc").join(pid).exists());
}

#[test]
fn control_z_suspends_the_live_table_and_it_comes_back() {
    let program = ready(WORKERS);
    let mut table = live(&program, &["-d", "0.1"]);
    for _ in 0..2 {
        table.wait_for("sleeper");
        table.press("\x1a");
        table.await_stop();
        table.assert_is_as_before();
        table.signal("CONT");
    }
    table.wait_for("sleeper");
    table.press("q");
    assert!(table.finish().success());
    program.signal_until_it_ends("KILL");
}

#[test]
fn processes_of_one_name_are_one_row() {
    let program = ready(
        "for i = 1, 30 do process.spawn({ name = 'sleeper' }, process.sleep, 3600) end
         process.sleep(0)
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    );
    let merged = top(&program, &["-d", "0.1", "--group", "--json"]);
    let table = json(&merged.succeeds().stdout);
    let rows = table["rows"].as_array().expect("rows");
    let counts: Vec<_> = rows.iter().map(|row| row["count"].as_u64()).collect();
    assert_eq!(counts.iter().max(), Some(&Some(30)), "{table:#}");
    assert_eq!(counts.len(), 2, "{table:#}");
    assert_eq!(table["matching"], 31);
    let mut live = live(&program, &["-d", "0.1"]);
    live.wait_for("sleeper");
    live.press("n/sleeper\r");
    let text = live.wait_for("filter: sleeper  30 of 31");
    assert_has(&text, "COUNT");
    assert_has(&text, "   30 ");
    live.press("q");
    assert!(live.finish().success());
    program.signal_until_it_ends("KILL");
}

/// The program cannot answer at all.
#[test]
fn keys_work_while_the_program_is_stopped() {
    let program = ready(WORKERS);
    let mut table = live(&program, &["-d", "0.1"]);
    table.wait_for("sleeper");
    program.signal("STOP");
    table.wait_for("no answer for ");
    table.press("h");
    table.wait_for("Help: any key leads back");
    table.press("hq");
    assert!(table.finish().success());
    program.signal_until_it_ends("KILL");
}

/// The program's main thread is in a call, and it has no other one.
#[test]
fn a_program_that_is_held_is_shown_as_such_until_it_answers() {
    let mut program = ready(
        "local blocker = require 'blocker'
                 print 'ready'
                 io.stdout:flush()
                 blocker.spin_ms(3000)
                 process.spawn({ name = 'later' }, process.sleep, 3600)
                 process.sleep(3600)",
    );
    let mut table = live(&program, &["-d", "0.1"]);
    table.wait_for("later");
    table.press("q");
    assert!(table.finish().success());
    program.read_stdout();
    program.signal_until_it_ends("KILL");
}

#[test]
fn mistakes_and_help_are_explained() {
    let run = |arguments: &[&str]| {
        let run = Run::of(baton_path()).arg("top");
        arguments
            .iter()
            .fold(run, |run, argument| run.arg(argument))
            .run()
    };
    assert_has(&run(&["--help"]).succeeds().stdout, "--delay <SECONDS>");
    run(&[]).ends_with(2).complained("PID or SCRIPT");
    run(&["1", "-d", "0.05"])
        .ends_with(2)
        .complained("from 0.1 to 3600 seconds expected");
    run(&["1", "-n", "0"])
        .ends_with(2)
        .complained("0 is not in 1..");
    run(&["4194304"])
        .ends_with(1)
        .complained("there is no process 4194304");
}
