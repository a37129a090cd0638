//! Ends the program after a panic that would leave the runtime without one of its parts, and when
//! the executor's bookkeeping is broken.
//!
//! A panic unwinds and ends one thread, and the other threads continue. Without the monitor,
//! nothing is preempted or retaken. Without a carrier, its VM stands still. A panic in a guest's
//! function leaves the VM half changed. Each of these ends the program, after a message that names
//! it.

use std::io::Write;

/// A guard that ends the program when a panic drops it. [`EndOfProgram::avert`] disarms it.
///
/// Unlike `catch_unwind`, it costs nothing unless there is a panic.
#[must_use]
pub(crate) struct EndOfProgram {
    what: &'static str,
    why: &'static str,
}

impl EndOfProgram {
    /// Arms a guard: until [`EndOfProgram::avert`], a panic in `what` ends the program. `why` says
    /// what would be missing without it.
    #[inline(always)]
    pub(crate) fn at_panic_in(what: &'static str, why: &'static str) -> EndOfProgram {
        EndOfProgram { what, why }
    }

    /// Disarms the guard: `what` has returned.
    #[inline(always)]
    pub(crate) fn avert(self) {
        std::mem::forget(self);
    }
}

impl Drop for EndOfProgram {
    #[cold]
    fn drop(&mut self) {
        let EndOfProgram { what, why } = self;
        let thread = baton_sys::thread::name();
        // There is nowhere to report an error of stderr.
        let _ = writeln!(
            std::io::stderr(),
            "baton: a panic in {what}, on the native thread '{}', ends the program: {why}",
            if thread.is_empty() {
                "without a name"
            } else {
                &thread
            },
        );
        std::process::abort();
    }
}

/// Ends the program: what the executor keeps does not agree.
#[cold]
#[inline(never)]
pub(crate) fn broken(what: &str) -> ! {
    eprintln!("baton: {what} (the executor's bookkeeping is broken)");
    std::process::abort();
}

/// Panics here in the crate's own tests, if the environment requests a fault at this place.
#[inline(always)]
pub(crate) fn fault(_place: &str) {
    #[cfg(test)]
    if std::env::var(tests::FAULT).is_ok_and(|wanted| wanted == _place) {
        panic!("a fault for a test");
    }
}

#[cfg(test)]
mod tests {
    use super::EndOfProgram;
    use crate::guest::{Guest, RetakePolicy};
    use crate::sched::{ProcessId, SpawnOptions};
    use crate::vm::{Inside, Spawned, Vm};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Output};
    use std::sync::Arc;
    use std::time::Duration;

    /// The environment variable that names the place at which a test's child panics.
    pub(super) const FAULT: &str = "BATON_CORE_FAULT";

    /// A child that has not panicked after this time ends.
    const LIMIT: Duration = Duration::from_secs(60);

    const SIGABRT: i32 = 6;

    /// Runs the test `name` again as a child with a fault at `place`. Returns `None` in the child.
    fn as_child(name: &str, place: &str) -> Option<Output> {
        if std::env::var_os(FAULT).is_some() {
            std::thread::spawn(|| {
                std::thread::sleep(LIMIT);
                std::process::exit(2);
            });
            return None;
        }
        let program = std::env::current_exe().expect("the test program has a name");
        let child = Command::new(program)
            .args(["--exact", &format!("panics::tests::{name}"), "--nocapture"])
            .env(FAULT, place)
            // Under ThreadSanitizer, on a busy machine, a backtrace takes longer than the limit.
            .env("RUST_BACKTRACE", "0")
            .output();
        Some(child.expect("the test program starts"))
    }

    fn assert_ended_by(output: &Output, message: &str) {
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(SIGABRT), "{stderr}");
        assert!(stderr.contains(message), "{stderr}");
    }

    /// A guest whose processes do nothing.
    struct Idle;

    impl Guest for Idle {
        fn run<'vm>(&self, inside: Inside<'vm>, _process: ProcessId, _word: usize) -> Inside<'vm> {
            super::fault("run");
            inside
        }
        fn switched(&self, _from: Option<usize>, _to: Option<usize>) {
            super::fault("switched");
        }
        fn retake_policy(&self, _user_data: usize) -> RetakePolicy {
            RetakePolicy::Stay
        }
        fn warn_blocked(&self, _user_data: usize) {}
        fn request_safepoint(&self, _user_data: usize) {}
        fn deadlocked(&self, _inside: &Inside<'_>) -> Option<Duration> {
            None
        }
        fn signalled(&self, _inside: &Inside<'_>) {}
    }

    /// Runs a VM that never ends by itself: its only process has ended and nothing else happens.
    fn run_vm() {
        let vm = Vm::new(Arc::new(Idle)).expect("a VM can be made");
        vm.spawn_first(SpawnOptions::default(), None, Spawned::Now)
            .expect("there is room");
        vm.run();
    }

    #[test]
    fn a_panic_in_the_monitor_ends_the_program() {
        let name = "a_panic_in_the_monitor_ends_the_program";
        let Some(output) = as_child(name, "monitor") else {
            // A VM on another thread than the first starts the monitor.
            let home = std::thread::spawn(run_vm);
            let _ = home.join();
            return;
        };
        assert_ended_by(
            &output,
            "a panic in the monitor, on the native thread 'baton-monitor'",
        );
    }

    #[test]
    fn a_panic_in_a_carrier_ends_the_program() {
        let name = "a_panic_in_a_carrier_ends_the_program";
        let Some(output) = as_child(name, "carrier") else {
            let home = std::thread::Builder::new().name("first".into());
            let home = home.spawn(run_vm).expect("a thread starts");
            let _ = home.join();
            return;
        };
        assert_ended_by(
            &output,
            "a panic in a carrier, on the native thread 'first'",
        );
    }

    #[test]
    fn a_panic_in_a_function_of_the_guest_ends_the_program() {
        let name = "a_panic_in_a_function_of_the_guest_ends_the_program";
        for function in ["run", "switched"] {
            let Some(output) = as_child(name, function) else {
                let home = std::thread::spawn(run_vm);
                let _ = home.join();
                return;
            };
            assert_ended_by(&output, &format!("a panic in the guest's `{function}`"));
        }
    }

    #[test]
    fn without_a_panic_the_program_goes_on() {
        EndOfProgram::at_panic_in("nothing", "it would not be here").avert();
    }
}
