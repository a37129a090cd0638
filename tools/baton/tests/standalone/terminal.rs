//! The standard input is a terminal, so the interactive mode starts by itself. (The system's
//! `lua5.4` cannot be compared, because its readline edits the line with escape sequences.)

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Stdio};

use nix::pty::openpty;
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};

use crate::interpreter;
use crate::run::{baton, finish, signals, spawn};

/// Starts `baton` on a new terminal; returns it with the terminal's other end.
fn on_terminal(arguments: &[&str]) -> (Child, File) {
    let terminal = openpty(None, None).expect("a terminal");
    without_echo(&terminal.slave);
    let copy = || Stdio::from(terminal.slave.try_clone().expect("a descriptor"));
    signals::give_children_default_actions();
    let child = interpreter(baton(), arguments)
        .stdin(copy())
        .stdout(copy())
        .stderr(copy())
        .spawn()
        .expect("baton starts");
    (child, File::from(terminal.master))
}

/// Turns echo off: typed text would appear at varying places between two prompts.
fn without_echo(terminal: impl AsFd) {
    let mut settings = tcgetattr(&terminal).expect("the terminal's settings");
    settings.local_flags.remove(LocalFlags::ECHO);
    tcsetattr(&terminal, SetArg::TCSANOW, &settings).expect("settings for the terminal");
}

/// Types these lines and an end of input. Returns the text on the terminal, and the status.
fn conversation(arguments: &[&str], lines: &str) -> (String, Option<i32>) {
    let (mut child, mut terminal) = on_terminal(arguments);
    write!(terminal, "{lines}\u{4}").expect("the terminal takes it");
    let mut shown = Vec::new();
    let mut piece = [0; 1024];
    // Reading a terminal whose last user has closed it gives an error.
    while let Ok(length @ 1..) = terminal.read(&mut piece) {
        shown.extend_from_slice(&piece[..length]);
    }
    let status = child.wait().expect("baton's status");
    (
        String::from_utf8(shown)
            .expect("text")
            .replace("\r\n", "\n"),
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

#[test]
fn tables_are_shown_with_what_is_in_them() {
    let lines = "{1, 'a\\n', {}, x = {y = true}, ['b c'] = 2.5}\n\
                 t = {} t.t = t\n\
                 t, 'text', nil\n\
                 {('x'):rep(40), ('y'):rep(40)}\n\
                 l = {} for i = 1, 1000 do l[i] = i end\n\
                 l\n";
    let (shown, status) = conversation(&[], lines);
    assert!(
        shown.contains("> {1, \"a\\n\", {}, [\"b c\"] = 2.5, x = {y = true}}\n"),
        "{shown}"
    );
    assert!(shown.contains("> {t = table: 0x"), "{shown}");
    assert!(shown.contains("}\ttext\tnil\n"), "{shown}");
    let two = format!(
        "> {{\n  \"{}\",\n  \"{}\"\n}}\n",
        "x".repeat(40),
        "y".repeat(40)
    );
    assert!(shown.contains(&two), "{shown}");
    assert!(
        shown.contains(" 199, 200,\n  ... (800 more)\n}\n"),
        "{shown}"
    );
    assert_eq!(status, Some(0));
}

#[test]
fn tables_with_tostring_are_shown_by_it() {
    let lines = "setmetatable({}, {__tostring = function() return 'itself' end})\n\
                 setmetatable({}, {__name = 'Kind'})\n\
                 {setmetatable({}, {__tostring = function() error('no', 0) end})}\n\
                 print({})\n\
                 print = function(...) io.write('mine ', type(...), '\\n') end\n\
                 {}\n";
    let (shown, _) = conversation(&[], lines);
    assert!(shown.contains("> itself\n"), "{shown}");
    assert!(shown.contains("> Kind: 0x"), "{shown}");
    // The field's __tostring fails, so the table is shown as `print` shows it.
    assert_eq!(shown.matches("> table: 0x").count(), 2, "{shown}");
    assert!(shown.ends_with("> mine table\n> \n"), "{shown}");
}

#[test]
fn tables_are_addresses_where_the_output_is_no_terminal() {
    let output = finish(spawn(&mut interpreter(baton(), &["-i"])), b"{1}\n");
    let stdout = String::from_utf8(output.stdout).expect("text");
    assert!(stdout.contains("> table: 0x"), "{stdout}");
}

#[test]
fn at_its_end_the_prompt_says_what_the_program_waits_for() {
    let lines = "p = require 'baton.process'\np.spawn({name = 'clock'}, p.sleep, 0.2)\n";
    let (shown, status) = conversation(&[], lines);
    let said = "The program goes on until process 2 'clock' has ended. Ctrl-C ends it now.\n";
    assert!(shown.ends_with(said), "{shown}");
    assert_eq!(status, Some(0));
    let (shown, status) = conversation(
        &[],
        "t = require 'baton.process'.after(0.2, print, 'rang')\n",
    );
    assert!(shown.contains("until a timer has ended. Ctrl-C"), "{shown}");
    assert!(shown.ends_with("\nrang\n"), "{shown}");
    assert_eq!(status, Some(0));
    let lines = "p = require 'baton.process'\nfor _ = 1, 12 do p.spawn(p.sleep, 0.2) end\n";
    let (shown, _) = conversation(&[], lines);
    assert!(
        shown.contains("until 12 processes have ended: process 2, process 3,"),
        "{shown}"
    );
    assert!(shown.contains("process 11, others. Ctrl-C"), "{shown}");
    let daemon = "p = require 'baton.process'\np.spawn({daemon = true}, p.sleep, 100)\n";
    let (shown, _) = conversation(&[], daemon);
    assert!(!shown.contains("goes on"), "{shown}");
}

/// Tests the book's page about the prompt. Each block `session` is a session: the text after a
/// prompt is typed, and the other lines are output. A prompt without text is the end of the input.
#[test]
fn the_books_sessions_show_what_the_prompt_prints() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/prompt.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let sessions = page
        .split("```session\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let mut count = 0;
    for session in sessions {
        let (typed, mut expected) = typed_and_shown(session);
        if !session.contains("\n>\n") {
            expected.push_str("> \n");
        }
        let (shown, status) = conversation(&[], &typed);
        let shown = shown.splitn(3, '\n').nth(2);
        let shown = shown.expect("the versions of Lua and of Baton come first");
        assert_eq!(shown, expected, "of the conversation\n{session}");
        assert_eq!(status, Some(0), "{session}");
        count += 1;
    }
    assert!(count >= 4, "{count} conversations");
}

/// Returns the typed text of a session, and the expected text on a terminal that does not echo.
fn typed_and_shown(session: &str) -> (String, String) {
    let (mut typed, mut shown) = (String::new(), String::new());
    for line in session.lines() {
        let prompt = [">> ", "> "]
            .into_iter()
            .find(|prompt| line.starts_with(prompt));
        match prompt {
            _ if line == ">" => shown.push_str("> \n"),
            Some(prompt) => {
                typed.push_str(&line[prompt.len()..]);
                typed.push('\n');
                shown.push_str(prompt);
            }
            None => {
                shown.push_str(line);
                shown.push('\n');
            }
        }
    }
    (typed, shown)
}
