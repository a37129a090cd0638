//! The connection to the program, and its answers to questions.

use super::answer::number_of;
use super::state::{KEPT, News, Question};
use crate::inside::attach_to;
use crate::inside::started::Target;
use baton_observe::client::{AttachError, Connection};
use baton_observe::protocol::Access;
use baton_observe::report::Process;
use serde_json::{Value, json};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// A program closes a connection on which nothing is asked for a minute.
pub(super) const SILENCE: Duration = Duration::from_secs(20);

/// How long the end of a program may take after that of its connections.
const MOMENT: Duration = Duration::from_millis(200);

/// Why there is no answer.
pub(super) enum Trouble {
    /// At the moment, for this reason.
    Held(String),
    /// For good, for this reason.
    Over(String),
}

/// The program, as long as it can be asked.
pub(super) struct Source {
    pid: u32,
    write: bool,
    /// `None` while the program's only thread is in a foreign call.
    connection: Option<Connection>,
}

impl Source {
    /// Attaches to the program.
    ///
    /// # Errors
    /// A sentence: why that is impossible.
    pub(super) fn attach(target: &mut Target, write: bool) -> Result<Source, String> {
        let connection = match target.attach(write) {
            Ok(connection) => Some(connection),
            Err(AttachError::Held(_)) => None,
            Err(AttachError::Refused(why) | AttachError::NotReady(why)) => return Err(why),
        };
        Ok(Source {
            pid: target.pid,
            write,
            connection,
        })
    }

    /// Whether the program lets this command change something.
    fn may_change(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|connection| connection.access == Access::All)
    }

    fn connect(&mut self) -> Result<&mut Connection, Trouble> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => attach_to(self.pid, self.write).map_err(|error| match error {
                AttachError::Held(what) => Trouble::Held(what),
                AttachError::Refused(why) | AttachError::NotReady(why) => {
                    Trouble::Over(self.why_over(why))
                }
            })?,
        };
        Ok(self.connection.insert(connection))
    }

    /// Asks. A connection that was lost is made again once.
    fn ask(
        &mut self,
        ask: &str,
        with: &Value,
        part: &mut dyn FnMut(Value) -> Result<(), String>,
    ) -> Result<Value, Trouble> {
        let had_connection = self.connection.is_some();
        match self.connect()?.ask(ask, with.clone(), part) {
            Ok(value) => Ok(value),
            Err(_) if had_connection && !self.ends() => {
                self.connection = None;
                let answer = self.connect()?.ask(ask, with.clone(), part);
                answer.map_err(|why| Trouble::Over(self.why_over(why)))
            }
            Err(why) => Err(Trouble::Over(self.why_over(why))),
        }
    }

    /// The answer to the question `top`.
    pub(super) fn table(&mut self, with: &Value) -> Result<Value, Trouble> {
        self.ask("top", with, &mut |_| Ok(()))
    }

    /// Keeps the connection while nothing is asked.
    pub(super) fn keep(&mut self) {
        if let Some(connection) = &mut self.connection {
            // The next question tells if it is lost.
            let _ = connection.ask("parameters", Value::Null, &mut |_| Ok(()));
        }
    }

    /// Waits, and keeps the connection.
    pub(super) fn rest(&mut self, mut delay: Duration) {
        while delay > SILENCE {
            thread::sleep(SILENCE);
            delay -= SILENCE;
            self.keep();
        }
        thread::sleep(delay);
    }

    /// Answers a question of the screen.
    pub(super) fn answer(&mut self, question: &Question) -> News {
        let news = match question {
            Question::Table { again, .. } => self.news_of_table(question, *again),
            Question::Stack(id) => self.news_of_stack(*id),
            Question::Kill(id) => return self.news_of_kill(*id),
        };
        news.unwrap_or_else(|trouble| match trouble {
            Trouble::Held(what) => News::Held(what),
            Trouble::Over(why) => News::Over(why),
        })
    }

    fn news_of_table(&mut self, question: &Question, again: bool) -> Result<News, Trouble> {
        let answer = self.table(&details(question))?;
        let answer = serde_json::from_value(answer)
            .map_err(|error| Trouble::Over(format!("a wrong answer: {error}")))?;
        Ok(News::Table {
            answer: Box::new(answer),
            again,
            may_kill: self.may_change(),
        })
    }

    fn news_of_stack(&mut self, id: u64) -> Result<News, Trouble> {
        let mut found = None;
        let mut part = |part: Value| {
            let some: Vec<Process> =
                serde_json::from_value(part).map_err(|error| format!("a wrong answer: {error}"))?;
            found = found.take().or_else(|| some.into_iter().next());
            Ok(())
        };
        let end = self.ask("stacks", &json!({ "ids": [id] }), &mut part)?;
        if end.get("kept_inside") == Some(&Value::Bool(true)) {
            let why = end.get("why").and_then(Value::as_str);
            return Err(Trouble::Held(why.unwrap_or(KEPT).to_owned()));
        }
        Ok(News::Stack(id, found.map(Box::new)))
    }

    fn news_of_kill(&mut self, id: u64) -> News {
        let connection = match self.connect() {
            Ok(connection) => connection,
            Err(Trouble::Held(why) | Trouble::Over(why)) => {
                return News::Killed(format!("not killed: {why}"));
            }
        };
        let number = number_of(id);
        // Not asked again: the process may have been killed.
        let note = match connection.ask("kill", json!({ "id": id }), &mut |_| Ok(())) {
            Err(why) => format!("not killed: {why}"),
            Ok(answer) => match answer.get("outcome").and_then(Value::as_str) {
                Some("held") => {
                    format!("process {number} holds the kill back; a second one ends that")
                }
                _ => format!("process {number} is killed, and ends when it runs"),
            },
        };
        News::Killed(note)
    }

    fn why_over(&self, why: String) -> String {
        match self.has_ended() {
            true => format!("process {} has ended", self.pid),
            false => why,
        }
    }

    /// Whether the program ends within a moment. Its connections end first.
    fn ends(&self) -> bool {
        let until = Instant::now() + MOMENT;
        while !self.has_ended() {
            if Instant::now() >= until {
                return false;
            }
            thread::sleep(MOMENT / 20);
        }
        true
    }

    /// Whether the program is gone, or only waits for its parent to notice its end.
    fn has_ended(&self) -> bool {
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", self.pid)) else {
            return true;
        };
        let state = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.trim_start().chars().next());
        matches!(state, Some('Z' | 'X'))
    }
}

/// The details of the question `top`.
fn details(question: &Question) -> Value {
    match question {
        Question::Table {
            rows,
            sort,
            filter,
            group,
            again,
        } => json!({
            "rows": rows,
            "sort": sort.name(),
            "filter": filter,
            "group": group,
            "again": again,
        }),
        Question::Stack(_) | Question::Kill(_) => Value::Null,
    }
}
