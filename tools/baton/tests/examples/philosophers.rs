//! The dining philosophers.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use nix::pty::openpty;

use super::example;
use super::harness::baton_path;

#[test]
fn the_philosophers_all_eat() {
    let few = &["-n", "40", "-m", "3", "-t", "0.002"][..];
    for (arguments, way) in [(&[][..], "semaphores"), (&["--monitor"], "a monitor")] {
        let outcome = example("philosophers.lua", &[few, arguments].concat()).run();
        outcome.succeeds().quietly();
        let said = format!("40 philosophers with {way} have eaten 120 meals in ");
        assert!(outcome.stdout.starts_with(&said), "{outcome}");
    }
}

#[test]
fn symmetric_philosophers_deadlock_and_all_are_reported() {
    for (arguments, what) in [
        (&["--symmetric"][..], "a semaphore"),
        (&["--symmetric", "--monitor"], "a condition"),
    ] {
        let outcome = example("philosophers.lua", arguments).run();
        outcome.ends_with(1).complained("deadlock");
        for number in 1..=40 {
            let line = format!(
                "process {} 'philosopher {number}': waiting, for {what}, since ",
                number + 1
            );
            assert!(outcome.stderr.contains(&line), "{outcome}");
        }
    }
}

#[test]
fn the_philosophers_are_drawn_on_a_terminal() {
    let terminal = openpty(None, None).expect("a terminal");
    let mut child = Command::new(baton_path())
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../examples/philosophers.lua"
        ))
        .args(["-n", "3", "-m", "5"])
        .stdin(Stdio::null())
        .stdout(Stdio::from(terminal.slave))
        .spawn()
        .expect("baton starts");
    let (mut shown, mut piece) = (Vec::new(), [0; 1024]);
    let mut master = File::from(terminal.master);
    // Reading a terminal whose last user has closed it gives an error.
    while let Ok(length @ 1..) = master.read(&mut piece) {
        shown.extend_from_slice(&piece[..length]);
    }
    let shown = String::from_utf8(shown)
        .expect("text")
        .replace("\r\n", "\n");
    assert!(child.wait().expect("a status").success(), "{shown}");
    // The first drawing, and the last one at the same place.
    assert!(shown.starts_with("\x1b[K. . .\n\x1b[K0 meals\n"), "{shown}");
    assert!(
        shown.contains("\x1b[2A\x1b[K. . .\n\x1b[K15 meals\n3 philosophers with"),
        "{shown}"
    );
}
