//! Sends signals to test programs, and sets the signal actions that they start with.

use std::ffi::c_int;
use std::fs;
use std::sync::Once;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Sends a signal by its name without `SIG`. Uses no program: a small system has `kill` only as a
/// shell command.
pub(crate) fn send(process: u32, name: &str) {
    let signal: Signal = format!("SIG{name}").parse().expect("the signal has a name");
    let process = Pid::from_raw(i32::try_from(process).expect("a process number"));
    kill(process, signal).unwrap_or_else(|why| panic!("cannot send {signal} to {process}: {why}"));
}

/// A child inherits ignored signals if the tests run behind `nohup`, or in the background of a
/// script.
const OFTEN_IGNORED: [Signal; 3] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT];

/// Makes programs that are started from now on begin with the default actions of the signals that
/// this program ignores.
///
/// A child inherits that a signal is ignored, but not a handler: it gets the default action
/// instead. So this program installs handlers that do nothing.
pub(crate) fn give_children_default_actions() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        let ignored = ignored_here();
        for signal in OFTEN_IGNORED {
            let bit = 1 << (signal as c_int - 1);
            if ignored & bit != 0 {
                baton_sys::signals::watch(signal as c_int, do_nothing)
                    .expect("the signal can have a handler");
            }
        }
    });
}

extern "C" fn do_nothing(_signal: c_int) {}

/// The signals that this program ignores, one bit each (proc(5), `SigIgn`); none if the system does
/// not say.
fn ignored_here() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok())
        .unwrap_or(0)
}
