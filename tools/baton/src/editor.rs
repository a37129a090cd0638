//! The line editor of the interactive mode: rustyline, with a history of its own file and
//! completion by the guest.

use std::env;
use std::io;
use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Helper};

use crate::console;
use crate::history::{self, History};

/// Finds what can stand at the end of a line: where the name that is to be completed begins, and
/// the names.
pub(crate) type Names = Box<dyn Fn(&str) -> Vec<(usize, String)>>;

/// How reading a line ended.
pub(crate) enum Line<'a> {
    /// What was typed, without the line's end.
    Text(&'a str),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D on an empty line.
    Ended,
    /// The terminal failed; this is the message.
    Failed(&'a str),
}

/// The editor of the one terminal.
pub(crate) struct Editor {
    rustyline: rustyline::Editor<Completion, MemHistory>,
    history: History,
    /// The last line, or message.
    text: String,
}

impl Editor {
    /// Opens the editor on the standard streams, and its history.
    ///
    /// # Errors
    /// What the terminal, or starting the thread for others' output, fails with.
    pub(crate) fn open(ignore_environment: bool, names: Names) -> Result<Self, ReadlineError> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .completion_prompt_limit(200)
            .bracketed_paste(true)
            .build();
        let mut rustyline = rustyline::Editor::with_history(config, MemHistory::new())?;
        rustyline.set_max_history_size(history::MOST_ENTRIES)?;
        rustyline.set_helper(Some(Completion { names }));
        console::open(rustyline.create_external_printer()?)?;
        let history = History::locate(ignore_environment, |name| {
            env::var_os(name).map(PathBuf::from)
        });
        let mut editor = Self {
            rustyline,
            history,
            text: String::new(),
        };
        match editor.history.load() {
            Ok(entries) => entries
                .iter()
                .try_for_each(|entry| editor.rustyline.add_history_entry(entry).map(drop))?,
            Err(error) => editor.give_up_history("read", &error),
        }
        Ok(editor)
    }

    /// Reads a line after this prompt.
    pub(crate) fn read(&mut self, prompt: &str) -> Line<'_> {
        console::begin_editing();
        let read = self.read_through_resizing(prompt);
        console::end_editing();
        match read {
            Ok(line) => self.text = line,
            Err(ReadlineError::Eof) => return Line::Ended,
            Err(ReadlineError::Interrupted | ReadlineError::Signal(_)) => return Line::Interrupted,
            Err(error) => {
                self.text = format!("cannot read a line: {error}");
                return Line::Failed(&self.text);
            }
        }
        Line::Text(&self.text)
    }

    /// Text that is not UTF-8 is refused by rustyline: it is dropped like an interrupted line.
    fn read_through_resizing(&mut self, prompt: &str) -> rustyline::Result<String> {
        match self.rustyline.readline(prompt) {
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                Err(ReadlineError::Interrupted)
            }
            read => read,
        }
    }

    /// Puts an input into the history, unless it is blank or the last one again.
    pub(crate) fn remember(&mut self, input: &str) {
        if input.trim().is_empty() || !self.rustyline.add_history_entry(input).unwrap_or(false) {
            return;
        }
        if let Err(error) = self.history.append(input) {
            self.give_up_history("write", &error);
        }
    }

    /// Says once why there is no history in a file, and goes on without.
    fn give_up_history(&mut self, what: &str, error: &io::Error) {
        eprintln!(
            "baton: warning: cannot {what} the history {}: {error}; set BATON_HISTORY to another \
             file, or to nothing",
            self.history.name()
        );
        self.history = History::none();
    }
}

/// What rustyline asks while a line is edited.
struct Completion {
    names: Names,
}

impl Completer for Completion {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let before = &line[..position];
        if before
            .rsplit('\n')
            .next()
            .is_none_or(|last| last.trim().is_empty())
        {
            return Ok((position, vec!["  ".into()])); // a step of indentation
        }
        let found = (self.names)(before);
        let start = found.first().map_or(position, |(start, _)| *start);
        let mut names: Vec<String> = found.into_iter().map(|(_, name)| name).collect();
        names.sort_unstable();
        names.dedup();
        Ok((start, names))
    }
}

impl Helper for Completion {}
impl Highlighter for Completion {}
impl Hinter for Completion {
    type Hint = String;
}
impl Validator for Completion {}
