//! Who may look into a program, and what is refused.
#![cfg(target_os = "linux")]

mod harness;

use harness::observed::{WAITERS, ask, assert_has, directory, observed, ready, socket, stacks};
use harness::skip::skip;
use harness::{Run, baton_path, with_process};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

#[test]
fn a_program_may_be_read_but_not_changed_unless_it_allows_that() {
    let program = ready(observed(WAITERS));
    ask("set", &program, &["slice", "0.005"])
        .ends_with(1)
        .complained("use --write, or start the program with BATON_ATTACH=all");
    ask("set", &program, &["slice", "0.005", "--write"])
        .ends_with(1)
        .complained("--write is for a person on a terminal");
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_program_may_refuse_everything() {
    let program = ready(observed(WAITERS).env("BATON_ATTACH", "off"));
    ask("stacks", &program, &[])
        .ends_with(1)
        .complained("refuses: this program was started with BATON_ATTACH=off");
    assert!(!socket(&program).exists());
    program.signal_until_it_ends("KILL");
}

#[test]
fn an_unknown_value_is_reported_and_refuses() {
    let mut program = ready(observed(WAITERS).env("BATON_ATTACH", "yes"));
    program.await_stderr("BATON_ATTACH: 'observe', 'all' or 'off' expected, got 'yes'");
    ask("stacks", &program, &[]).ends_with(1);
    program.signal_until_it_ends("KILL");
}

#[test]
fn what_is_no_program_of_ours_gets_no_signal() {
    let mut other = std::process::Command::new("sleep")
        .arg("3600")
        .spawn()
        .expect("it starts");
    let outcome = Run::of(baton_path())
        .arg("stacks")
        .arg(other.id().to_string())
        .run();
    let lives = other.try_wait().expect("it can be asked").is_none();
    other.kill().expect("it can be killed");
    other.wait().expect("it ends");
    outcome.ends_with(1).complained("does not run Baton");
    assert!(lives, "the signal ended it");
}

/// Databases and servers end at a SIGQUIT.
#[test]
fn a_program_that_handles_sigquit_and_is_not_ours_gets_no_signal() {
    let mut other = std::process::Command::new("/bin/bash")
        .args([
            "-c",
            "trap 'exit 3' QUIT; echo ready; while :; do sleep 0.01; done",
        ])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut ready = [0; 6];
    let out = other.stdout.as_mut().expect("a pipe");
    out.read_exact(&mut ready).expect("it writes");
    let outcome = Run::of(baton_path())
        .arg("stacks")
        .arg(other.id().to_string())
        .run();
    std::thread::sleep(Duration::from_millis(100));
    let lives = other.try_wait().expect("it can be asked").is_none();
    other.kill().expect("it can be killed");
    other.wait().expect("it ends");
    outcome.ends_with(1).complained("It was not signalled");
    assert!(lives, "the signal ended it");
}

#[test]
fn a_stopped_program_is_named_as_such() {
    let program = ready(observed(WAITERS));
    program.signal("STOP");
    let path = format!("/proc/{}/stat", program.pid());
    while !fs::read_to_string(&path)
        .expect("it lives")
        .contains(") T ")
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    ask("stacks", &program, &[])
        .ends_with(1)
        .complained("is stopped, by a signal or a debugger");
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_directory_that_others_can_use_is_refused() {
    let program = ready(observed(WAITERS));
    // The second place is not tried if it belongs to somebody: here it is the user's own.
    fs::create_dir(directory(&program)).expect("a directory");
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(directory(&program), open).expect("its owner may");
    let outcome = ask("stacks", &program, &[]);
    assert!(!socket(&program).exists(), "{outcome}");
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_planted_link_is_not_followed() {
    let program = ready(observed(WAITERS));
    let elsewhere = program.scratch().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a directory");
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o700)).expect("its owner may");
    symlink(&elsewhere, directory(&program)).expect("a link");
    ask("stacks", &program, &[]);
    assert_eq!(fs::read_dir(&elsewhere).expect("a directory").count(), 0);
    program.signal_until_it_ends("KILL");
}

/// Copies the program under test to where every user may run it. Another program does that: a child
/// that another test starts at the same time would inherit our open file, and nobody can run a file
/// that is open for writing.
fn copy_for_others(to: &Path) {
    let copied = std::process::Command::new("install")
        .args(["-m", "755"])
        .args([baton_path(), to])
        .status()
        .expect("install starts");
    assert!(copied.success());
}

const NOBODY: u32 = 65534;

/// Whether the tests may take other users' rights, and mount file systems for a program alone.
fn is_root(what: &str) -> bool {
    let is_root = fs::metadata("/proc/self").expect("it is there").uid() == 0;
    if !is_root {
        skip(what, "run the tests as root");
    }
    is_root
}

/// Only root can try as another user. `/proc` may hide processes of others, as here with `option`.
fn assert_that_another_user_is_refused(option: &str) {
    if !is_root("attaching as another user") {
        return;
    }
    let program = ready(observed(WAITERS));
    stacks(&program, &[]);
    let copy = std::env::temp_dir().join(format!("baton-of-nobody-{}", program.pid()));
    copy_for_others(&copy);
    let outcome = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c"])
        .arg(format!(
            "mount -t proc -o {option} proc /proc &&
             exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups \"$@\""
        ))
        .arg("sh")
        .arg(&copy)
        .args(["stacks", &program.pid().to_string()])
        .output();
    fs::remove_file(&copy).expect("it can be removed");
    let outcome = outcome.expect("it starts");
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert_eq!(outcome.status.code(), Some(1), "{said}");
    assert_has(&said, &format!("process {} belongs to", program.pid()));
    assert_has(&said, "only that user and root may attach");
    assert_has(&said, &format!("this is the user {NOBODY}"));
    program.signal_until_it_ends("KILL");
}

#[test]
fn another_user_is_refused() {
    assert_that_another_user_is_refused("hidepid=0");
}

#[test]
fn another_user_is_refused_where_proc_hides_what_others_do() {
    assert_that_another_user_is_refused("hidepid=1");
}

#[test]
fn another_user_is_refused_where_proc_hides_processes() {
    assert_that_another_user_is_refused("hidepid=2");
}

/// A run of this code with a `/tmp` of its own, as in a container or a service.
fn with_own_tmp(options: &str, code: &str) -> Run {
    let mounted = format!(
        "exec 3<\"$0\" && mount -t tmpfs -o {options} tmpfs /tmp && exec /proc/self/fd/3 \"$@\""
    );
    Run::of(Path::new("unshare"))
        .arg("--mount")
        .arg("sh")
        .arg("-c")
        .arg(mounted)
        .arg(baton_path())
        .arg("-e")
        .arg(with_process(code))
        .without_env("XDG_RUNTIME_DIR")
}

#[test]
fn a_program_with_a_tmp_of_its_own_is_looked_into() {
    if !is_root("a program with its own /tmp") {
        return;
    }
    let program = ready(with_own_tmp("mode=1777", WAITERS));
    let said = stacks(&program, &[]);
    assert_has(&said, "for the mutex 'accounts', held by process 1");
    let socket = format!("tmp/baton-0/{}.socket", program.pid());
    let theirs = format!("/proc/{}/root", program.pid());
    assert!(Path::new(&theirs).join(&socket).exists());
    assert!(!Path::new("/").join(&socket).exists());
    program.signal_until_it_ends("KILL");
}

#[test]
fn a_tmp_that_cannot_be_written_is_named() {
    if !is_root("a program with its own /tmp") {
        return;
    }
    let program = ready(with_own_tmp("ro", WAITERS));
    let tried = format!("/proc/{}/root/tmp/baton-0: Read-only", program.pid());
    ask("stacks", &program, &[])
        .ends_with(1)
        .complained(&tried)
        .complained("Start the program with XDG_RUNTIME_DIR");
    program.signal_until_it_ends("KILL");
}

/// Root looks into a program of another user, with that user's rights.
#[test]
fn root_attaches_to_the_program_of_another_user() {
    use std::os::unix::process::CommandExt;
    if !is_root("attaching as root") {
        return;
    }
    let copy = std::env::temp_dir().join(format!("baton-for-nobody-{}", std::process::id()));
    copy_for_others(&copy);
    let mut program = std::process::Command::new(&copy)
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/")
        .env_remove("XDG_RUNTIME_DIR")
        .args(["-e", "print 'ready' io.stdout:flush() while true do end"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut ready = [0; 6];
    let out = program.stdout.as_mut().expect("a pipe");
    out.read_exact(&mut ready).expect("it writes");
    let outcome = Run::of(baton_path())
        .arg("stacks")
        .arg(program.id().to_string())
        .run();
    let place = fs::metadata(format!("/tmp/baton-{NOBODY}"));
    program.kill().expect("it can be killed");
    program.wait().expect("it ends");
    fs::remove_file(&copy).expect("it can be removed");
    outcome.succeeds();
    assert_has(&outcome.stdout, "process 1 'main': running");
    let place = place.expect("the directory of its requests");
    assert_eq!((place.uid(), place.mode() & 0o777), (NOBODY, 0o700));
}
