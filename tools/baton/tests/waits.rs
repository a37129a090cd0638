//! Waits by object: `baton profile --waits`, `baton stacks --group`, and processes that wait for
//! each other.
#![cfg(target_os = "linux")]

mod harness;

use harness::observed::{ask, assert_has, observed, ready, stacks};
use harness::{Outcome, Started, baton};
use serde_json::Value;

/// Two hundred processes hand a mutex on. At any moment one has it, and 198 or 199 wait for it: one
/// may just have given it away. Fifty others wait for work.
const HANDED_ON: &str = "
    local mutex = process.mutex { name = 'db' }
    local jobs = process.channel { 0, name = 'jobs' }
    for _ = 1, 200 do
      process.spawn({ name = 'worker' }, function()
        while true do
          mutex:lock()
          process.sleep(0.001)
          mutex:unlock()
        end
      end)
    end
    for _ = 1, 50 do
      process.spawn({ name = 'idler' }, function() jobs:receive() end)
    end
    process.sleep(0.01)
    print 'ready'
    io.stdout:flush()
    process.sleep(3600)";

fn json(outcome: &Outcome) -> Value {
    outcome.succeeds();
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

/// The items of a list whose field has this text.
fn those<'a>(list: &'a Value, field: &str, text: &str) -> Vec<&'a Value> {
    let list = list.as_array().expect("a list").iter();
    list.filter(|item| item[field] == text).collect()
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// The idle processes are the clock: each of them waits all the time.
#[test]
fn a_mutex_with_two_hundred_holders_is_one_row_with_the_right_total() {
    let program = ready(observed(HANDED_ON));
    let outcome = ask(
        "profile",
        &program,
        &["--waits", "-r", "499", "-d", "1", "--json"],
    );
    program.signal_until_it_ends("KILL");
    let summary = json(&outcome);
    let waits = &summary["waits"];
    let [mutex] = those(waits, "object", "the mutex 'db'")[..] else {
        panic!("one row expected in {waits:#}");
    };
    let [jobs] = those(waits, "object", "the channel 'jobs' (to receive)")[..] else {
        panic!("one row expected in {waits:#}");
    };
    assert_eq!(
        waits[0]["object"], "the mutex 'db'",
        "idle waits come later"
    );
    assert_eq!(
        (&mutex["class"], &jobs["class"]),
        (&"object".into(), &"idle".into())
    );
    let waiters = 50.0 * number(&mutex["total"]) / number(&jobs["total"]);
    assert!(
        (197.9..199.1).contains(&waiters),
        "{waiters} waiters in {waits:#}"
    );
    assert!(number(&mutex["longest"]) > 0.0);
    let holders = mutex["holders"].as_array().expect("a list");
    let held: f64 = holders.iter().map(|holder| number(&holder["total"])).sum();
    assert!(
        (held / number(&mutex["total"]) - 1.0).abs() < 0.01,
        "{mutex:#}"
    );
    let place = mutex["held_at"][0]["stack"].to_string();
    assert!(place.contains("sleep"), "{mutex:#}");
}

#[test]
fn the_waiters_of_a_mutex_are_one_group_with_one_holder() {
    let program = ready(observed(HANDED_ON));
    let all = json(&ask("stacks", &program, &["--json"]));
    let grouped = json(&ask("stacks", &program, &["--group", "--json"]));
    let text = stacks(&program, &["--group"]);
    program.signal_until_it_ends("KILL");
    let waiters = those(&all["processes"], "object", "the mutex 'db'");
    assert!((198..=199).contains(&waiters.len()), "{}", waiters.len());
    let first = &waiters[0]["waits"];
    assert!(
        waiters.iter().all(|waiter| waiter["waits"] == *first),
        "{first} is not all"
    );
    let [mutex] = those(&all["objects"], "object", "the mutex 'db'")[..] else {
        panic!("one object expected in {:#}", all["objects"]);
    };
    assert_eq!(mutex["waiting"], waiters.len());
    assert_eq!(mutex["partners"].as_array().map(Vec::len), Some(1));
    assert_eq!(mutex["partners"][0]["role"], "held by");
    let groups = grouped["groups"].as_array().expect("a list");
    let of_mutex = groups
        .iter()
        .filter(|group| group["example"]["object"] == "the mutex 'db'");
    assert_eq!(of_mutex.count(), 1, "{groups:#?}");
    assert!(text.starts_with("the mutex 'db': 19"), "{text}");
    assert_has(&text, "\nheld by process ");
    let (busy, idle) = text.split_once("\nidle: these wait").expect("idle ones");
    assert_has(
        idle,
        "50 processes: waiting, to receive from the channel 'jobs'",
    );
    assert!(!busy.contains("jobs"), "{busy}");
}

