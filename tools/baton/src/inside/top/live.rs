//! The table on a terminal: reads keys, asks the program, draws.
//!
//! | thread | waits for |
//! |---|---|
//! | the first one | events of the others, and the next round of questions |
//! | the keys' | the terminal |
//! | the questions' | the program's answers |
//! | the signals' | signals that end or suspend this command |
//!
//! So keys work while the program does not answer. And no signal handler writes to the terminal:
//! the first thread puts it back, and then does what the signal does by default.

use super::screen;
use super::source::{SILENCE, Source};
use super::state::{Action, News, Question, ScreenState};
use super::terminal::{Terminal, put_back};
use crossterm::event::{self, Event as FromTerminal, KeyEventKind};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{getpgrp, getpid, getsid, tcgetpgrp};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::io;
use std::ops::ControlFlow;
use std::panic;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often the screen says for how long an answer is late.
const WHILE_LATE: Duration = Duration::from_secs(1);

/// The signals that end this command by default, and those of job control.
const SIGNALS: [i32; 6] = [SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGCONT];

/// Why the table is not shown any more.
#[must_use]
pub(super) enum Ended {
    ByKey,
    /// The caller does what the signal does by default.
    BySignal(i32),
}

/// What the first thread waits for.
enum Event {
    FromTerminal(FromTerminal),
    Signal(i32),
    News(News),
    /// The terminal cannot be read, for this reason.
    NoKeys(io::Error),
    /// A thread has ended, after a panic.
    Gone,
}

/// Tells the first thread of the end of another one.
struct Farewell<'a>(&'a Sender<Event>);

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        // It may have ended first.
        let _ = self.0.send(Event::Gone);
    }
}

/// Puts the terminal back when it is dropped. After a panic, a hook has done that already.
struct PutBack;

impl Drop for PutBack {
    fn drop(&mut self) {
        // A terminal that is gone cannot be put back.
        let _ = put_back();
    }
}

/// Shows the table until a key or a signal ends it.
///
/// # Errors
/// A sentence about the terminal.
pub(super) fn run(source: Source, state: ScreenState, delay: Duration) -> Result<Ended, String> {
    put_back_after_panic();
    let signals =
        Signals::new(SIGNALS).map_err(|error| format!("cannot await signals: {error}"))?;
    let _put_back = PutBack;
    let mut terminal = Terminal::take().map_err(no_terminal)?;
    let (to_loop, events) = channel();
    let (to_program, questions) = channel();
    let (keys_to, signals_to) = (to_loop.clone(), to_loop.clone());
    // Nobody waits for the end of these threads: they may wait for a key, a signal or the program.
    thread::spawn(move || read_keys(&keys_to));
    thread::spawn(move || pass_on(signals, &signals_to));
    thread::spawn(move || answer(source, &questions, &to_loop));
    let mut live = Live {
        state,
        delay,
        due: Instant::now(),
        asked_at: Instant::now(),
        awaited: 0,
        is_suspended: false,
        to_program,
    };
    live.run(&mut terminal, &events)
}

fn no_terminal(error: io::Error) -> String {
    format!("cannot use the terminal: {error}")
}

/// A panic of the first thread does not unwind it, as C has called it.
fn put_back_after_panic() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        // The message of the panic matters more than an error here.
        let _ = put_back();
        hook(info);
    }));
}

fn read_keys(to: &Sender<Event>) {
    let _farewell = Farewell(to);
    loop {
        let (event, goes_on) = match event::read() {
            Ok(event) => (Event::FromTerminal(event), true),
            Err(error) => (Event::NoKeys(error), false),
        };
        if to.send(event).is_err() || !goes_on {
            return;
        }
    }
}

fn pass_on(mut signals: Signals, to: &Sender<Event>) {
    for signal in signals.forever() {
        if to.send(Event::Signal(signal)).is_err() {
            return;
        }
    }
}

