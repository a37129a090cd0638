//! The installed library: the programs of examples/embedding are built with it, and run; and it takes
//! the place of liblua5.4.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Set by `cargo xtask test`: a file whose lines it prints at the end.
const SKIPPED_LIST: &str = "BATON_SKIPPED_LIST";

/// Whether a test program fails. If so, reports that `what` was not tested. In CI that is an error.
fn is_missing(probe: &[&str], package: &str, what: &str) -> bool {
    let mut command = Command::new(probe[0]);
    command
        .args(&probe[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if command.status().is_ok_and(|status| status.success()) {
        return false;
    }
    let line = format!("{what}: install {package}\n");
    assert!(std::env::var_os("CI").is_none(), "{line}");
    // Nothing better can be done if stderr is closed.
    let _ = write!(std::io::stderr(), "SKIPPED: {line}");
    if let Some(list) = std::env::var_os(SKIPPED_LIST) {
        let list = OpenOptions::new().append(true).open(list);
        list.and_then(|mut list| list.write_all(line.as_bytes()))
            .expect("the list of what was skipped can be written");
    }
    true
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a command that succeeds. Returns what it prints.
#[track_caller]
fn succeed(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}{errors}");
    said
}

/// The directory of the debug build, installed once.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
        let mut install = Command::new(env!("CARGO"));
        install
            .args(["run", "--offline", "--quiet", "-p", "xtask", "--"])
            .args(["install", "--debug", "--lua", "--prefix"])
            .arg(&prefix)
            .current_dir(repository());
        succeed(&mut install);
        prefix
    })
}

/// Builds a program of the examples in a directory of its own. Returns its path.
fn example(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("embedding-{name}"));
    fs::create_dir_all(&directory).expect("a directory for the program");
    for file in [
        "Makefile",
        "scripts.lua",
        "frames.c",
        "uv.c",
        "window.c",
        "many.lua",
    ] {
        let from = repository().join("examples/embedding").join(file);
        fs::copy(from, directory.join(file)).expect("the file is there");
    }
    let mut make = Command::new("make");
    make.args(["-B", name])
        .current_dir(&directory)
        .env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
    succeed(&mut make);
    directory.join(name)
}

/// Runs an example. Returns the numbers of what it prints.
#[track_caller]
fn numbers(program: &Path, arguments: &[&str], display: Option<&str>) -> Vec<f64> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(program.parent().expect("it is in a directory"))
        .env("LD_LIBRARY_PATH", prefix().join("lib"));
    if let Some(display) = display {
        command.env("DISPLAY", display);
    }
    let said = succeed(&mut command);
    let words = said.split(|letter: char| !letter.is_ascii_digit() && letter != '.');
    words.filter_map(|word| word.parse().ok()).collect()
}

const PKG_CONFIG: [&str; 2] = ["pkg-config", "--version"];

#[test]
fn a_games_loop_gives_scripts_their_time() {
    if is_missing(&PKG_CONFIG, "pkg-config", "a game's loop") {
        return;
    }
    let said = numbers(&example("frames"), &["scripts.lua", "2"], None);
    let [frames, _late, _4, _longest, slept, blocked, computed] = said[..] else {
        panic!("{said:?}")
    };
    assert_eq!(frames, 120.0);
    // 200 sleeps and 40 calls, if nothing delays them.
    assert!(slept >= 40.0 && blocked >= 5.0 && computed > 1000.0, "{said:?}");
}

#[test]
fn the_loop_of_libuv_runs_processes() {
    if is_missing(
        &["pkg-config", "libuv", "--exists"],
        "pkg-config and libuv1-dev",
        "the loop of libuv",
    ) {
        return;
    }
    let said = numbers(&example("uv"), &["scripts.lua", "2"], None);
    let [ticks, slept, blocked, computed] = said[..] else {
        panic!("{said:?}")
    };
    // 200 ticks and sleeps, and 40 calls, if nothing delays them.
    assert!(ticks >= 40.0 && slept >= 40.0, "{said:?}");
    assert!(blocked >= 5.0 && computed > 1000.0, "{said:?}");
}
