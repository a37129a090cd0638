//! The C functions that the experiments on foreign calls use, and the systems that call them. The
//! build script compiles them.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::bench::Bench;
use crate::child::{self, first};
use crate::contest::Arm;
use crate::interpreters::Interpreter;
use crate::peers::{self, GILDA_POLICY, GO_CGO, LUAJIT, PYTHON, RUBY};

/// The directory of `calls.so`, which is the module for Lua, and of the other two files.
pub(crate) const DIRECTORY: &str = env!("BATON_BENCH_CALLS");
/// The library for foreign function interfaces.
const LIBRARY: &str = concat!(env!("BATON_BENCH_CALLS"), "/libcalls.so");
/// The program that calls the functions in a loop of C.
const HOST: &str = concat!(env!("BATON_BENCH_CALLS"), "/calls-host");

/// The names of the arms that the goals mention.
pub(crate) const BARE_C: &str = "bare C loop";
pub(crate) const STOCK_MODULE: &str = "stock Lua, C module";
pub(crate) const BATON_MODULE: &str = "baton, C module";
pub(crate) const BATON_FFI: &str = "baton, ffi";

const SEQUENTIAL: &[&str] = &["short_sequential", "long_sequential"];
/// The cases of the bare C loop. Short calls by two threads are left out: C threads make them in
/// parallel, which processes of one VM cannot do.
const OF_C: &[&str] = &[
    "short_sequential",
    "long_sequential",
    "long_together",
    "long_learned",
];

/// The number of loop turns with which `calls_spin` takes this long.
pub(crate) fn turns_that_last(time: Duration) -> Result<u64> {
    let mut command = Command::new(HOST);
    command.args(["calibrate", &time.as_nanos().to_string()]);
    let what = "the calibration of a C function";
    let found = child::measure(&mut command, Duration::from_secs(60), what, "turns")?;
    Ok(first(&found, "turns").unwrap_or_default() as u64)
}

/// All systems that make the calls of `programs/calls.lua` and of `peers/README.md`.
pub(crate) fn arms(bench: &Bench, baton: &Interpreter, stock: &Interpreter) -> Result<Vec<Arm>> {
    let script = bench.script("calls", include_str!("../programs/calls.lua"))?;
    let peers = peers::directory(bench.paths.peers.as_ref())?;
    let mut arms = vec![
        Arm::present(BARE_C, || Command::new(HOST)).only(OF_C),
        Arm::interpreted(STOCK_MODULE, stock, &script, &["module", DIRECTORY]).only(SEQUENTIAL),
        Arm::interpreted(BATON_MODULE, baton, &script, &["module", DIRECTORY]),
        Arm::interpreted(BATON_FFI, baton, &script, &["ffi", DIRECTORY]),
        gilda_policy(&peers, &script, &["module", DIRECTORY]),
    ];
    arms.extend([PYTHON, GO_CGO, RUBY].map(|peer| peer.arm(&peers, &["calls", LIBRARY])));
    arms.push(LUAJIT.arm(&peers, &["calls", LIBRARY]).only(SEQUENTIAL));
    Ok(arms)
}

/// An arm that runs a script under our own build with GildaVM's policy.
pub(crate) fn gilda_policy(peers: &Path, script: &Path, words: &[&str]) -> Arm {
    let script = script.to_string_lossy();
    GILDA_POLICY.arm(peers, &[&[script.as_ref()], words].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_time_takes_more_turns() {
        let turns = |nanoseconds| turns_that_last(Duration::from_nanos(nanoseconds)).unwrap();
        let (short, long) = (turns(600), turns(600_000));
        assert!(short > 0 && long > 100 * short, "{short} and {long}");
    }

    #[test]
    fn the_bare_loop_makes_each_of_its_cases() {
        for case in OF_C {
            let mut command = Command::new(HOST);
            command.args([case, "2", "1000"]);
            let found = child::measure(&mut command, Duration::from_secs(60), case, "ms").unwrap();
            let milliseconds = first(&found, "ms");
            let least = if case.starts_with("long_sequential") {
                2.0
            } else {
                0.0
            };
            assert!(
                milliseconds.is_some_and(|of_run| of_run >= least),
                "{case}: {found:?}"
            );
        }
    }
}