/// Has the program answer, until there are no more questions.
fn answer(mut source: Source, questions: &Receiver<Question>, to: &Sender<Event>) {
    let _farewell = Farewell(to);
    loop {
        match questions.recv_timeout(SILENCE) {
            Ok(question) => {
                if to.send(Event::News(source.answer(&question))).is_err() {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => source.keep(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

struct Live {
    state: ScreenState,
    delay: Duration,
    /// When the next round of questions is due.
    due: Instant,
    /// When the last question was asked, and how many are not answered yet.
    asked_at: Instant,
    awaited: usize,
    /// The terminal is the shell's, until SIGCONT.
    is_suspended: bool,
    to_program: Sender<Question>,
}

impl Live {
    fn run(&mut self, terminal: &mut Terminal, events: &Receiver<Event>) -> Result<Ended, String> {
        loop {
            if self.awaited == 0 && Instant::now() >= self.due {
                self.due = Instant::now() + self.delay;
                for question in self.state.questions() {
                    self.ask(question);
                }
            }
            self.state.late = (self.awaited > 0).then(|| self.asked_at.elapsed());
            if !self.is_suspended {
                self.draw(terminal).map_err(no_terminal)?;
            }
            let mut next = match events.recv_timeout(self.patience()) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(Ended::ByKey),
            };
            while let Some(event) = next {
                if let ControlFlow::Break(ended) = self.take(event, terminal)? {
                    return Ok(ended);
                }
                next = events.try_recv().ok();
            }
        }
    }

    fn draw(&mut self, terminal: &mut Terminal) -> io::Result<()> {
        let mut canvas = terminal.canvas()?;
        let room = screen::room(canvas.height, &self.state);
        self.state.set_room(room, canvas.width);
        screen::draw(&mut canvas, &self.state);
        terminal.show(canvas)
    }

    fn patience(&self) -> Duration {
        match self.awaited {
            0 => self.due.saturating_duration_since(Instant::now()),
            _ => WHILE_LATE,
        }
    }

    fn ask(&mut self, question: Question) {
        // Without the thread of the questions there is an error already.
        if self.to_program.send(question).is_ok() {
            self.asked_at = Instant::now();
            self.awaited += 1;
        }
    }

    fn take(
        &mut self,
        event: Event,
        terminal: &mut Terminal,
    ) -> Result<ControlFlow<Ended>, String> {
        match event {
            Event::Signal(SIGTSTP) => self.suspend(),
            Event::Signal(SIGCONT) => self.come_back(terminal).map_err(no_terminal)?,
            Event::Signal(signal) => return Ok(ControlFlow::Break(Ended::BySignal(signal))),
            Event::NoKeys(error) => return Err(no_terminal(error)),
            Event::Gone => return Err("a thread of this command has failed".to_owned()),
            Event::News(news) => {
                self.awaited -= 1;
                self.state.take(news);
            }
            Event::FromTerminal(FromTerminal::Key(key)) if key.kind != KeyEventKind::Release => {
                match self.state.press(key) {
                    Action::Nothing => {}
                    Action::Ask(question) => self.ask(question),
                    Action::Suspend => self.ask_to_suspend(),
                    Action::Quit => return Ok(ControlFlow::Break(Ended::ByKey)),
                }
            }
            Event::FromTerminal(_) => {} // a new size, for one: the next drawing is of that size
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Does what a terminal does for Ctrl-Z. Here the key came as a character.
    fn ask_to_suspend(&mut self) {
        // The first process of a session has no shell that could continue it.
        if getsid(None) == Ok(getpid()) {
            self.state.note = "this command was not started by a shell: q ends it".to_owned();
            return;
        }
        let group = getpgrp();
        // The signal comes back as an event.
        let sent = match tcgetpgrp(io::stdin()) {
            Ok(foreground) if foreground == group => killpg(group, Signal::SIGTSTP),
            _ => kill(getpid(), Signal::SIGTSTP),
        };
        if let Err(error) = sent {
            self.state.note = format!("cannot suspend: {error}");
        }
    }

    /// Gives the terminal to the shell, and stops until SIGCONT.
    fn suspend(&mut self) {
        self.is_suspended = true;
        drop(PutBack);
        let _ = emulate_default_handler(SIGTSTP);
    }

    /// Takes the terminal again: after [`Self::suspend`], or after a SIGSTOP, which is not noticed.
    fn come_back(&mut self, terminal: &mut Terminal) -> io::Result<()> {
        drop(PutBack);
        // It does not know what is on the screen, and draws all.
        *terminal = Terminal::take()?;
        self.is_suspended = false;
        Ok(())
    }
}
