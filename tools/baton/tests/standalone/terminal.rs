//! The standard input is a terminal: the interactive mode starts by itself. (The system's `lua5.4` cannot be compared
//! here: its readline edits the line with escape sequences.)

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Stdio};

use nix::pty::openpty;
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};

use crate::interpreter;
use crate::run::baton;

/// Starts `baton` on a new terminal; returns it with the terminal's other end.
fn on_terminal(arguments: &[&str]) -> (Child, File) {
    let terminal = openpty(None, None).expect("a terminal");
    without_echo(&terminal.slave);
    let copy = || Stdio::from(terminal.slave.try_clone().expect("a descriptor"));
    let child = interpreter(baton(), arguments)
        .stdin(copy())
        .stdout(copy())
        .stderr(copy())
        .spawn()
        .expect("baton starts");
    (child, File::from(terminal.master))
}

/// What is typed is not shown: else it would stand wherever it came between two prompts.
fn without_echo(terminal: impl AsFd) {
    let mut settings = tcgetattr(&terminal).expect("the terminal's settings");
    settings.local_flags.remove(LocalFlags::ECHO);
    tcsetattr(&terminal, SetArg::TCSANOW, &settings).expect("settings for the terminal");
}

/// Types these lines and an end of input; returns what stands on the terminal, and the status.
fn conversation(arguments: &[&str], lines: &str) -> (String, Option<i32>) {
    let (mut child, mut terminal) = on_terminal(arguments);
    write!(terminal, "{lines}\u{4}").expect("the terminal takes it");
    let mut shown = Vec::new();
    let mut piece = [0; 1024];
    // A terminal whose last user has gone gives an error.
    while let Ok(length @ 1..) = terminal.read(&mut piece) {
        shown.extend_from_slice(&piece[..length]);
    }
    let status = child.wait().expect("baton's status");
    (
        String::from_utf8(shown).expect("text").replace("\r\n", "\n"),
        status.code(),
    )
}

#[test]
fn without_arguments_the_interactive_mode_starts() {
    let (shown, status) = conversation(&[], "x = 6 * 7\nx\n");
    assert!(shown.contains("Lua 5.4."), "{shown}");
    assert!(shown.ends_with("> 42\n> \n"), "{shown}");
    assert_eq!(status, Some(0));
}

#[test]
fn errors_are_shown_without_the_program_s_name() {
    let (shown, status) = conversation(&[], "error('e', 0)\n");
    assert!(shown.contains("> e\nstack traceback:\n"), "{shown}");
    assert_eq!(status, Some(0));
}

#[test]
fn code_or_a_version_alone_do_not_start_it() {
    for arguments in [["-e", "print(1)"].as_slice(), &["-v"], &["empty.lua"]] {
        let (shown, status) = conversation(arguments, "");
        assert!(!shown.contains("> "), "{arguments:?}: {shown}");
        assert_eq!(status, Some(0), "{arguments:?}");
    }
}

#[test]
fn options_alone_start_it() {
    for arguments in [["-W"].as_slice(), &["-E"], &["-l", "g=string"], &["--"]] {
        let (shown, status) = conversation(arguments, "1 + 1\n");
        assert!(shown.ends_with("> 2\n> \n"), "{arguments:?}: {shown}");
        assert_eq!(status, Some(0), "{arguments:?}");
    }
}
