//! Requests: expressions, and how they end early; completions.

use super::messages::Asked;
use super::references::{Frame, Place, Reference};
use super::session::{Session, ignore};
use super::text;
use serde_json::{Value, json};
use std::io;
use std::time::{Duration, Instant};

/// An expression that runs.
pub(super) struct Evaluation {
    /// The number of the question.
    question: u64,
    /// It ends then.
    until: Option<Instant>,
    /// Why it was ended.
    why: Option<String>,
}

fn text_of<'a>(with: &'a Value, name: &str) -> &'a str {
    with.get(name).and_then(Value::as_str).unwrap_or_default()
}

impl<'out> Session<'out> {
    /// Asks the program what may run code of it: `cancel` and a limit end that.
    pub(super) fn ask_to_run(
        &mut self,
        seq: i64,
        (ask, question): (&str, Value),
        limit: Option<Duration>,
        then: impl FnOnce(&mut Session<'out>, Result<Value, String>) -> io::Result<()> + 'out,
    ) -> io::Result<()> {
        let asked = self.ask(ask, question, move |session, answer| {
            let why = session.evaluations.remove(&seq).and_then(|it| it.why);
            then(session, answer.map_err(|error| why.unwrap_or(error)))
        })?;
        if let Some(question) = asked {
            let evaluation = Evaluation {
                question,
                until: limit.map(|limit| Instant::now() + limit),
                why: None,
            };
            self.evaluations.insert(seq, evaluation);
        }
        Ok(())
    }

    fn end_evaluation(&mut self, seq: i64, why: String) -> io::Result<()> {
        let Some(evaluation) = self.evaluations.get_mut(&seq) else {
            return Ok(()); // it has ended
        };
        evaluation.until = None;
        evaluation.why = Some(why);
        let question = json!({ "question": evaluation.question });
        self.ask("end", question, ignore)?;
        Ok(())
    }

    /// How long it is until the next expression reaches its limit.
    pub(super) fn next_limit(&self) -> Option<Duration> {
        let limits = self.evaluations.values().filter_map(|it| it.until);
        let next = limits.min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Ends the expressions that have reached their limit.
    pub(super) fn end_overdue(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let all = self.evaluations.iter();
        let overdue: Vec<i64> = all
            .filter(|(_, it)| it.until.is_some_and(|until| until <= now))
            .map(|(&seq, _)| seq)
            .collect();
        for seq in overdue {
            let why = format!(
                "it has not ended within {} s, the limit for watches and hovers (watchLimit)",
                self.wanted.watch_limit().as_secs_f64()
            );
            self.end_evaluation(seq, why)?;
        }
        Ok(())
    }

    /// `cancel`. Only expressions can be ended early.
    pub(super) fn cancel(&mut self, asked: &Asked, with: &Value) -> io::Result<()> {
        if let Some(seq) = with.get("requestId").and_then(Value::as_i64) {
            self.end_evaluation(seq, "cancelled".to_owned())?;
        }
        self.out.respond(asked, Ok(Value::Null))
    }

    /// The frame that a request names; without one, none, in any process that has stopped.
    fn frame_of(&self, with: &Value) -> Result<Frame, String> {
        if let Some(id) = with.get("frameId").and_then(Value::as_i64) {
            return self.references.frame(id);
        }
        let process = self.stopped.keys().next().copied();
        process
            .map(|process| Frame {
                process,
                index: -1,
                mark: 0,
            })
            .ok_or_else(|| "no process has stopped: stop one to evaluate in it".to_owned())
    }

    /// `evaluate`.
    pub(super) fn evaluate(&mut self, asked: Asked, with: &Value) -> io::Result<()> {
        let frame = match self.frame_of(with) {
            Ok(frame) => frame,
            Err(why) => return self.out.respond(&asked, Err(why)),
        };
        let expression = text_of(with, "expression").to_owned();
        let question = frame.question(json!({ "text": expression }));
        let is_shown = matches!(text_of(with, "context"), "watch" | "hover" | "variables");
        let limit = is_shown.then(|| self.wanted.watch_limit());
        let ask = ("evaluate", question);
        self.ask_to_run(asked.seq, ask, limit, move |session, answer| {
            let body = answer.map(|results| session.results(frame, &results, expression));
            session.out.respond(&asked, body)
        })
    }

    fn results(&mut self, frame: Frame, results: &Value, expression: String) -> Value {
        let results = results.as_array().cloned().unwrap_or_default();
        match results.as_slice() {
            [] => json!({ "result": "", "variablesReference": 0 }),
            [one] => {
                let mut shown = self.value(frame, one, Some(format!("({expression})")));
                shown["result"] = shown["value"].take();
                if let Some(fields) = shown.as_object_mut() {
                    fields.remove("value");
                }
                shown
            }
            several => {
                let texts: Vec<String> = several.iter().map(text::value).collect();
                json!({ "result": texts.join(", "), "variablesReference": 0 })
            }
        }
    }

    /// `setExpression`.
    pub(super) fn set_expression(&mut self, asked: Asked, with: &Value) -> io::Result<()> {
        let frame = match self.frame_of(with) {
            Ok(frame) => frame,
            Err(why) => return self.out.respond(&asked, Err(why)),
        };
        let expression = text_of(with, "expression").to_owned();
        // On lines of their own: each may end with a comment.
        let statement = format!("{expression}\n=\n{}", text_of(with, "value"));
        self.assign(asked, frame, &statement, expression)
    }

    /// Runs an assignment, and answers with the value of an expression then.
    pub(super) fn assign(
        &mut self,
        asked: Asked,
        frame: Frame,
        statement: &str,
        then_show: String,
    ) -> io::Result<()> {
        let question = frame.question(json!({ "text": statement }));
        let ask = ("evaluate", question);
        self.ask_to_run(asked.seq, ask, None, move |session, answer| {
            if let Err(why) = answer {
                return session.out.respond(&asked, Err(why));
            }
            let ask = (
                "evaluate",
                frame.question(json!({ "text": then_show.clone() })),
            );
            session.ask_to_run(asked.seq, ask, None, move |session, answer| {
                let body = answer.map(|set| session.value(frame, &set[0], Some(then_show)));
                session.out.respond(&asked, body)
            })
        })
    }

    /// `setVariable`.
    pub(super) fn set_variable(&mut self, asked: Asked, with: &Value) -> io::Result<()> {
        let id = with.get("variablesReference").and_then(Value::as_i64);
        let Reference { frame, place, .. } = match self.references.get(id.unwrap_or(0)) {
            Ok(reference) => reference,
            Err(why) => return self.out.respond(&asked, Err(why)),
        };
        let name = text_of(with, "name");
        let value = text_of(with, "value");
        let (scope, slot, name) = match place {
            Place::Scope("globals") => {
                // As an assignment in the frame: the globals have no slot yet.
                let shown = format!("_ENV[{}]", text::key_of(name));
                let statement = format!("{shown}\n=\n{value}");
                return self.assign(asked, frame, &statement, shown);
            }
            Place::Scope("varargs") => ("varargs", 0, text::key_of(name)),
            Place::Scope(scope) => (scope, 0, name.to_owned()),
            Place::Value(slot) => ("value", slot, text::key_of(name)),
        };
        let details = json!({ "scope": scope, "slot": slot, "name": name, "text": value });
        let ask = ("set", frame.question(details));
        self.ask_to_run(asked.seq, ask, None, move |session, answer| {
            let body = answer.map(|set| session.value(frame, &set[0], None));
            session.out.respond(&asked, body)
        })
    }

    /// `completions`.
    pub(super) fn completions(&mut self, asked: Asked, with: &Value) -> io::Result<()> {
        let line = with.get("line").and_then(Value::as_i64).unwrap_or(1);
        let column = with.get("column").and_then(Value::as_i64).unwrap_or(0);
        let first = i64::from(self.columns_from_1);
        let all = text_of(with, "text");
        let line = usize::try_from(line.saturating_sub(first)).unwrap_or(0);
        let line = all.split('\n').nth(line).unwrap_or_default();
        let column = usize::try_from(column.saturating_sub(first)).unwrap_or(0);
        let frame = self.frame_of(with);
        let (Some(wanted), Ok(frame)) = (text::name_before(line, column), frame) else {
            // Where nothing can be completed, or no process has stopped.
            return self.out.respond(&asked, Ok(json!({ "targets": [] })));
        };
        let (start, length) = (wanted.start, wanted.beginning.encode_utf16().count());
        let beginning = wanted.beginning.to_owned();
        let is_field = !wanted.path.is_empty();
        let details = json!({ "text": wanted.path, "name": beginning });
        let limit = Some(self.wanted.watch_limit());
        let ask = ("complete", frame.question(details));
        self.ask_to_run(asked.seq, ask, limit, move |session, answer| {
            let body = answer.map(|found| {
                let mut targets = text::targets(&found, is_field, &beginning);
                for target in &mut targets {
                    target["start"] = (start as i64 + first).into();
                    target["length"] = length.into();
                }
                json!({ "targets": targets })
            });
            session.out.respond(&asked, body)
        })
    }
}
