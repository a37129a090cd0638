//! Breakpoints: the requests that set them, and what the program says of them.

use super::messages::Asked;
use super::session::{Session, ignore};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Arguments {
    source: SourceFile,
    #[serde(default)]
    breakpoints: Vec<Wish>,
}

#[derive(Deserialize)]
struct SourceFile {
    path: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wish {
    line: i64,
    condition: Option<String>,
    hit_condition: Option<String>,
    log_message: Option<String>,
}

/// How hits are compared, and with what.
fn comparison(text: &str) -> Result<(&'static str, u64), String> {
    let text = text.trim();
    let operators = [
        ("==", "="),
        (">=", ">="),
        ("<=", "<="),
        ("=", "="),
        (">", ">"),
        ("<", "<"),
        ("%", "%"),
        ("", "="),
    ];
    let found = operators.iter().find_map(|&(written, operator)| {
        let number = text.strip_prefix(written)?.trim().parse().ok()?;
        Some((operator, number))
    });
    found.ok_or_else(|| {
        format!("a count of hits expected, such as '5', '> 5', '>= 5' or '% 5'; got '{text}'")
    })
}

/// A breakpoint that the client knows.
struct Breakpoint {
    path: PathBuf,
    line: i64,
    /// Why it is not verified, wherever it is.
    wrong: Option<String>,
}

/// The breakpoints that were set.
#[derive(Default)]
pub(super) struct Known {
    /// The number of breakpoints so far.
    last: i64,
    all: HashMap<i64, Breakpoint>,
    /// What the program was asked to set, by file.
    questions: BTreeMap<PathBuf, Value>,
    /// Which errors stop a process: 0 none, 1 those that nothing catches, 2 all.
    errors: u8,
}

impl Known {
    /// When errors stop a process, by the protocol's name.
    pub(super) fn break_mode(&self) -> &'static str {
        match self.errors {
            2 => "always",
            1 => "unhandled",
            _ => "never",
        }
    }
}

/// What is wrong with a condition or a log message.
fn mistake(wish: &Wish) -> Option<String> {
    if let Some(condition) = &wish.condition
        && let Err(why) = baton_lua::check_expression(condition)
    {
        return Some(format!("the condition '{condition}' is wrong: {why}"));
    }
    let text = wish.log_message.as_deref().unwrap_or_default();
    let mistakes = expressions(text).map(|expression| {
        let checked = baton_lua::check_expression(expression);
        checked.map_err(|why| format!("the expression '{expression}' is wrong: {why}"))
    });
    mistakes.filter_map(Result::err).next()
}

/// The expressions in braces of a log message, as the program finds them (`c/debugger/hits.c`).
fn expressions(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split_inclusive('}');
    parts.filter_map(|part| part.split_once('{')?.1.strip_suffix('}'))
}

fn not_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

impl Session<'_> {
    /// Numbers a breakpoint, and returns what the client is told of it, and what the program is
    /// asked; nothing if it cannot be set. One whose expression is wrong is set, too: it stops
    /// there, so that the mistake is seen.
    fn add_breakpoint(&mut self, path: &Path, wish: Wish) -> (Value, Option<Value>) {
        self.breakpoints.last += 1;
        let id = self.breakpoints.last;
        let line = wish.line;
        let refused = |why: String| {
            let told = json!({ "id": id, "verified": false, "line": line, "message": why });
            (told, None)
        };
        if self.is_undebugged() {
            return refused("the program runs without a debugger".to_owned());
        }
        let wish = Wish {
            condition: not_empty(wish.condition),
            hit_condition: not_empty(wish.hit_condition),
            log_message: not_empty(wish.log_message),
            ..wish
        };
        let hits = wish.hit_condition.as_deref().map(comparison).transpose();
        let (operator, count) = match hits {
            Ok(hits) => hits.unwrap_or(("Any", 0)),
            Err(why) => return refused(why),
        };
        let wrong = mistake(&wish);
        let mut told = json!({ "id": id, "verified": false, "line": line });
        if let Some(wrong) = &wrong {
            told["message"] = wrong.as_str().into();
        }
        let question = json!({
            "id": id,
            "line": line,
            "condition": wish.condition,
            "log": wish.log_message,
            "comparison": operator,
            "hits": count,
        });
        let path = path.to_owned();
        let breakpoint = Breakpoint { path, line, wrong };
        self.breakpoints.all.insert(id, breakpoint);
        (told, Some(question))
    }

    /// Notes where a breakpoint is. Returns what the client is told of it.
    fn place(&mut self, id: i64, line: i64) -> Option<Value> {
        let breakpoint = self.breakpoints.all.get_mut(&id)?;
        let mut told = json!({ "id": id, "verified": false, "line": breakpoint.line });
        if line > 0 {
            breakpoint.line = line;
            told["line"] = line.into();
            told["verified"] = breakpoint.wrong.is_none().into();
        } else {
            told["message"] = "no code is loaded here yet".into();
        }
        if let Some(wrong) = &breakpoint.wrong {
            told["message"] = wrong.as_str().into();
        }
        Some(told)
    }

    /// The program has loaded the file of a breakpoint.
    pub(super) fn breakpoint_is_placed(&mut self, id: i64, line: i64) -> io::Result<()> {
        let Some(told) = self.place(id, line) else {
            return Ok(());
        };
        let body = json!({ "reason": "changed", "breakpoint": told });
        self.out.event("breakpoint", body)
    }

    /// A log point has written a text; or an expression of a breakpoint is wrong, which is named.
    pub(super) fn log_point(&mut self, line: &Value) -> io::Result<()> {
        let text = line["text"].as_str().unwrap_or_default();
        let id = line["breakpoint"].as_i64().unwrap_or(0);
        let mut body = json!({ "category": "console" });
        let mut name = String::new();
        if let Some(breakpoint) = self.breakpoints.all.get(&id) {
            let file = breakpoint.path.file_name().unwrap_or_default();
            name = format!("{}:{}: ", file.to_string_lossy(), breakpoint.line);
            body["line"] = breakpoint.line.into();
            body["source"] = json!({ "name": file.to_string_lossy(), "path": breakpoint.path });
        }
        let text = match line["wrong"].as_i64() {
            Some(1) => format!("{name}the condition of the breakpoint: {text}\n"),
            Some(2) => format!("{name}the log message: {text}\n"),
            _ => format!("{text}\n"),
        };
        body["output"] = text.into();
        self.out.event("output", body)
    }
}

