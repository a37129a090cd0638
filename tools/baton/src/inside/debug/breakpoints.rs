//! Requests: breakpoints.

use super::messages::Asked;
use super::session::Session;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;

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
    let mut answers: Vec<Value> = Vec::new();
    let mut list: Vec<Value> = Vec::new();
    for wish in arguments.breakpoints {
        session.last_breakpoint += 1;
        let id = session.last_breakpoint;
        if session.is_undebugged() {
            let why = "the program runs without a debugger";
            answers.push(json!({ "id": id, "verified": false, "message": why }));
            continue;
        }
        let hits = wish.hit_condition.filter(|text| !text.trim().is_empty());
        let (operator, count) = match hits.as_deref().map(comparison).transpose() {
            Ok(hits) => hits.unwrap_or(("Any", 0)),
            Err(why) => {
                answers.push(json!({ "id": id, "verified": false, "message": why }));
                continue;
            }
        };
        let some = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        list.push(json!({
            "id": id,
            "line": wish.line,
            "condition": some(wish.condition),
            "log": some(wish.log_message),
            "comparison": operator,
            "hits": count,
        }));
        answers.push(json!({ "id": id, "verified": false, "line": wish.line }));
    }
    let path = match path.to_str() {
        Some(path) => json!(path),
        None => json!(path.into_os_string().into_encoded_bytes()),
    };
    let asked = asked.clone();
    session.ask(
        "breakpoints",
        json!({ "path": path, "list": list }),
        move |session, answer| {
            let body = answer.map(|lines| {
                place(&mut answers, &lines);
                json!({ "breakpoints": answers })
            });
            session.out.respond(&asked, body)
        },
    )
}

/// Notes where the breakpoints are.
fn place(answers: &mut [Value], lines: &Value) {
    let lines: HashMap<i64, i64> = lines
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|line| Some((line["id"].as_i64()?, line["line"].as_i64()?)))
        .collect();
    for answer in answers {
        let line = answer["id"].as_i64().and_then(|id| lines.get(&id));
        match line {
            Some(&line) if line > 0 => {
                answer["line"] = line.into();
                answer["verified"] = true.into();
            }
            Some(_) => {
                answer["message"] = "no code is loaded here yet".into();
            }
            None => {}
        }
    }
}

/// `setExceptionBreakpoints`.
pub(super) fn set_for_errors(
    session: &mut Session<'_>,
    asked: &Asked,
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
    let asked = asked.clone();
    session.ask(
        "errors",
        json!({ "which": which }),
        move |session, answer| session.out.respond(&asked, answer.map(|_| Value::Null)),
    )
}
