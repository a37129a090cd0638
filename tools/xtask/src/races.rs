//! `cargo xtask races`: runs the runtime's tests under ThreadSanitizer, with the compare-and-swap
//! VM lock.
//!
//! The other variant of the lock has no fences and relies on `membarrier`, which no race detector
//! knows. The store-buffer model checks that variant; everything else is the same in both. Rust's
//! sanitizers need unstable compiler options and an instrumented standard library. This command
//! sets `RUSTC_BOOTSTRAP`, so that the stable compiler accepts the options. The component
//! `rust-src` has the source of the library.

use std::path::PathBuf;
use std::process::Command;

use crate::Outcome;
use crate::cargo::{Steps, cargo};
use crate::workspace;

/// Compiler flags. `baton_tsan` makes the fiber switch inform the detector
/// (`runtime/sys/src/fiber/sanitizer.rs`).
const FLAGS: &str = "-Zsanitizer=thread --cfg baton_cas --cfg baton_tsan";

/// A program in which two threads add to one number without synchronization. The detector must
/// report it; otherwise its silence about the tests would mean nothing.
const CANARY: &str = "
static mut NUMBER: u32 = 0;
fn main() {
    let other = std::thread::spawn(|| unsafe { NUMBER += 1 });
    unsafe { NUMBER += 1 };
    other.join().unwrap();
}
";

/// The tests of the scheduler, which has no threads. The detector makes them last longer than all
/// others together.
const WITHOUT_THREADS: &str = "sched::";

/// The exit status of a program in which the detector has found something.
const REPORTED: i32 = 66;

pub(crate) fn run() -> Outcome {
    let library = sysroot()?.join("lib/rustlib/src/rust/library");
    if !library.is_dir() {
        return Err(
            "races: the standard library's source is not installed; get it by: rustup component \
             add rust-src"
                .to_owned(),
        );
    }
    let mut steps = Steps::of("races");
    steps.check("the detector sees a race", detects);
    let host = host()?;
    let mut tests = cargo(&[
        "test",
        "-Zbuild-std",
        "--target",
        &host,
        "-p",
        "baton-core",
        "--tests",
        "--no-fail-fast",
        "--",
        "--skip",
        WITHOUT_THREADS,
    ]);
    tests
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", FLAGS)
        // The gate's thread-local variables are written in C.
        .env("CFLAGS", "-fsanitize=thread")
        .env("CARGO_TARGET_DIR", workspace::target_directory("races"));
    steps.run("the runtime's tests", &mut tests);
    steps.finish()
}

/// Checks that the detector reports the canary.
fn detects() -> Outcome {
    let directory = workspace::target_directory("races");
    let cannot = |why: std::io::Error| format!("{}: {why}", directory.display());
    std::fs::create_dir_all(&directory).map_err(cannot)?;
    let (source, program) = (directory.join("canary.rs"), directory.join("canary"));
    std::fs::write(&source, CANARY).map_err(cannot)?;
    let compiled = Command::new(rustc())
        .env("RUSTC_BOOTSTRAP", "1")
        // The compiler's own standard library suffices here.
        .args([
            "-Zsanitizer=thread",
            "-Cunsafe-allow-abi-mismatch=sanitizer",
            "-O",
        ])
        .args(["--cap-lints", "allow", "-o"])
        .arg(&program)
        .arg(&source)
        .status()
        .map_err(cannot)?;
    if !compiled.success() {
        return Err(format!("it does not compile: {compiled}"));
    }
    let output = Command::new(&program).output().map_err(cannot)?;
    match output.status.code() {
        Some(REPORTED) => Ok(()),
        _ => Err(format!(
            "two threads that race were not reported: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )),
    }
}

fn rustc() -> std::ffi::OsString {
    std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}

/// The output of rustc, trimmed.
fn ask_rustc(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(rustc()).args(arguments).output();
    let output = output.map_err(|why| format!("races: cannot start rustc: {why}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn sysroot() -> Result<PathBuf, String> {
    ask_rustc(&["--print", "sysroot"]).map(PathBuf::from)
}

/// The platform that we run on. With an explicit target, cargo builds build scripts and macros
/// without the detector.
fn host() -> Result<String, String> {
    let said = ask_rustc(&["-vV"])?;
    let line = said.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned)
        .ok_or_else(|| format!("races: rustc -vV names no host:\n{said}"))
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn rustc_tells_its_host_and_its_root() {
        assert!(host().expect("it has one").contains(std::env::consts::ARCH));
        assert!(sysroot().expect("it has one").join("lib").is_dir());
    }
}
