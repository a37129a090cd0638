//! Runs the installed C compiler. The tests take its results as correct.

use std::path::Path;
use std::process::Command;

fn succeed(command: &mut Command) -> String {
    let output = command.output().expect("the command runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn compile(source: &str, directory: &Path, name: &str, flags: &[&str]) -> std::path::PathBuf {
    let file = directory.join("source.c");
    std::fs::write(&file, source).expect("the directory is writable");
    let result = directory.join(name);
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command
        .args(["-w", "-O1", "-std=gnu11"])
        .args(flags)
        .arg("-o")
        .arg(&result)
        .arg(&file);
    succeed(&mut command);
    result
}

/// Compiles and runs a program. Returns its output.
#[allow(dead_code, reason = "not every test runs programs")]
pub(crate) fn run(source: &str) -> String {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let program = compile(source, directory.path(), "program", &[]);
    succeed(&mut Command::new(program))
}

/// Compiles a library into a directory. Returns its path.
#[allow(dead_code, reason = "not every test loads libraries")]
pub(crate) fn library(source: &str, directory: &Path) -> std::path::PathBuf {
    compile(source, directory, "libtrial.so", &["-shared", "-fPIC"])
}