/// `setBreakpoints`.
pub(super) fn set(session: &mut Session<'_>, asked: &Asked, with: Value) -> io::Result<()> {
    let arguments: Arguments = match serde_json::from_value(with) {
        Ok(arguments) => arguments,
        Err(error) => {
            let why = format!("the arguments of the request are wrong: {error}");
            return session.out.respond(asked, Err(why));
        }
    };
    let Some(path) = arguments.source.path else {
        let why = "a source with a path expected: a chunk without a file has no breakpoints";
        return session.out.respond(asked, Err(why.to_owned()));
    };
    // A file that is not there yet is found when it is loaded.
    let path = fs::canonicalize(&path).unwrap_or(path);
    session
        .breakpoints
        .all
        .retain(|_, breakpoint| breakpoint.path != path);
    let mut answers: Vec<Value> = Vec::new();
    let mut list: Vec<Value> = Vec::new();
    for wish in arguments.breakpoints {
        let (told, question) = session.add_breakpoint(&path, wish);
        answers.push(told);
        list.extend(question);
    }
    let shown = match path.to_str() {
        Some(path) => json!(path),
        None => json!(path.as_os_str().as_encoded_bytes()),
    };
    let question = json!({ "path": shown, "list": list });
    session.breakpoints.questions.insert(path, question.clone());
    let asked = asked.clone();
    let placed = move |session: &mut Session<'_>, answer: Result<Value, String>| {
        let body = answer.map(|lines| {
            for (id, line) in lines_of(&lines) {
                let told = session.place(id, line);
                let answer = answers.iter_mut().find(|answer| answer["id"] == id);
                if let Some((told, answer)) = told.zip(answer) {
                    *answer = told;
                }
            }
            json!({ "breakpoints": answers })
        });
        session.out.respond(&asked, body)
    };
    session.ask("breakpoints", question, placed)?;
    Ok(())
}

fn lines_of(lines: &Value) -> impl Iterator<Item = (i64, i64)> {
    let lines = lines.as_array().into_iter().flatten();
    lines.filter_map(|line| Some((line["id"].as_i64()?, line["line"].as_i64()?)))
}

/// Sets all breakpoints in a program that was started again.
pub(super) fn set_again(session: &mut Session<'_>) -> io::Result<()> {
    for question in session.breakpoints.questions.clone().into_values() {
        session.ask("breakpoints", question, |session, answer| {
            for (id, line) in lines_of(&answer.unwrap_or_default()) {
                session.breakpoint_is_placed(id, line)?;
            }
            Ok(())
        })?;
    }
    let which = session.breakpoints.errors;
    session.ask("errors", json!({ "which": which }), ignore)?;
    Ok(())
}

/// `setExceptionBreakpoints`.
pub(super) fn set_for_errors(
    session: &mut Session<'_>,
    asked: Asked,
    with: &Value,
) -> io::Result<()> {
    let filters = with.get("filters").and_then(Value::as_array);
    let has = |name: &str| filters.is_some_and(|all| all.iter().any(|filter| filter == name));
    let which = match (has("all"), has("uncaught")) {
        _ if session.is_undebugged() => 0,
        (true, _) => 2,
        (_, true) => 1,
        _ => 0,
    };
    session.breakpoints.errors = which;
    session.ask_for(asked, "errors", json!({ "which": which }))
}
