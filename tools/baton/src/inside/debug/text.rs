//! How variables are shown: names of fields as in Lua's source, strings in quotes.

use serde_json::Value;

/// The words that are no names.
const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
    "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// The maximal number of characters of a string that is shown in a list.
const LONGEST_SHOWN: usize = 1000;

/// A string in quotes. Control characters and quotes are escaped.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            _ if character.is_control() => {
                quoted.push_str(&format!("\\u{{{:x}}}", u32::from(character)));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

pub(super) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let begins = bytes
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    begins
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !KEYWORDS.contains(&text)
}

/// The name of a shown variable.
pub(super) fn name(variable: &Value) -> String {
    let name = variable["name"].as_str().unwrap_or_default();
    match variable["key"].as_str() {
        Some("string") if is_name(name) => name.to_owned(),
        Some("string") => format!("[{}]", quoted(name)),
        Some("other") => format!("[{name}]"),
        _ => name.to_owned(),
    }
}

/// An expression for the key of a field that is shown by this name.
pub(super) fn key_of(name: &str) -> String {
    match name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        Some(inner) => inner.to_owned(),
        None => quoted(name),
    }
}

/// An expression for a variable in a value with the expression `parent`; or in a frame, without.
pub(super) fn expression(parent: Option<&str>, variable: &Value) -> Option<String> {
    let own = name(variable);
    if own.starts_with('(') {
        return None;
    }
    match parent {
        None => is_name(&own).then_some(own),
        Some(parent) if own.starts_with('[') => Some(format!("{parent}{own}")),
        Some(parent) => Some(format!("{parent}.{own}")),
    }
}

/// The value of a shown variable.
pub(super) fn value(variable: &Value) -> String {
    let value = variable["value"].as_str().unwrap_or_default();
    match variable["type"].as_str() {
        Some("string") => {
            let shown: String = value.chars().take(LONGEST_SHOWN).collect();
            match shown.len() < value.len() {
                true => format!("{}... ({} bytes)", quoted(&shown), variable["size"]),
                false => quoted(&shown),
            }
        }
        Some("table") => match variable["elements"].as_i64() {
            Some(elements) if elements > 0 => format!("{value} (#{elements})"),
            _ => value.to_owned(),
        },
        _ => value.to_owned(),
    }
}
