//! Observers see all VMs of a program, and say which one each process is in.
#![cfg(target_os = "linux")]

mod harness;

use harness::Started;
use harness::observed::{self, assert_has};
use serde_json::Value;

/// A VM beside the first one, in which a process waits and one computes, beside one with the name
/// of the first.
const PROGRAM: &str = "
    local vm = require 'baton.vm'
    local began = vm.channel()
    local function work(began)
      local process = require 'baton.process'
      process.spawn({ name = 'clerk' }, function() process.sleep(3600) end)
      process.spawn({ name = 'computing', daemon = true }, function() while true do end end)
      process.sleep(0)
      began:send(true)
      process.sleep(3600)
    end
    vm.spawn({ name = 'worker' }, work, began)
    began:receive()
    print 'ready'
    io.stdout:flush()
    process.sleep(3600)";

fn ready() -> Started {
    observed::ready(observed::observed(PROGRAM))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The one process of a list with this name.
#[track_caller]
fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let quoted = format!("'{name}'");
    let has_name = |one: &&Value| {
        one["title"]
            .as_str()
            .is_some_and(|it| it.ends_with(&quoted))
    };
    let mut found = list.as_array().expect("a list").iter().filter(has_name);
    let one = found
        .next()
        .unwrap_or_else(|| panic!("no {name} in {list:#}"));
    assert_eq!(found.next(), None, "{list:#}");
    one
}

#[test]
fn stacks_have_the_vm_of_each_process() {
    let program = ready();
    let text = observed::stacks(&program, &[]);
    let all = json(&observed::stacks(&program, &["--json"]));
    program.signal_until_it_ends("KILL");
    assert_has(&text, "'clerk' of VM 'worker': sleeping");
    assert_has(&text, "process 1 'main': sleeping");
    assert_eq!(named(&all["processes"], "clerk")["vm"], "worker");
    let mains: Vec<&Value> = all["processes"]
        .as_array()
        .expect("a list")
        .iter()
        .collect();
    let mains = mains
        .iter()
        .filter(|one| one["title"] == "process 1 'main'");
    let vms: Vec<&str> = mains
        .map(|one| one["vm"].as_str().expect("a name"))
        .collect();
    assert_eq!(vms, ["main", "worker"]);
}

#[test]
fn the_table_has_the_processes_and_the_processor_time_of_all_vms() {
    let program = ready();
    let outcome = observed::ask("top", &program, &["--json", "-d", "0.3"]);
    let text = observed::ask("top", &program, &["-n", "1", "-d", "0.1"]);
    program.signal_until_it_ends("KILL");
    outcome.succeeds();
    let table = json(&outcome.stdout);
    let computing = named(&table["rows"], "computing");
    assert_eq!(computing["vm"], "worker");
    let share = |of: &Value| of["share"].as_f64().expect("a number");
    assert!(share(computing) > 0.8 * share(&table), "{table:#}");
    // The first VM's process that stands for the other, and the listeners of both.
    assert!(table["processes"].as_u64() >= Some(6), "{table:#}");
    assert_eq!(table["totals"]["running"], 1, "{table:#}");
    assert_has(&text.stdout, "worker: computing");
}

#[test]
fn names_are_merged_and_found_for_each_vm_by_itself() {
    let program = ready();
    let by_name = observed::ask(
        "top",
        &program,
        &["--json", "--group", "-n", "1", "-d", "0.1"],
    );
    let found = [
        "--json",
        "-n",
        "1",
        "-d",
        "0.1",
        "--filter",
        "worker: clerk",
    ];
    let found = observed::ask("top", &program, &found);
    program.signal_until_it_ends("KILL");
    let by_name = json(&by_name.stdout);
    let rows = by_name["rows"].as_array().expect("rows").iter();
    let mains = rows.filter(|row| row["title"] == "process 1 'main'");
    let mut vms: Vec<(&str, u64)> = mains
        .map(|row| (&row["vm"], &row["count"]))
        .map(|(vm, count)| (vm.as_str().expect("a VM"), count.as_u64().expect("a count")))
        .collect();
    vms.sort_unstable();
    assert_eq!(vms, [("main", 1), ("worker", 1)], "{by_name:#}");
    let found = json(&found.stdout);
    assert_eq!(found["matching"], 1, "{found:#}");
    assert_eq!(named(&found["rows"], "clerk")["vm"], "worker");
}

