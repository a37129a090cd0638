//! The line editor of the interactive mode: rustyline, with a history file and with completion by
//! the guest.

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

/// Returns the completions of a line: where the name to complete begins, and the names.
pub(crate) type Names = Box<dyn Fn(&str) -> Vec<(usize, String)>>;

/// How reading a line ended.
pub(crate) enum Line<'a> {
    /// The line, without its end.
    Text(&'a str),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D on an empty line.
    Ended,
    /// The terminal failed; this is the message.
    Failed(&'a str),
}

/// The editor of the program's terminal.
pub(crate) struct Editor {
    rustyline: rustyline::Editor<Completion, MemHistory>,
    history: History,
    /// The last line or message; C code reads it.
    text: String,
}

impl Editor {
    /// Opens the editor on the standard streams, and its history.
    ///
    /// # Errors
    /// The error of opening the terminal, or of starting the thread for other processes' output.
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

    /// Reads a line with this prompt.
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

    /// rustyline refuses text that is not UTF-8. Such a line is dropped like an interrupted one.
    fn read_through_resizing(&mut self, prompt: &str) -> rustyline::Result<String> {
        match self.rustyline.readline(prompt) {
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                Err(ReadlineError::Interrupted)
            }
            read => read,
        }
    }

    /// Adds an input to the history, unless it is blank or equals the last one.
    pub(crate) fn remember(&mut self, input: &str) {
        if input.trim().is_empty() || !self.rustyline.add_history_entry(input).unwrap_or(false) {
            return;
        }
        if let Err(error) = self.history.append(input) {
            self.give_up_history("write", &error);
        }
    }

    /// Warns once that the history cannot be kept in a file, and continues without one.
    fn give_up_history(&mut self, what: &str, error: &io::Error) {
        eprintln!(
            "baton: warning: cannot {what} the history {}: {error}; set BATON_HISTORY to another \
             file, or to nothing",
            self.history.name()
        );
        self.history = History::none();
    }
}

/// The callbacks of rustyline.
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
            return Ok((position, vec!["  ".into()])); // one step of indentation
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
