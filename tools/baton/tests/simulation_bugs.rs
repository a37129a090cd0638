//! Programs with one fault each, below `tests/lua/simulation/bugs`. Each succeeds in plain order.
//! The simulation finds its fault, and explains it with few preemptions.

mod harness;

use harness::{Outcome, Run, baton, lua_dir};

/// The last of the seeds that are searched. Each fault is found by one of them.
const LAST_SEED: u32 = 500;

/// Makes a test of each program. The number is the most preemptions that its explanation may have.
/// After `from` stands the first seed that is searched, where an earlier one has a longer
/// explanation of which nothing can be left out either.
macro_rules! bugs {
    ($($name:ident: $most:literal $(from $first:literal)?),+ $(,)?) => {
        $(#[test]
        fn $name() {
            let first = [1, $($first)?];
            assert_is_found_and_explained(stringify!($name), $most, first[first.len() - 1]);
        })+

        #[test]
        fn every_program_is_tested() {
            let named = [$(stringify!($name)),+];
            let entries = std::fs::read_dir(lua_dir().join("simulation/bugs"));
            for entry in entries.expect("the directory is there") {
                let name = entry.expect("readable").file_name();
                let name = name.to_string_lossy();
                let name = name.strip_suffix(".lua").expect("a Lua program");
                assert!(named.contains(&name), "no test runs {name}.lua");
            }
        }
    };
}

bugs! {
    lost_update: 1,
    abba: 1,
    check_then_act: 1,
    forgotten_signal: 1,
    double_close: 1,
    use_after_free: 2,
    lazy_initialisation: 1 from 24,
    torn_pair: 1,
    queue_bound: 2,
    rebuilt_index: 1,
    priority_inversion: 1,
    missed_broadcast: 1,
    barrier_off_by_one: 3,
    leaked_permit: 1,
    closed_channel: 1,
    id_generator: 1,
    cache_stampede: 1,
    dropped_value: 0,
    cancelled_transfer: 1,
    stale_upgrade: 1,
    philosophers: 2,
    aba_stack: 2,
    cleared_event: 3,
    reference_count: 1,
}

fn simulated(seeds: &str, name: &str) -> Run {
    let path = format!("simulation/bugs/{name}.lua");
    baton()
        .arg("--simulate")
        .arg(seeds)
        .arg("--explain")
        .arg("300")
        .script(&path)
}

fn assert_is_found_and_explained(name: &str, most: usize, first: u32) {
    simulated("1:", name).run().succeeds().wrote("").quietly();
    let found = simulated(&format!("{first}-{LAST_SEED}"), name).run();
    found.ends_with(1);
    let count = preemptions_in(&found);
    assert!(
        count <= most,
        "{count} preemptions instead of {most}\n{found}"
    );

    let after = found.stderr.rsplit("baton: --simulate ").next();
    let told = after.and_then(|rest| rest.strip_suffix(" repeats these switches\n"));
    let told = told.unwrap_or_else(|| panic!("the decisions are told last\n{found}"));
    let seed = told.split(':').next().expect("a text has a beginning");
    for seeds in [told, seed] {
        let repeated = simulated(seeds, name).run();
        repeated.ends_with(1);
        assert_eq!(message_of(&repeated), message_of(&found), "{found}");
    }
}

/// The number of preemptions of an explanation that is complete.
fn preemptions_in(outcome: &Outcome) -> usize {
    let line = outcome
        .stderr
        .lines()
        .find_map(|line| line.strip_prefix("baton: it fails so with "));
    let line = line.unwrap_or_else(|| panic!("the failure is explained\n{outcome}"));
    assert!(line.contains("; none can be left out ("), "{outcome}");
    let number = line.split(' ').next().and_then(|word| word.parse().ok());
    number.unwrap_or_else(|| panic!("it begins with a number: {line}"))
}

/// The message that the program has ended with, without numbers: those of processes differ from run
/// to run. So does whether a process has failed before somebody waits for it, and is reported.
fn message_of(outcome: &Outcome) -> String {
    let is_report = |line: &&str| line.contains("baton: process ") && line.contains(" failed: ");
    let is_of_trace = |line: &&str| line.starts_with('\t') || line.starts_with("stack traceback");
    let mut lines = outcome.stderr.lines();
    let first =
        lines.find(|line| !line.contains("warning: ") && !is_report(line) && !is_of_trace(line));
    let first = first.unwrap_or_else(|| panic!("there is a message\n{outcome}"));
    first.replace(|c: char| c.is_ascii_digit(), "")
}
