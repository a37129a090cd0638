//! `baton profile` and `baton top` of programs whose functions use known shares of the processor
//! time, beside others and over several VMs.
#![cfg(target_os = "linux")]

mod harness;

use harness::Started;
use harness::observed;
use serde_json::Value;

/// A program whose rounds are three calls in C and three functions in Lua of known length, in
/// milliseconds of processor time. Another process wakes up all the time, so others run beside the
/// longer calls.
const ROUNDS: &str = "
    function rounds(times)
      local process = require 'baton.process'
      process.concurrent('blocker', 'concurrent')
      local blocker = require 'blocker'
      local clock = blocker.thread_clock
      -- The process may go on on another thread, whose clock is another one.
      local function burn(ms)
        local used, last = 0, clock()
        while used < ms / 1000 do
          for i = 1, 200 do end
          local now = clock()
          if now > last and now < last + 0.1 then used = used + now - last end
          last = now
        end
      end
      local function in_c_1() blocker.burn_ms(times[1]) return 1 end
      local function in_c_2() blocker.burn_ms(times[2]) return 1 end
      local function in_c_3() blocker.burn_ms(times[3]) return 1 end
      local function in_lua_1() burn(times[4]) return 1 end
      local function in_lua_2() burn(times[5]) return 1 end
      local function in_lua_3() burn(times[6]) return 1 end
      process.spawn({ name = 'ticker', daemon = true }, function()
        while true do process.sleep(0.004) end
      end)
      while true do in_c_1() in_lua_1() in_c_2() in_lua_2() in_c_3() in_lua_3() end
    end ";

const FUNCTIONS: [&str; 6] = [
    "in_c_1", "in_c_2", "in_c_3", "in_lua_1", "in_lua_2", "in_lua_3",
];

fn ready(code: &str) -> Started {
    observed::ready(observed::observed(&format!("{ROUNDS}{code}")))
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// The rows of a VM.
fn rows<'a>(summary: &'a Value, vm: &str) -> Vec<&'a Value> {
    let all = summary["functions"].as_array().expect("a list").iter();
    all.filter(|row| row["vm"] == vm).collect()
}

/// The profile of a program, of enough samples: on a machine without a free processor they are few,
/// and it takes longer.
fn summary_of(program: &Started) -> Value {
    let mut seconds = 2;
    loop {
        let duration = seconds.to_string();
        let options = ["-r", "997", "--json", "-d", &duration];
        let outcome = observed::ask("profile", program, &options);
        outcome.succeeds();
        let summary: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
        // Ten rounds of each VM.
        if number(&summary["total"]) >= 3e9 || seconds > 30 {
            return summary;
        }
        seconds *= 2;
    }
}

/// Compares the shares of the functions of a VM with the times of its rounds.
#[track_caller]
fn assert_shares(summary: &Value, vm: &str, times: [f64; 6]) {
    let rows = rows(summary, vm);
    let total: f64 = rows.iter().map(|row| number(&row["self"])).sum();
    let all: f64 = times.iter().sum();
    for (function, time) in FUNCTIONS.iter().zip(times) {
        let expected = 100.0 * time / all;
        let row = rows.iter().find(|row| row["function"] == *function);
        let found = row.map_or(0.0, |row| 100.0 * number(&row["total"]) / total);
        assert!(
            (found - expected).abs() <= 2.0,
            "{function} in VM '{vm}': {expected:.1} % expected, got {found:.1} %\n{summary:#}"
        );
    }
}

#[test]
fn calls_in_c_and_functions_in_lua_have_their_shares_beside_others_and_over_two_vms() {
    let program = ready(
        "local vm = require 'baton.vm'
         vm.spawn({ name = 'worker' }, rounds, { 10, 20, 50, 5, 40, 25 })
         print 'ready'
         io.stdout:flush()
         rounds { 60, 30, 3, 30, 20, 7 }",
    );
    let summary = summary_of(&program);
    program.signal_until_it_ends("KILL");
    assert_shares(&summary, "main", [60.0, 30.0, 3.0, 30.0, 20.0, 7.0]);
    assert_shares(&summary, "worker", [10.0, 20.0, 50.0, 5.0, 40.0, 25.0]);
}

/// Guards against time of a call that nobody is charged with, or an innocent function: nothing else
/// ran while the call lasted.
#[test]
fn one_long_call_beside_others_has_all_the_time_in_profiles_and_tables() {
    let program = ready("print 'ready' io.stdout:flush() rounds { 1e7, 1, 1, 1, 1, 1 }");
    let outcome = observed::ask("profile", &program, &["-d", "1", "--json"]);
    outcome.succeeds();
    let summary: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let rows = rows(&summary, "main");
    let call = rows.iter().find(|row| row["function"] == "burn_ms");
    let call = call.unwrap_or_else(|| panic!("no call in {summary:#}"));
    assert!(number(&call["count"]) >= 10.0, "{summary:#}");
    let share = number(&call["self"]) / number(&summary["total"]);
    assert!(share >= 0.9, "{share} of the time\n{summary:#}");
    // The first table has no shares yet.
    let tables = observed::ask("top", &program, &["-n", "2", "-d", "0.3", "--json"]);
    program.signal_until_it_ends("KILL");
    tables.succeeds();
    let last = tables.stdout.lines().last().expect("a table");
    let table: Value = serde_json::from_str(last).expect("JSON");
    let rows = table["rows"].as_array().expect("rows");
    let main = rows.iter().find(|row| row["id"] == 1).expect("the process");
    assert_eq!(main["state"], "foreign", "{table:#}");
    let (its, all) = (number(&main["share"]), number(&table["share"]));
    assert!(its > 0.0 && its >= 0.8 * all, "{its} of {all}\n{table:#}");
}
