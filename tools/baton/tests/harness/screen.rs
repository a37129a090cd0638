//! A program on a terminal: what it shows, and keys for it.

use super::LIMIT;
use nix::pty::openpty;
use nix::sys::termios::{Termios, tcgetattr};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use vt100::Parser;

/// The time for a program to answer a key that is pressed again and again.
const BETWEEN_KEYS: Duration = Duration::from_millis(50);

/// The usual size of a terminal.
const LINES: NonZeroU16 = NonZeroU16::new(24).unwrap();
const COLUMNS: NonZeroU16 = NonZeroU16::new(80).unwrap();

/// What the terminal shows, as far as the program has written. And whether more may come.
struct Shown {
    parser: Parser,
    is_open: bool,
}

/// A program on a terminal of its own. It is killed when this is dropped.
pub(crate) struct OnTerminal {
    child: Child,
    master: File,
    before: Termios,
    shown: Arc<(Mutex<Shown>, Condvar)>,
}

impl OnTerminal {
    /// Starts a program on a terminal of 24 lines and 80 columns.
    pub(crate) fn start(mut command: Command) -> OnTerminal {
        let terminal = openpty(None, None).expect("a terminal");
        tcsetwinsize(&terminal.slave, size(LINES, COLUMNS)).expect("a size");
        let before = tcgetattr(&terminal.slave).expect("its settings");
        let end = || Stdio::from(terminal.slave.try_clone().expect("a descriptor"));
        let child = command
            .env("TERM", "xterm")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("it starts");
        drop(command);
        drop(terminal.slave);
        let master = File::from(terminal.master);
        let shown = Shown {
            parser: Parser::new(LINES, COLUMNS, 0),
            is_open: true,
        };
        let shown = Arc::new((Mutex::new(shown), Condvar::new()));
        let (from, to) = (
            master.try_clone().expect("a descriptor"),
            Arc::clone(&shown),
        );
        std::thread::spawn(move || pass_on(from, &to));
        OnTerminal {
            child,
            master,
            before,
            shown,
        }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.0.lock().expect("no thread panics with it")
    }

    /// What the terminal shows now.
    pub(crate) fn text(&self) -> String {
        self.shown().parser.screen().contents()
    }

    /// Waits until the terminal shows what `is_there` looks for.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + LIMIT;
        let mut shown = self.shown();
        loop {
            let text = shown.parser.screen().contents();
            if is_there(&text) {
                return text;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(
                shown.is_open && !left.is_zero(),
                "{what} is not on:\n{text}"
            );
            let waited = self.shown.1.wait_timeout(shown, left);
            shown = waited.expect("no thread panics with it").0;
        }
    }

    /// Waits until the terminal shows a text.
    #[track_caller]
    pub(crate) fn wait_for(&self, part: &str) -> String {
        self.wait_until(&format!("'{part}'"), |text| text.contains(part))
    }

    /// Presses keys again and again, until the terminal shows what `is_there` looks for.
    #[track_caller]
    pub(crate) fn press_until(
        &mut self,
        keys: &str,
        what: &str,
        is_there: impl Fn(&str) -> bool,
    ) -> String {
        let until = Instant::now() + LIMIT;
        loop {
            let text = self.text();
            if is_there(&text) {
                return text;
            }
            assert!(Instant::now() < until, "{what} is not on:\n{text}");
            self.press(keys);
            std::thread::sleep(BETWEEN_KEYS);
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        let written = self.master.write_all(keys.as_bytes());
        written.expect("the terminal takes it");
    }

    /// Gives the terminal another size, and notifies the program.
    pub(crate) fn resize(&mut self, lines: NonZeroU16, columns: NonZeroU16) {
        tcsetwinsize(&self.master, size(lines, columns)).expect("a size");
        self.shown().parser.set_size(lines, columns);
        super::signals::send(self.child.id(), "WINCH");
    }

    /// Waits for the end of the program. The terminal must be as it was before.
    #[track_caller]
    pub(crate) fn finish(mut self) -> ExitStatus {
        let until = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("its status") {
                break status;
            }
            assert!(Instant::now() < until, "it goes on:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(1));
        };
        let mut shown = self.shown();
        while shown.is_open {
            shown = self.shown.1.wait(shown).expect("no thread panics with it");
        }
        drop(shown);
        self.assert_is_as_before();
        status
    }

    /// The terminal must be as it was before.
    #[track_caller]
    pub(crate) fn assert_is_as_before(&self) {
        let after = tcgetattr(&self.master).expect("its settings");
        assert_eq!(after.local_flags, self.before.local_flags);
        assert_eq!(after.input_flags, self.before.input_flags);
        assert_eq!(after.output_flags, self.before.output_flags);
        let shown = self.shown();
        let screen = shown.parser.screen();
        assert!(!screen.alternate_screen(), "{}", screen.contents());
        assert!(!screen.hide_cursor(), "{}", screen.contents());
    }

    pub(crate) fn signal(&self, name: &str) {
        super::signals::send(self.child.id(), name);
    }

    /// Waits until the program has stopped, as by Ctrl-Z.
    #[track_caller]
    pub(crate) fn await_stop(&self) {
        let until = Instant::now() + LIMIT;
        let path = format!("/proc/{}/stat", self.child.id());
        while !std::fs::read_to_string(&path).is_ok_and(|stat| stat.contains(") T ")) {
            assert!(Instant::now() < until, "it goes on:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(1));
        }
        // What it wrote before it stopped may still be on its way.
        while self.shown().parser.screen().alternate_screen() {
            assert!(Instant::now() < until, "it shows:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size(lines: NonZeroU16, columns: NonZeroU16) -> Winsize {
    Winsize {
        ws_row: lines.get(),
        ws_col: columns.get(),
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// Passes what the program writes to the screen, until no program has the terminal.
fn pass_on(mut from: File, to: &(Mutex<Shown>, Condvar)) {
    let mut piece = [0; 4096];
    // Reading a terminal whose last user has closed it gives an error.
    while let Ok(length @ 1..) = from.read(&mut piece) {
        to.0.lock()
            .expect("no thread panics with it")
            .parser
            .process(&piece[..length]);
        to.1.notify_all();
    }
    to.0.lock().expect("no thread panics with it").is_open = false;
    to.1.notify_all();
}
