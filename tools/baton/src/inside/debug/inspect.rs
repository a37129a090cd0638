//! Requests: stacks and variables.

use super::messages::Asked;
use super::references::{Frame, Place, Reference};
use super::session::{Session, thread_of};
use super::text;
use serde_json::{Value, json};
use std::io;
use std::ops::Range;
use std::path::Path;

/// So many frames are asked for at once. The client may want all.
const PAGE: i64 = 5000;

/// From so many elements on, the client is told their number, and asks for parts.
const MANY_ELEMENTS: i64 = 100;

/// The maximal number of variables that are shown at once.
const MOST_SHOWN: i64 = 2000;

fn number(with: &Value, name: &str) -> i64 {
    with.get(name).and_then(Value::as_i64).unwrap_or(0)
}

impl Frame {
    /// The details of a question about the frame, with these added.
    pub(super) fn question(self, mut details: Value) -> Value {
        details["process"] = self.process.into();
        details["frame"] = self.index.into();
        details["mark"] = self.mark.into();
        details
    }
}

impl Session<'_> {
    /// `stackTrace`. Without a number of levels, the client wants all frames.
    pub(super) fn stack_trace(&mut self, asked: Asked, with: &Value) -> io::Result<()> {
        let process = thread_of(with);
        let first = number(with, "startFrame").max(0);
        let last = match number(with, "levels") {
            levels if levels > 0 => first.saturating_add(levels),
            _ => i64::MAX,
        };
        self.add_frames(asked, process, first..last, Vec::new())
    }

    /// Adds the frames of a range to those that there are, and answers with all of them.
    fn add_frames(
        &mut self,
        asked: Asked,
        process: u64,
        wanted: Range<i64>,
        mut shown: Vec<Value>,
    ) -> io::Result<()> {
        let first = wanted.start.min(i64::from(i32::MAX) - PAGE);
        let count = (wanted.end - wanted.start).min(PAGE);
        let question = json!({ "process": process, "first": first, "count": count });
        self.ask("frames", question, move |session, answer| {
            let answer = match answer {
                Ok(answer) => answer,
                Err(why) => return session.out.respond(&asked, Err(why)),
            };
            let frames = answer["frames"].as_array().cloned().unwrap_or_default();
            let new = (first..).zip(&frames);
            shown.extend(new.map(|(index, frame)| session.frame(process, index, frame)));
            let all = answer["all"].as_i64().unwrap_or(0);
            let next = first + count;
            if next < wanted.end.min(all) {
                return session.add_frames(asked, process, next..wanted.end, shown);
            }
            let body = json!({ "stackFrames": shown, "totalFrames": all });
            session.out.respond(&asked, Ok(body))
        })?;
        Ok(())
    }

    fn frame(&mut self, process: u64, index: i64, frame: &Value) -> Value {
        let id = self.references.add_frame(Frame {
            process,
            index,
            mark: frame["mark"].as_u64().unwrap_or(0),
        });
        let short = frame["source"].as_str().unwrap_or_default();
        let called = frame["name"].as_str();
        let kind = frame["kind"].as_str().unwrap_or_default();
        let name = match (kind, called) {
            ("main", _) => "main chunk".to_owned(),
            (_, Some(name)) => name.to_owned(),
            ("c", None) => "?".to_owned(),
            _ => format!("function <{short}:{}>", frame["defined"]),
        };
        let mut shown = json!({
            "id": id,
            "name": if kind == "c" { format!("{name} [C]") } else { name },
            "line": frame["line"],
            "column": if kind == "c" { 0 } else { 1 },
        });
        let path = frame["path"].as_str();
        if let Some(path) = path {
            let name = Path::new(path).file_name();
            let name = name.map(|name| name.to_string_lossy().into_owned());
            shown["source"] = json!({ "name": name, "path": path });
        } else if let Some(chunk) = frame["chunk"].as_str() {
            let number = self.references.add_chunk(chunk);
            shown["source"] = json!({ "name": short, "sourceReference": number });
        } else if kind != "c" {
            shown["source"] = json!({ "name": short });
        }
        if kind == "c" {
            shown["presentationHint"] = "subtle".into();
        }
        shown
    }

    /// `source`, for chunks without a file.
    pub(super) fn source(&mut self, asked: &Asked, with: &Value) -> io::Result<()> {
        let number = match number(with, "sourceReference") {
            0 => with
                .get("source")
                .map_or(0, |source| number(source, "sourceReference")),
            number => number,
        };
        let chunk = usize::try_from(number).ok();
        let chunk = chunk.and_then(|number| self.references.chunk(number));
        let body = match chunk {
            Some(text) => Ok(json!({ "content": text, "mimeType": "text/x-lua" })),
            None => Err("there is no such source".to_owned()),
        };
        self.out.respond(asked, body)
    }

    /// `scopes`.
    pub(super) fn scopes(&mut self, asked: &Asked, with: &Value) -> io::Result<()> {
        let frame = match self.references.frame(number(with, "frameId")) {
            Ok(found) => found,
            Err(why) => return self.out.respond(asked, Err(why)),
        };
        let has_error = self
            .stopped
            .get(&frame.process)
            .is_some_and(|stop| !stop.kind.is_empty());
        let all = [
            ("error", "Error", None),
            ("locals", "Locals", Some("locals")),
            ("upvalues", "Upvalues", None),
            ("varargs", "Extra arguments", Some("arguments")),
            ("globals", "Globals", Some("globals")),
        ];
        let mut scopes: Vec<Value> = Vec::new();
        for (scope, name, hint) in all {
            if scope == "error" && !has_error {
                continue;
            }
            let id = self.references.add(Reference {
                frame,
                place: Place::Scope(scope),
                expression: (scope == "globals").then(|| "_ENV".to_owned()),
            });
            let mut shown = json!({
                "name": name,
                "variablesReference": id,
                "expensive": scope == "globals",
            });
            if let Some(hint) = hint {
                shown["presentationHint"] = hint.into();
            }
            scopes.push(shown);
        }
        self.out.respond(asked, Ok(json!({ "scopes": scopes })))
    }

    /// `variables`.
    pub(super) fn variables(&mut self, asked: Asked, with: Value) -> io::Result<()> {
        let reference = match self.references.get(number(&with, "variablesReference")) {
            Ok(found) => found,
            Err(why) => return self.out.respond(&asked, Err(why)),
        };
        if reference.place != Place::Scope("globals") {
            return self.show(asked, reference, &with);
        }
        let question = reference.frame.question(json!({ "scope": "globals" }));
        self.ask("show", question, move |session, answer| match answer {
            Ok(globals) => {
                let place = Place::Value(globals[0]["slot"].as_i64().unwrap_or(0));
                session.show(asked, Reference { place, ..reference }, &with)
            }
            Err(why) => session.out.respond(&asked, Err(why)),
        })?;
        Ok(())
    }

    fn show(&mut self, asked: Asked, reference: Reference, with: &Value) -> io::Result<()> {
        let (scope, slot) = match reference.place {
            Place::Scope(scope) => (scope, 0),
            Place::Value(slot) => ("value", slot),
        };
        let count = match number(with, "count") {
            0 => MOST_SHOWN,
            count => count.clamp(1, MOST_SHOWN),
        };
        let filter = with.get("filter").and_then(Value::as_str);
        let question = reference.frame.question(json!({
            "scope": scope,
            "slot": slot,
            "first": number(with, "start").max(0),
            "count": count,
            "filter": match filter { Some("named") => 1, Some("indexed") => 2, _ => 0 },
        }));
        self.ask("show", question, move |session, answer| {
            let body = answer.map(|all| {
                let all = all.as_array().cloned().unwrap_or_default();
                let variables: Vec<Value> = all
                    .iter()
                    .map(|variable| session.variable(&reference, variable))
                    .collect();
                json!({ "variables": variables })
            });
            session.out.respond(&asked, body)
        })?;
        Ok(())
    }

    /// What is shown of a variable that was found at `parent`.
    fn variable(&mut self, parent: &Reference, variable: &Value) -> Value {
        let in_value = match (&parent.place, parent.expression.as_deref()) {
            (Place::Scope(_), _) => Some(None),
            (Place::Value(_), Some(expression)) => Some(Some(expression)),
            (Place::Value(_), None) => None,
        };
        let expression = in_value.and_then(|of| text::expression(of, variable));
        let mut shown = self.value(parent.frame, variable, expression.clone());
        shown["name"] = text::name(variable).into();
        if let Some(expression) = expression {
            shown["evaluateName"] = expression.into();
        }
        shown
    }

    /// The value of a variable, its type, and the reference to what is in it.
    pub(super) fn value(
        &mut self,
        frame: Frame,
        variable: &Value,
        expression: Option<String>,
    ) -> Value {
        let mut shown = json!({
            "value": text::value(variable),
            "type": variable["type"],
            "variablesReference": 0,
        });
        let slot = variable["slot"].as_i64().unwrap_or(0);
        if slot != 0 {
            let id = self.references.add(Reference {
                frame,
                place: Place::Value(slot),
                expression,
            });
            shown["variablesReference"] = id.into();
        }
        if let Some(elements) = variable["elements"]
            .as_i64()
            .filter(|&n| n >= MANY_ELEMENTS)
        {
            shown["indexedVariables"] = elements.into();
            shown["namedVariables"] = 1.into(); // at least: they are not counted
        }
        shown
    }
}
