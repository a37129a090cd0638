//! Output of processes while a line is edited. Written directly to the terminal, it would run into
//! the edited line. So while the editor uses the terminal, output is buffered. A separate thread
//! passes each complete line to the editor, which shows it above the prompt.

use std::io::{self, IsTerminal, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustyline::ExternalPrinter;

/// Limit of buffered output, in bytes. A process that writes more waits.
const MOST_WAITING: usize = 1 << 18;

/// The longest wait of a writer. It is limited because the editor may be waiting for the VM that
/// the writer holds.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A line longer than this, in bytes, is passed on in pieces.
const LONGEST_LINE: usize = 1 << 14;

struct State {
    editing: bool,
    /// Written, but not yet passed on.
    waiting: Vec<u8>,
    /// The last byte that went to the terminal ended a line.
    at_line_start: bool,
    stderr_is_terminal: bool,
}

/// Guarded by its own mutex. Every thread that prints writes it, and so do the editor's thread and
/// the thread that passes lines on.
static STATE: Mutex<State> = Mutex::new(State {
    editing: false,
    waiting: Vec::new(),
    at_line_start: true,
    stderr_is_terminal: false,
});

/// Notified when `waiting` or `editing` changes.
static CHANGED: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread that passes lines on to the editor.
///
/// # Errors
/// The error of starting the thread.
pub(crate) fn open(printer: impl ExternalPrinter + Send + 'static) -> io::Result<()> {
    state().stderr_is_terminal = io::stderr().is_terminal();
    thread::Builder::new()
        .name("baton-console".into())
        .spawn(|| pass_on(printer))
        .map(drop)
}

/// Receives output. Returns whether it was buffered for the editor; if not, the caller writes it.
pub(crate) fn write(is_error: bool, text: &[u8]) -> bool {
    let mut now = state();
    if is_error && !now.stderr_is_terminal {
        return false;
    }
    let Some(last) = text.last() else {
        return now.editing;
    };
    let latest = Instant::now() + LONGEST_WAIT;
    while now.editing && now.waiting.len() >= MOST_WAITING && Instant::now() < latest {
        let left = latest.saturating_duration_since(Instant::now());
        now = CHANGED
            .wait_timeout(now, left)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
    }
    if now.editing {
        now.waiting.extend_from_slice(text);
        CHANGED.notify_all();
    } else {
        now.at_line_start = *last == b'\n';
    }
    now.editing
}

/// The editor starts to use the terminal. If the output ends in an incomplete line, this ends the
/// line, since the editor would overwrite it.
pub(crate) fn begin_editing() {
    let mut now = state();
    if !now.at_line_start {
        show(b"\n");
        now.at_line_start = true;
    }
    now.editing = true;
}

/// The editor has released the terminal. Writes the output that was not shown yet.
pub(crate) fn end_editing() {
    let mut now = state();
    now.editing = false;
    let rest = std::mem::take(&mut now.waiting);
    if let Some(last) = rest.last() {
        now.at_line_start = *last == b'\n';
        show(&rest);
    }
    CHANGED.notify_all();
}

/// Errors are ignored: if the terminal is gone, the editor notices that itself.
fn show(text: &[u8]) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text).and_then(|()| stdout.flush());
}

fn pass_on(mut printer: impl ExternalPrinter) {
    loop {
        let mut now = state();
        let length = loop {
            match whole_lines(&now.waiting) {
                Some(length) if now.editing => break length,
                _ => now = CHANGED.wait(now).unwrap_or_else(PoisonError::into_inner),
            }
        };
        let rest = now.waiting.split_off(length);
        let lines = std::mem::replace(&mut now.waiting, rest);
        CHANGED.notify_all();
        drop(now);
        if printer
            .print(String::from_utf8_lossy(&lines).into_owned())
            .is_err()
        {
            return; // the editor is gone, and with it the prompt
        }
    }
}

/// Returns how many bytes of the text can be shown now.
fn whole_lines(text: &[u8]) -> Option<usize> {
    match text.iter().rposition(|&byte| byte == b'\n') {
        Some(end) => Some(end + 1),
        None => (text.len() > LONGEST_LINE).then_some(text.len()),
    }
}
