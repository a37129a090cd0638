//! `baton heap`: what is in a snapshot of a running program, and what has grown between two.
#![cfg(target_os = "linux")]

mod harness;

use baton_formats::heap::{Growth, Snapshot};
use harness::heap::{MANY, heap, json, shown, snapshot, step, stepwise, sum};
use harness::observed::{assert_has, ready};
use harness::readers::readers;
use harness::skip::skip;
use harness::{Run, Started, baton_path};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn read(path: &Path) -> Snapshot {
    Snapshot::read(File::open(path).expect("the snapshot was written")).expect("it can be read")
}

/// The way from the root to an object of a class that a step of the program makes.
fn way_to(program: &mut Started, class: &str) -> String {
    let before = snapshot(program, "before");
    step(program);
    let after = snapshot(program, "after");
    let growth = Growth::between(&read(&before), &read(&after), 1000);
    let class = growth
        .classes
        .iter()
        .find(|grown| grown.class == class)
        .unwrap_or_else(|| panic!("no {class} in {growth}"));
    class.path.iter().map(|step| step.by.as_str()).collect()
}

#[test]
fn a_leak_is_found_with_what_keeps_it() {
    let mut program = stepwise(
        "cache = {}
         function step() for i = 1, 1000 do cache[#cache + 1] = { i } end end",
    );
    let before = snapshot(&program, "before");
    step(&mut program);
    let after = snapshot(&program, "after");
    let diff = |more: &[&str]| {
        let run = Run::of(baton_path()).arg("heap").arg("--diff");
        let run = run.arg(&before).arg(&after);
        more.iter()
            .fold(run, |run, argument| run.arg(argument))
            .run()
    };
    let text = diff(&[]);
    text.succeeds().quietly();
    assert_has(&text.stdout, "+1000  table\n");
    assert_has(&text.stdout, "(root)._G.cache[");
    let growth = json(&diff(&["--json"]));
    let tables = &growth["classes"][0];
    assert_eq!(tables["class"], "table");
    let count = |field: &str| tables[field].as_u64().expect("a number");
    assert_eq!(count("count_after") - count("count_before"), 1000);
    assert!(count("kept") > 900, "{growth}");
    assert_eq!(tables["path"][0]["by"], "._G");
    assert_eq!(tables["path"][1]["by"], ".cache");
    program.signal_until_it_ends("KILL");
}

/// All of the collector's objects are seen, with the sizes that Lua has counted.
#[test]
fn the_sizes_add_up_to_what_lua_has_allocated() {
    let program = ready(shown(
        "local weak = setmetatable({}, { __mode = 'k' })
         keys = {}
         for i = 1, 1000 do
           keys[i % 700] = { i }
           weak[keys[i % 700]] = ('long string '):rep(i)
         end
         kept = { io.stdout, coroutine.wrap(function() coroutine.yield() end), weak, math.pi }
         kept[2]()
         local long = ('x'):rep(100000)
         load(('local %s = {} kept[5] = function() return %s end'):format(long, long))()
         load('return function(a, b) return a .. b .. kept end')()
         for _ = 1, 10 do process.spawn(process.sleep, 3600) end
         process.sleep(0)
         collectgarbage('step', 10) -- into the middle of a cycle
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    ));
    let all = json(&heap(&program, &["--json"]));
    assert_eq!(Some(sum(&all)), all["total"].as_u64(), "{all}");
    assert!(all["objects"].as_u64() > Some(1000), "{all}");
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_table_shows_the_largest_classes() {
    let program = ready(shown(&format!(
        "{MANY} print 'ready' io.stdout:flush() io.read()"
    )));
    let text = heap(&program, &[]);
    text.succeeds().quietly();
    assert_has(&text.stdout, "heap: ");
    assert_has(&text.stdout, "the program stood still for ");
    assert_has(&text.stdout, "bytes     objects  class\n");
    let table = text.stdout.lines().find(|line| line.ends_with("  table"));
    assert!(table.is_some_and(|line| line.contains(" 200")), "{text}");
    program.signal_until_it_ends("KILL");
}

#[test]
fn the_table_names_the_object_that_keeps_most() {
    let program = ready(shown(
        "local cache = { sessions = {} }
         for i = 1, 2000 do cache.sessions[i] = { ('x'):rep(1000) .. i } end
         function _G.lookup(i) return cache.sessions[i] end
         print 'ready' io.stdout:flush() io.read()",
    ));
    let text = heap(&program, &[]);
    text.succeeds().quietly();
    assert_has(
        &text.stdout,
        "    retained       bytes     objects  class\n",
    );
    assert_has(&text.stdout, "<variable cache>.sessions: table\n");
    let all = json(&heap(&program, &["--json"]));
    let keepers = all["keepers"].as_array().expect("a list");
    let sessions = keepers.iter().find(|keeper| {
        let path = keeper["path"].as_str();
        path.is_some_and(|path| path.ends_with(".sessions"))
    });
    let number = |value: &Value| value.as_u64().expect("a number");
    let sessions = sessions.expect("the sessions");
    assert!(number(&sessions["retained"]) > 2_000_000, "{sessions}");
    assert!(number(&sessions["bytes"]) < 100_000, "{sessions}");
    // What the root reaches is kept by something.
    let strings = &all["classes"][0];
    assert_eq!(strings["class"], "(strings)");
    assert_eq!(
        strings["retained"], strings["bytes"],
        "strings keep nothing else"
    );
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_local_variable_of_a_process_is_named() {
    let mut program = stepwise(
        "function step()
           process.spawn({ name = 'keeper' }, function()
             local other, kept = 1, setmetatable({}, { __name = 'Kept' })
             process.sleep(3600)
           end)
           process.sleep(0)
         end",
    );
    let way = way_to(&mut program, "Kept");
    assert_eq!(way, "<processes>[\"process 3 'keeper'\"]<variable kept>");
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_coroutine_of_a_process_and_a_variable_of_a_function_are_named() {
    let mut program = stepwise(
        "function step()
           local kept = setmetatable({}, { __name = 'Kept' })
           function _G.callback() return kept end
           waiting = coroutine.create(function(first)
             local inner = setmetatable({}, { __name = 'Inner' })
             coroutine.yield()
             return inner
           end)
           coroutine.resume(waiting)
         end",
    );
    let inner = way_to(&mut program, "Inner");
    assert_eq!(inner, "._G.waiting<variable inner>");
    let after = read(&program.scratch().join("after.heapsnapshot"));
    let before = read(&program.scratch().join("before.heapsnapshot"));
    let growth = Growth::between(&before, &after, 1000).to_string();
    assert_has(&growth, "(root)._G.callback<variable kept>");
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_weak_table_keeps_nothing_but_values_of_living_keys() {
    let program = ready(shown(
        "collectgarbage 'stop'
         local function object(name) return setmetatable({}, { __name = name }) end
         key = object 'Key'
         local by_key = setmetatable({}, { __mode = 'k' })
         local by_value = setmetatable({}, { __mode = 'v' })
         local both = setmetatable({}, { __mode = 'kv' })
         keep = { by_key, by_value, both }
         local function fill()
           by_key[key] = object 'OfLivingKey'
           by_key[object 'DeadKey'] = object 'OfDeadKey'
           by_key[7] = object 'OfNumber'
           by_value[1], by_value.field = object 'WeakElement', object 'WeakField'
           both[key] = object 'WeakBoth'
         end
         fill()
         local function clear() local a, b, c, d, e, f, g, h, i, j end
         clear()
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    ));
    let all = json(&heap(&program, &["--json"]));
    let classes: Vec<&str> = all["classes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|class| class["class"].as_str().expect("a name"))
        .collect();
    for alive in ["Key", "OfLivingKey", "OfNumber"] {
        assert!(classes.contains(&alive), "{alive}: {classes:?}");
    }
    for dead in [
        "DeadKey",
        "OfDeadKey",
        "WeakElement",
        "WeakField",
        "WeakBoth",
    ] {
        assert!(!classes.contains(&dead), "{dead}: {classes:?}");
    }
    assert!(all["garbage"]["objects"].as_u64() >= Some(5), "{all}");
    program.signal_until_it_ends("KILL");
}

/// A deep call leaves its values above the top of the stack.
#[test]
fn what_lies_above_the_top_of_a_stack_is_not_read() {
    let program = ready(shown(
        "collectgarbage 'stop'
         local function deep(n)
           local left = setmetatable({}, { __name = 'Left' })
           if n > 0 then deep(n - 1) end
           return n
         end
         for _ = 1, 10 do
           process.spawn(function() deep(100) process.sleep(3600) end)
         end
         process.sleep(0)
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    ));
    let all = json(&heap(&program, &["--json"]));
    let left = all["classes"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|class| class["class"] == "Left");
    // Some lie below the top, where a call has not yet put its values.
    let count = left.map_or(0, |class| class["objects"].as_u64().expect("a number"));
    assert!(count <= 50, "{count} of 1010: {all}");
    assert!(all["garbage"]["objects"].as_u64() >= Some(900), "{all}");
    program.signal_until_it_ends("KILL");
}

/// While the program allocates and collects, in both modes of the collector.
#[test]
fn a_heap_that_changes_is_consistent() {
    let program = ready(shown(
        "local function churn(mode)
           return function()
             local kept = {}
             for i = 1, math.huge do
               kept[i % 1000 + 1] = { tostring(i), function() return i end, [i] = {} }
               if i % 5000 == 0 then collectgarbage(mode) end
             end
           end
         end
         for _, mode in ipairs { 'generational', 'incremental' } do
           process.spawn(churn(mode))
         end
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    ));
    for _ in 0..10 {
        let path = snapshot(&program, "one");
        assert!(read(&path).len() > 1000);
        let all = json(&heap(&program, &["--json"]));
        assert_eq!(Some(sum(&all)), all["total"].as_u64(), "{all}");
    }
    program.signal_until_it_ends("KILL");
}

#[test]
fn files_are_for_their_owner_and_mistakes_cost_the_program_nothing() {
    let program = ready(shown("print 'ready' io.stdout:flush() io.read()"));
    let path = snapshot(&program, "one");
    let mode = fs::metadata(&path)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    heap(&program, &["-o", "heap.json"])
        .ends_with(1)
        .complained("a file that ends with .heapsnapshot expected");
    heap(&program, &["-o", "/no/such/directory/x.heapsnapshot"])
        .ends_with(1)
        .complained("cannot write /no/such/directory/x.heapsnapshot");
    let run = || Run::of(baton_path()).arg("heap");
    run().run().ends_with(2);
    run().arg("--diff").arg(&path).run().ends_with(2);
    run()
        .arg("--diff")
        .arg(&path)
        .arg("/dev/null")
        .run()
        .ends_with(1)
        .complained("cannot read /dev/null as a snapshot");
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_refused_snapshot_leaves_no_file() {
    let program =
        ready(shown("print 'ready' io.stdout:flush() io.read()").env("BATON_ATTACH", "observe"));
    let path = program.scratch().join("x.heapsnapshot");
    heap(&program, &["-o", &path.display().to_string()]).ends_with(1);
    assert!(!path.exists());
    program.signal_until_it_ends("KILL");
}

/// `cargo xtask readers` installs Chrome's loader.
#[test]
fn chromes_loader_reads_a_snapshot() {
    let modules = readers("node");
    if !modules.join("installed.txt").exists() {
        let what = "heap snapshots, by the loader of Chrome's DevTools";
        return skip(what, "run cargo xtask readers");
    }
    let program = ready(shown(
        "cache = { setmetatable({}, { __name = 'Kept' }) }
         print 'ready'
         io.stdout:flush()
         process.sleep(3600)",
    ));
    let path = snapshot(&program, "one");
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../formats/tests/readers/heap.mjs"
    );
    let output = Command::new("node")
        .arg(script)
        .args([&modules, &path])
        .output()
        .expect("node starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let loaded: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(loaded["problems"], serde_json::json!([]));
    let nodes = loaded["nodes"].as_array().expect("a list");
    let find = |name: &str| nodes.iter().find(|node| node["name"] == name);
    let kept = find("Kept").expect("the object");
    assert_eq!(kept["type"], "object");
    // From the root: _G, cache, and the element.
    assert_eq!(kept["distance"], 3);
    let sum: u64 = nodes.iter().filter_map(|node| node["self"].as_u64()).sum();
    let root = find("(root)").expect("the root");
    assert_eq!(root["retained"].as_u64(), Some(sum));
    program.signal_until_it_ends("KILL");
}
