//! Requests: stacks, variables, expressions.

use super::messages::Asked;
use super::references::{Place, Reference};
use super::session::{Session, thread_of};
use super::text;
use serde_json::{Value, json};
use std::io;
use std::path::Path;

/// The number of frames that are shown, unless the client says otherwise.
const MOST_FRAMES: i64 = 200;

/// From so many elements on, the client is told their number, and asks for parts.
const MANY_ELEMENTS: i64 = 100;

/// The maximal number of variables that are shown at once.
const MOST_SHOWN: i64 = 2000;

fn number(with: &Value, name: &str) -> i64 {
    with.get(name).and_then(Value::as_i64).unwrap_or(0)
}

impl<'out> Session<'out> {
    /// `stackTrace`.
    pub(super) fn stack_trace(&mut self, asked: Asked, with: &Value) -> io::Result<()> {
        let process = thread_of(with);
        let first = number(with, "startFrame").max(0);
        let count = match number(with, "levels") {
            levels if levels > 0 => levels.min(10_000),
            _ => MOST_FRAMES,
        };
        let question = json!({ "process": process, "first": first, "count": count });
        self.ask("frames", question, move |session, answer| {
            let body = answer.map(|answer| {
                let frames = answer["frames"].as_array().cloned().unwrap_or_default();
                let shown: Vec<Value> = (first..)
                    .zip(&frames)
                    .map(|(index, frame)| session.frame(process, index, frame))
                    .collect();
                json!({ "stackFrames": shown, "totalFrames": answer["all"] })
            });
            session.out.respond(&asked, body)
        })
    }