#[test]
fn metrics_have_the_vm_as_a_label() {
    let program = ready();
    let outcome = observed::ask("metrics", &program, &[]);
    let answer = observed::ask("metrics", &program, &["--json"]);
    program.signal_until_it_ends("KILL");
    outcome.succeeds();
    assert_has(&outcome.stdout, "\nbaton_sleeping{vm=\"worker\"} 2\n");
    assert_has(&outcome.stdout, "\nbaton_sleeping 1\n");
    let bucket = "baton_lateness_seconds_bucket{vm=\"worker\",le=\"+Inf\"} ";
    let other = "baton_lateness_seconds_bucket{le=\"+Inf\",vm=\"worker\"} ";
    let text = &outcome.stdout;
    assert!(text.contains(bucket) || text.contains(other), "{text}");
    let answer = json(&answer.stdout);
    assert_eq!(answer["counters"]["sleeping"], 1, "{answer:#}");
    assert_eq!(
        answer["vms"]["worker"]["counters"]["sleeping"], 2,
        "{answer:#}"
    );
}

#[test]
fn a_program_sees_all_of_its_vms_itself() {
    let code = "
        local inspect = require 'baton.inspect'
        local seen = {}
        for _, one in ipairs(inspect.stacks()) do
          local name = one.title:match \"'(.*)'\"
          seen[#seen + 1] = one.vm .. '/' .. name
        end
        table.sort(seen)
        print(table.concat(seen, ' '))
        local profile = inspect.profile(0.3)
        local vms = {}
        for _, row in ipairs(profile.functions) do vms[row.vm] = true end
        print(vms.worker, inspect.metrics().vms.worker.counters.live)
        os.exit(0)";
    let whole = PROGRAM.replace("print 'ready'", code);
    let outcome = observed::observed(&whole).run();
    outcome.succeeds();
    let expected = "main/VM worker main/listener main/main \
                    worker/clerk worker/computing worker/listener worker/main\ntrue\t4\n";
    assert_eq!(outcome.stdout, expected);
}

/// Two VMs in each of which a process waits for a mutex 'm' that one with the same number holds: in
/// the first VM it sleeps, in the other it waits for an event.
const MUTEXES: &str = "
    local vm = require 'baton.vm'
    local began = vm.channel()
    local function hold(began)
      local process = require 'baton.process'
      local mutex, event = process.mutex { name = 'm' }, process.event { name = 'never' }
      process.spawn({ name = 'holder' }, function()
        mutex:lock()
        if began then event:wait() end
        process.sleep(3600)
      end)
      process.spawn({ name = 'waiter' }, function() mutex:lock() end)
      process.sleep(0)
      if began then
        began:send(true)
        process.sleep(3600)
      end
    end
    vm.spawn({ name = 'worker' }, hold, began)
    hold()
    began:receive()
    print 'ready'
    io.stdout:flush()
    process.sleep(3600)";

/// The rows of an object.
fn rows_of<'a>(list: &'a Value, object: &str) -> Vec<&'a Value> {
    let all = list.as_array().expect("a list").iter();
    let of_object = |row: &&Value| row["object"].as_str().is_some_and(|it| it == object);
    all.filter(of_object).collect()
}

#[test]
fn objects_of_one_name_in_two_vms_are_two() {
    let program = observed::ready(observed::observed(MUTEXES));
    let text = observed::stacks(&program, &["--group"]);
    let all = json(&observed::stacks(&program, &["--json"]));
    let options = ["--waits", "--json", "-d", "0.2"];
    let waits = observed::ask("profile", &program, &options);
    program.signal_until_it_ends("KILL");
    waits.succeeds();
    let objects = rows_of(&all["objects"], "the mutex 'm'");
    let vms: Vec<&Value> = objects.iter().map(|object| &object["vm"]).collect();
    assert_eq!(vms, ["main", "worker"], "{all:#}");
    assert!(objects.iter().all(|object| object["waiting"] == 1));
    let (of_first, of_other) = text
        .split_once("the mutex 'm' in VM 'worker': 1 process waits")
        .unwrap_or_else(|| panic!("no object of the other VM in {text}"));
    let holder = |part: &str| {
        let line = part.lines().find(|line| line.starts_with("held by"));
        line.unwrap_or_else(|| panic!("no holder in {text}"))
            .to_owned()
    };
    assert_has(&holder(of_first), "'holder': sleeping");
    assert_has(
        &holder(of_other),
        "'holder': waiting, for the event 'never'",
    );
    let waits = json(&waits.stdout);
    for object in ["the mutex 'm'", "the mutex 'm' in VM 'worker'"] {
        let rows = rows_of(&waits["waits"], object);
        assert_eq!(rows.len(), 1, "{object} in {waits:#}");
        assert_eq!(rows[0]["class"], "object", "{waits:#}");
    }
}
