//! What cannot be compared: two long options that `lua` does not have, and input without readline.

use crate::interpreter;
use crate::run::{baton, finish, spawn};

fn ask(option: &str) -> (String, String, Option<i32>) {
    let output = finish(spawn(&mut interpreter(baton(), &[option])), b"");
    (
        String::from_utf8(output.stdout).expect("text"),
        String::from_utf8(output.stderr).expect("text"),
        output.status.code(),
    )
}

#[test]
fn version_names_lua_and_baton() {
    let (stdout, stderr, status) = ask("--version");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{stdout}");
    assert!(lines[0].starts_with("Lua 5.4."), "{stdout}");
    assert_eq!(lines[1], concat!("Baton ", env!("CARGO_PKG_VERSION")));
    assert_eq!((stderr.as_str(), status), ("", Some(0)));
}

#[test]
fn the_banner_names_baton_and_says_how_to_get_help() {
    for argument in ["-v", "-i"] {
        let output = finish(spawn(&mut interpreter(baton(), &[argument])), b"");
        let shown = String::from_utf8(output.stdout).expect("text");
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0].starts_with("Lua 5.4."), "{argument}: {shown}");
        let own = concat!("Baton ", env!("CARGO_PKG_VERSION"), ": ");
        assert!(lines[1].starts_with(own), "{argument}: {shown}");
        assert!(lines[1].contains("--help"), "{argument}: {shown}");
    }
}

#[test]
fn help_names_every_option_and_variable() {
    let (stdout, stderr, status) = ask("--help");
    assert!(
        stdout.starts_with("usage: lua [options] [script [args]]\n"),
        "{stdout}"
    );
    for word in [
        "-e stat",
        "-l mod",
        "-l g=mod",
        "-i ",
        "-v ",
        "-E ",
        "-W ",
        "-- ",
        "- ",
        "--help",
        "--version",
        "LUA_INIT_5_4",
        "LUA_PATH_5_4",
        "LUA_CPATH_5_4",
        "BATON_SLICE",
        "BATON_FFI",
        "BATON_HISTORY",
        "baton.process",
        "baton.vm",
        "baton.cluster",
        "baton.ffi",
        "baton.inspect",
        "Example:",
    ] {
        assert!(stdout.contains(word), "{word:?} is missing in\n{stdout}");
    }
    assert_eq!((stderr.as_str(), status), ("", Some(0)));
}

#[test]
fn help_runs_nothing_else() {
    let arguments = ["-e", "print('run')", "--help"];
    let output = finish(
        spawn(&mut interpreter(baton(), &arguments)),
        b"print('input')",
    );
    let stdout = String::from_utf8(output.stdout).expect("text");
    assert!(stdout.starts_with("usage: "), "{stdout}");
}

#[test]
fn the_example_in_the_help_is_a_lua_chunk() {
    let (help, _, _) = ask("--help");
    let (_, example) = help.split_once("Example:\n").expect("an example");
    let check = format!("assert(load([==[{example}]==]))");
    let output = finish(spawn(&mut interpreter(baton(), &["-e", &check])), b"");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_interactive_mode_reads_lines_of_any_length() {
    let line = format!("#'{}'\n", "x".repeat(100_000));
    let output = finish(spawn(&mut interpreter(baton(), &["-i"])), line.as_bytes());
    let stdout = String::from_utf8(output.stdout).expect("text");
    assert!(stdout.ends_with("\n> 100000\n> \n"), "{stdout}");
}