/// A thousand clients, each of which waits for a channel of its own, beside a mutex.
const CLIENTS: &str = "
    local mutex = process.mutex()
    process.spawn(function() mutex:lock() process.sleep(3600) end)
    process.sleep(0.01)
    for _ = 1, 3 do process.spawn(function() mutex:lock() end) end
    for _ = 1, 1000 do
      local channel = process.channel(0)
      process.spawn(function() channel:receive() end)
    end
    process.sleep(0.01)
    print 'ready'
    io.stdout:flush()
    process.sleep(3600)";

/// The first process waits for a time all the while, and so is the clock.
#[test]
fn many_objects_without_names_share_a_row_and_no_row_has_too_much() {
    let program = ready(observed(CLIENTS));
    let outcome = ask("profile", &program, &["--waits", "-d", "1", "--json"]);
    program.signal_until_it_ends("KILL");
    let summary = json(&outcome);
    let waits = &summary["waits"];
    let total_of = |object: &str| match those(waits, "object", object)[..] {
        [row] => number(&row["total"]),
        _ => panic!("one row of {object} expected in {waits:#}"),
    };
    let clock = total_of("until a time") / 2.0;
    let close_to = |waiters: f64, total: f64| (total / clock / waiters - 1.0).abs() < 0.01;
    assert!(
        close_to(3.0, total_of("the mutex 1, without a name")),
        "{waits:#}"
    );
    let rows = waits.as_array().expect("a list");
    let of_channels = |row: &&Value| row["object"].to_string().contains("channel");
    let channels: Vec<_> = rows.iter().filter(of_channels).collect();
    let others = total_of("other channels (to receive)");
    for row in &channels {
        let total = number(&row["total"]);
        assert!(total == others || close_to(1.0, total), "{row:#}");
    }
    let all: f64 = channels.iter().map(|row| number(&row["total"])).sum();
    assert!(close_to(1000.0, all), "{all} s in {waits:#}");
}

#[test]
fn idle_processes_that_differ_by_objects_without_names_are_one_group() {
    let program = ready(observed(CLIENTS));
    let text = stacks(&program, &["--group"]);
    program.signal_until_it_ends("KILL");
    let (_, idle) = text.split_once("idle: these wait").expect("idle ones");
    assert_has(
        idle,
        "\n1000 processes: waiting, to receive from a channel (spawned at ",
    );
}

/// A reader that could run, but is less urgent than a process that computes. Its stack looks like
/// that of a reader that waits.
#[test]
fn a_partner_that_waits_for_its_turn_is_said_to_with_its_priority() {
    let program = ready(observed(
        "local audit = process.channel { 1, name = 'audit' }
         process.spawn({ name = 'trail', priority = 20 }, function()
           while true do audit:receive() end
         end)
         process.sleep(0.01)
         process.spawn({ name = 'board', priority = 30 }, function() while true do end end)
         process.spawn({ name = 'clerk' }, function() while true do audit:send(1) end end)
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    ));
    let outcome = ask(
        "profile",
        &program,
        &["--waits", "-r", "499", "-d", "0.5", "--json"],
    );
    program.signal_until_it_ends("KILL");
    let summary = json(&outcome);
    let waits = &summary["waits"];
    let [audit] = those(waits, "object", "the channel 'audit' (to send)")[..] else {
        panic!("one row expected in {waits:#}");
    };
    let holder = "process 2 'trail' (waits for its turn, priority 20)";
    assert_eq!(audit["holder"], holder, "{audit:#}");
}

/// A channel as a pool: whoever was to give back is of interest.
#[test]
fn who_sent_last_to_an_empty_channel_is_said_of_idle_processes_too() {
    let program = ready(observed(
        "local pool = process.channel { 1, name = 'pool' }
         process.spawn(function() pool:send 'connection' end):join()
         pool:receive()
         for _ = 1, 3 do process.spawn({ name = 'server' }, function() pool:receive() end) end
         process.sleep(0)
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    ));
    let text = stacks(&program, &["--group"]);
    program.signal_until_it_ends("KILL");
    let (_, idle) = text.split_once("idle: these wait").expect("idle ones");
    let (_, pool) = idle
        .split_once("the channel 'pool' (to receive): 3 processes wait, the longest for ")
        .expect("the object");
    assert_has(
        pool,
        " s\nlast sent to by a process that has ended\n3 processes: waiting",
    );
}

