//! Compares the ffi with the system's C compiler on generated C declarations: sizes, offsets, bits,
//! values, and passing by value in both directions.

mod harness;
mod oracle;

use std::path::{Path, PathBuf};
use std::process::Command;

use harness::baton;
use oracle::Oracle;

/// Declarations per seed.
const DECLARATIONS: usize = 100;

/// Callbacks per seed that the ffi may refuse.
const MOST_REFUSED: usize = 4;

const PROGRAM: &str = "void oracle_answer(void);\nint main(void) { oracle_answer(); return 0; }\n";

/// Runs the C compiler. Its output is `name` in `directory`.
fn compile(directory: &Path, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
    let (file, result) = (directory.join(format!("{name}.c")), directory.join(name));
    std::fs::write(&file, source).expect("the directory can be written to");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(compiler)
        .args(["-w", "-O1", "-std=gnu11", "-o"])
        .arg(&result)
        .arg(&file)
        .args(arguments)
        .output()
        .expect("the C compiler can be started");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {complaint}", file.display());
    result
}

/// The ffi has to refuse callbacks that libffi cannot handle: those where half of a structure is
/// padding. They are rare.
fn is_refused(line: &str) -> bool {
    line.ends_with(": turn is refused")
}

/// Both programs of a seed must print the same.
fn agree(seed: u64) {
    let oracle = Oracle::new(seed, DECLARATIONS);
    let run = baton();
    let directory = run.scratch().to_path_buf();
    let library = compile(
        &directory,
        "oracle.so",
        &oracle.library_source(),
        &["-shared", "-fPIC"],
    );
    let library_word = library.to_string_lossy();
    let program = compile(&directory, "program", PROGRAM, &[&library_word]);
    let said = Command::new(program)
        .output()
        .expect("the program can be started");
    assert!(
        said.status.success(),
        "seed {seed}: the program in C: {}",
        said.status
    );

    let script = directory.join("script.lua");
    std::fs::write(&script, oracle.script()).expect("the directory can be written to");
    let outcome = run.arg(&script).arg(&library).run();
    let expected = String::from_utf8_lossy(&said.stdout);
    let (expected, got): (Vec<&str>, Vec<&str>) =
        (expected.lines().collect(), outcome.stdout.lines().collect());
    if let Some((wanted, line)) = expected
        .iter()
        .zip(&got)
        .find(|(wanted, line)| wanted != line && !is_refused(line))
    {
        panic!(
            "seed {seed}: C says\n{wanted}\nand the ffi\n{line}\nof\n{}\n{}",
            oracle.about(wanted),
            outcome.stderr
        );
    }
    let next = expected.get(got.len()).copied().unwrap_or_default();
    assert!(
        got.len() == expected.len(),
        "seed {seed}: no answer like\n{next}\nof\n{}\n{}",
        oracle.about(next),
        outcome.stderr
    );
    outcome.succeeds();
    let refused = got.iter().filter(|line| is_refused(line)).count();
    assert!(
        refused <= MOST_REFUSED,
        "seed {seed}: {refused} callbacks were refused"
    );
    assert!(
        expected.len() > 5 * DECLARATIONS,
        "seed {seed}: only {} lines were compared",
        expected.len()
    );
}

#[test]
fn a_hundred_declarations_agree_with_the_c_compiler() {
    agree(4);
}

#[test]
fn another_hundred_declarations_agree_with_the_c_compiler() {
    agree(100);
}

#[test]
fn a_third_hundred_declarations_agree_with_the_c_compiler() {
    agree(20_261_121);
}
