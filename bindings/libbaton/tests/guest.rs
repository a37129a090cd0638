//! A guest in C, linked with `libbaton.a`.

mod library;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The compiled guest. It lies beside the test.
fn guest() -> &'static Path {
    static GUEST: OnceLock<PathBuf> = OnceLock::new();
    GUEST.get_or_init(|| {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest_in_c");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let compiled = Command::new(compiler)
            .args([
                "-std=gnu11",
                "-O1",
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
            ])
            .arg("-I")
            .arg(here.join("../capi/include"))
            .arg(here.join("tests/guest.c"))
            .arg(library::built())
            .args(["-lpthread", "-ldl", "-lm", "-o"])
            .arg(&program)
            .output()
            .expect("there is a C compiler, which the build needs too");
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{said}");
        program
    })
}

fn run(case: &str) -> Output {
    Command::new(guest())
        .arg(case)
        .output()
        .expect("the guest starts")
}

#[track_caller]
fn succeeds(case: &str) {
    let output = run(case);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{case}: {}: {said}", output.status);
    assert_eq!(output.stdout, b"done\n");
}

#[track_caller]
fn ends_with(case: &str, message: &str) {
    let output = run(case);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{case} succeeds");
    assert!(said.contains(message), "{case}: {said}");
}

#[test]
fn processes_take_turns_and_the_end_of_the_vm_returns() {
    succeeds("everything");
}

#[test]
fn others_run_during_a_foreign_call() {
    succeeds("call");
}

#[test]
fn a_loop_without_end_is_preempted() {
    succeeds("loop");
}

/// A request that came too early for the slice was repeated by a signal alone. A guest without a
/// poll of its own never saw it.
#[test]
fn a_loop_that_only_asks_for_requests_lets_calls_return() {
    succeeds("ask_in_loop");
}

#[test]
fn a_foreign_thread_wakes_a_process() {
    succeeds("be_woken");
}

#[test]
fn leaving_twice_ends_with_a_message() {
    ends_with("leave_twice", "baton_leave was called outside the VM");
}

#[test]
fn entering_twice_ends_with_a_message() {
    ends_with("enter_twice", "baton_enter was called inside the VM");
}

#[test]
fn entering_from_a_foreign_thread_ends_with_a_message() {
    ends_with("enter_from_elsewhere", "by a thread that runs no process");
}

#[test]
fn yielding_outside_ends_with_a_message() {
    ends_with("yield_outside", "baton_yield was called outside the VM");
}

#[test]
fn yielding_on_a_foreign_thread_ends_with_a_message() {
    let message = "baton_yield was called by a thread that runs no process";
    ends_with("yield_from_elsewhere", message);
}

#[test]
fn a_process_that_ends_outside_ends_with_a_message() {
    ends_with("end_outside", "the guest's `run` returned outside the VM");
}

#[test]
fn switching_in_a_callback_ends_with_a_message() {
    let message = "baton_yield was called in the guest's `switched`";
    ends_with("switch_in_callback", message);
}

#[test]
fn leaving_a_section_that_was_not_entered_ends_with_a_message() {
    ends_with("leave_section", "that was not entered");
}

#[test]
fn a_wait_in_a_critical_section_is_refused() {
    succeeds("wait_in_section");
}

#[test]
fn a_first_process_of_a_vm_that_runs_ends_with_a_message() {
    ends_with("spawn_first_late", "a VM that does not run yet");
}

#[test]
fn a_deadlock_ends_with_a_message() {
    ends_with("wait_for_ever", "no process can ever run again");
}
