//! Reads each format with the program that it is for, or with the schema or parser that is
//! published for it. `cargo xtask readers` installs them.

#![forbid(unsafe_code)]

mod heap;
mod openmetrics;
mod perfetto;
mod pprof;
mod speedscope;
mod svg;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use baton_formats::profile::{Frame, Labels, Measure, Profile};
use baton_harness::skip;
use serde_json::Value;
use tempfile::NamedTempFile;

/// Names that break a format if they are not escaped.
const HOSTILE: [&[u8]; 10] = [
    b"",
    b"\"'\\`$(x)",
    b"a;b c 12",
    b"line\nline\r\n\ttab",
    b"\0\x01\x1b[31m\x7f",
    b"\xff\xfe\x80 no text \xc3",
    b"</script></text></svg><!--",
    b"]]>&amp;&#0;",
    "\u{202e}\u{2028}\u{feff}\u{fffe}\u{85}".as_bytes(),
    b"# EOF",
];

/// The directory in which `cargo xtask readers` installs them.
fn readers() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("readers")
}

/// A file with these bytes, until it is dropped.
fn file(suffix: &str, bytes: &[u8]) -> NamedTempFile {
    let mut file = tempfile::Builder::new()
        .suffix(suffix)
        .tempfile()
        .expect("a file for the trial");
    file.write_all(bytes).expect("the trial's file");
    file
}

/// Runs a script in Python of this directory. None if the readers are not installed; that is
/// reported, with `what` was not tested.
fn python(what: &str, script: &str, arguments: &[&Path]) -> Option<String> {
    let directory = readers().join("python");
    let expected = include_str!("requirements.txt");
    installed(&directory, expected, what)?;
    let mut command = Command::new(directory.join("bin/python"));
    command
        .arg("-I")
        .arg(scripts().join(script))
        .args(arguments);
    Some(output(&mut command))
}

/// Runs a script in JavaScript of this directory. Its first argument is the directory with node's
/// modules. As for [`python`], there may be none.
fn node(what: &str, script: &str, file: &Path, more: &[&str]) -> Option<String> {
    let directory = readers().join("node");
    installed(&directory, include_str!("package-lock.json"), what)?;
    let mut command = Command::new("node");
    command
        .arg(scripts().join(script))
        .arg(&directory)
        .arg(file)
        .args(more);
    Some(output(&mut command))
}

/// Whether these readers are installed, in the versions that are expected.
fn installed(directory: &Path, expected: &str, what: &str) -> Option<()> {
    let found = fs::read_to_string(directory.join("installed.txt")).unwrap_or_default();
    if found == expected {
        return Some(());
    }
    skip::skip(what, "run cargo xtask readers");
    None
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers")
}

/// The output of a program that must succeed.
fn output(command: &mut Command) -> String {
    let output = command.output().expect("the reader to start");
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let program = Path::new(command.get_program()).file_name();
    let program = program.unwrap_or(OsStr::new("reader")).display();
    assert!(output.status.success(), "{program}: {stdout}\n{stderr}");
    stdout.into_owned()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

/// What is left of hostile bytes as text.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A profile in which `f` takes 400 ms itself, and 600 ms in `g`.
fn f_and_g() -> Profile {
    let mut profile = Profile::new(Measure::CpuTime, "server.lua");
    profile.period = 10_000_000;
    let f = Frame::lua("f", "server.lua", 14).beginning_at(12);
    let g = Frame::lua("g", "json.lua", 7).beginning_at(3);
    let stack = profile.stack([g, f.clone()]);
    profile.add(stack, 600_000_000, 60, Labels::of_process("client", 4));
    let stack = profile.stack([f]);
    profile.add(stack, 400_000_000, 40, Labels::of_process("client", 5));
    profile
}

/// A profile with all hostile names everywhere.
fn hostile(measure: Measure) -> Profile {
    let mut profile = Profile::new(measure, HOSTILE.concat());
    for name in HOSTILE {
        let stack = profile.stack([Frame::c(name, name), Frame::lua(name, name, 3)]);
        let labels = Labels::of_process(name, 1).waiting_for(name, name);
        profile.add(stack, 1_000_000, 1, labels);
    }
    profile
}