/// With a process that computes, so that the mutex is handed on while stacks are read.
#[test]
fn a_look_at_ten_thousand_processes_is_of_one_instant() {
    let program = ready(observed(
        "local mutex = process.mutex { name = 'hot' }
         for _ = 1, 9000 do process.spawn(process.sleep, 3600) end
         for _ = 1, 1000 do
           process.spawn(function()
             while true do mutex:lock() process.sleep(0) mutex:unlock() end
           end)
         end
         process.sleep(0)
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    ));
    let all = json(&ask("stacks", &program, &["--json"]));
    program.signal_until_it_ends("KILL");
    assert_eq!(all["steps"], 1);
    let waiters = those(&all["processes"], "object", "the mutex 'hot'");
    assert!((900..=999).contains(&waiters.len()), "{}", waiters.len());
    let first = &waiters[0]["waits"];
    let other = waiters.iter().find(|waiter| waiter["waits"] != *first);
    assert!(other.is_none(), "{first} and {other:?}");
    let marked = those_marked(&all["processes"]);
    assert_eq!(all["moved_on"], marked, "what has run since is marked");
    assert!(marked > 0, "the mutex was handed on meanwhile");
}

fn those_marked(processes: &Value) -> usize {
    let list = processes.as_array().expect("a list").iter();
    list.filter(|process| process["has_moved_on"] == true && process["state"] != "running")
        .count()
}

/// A clerk sends to a full channel, while it holds what the reader of the channel waits for. A
/// signal comes before the process that waits for it. The process that signals ends soon, or lives
/// on for `poller_lives`.
const RING: &str = "
    local accounts = process.mutex { name = 'accounts' }
    local audit = process.channel { 1, name = 'audit' }
    local batch = process.mutex()
    local is_ready = process.condition { batch, name = 'batch ready' }
    process.spawn({ name = 'auditor' }, function()
      audit:receive()
      process.sleep(0.02)
      accounts:lock()
    end)
    process.spawn({ name = 'clerk' }, function()
      accounts:lock()
      for number = 1, 3 do audit:send(number) end
    end)
    process.spawn({ name = 'poller' }, function()
      batch:lock()
      is_ready:signal()
      batch:unlock()
      process.sleep(poller_lives or 0.03)
    end)
    process.spawn({ name = 'batcher' }, function()
      process.sleep(0.02)
      batch:lock()
      is_ready:wait()
    end)
    process.sleep(0.04)
    print 'ready'
    io.stdout:flush()";

const RING_LINES: &str = "\t\
    process 2 'auditor' waits for the mutex 'accounts', held by process 3 'clerk'\n\t\
    process 3 'clerk' waits to send to the channel 'audit', from which process 2 'auditor' \
    received last\n";

fn started_ring() -> Started {
    ready(observed(&format!(
        "poller_lives = 3600 {RING} process.sleep(3600)"
    )))
}

#[test]
fn processes_that_wait_for_each_other_over_a_channel_are_shown() {
    let program = started_ring();
    let text = stacks(&program, &[]);
    let all = json(&ask("stacks", &program, &["--json"]));
    program.signal_until_it_ends("KILL");
    assert_has(&text, "these may wait for each other, for ever");
    assert_has(&text, RING_LINES);
    assert_eq!(all["rings"][0]["ids"], serde_json::json!([2, 3]));
    assert_eq!(all["rings"][0]["is_certain"], false);
    assert_eq!(all["rings"].as_array().map(Vec::len), Some(1), "{all:#}");
}

#[test]
fn a_deadlock_shows_who_waits_for_each_other_over_a_channel() {
    let outcome = baton().process_code(RING).run();
    assert!(outcome.stderr.contains("baton: deadlock: "), "{outcome}");
    assert_has(&outcome.stderr, RING_LINES);
}

#[test]
fn a_signal_that_woke_nobody_is_told_with_its_place() {
    let program = started_ring();
    let text = stacks(&program, &["--group"]);
    program.signal_until_it_ends("KILL");
    assert_has(&text, "the condition 'batch ready': 1 process waits, for ");
    assert_has(&text, "; its last signal, ");
    assert_has(&text, " s ago at (command line):");
    assert_has(&text, ", woke nobody\n");
    assert_has(&text, "last signalled by process 4 'poller'");
}

#[test]
fn a_program_gets_the_same_overview_of_itself() {
    baton()
        .process_code(
            "local inspect = require 'baton.inspect'
             local mutex = process.mutex { name = 'held' }
             mutex:lock()
             for _ = 1, 3 do process.spawn({ daemon = true }, function() mutex:lock() end) end
             process.sleep(0.001)
             local processes, overview = inspect.stacks()
             assert(processes[1].id == 1 and #processes == 4)
             local object = overview.objects[1]
             assert(object.object == \"the mutex 'held'\" and object.waiting == 3)
             assert(object.partners[1].id == 1 and object.partners[1].role == 'held by')
             assert(overview.steps == 1 and #overview.rings == 0)",
        )
        .run()
        .succeeds()
        .quietly();
}
