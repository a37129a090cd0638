//! The table on a terminal: reads keys, asks the program, draws.
//!
//! | thread | waits for |
//! |---|---|
//! | the first one | events of the others, and the next round of questions |
//! | the keys' | the terminal |
//! | the questions' | the program's answers |
//!
//! So keys work while the program does not answer.

use super::screen;
use super::source::{SILENCE, Source};
use super::state::{Action, News, Question, ScreenState};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event as FromTerminal, KeyEventKind};
use ratatui::crossterm::{cursor, execute};
use std::io;
use std::ops::ControlFlow;
use std::panic;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often the screen says for how long an answer is late.
const WHILE_LATE: Duration = Duration::from_secs(1);

/// What the first thread waits for.
enum Event {
    FromTerminal(FromTerminal),
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
        let _ = ratatui::try_restore();
    }
}

/// Shows the table until a key ends it.
///
/// # Errors
/// A sentence about the terminal.
pub(super) fn run(source: Source, state: ScreenState, delay: Duration) -> Result<(), String> {
    show_cursor_after_panic();
    let _put_back = PutBack;
    let mut terminal = ratatui::try_init().map_err(no_terminal)?;
    let (to_loop, events) = channel();
    let (to_program, questions) = channel();
    let keys_to = to_loop.clone();
    // Nobody waits for the end of these threads: one may wait for a key, the other for the program.
    thread::spawn(move || read_keys(&keys_to));
    thread::spawn(move || answer(source, &questions, &to_loop));
    let mut live = Live {
        state,
        delay,
        due: Instant::now(),
        asked_at: Instant::now(),
        awaited: 0,
        to_program,
    };
    live.run(&mut terminal, &events)
}

fn no_terminal(error: io::Error) -> String {
    format!("cannot use the terminal: {error}")
}

/// Ratatui's hook puts the rest back. A panic of the first thread does not unwind it, as C has
/// called it.
fn show_cursor_after_panic() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        // The message of the panic matters more than an error here.
        let _ = execute!(io::stdout(), cursor::Show);
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
    to_program: Sender<Question>,
}

impl Live {
    fn run(
        &mut self,
        terminal: &mut DefaultTerminal,
        events: &Receiver<Event>,
    ) -> Result<(), String> {
        loop {
            if self.awaited == 0 && Instant::now() >= self.due {
                self.due = Instant::now() + self.delay;
                for question in self.state.questions() {
                    self.ask(question);
                }
            }
            self.state.late = (self.awaited > 0).then(|| self.asked_at.elapsed());
            self.draw(terminal).map_err(no_terminal)?;
            let mut next = match events.recv_timeout(self.patience()) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            while let Some(event) = next {
                if self.take(event)?.is_break() {
                    return Ok(());
                }
                next = events.try_recv().ok();
            }
        }
    }

    fn draw(&mut self, terminal: &mut DefaultTerminal) -> io::Result<()> {
        self.state.set_room(screen::room(terminal.size()?.height));
        terminal.draw(|frame| screen::draw(frame, &self.state))?;
        Ok(())
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

    fn take(&mut self, event: Event) -> Result<ControlFlow<()>, String> {
        match event {
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
                    Action::Quit => return Ok(ControlFlow::Break(())),
                }
            }
            Event::FromTerminal(_) => {} // a new size, for one: the next drawing is of that size
        }
        Ok(ControlFlow::Continue(()))
    }
}