    fn frame(&mut self, process: u64, index: i64, frame: &Value) -> Value {
        let id = self.references.add_frame(process, index);
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
    pub(super) fn scopes(&mut self, asked: Asked, with: &Value) -> io::Result<()> {
        let (process, frame) = match self.references.frame(number(with, "frameId")) {
            Ok(found) => found,
            Err(why) => return self.out.respond(&asked, Err(why)),
        };
        let mut scopes: Vec<Value> = Vec::new();
        let all = [
            ("locals", "Locals", Some("locals")),
            ("upvalues", "Upvalues", None),
            ("varargs", "Extra arguments", Some("arguments")),
            ("globals", "Globals", Some("globals")),
        ];
        for (scope, name, hint) in all {
            let id = self.references.add(Reference {
                process,
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
        self.out.respond(&asked, Ok(json!({ "scopes": scopes })))
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
        let question = json!({
            "process": reference.process,
            "frame": reference.frame,
            "scope": "globals",
        });
        self.ask("show", question, move |session, answer| match answer {
            Ok(globals) => {
                let place = Place::Value(globals[0]["slot"].as_i64().unwrap_or(0));
                session.show(asked, Reference { place, ..reference }, &with)
            }
            Err(why) => session.out.respond(&asked, Err(why)),
        })
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
        let question = json!({
            "process": reference.process,
            "frame": reference.frame,
            "scope": scope,
            "slot": slot,
            "first": number(with, "start").max(0),
            "count": count,
            "filter": match filter { Some("named") => 1, Some("indexed") => 2, _ => 0 },
        });
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
        })
    }

    /// What is shown of a variable that was found at `parent`.
    fn variable(&mut self, parent: &Reference, variable: &Value) -> Value {
        let in_value = match (&parent.place, parent.expression.as_deref()) {
            (Place::Scope(_), _) => Some(None),
            (Place::Value(_), Some(expression)) => Some(Some(expression)),
            (Place::Value(_), None) => None,
        };
        let expression = in_value.and_then(|of| text::expression(of, variable));
        let mut shown = self.value(parent, variable, expression.clone());
        shown["name"] = text::name(variable).into();
        if let Some(expression) = expression {
            shown["evaluateName"] = expression.into();
        }
        shown
    }

    /// The value of a variable, its type, and the reference to what is in it.
    fn value(&mut self, near: &Reference, variable: &Value, expression: Option<String>) -> Value {
        let mut shown = json!({
            "value": text::value(variable),
            "type": variable["type"],
            "variablesReference": 0,
        });
        let slot = variable["slot"].as_i64().unwrap_or(0);
        if slot != 0 {
            let id = self.references.add(Reference {
                process: near.process,
                frame: near.frame,
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

    /// `setVariable`.
    pub(super) fn set_variable(&mut self, asked: Asked, with: &Value) -> io::Result<()> {
        let found = self.references.get(number(with, "variablesReference"));
        let reference = match found {
            Ok(reference) => reference,
            Err(why) => return self.out.respond(&asked, Err(why)),
        };
        let text_of = |name: &str| with.get(name).and_then(Value::as_str).unwrap_or_default();
        let name = text_of("name");
        let (scope, slot, name) = match reference.place {
            Place::Scope("globals") => {
                // As an assignment in the frame: the globals have no slot yet.
                let expression = format!("_ENV[{}] = {}", text::key_of(name), text_of("value"));
                let shown = format!("_ENV[{}]", text::key_of(name));
                return self.assign(asked, reference, &expression, shown);
            }
            Place::Scope("varargs") => ("varargs", 0, text::key_of(name)),
            Place::Scope(scope) => (scope, 0, name.to_owned()),
            Place::Value(slot) => ("value", slot, text::key_of(name)),
        };
        let question = json!({
            "process": reference.process,
            "frame": reference.frame,
            "scope": scope,
            "slot": slot,
            "name": name,
            "text": text_of("value"),
        });
        self.ask("set", question, move |session, answer| {
            let body = answer.map(|set| session.value(&reference, &set[0], None));
            session.out.respond(&asked, body)
        })
    }

    fn assign(
        &mut self,
        asked: Asked,
        reference: Reference,
        statement: &str,
        then_show: String,
    ) -> io::Result<()> {
        let (process, frame) = (reference.process, reference.frame);
        let question = |text: &str| json!({ "process": process, "frame": frame, "text": text });
        let show = question(&then_show);
        self.ask(
            "evaluate",
            question(statement),
            move |session, answer| match answer {
                Ok(_) => session.ask("evaluate", show, move |session, answer| {
                    let body = answer.map(|set| session.value(&reference, &set[0], None));
                    session.out.respond(&asked, body)
                }),
                Err(why) => session.out.respond(&asked, Err(why)),
            },
        )
    }

    /// `evaluate`.
    pub(super) fn evaluate(&mut self, asked: Asked, with: &Value) -> io::Result<()> {
        let place = match with.get("frameId").and_then(Value::as_i64) {
            Some(id) => self.references.frame(id),
            // Without a frame, in any process that has stopped.
            None => match self.stopped.keys().next() {
                Some(&process) => Ok((process, -1)),
                None => Err("no process has stopped: stop one to evaluate in it".to_owned()),
            },
        };
        let (process, frame) = match place {
            Ok(place) => place,
            Err(why) => return self.out.respond(&asked, Err(why)),
        };
        let expression = with.get("expression").and_then(Value::as_str);
        let expression = expression.unwrap_or_default().to_owned();
        let question = json!({ "process": process, "frame": frame, "text": expression });
        self.ask("evaluate", question, move |session, answer| {
            let body = answer.map(|results| {
                let near = Reference {
                    process,
                    frame,
                    place: Place::Value(0),
                    expression: None,
                };
                session.results(&near, &results, expression)
            });
            session.out.respond(&asked, body)
        })
    }

    fn results(&mut self, near: &Reference, results: &Value, expression: String) -> Value {
        let results = results.as_array().cloned().unwrap_or_default();
        match results.as_slice() {
            [] => json!({ "result": "", "variablesReference": 0 }),
            [one] => {
                let expression = Some(format!("({expression})"));
                let mut shown = self.value(near, one, expression);
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
}
