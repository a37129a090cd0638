//! How variables are shown: names of fields as in Lua's source, strings in quotes.

use serde_json::{Value, json};

/// The words that are no names.
const KEYWORDS: [&str; 22] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
    "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// The maximal number of characters of a string that is shown in a list.
const LONGEST_SHOWN: usize = 1000;

/// So many elements are in the text of a table (`c/shown/texts.c`).
const MOST_IN_PREVIEW: i64 = 5;

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
        Some("other" | "object") => format!("[{name}]"),
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
    // A name with a wrong character in it is not whole (see `from_utf8_lossy`).
    let is_object = variable["key"] == "object";
    if own.starts_with('(') || is_object || own.contains(char::REPLACEMENT_CHARACTER) {
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
            Some(elements) if elements > MOST_IN_PREVIEW => format!("{value} (#{elements})"),
            _ => value.to_owned(),
        },
        _ => value.to_owned(),
    }
}

/// A name that is to be completed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Beginning<'a> {
    /// Names with dots between them, in whose value it is looked for; empty: a variable.
    pub(super) path: String,
    pub(super) beginning: &'a str,
    /// Where it begins, in units of UTF-16.
    pub(super) start: usize,
}

/// The name that ends before this column, in units of UTF-16, of a line. `None` if none can be
/// completed there, as after a call.
pub(super) fn name_before(line: &str, column: usize) -> Option<Beginning<'_>> {
    let mut units = 0;
    let end = line.char_indices().find_map(|(at, character)| {
        let is_there = units >= column;
        units += character.len_utf16();
        is_there.then_some(at)
    });
    let before = &line[..end.unwrap_or(line.len())];
    let is_part = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let rest = before.trim_end_matches(is_part);
    let beginning = &before[rest.len()..];
    if beginning.starts_with(|character: char| character.is_ascii_digit()) {
        return None;
    }
    let start = rest.encode_utf16().count();
    let wanted = |path| Beginning {
        path,
        beginning,
        start,
    };
    // "a..b" joins two values.
    let Some(value) = rest
        .strip_suffix(['.', ':'])
        .filter(|it| !it.ends_with('.'))
    else {
        return Some(wanted(String::new()));
    };
    let outside = value.trim_end_matches(|character| is_part(character) || character == '.');
    let path = &value[outside.len()..];
    let is_path = !outside.ends_with([')', ']', '"', '\'', ':']) && path.split('.').all(is_name);
    is_path.then(|| wanted(path.to_owned()))
}

/// The completions: names that were found, in order; and words of the language.
pub(super) fn targets(found: &Value, is_field: bool, beginning: &str) -> Vec<Value> {
    let found = found.as_array().into_iter().flatten();
    let mut targets: Vec<(String, &str)> = found
        .filter_map(|variable| {
            let name = variable["name"].as_str()?;
            let kind = match variable["type"].as_str() {
                Some("function") if is_field => "method",
                Some("function") => "function",
                _ if is_field => "field",
                _ => "variable",
            };
            is_name(name).then(|| (name.to_owned(), kind))
        })
        .collect();
    if !is_field {
        let words = KEYWORDS.iter().filter(|word| word.starts_with(beginning));
        targets.extend(words.map(|word| ((*word).to_owned(), "keyword")));
    }
    targets.sort();
    let targets = targets.into_iter();
    targets
        .map(|(label, kind)| json!({ "label": label, "type": kind }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is completed at the end of a text.
    fn before(text: &str) -> Option<(String, &str, usize)> {
        let wanted = name_before(text, text.encode_utf16().count())?;
        Some((wanted.path, wanted.beginning, wanted.start))
    }

    #[test]
    fn names_are_completed_where_they_are_fields_or_variables() {
        let some = |path: &str, beginning, start| Some((path.to_owned(), beginning, start));
        assert_eq!(before(""), some("", "", 0));
        assert_eq!(before("x + pri"), some("", "pri", 4));
        assert_eq!(before("string.fo"), some("string", "fo", 7));
        assert_eq!(before("f(a.b_1.c"), some("a.b_1", "c", 8));
        assert_eq!(before("socket:rec"), some("socket", "rec", 7));
        assert_eq!(before("'a'..b"), some("", "b", 5));
        assert_eq!(before("\u{1f600}..na"), some("", "na", 4));
        for nothing in [
            "f().x", "t[1].x", "('x'):up", "12", "1.5", "a.12.b", "a:b:c", "end.x",
        ] {
            assert_eq!(before(nothing), None, "{nothing}");
        }
        assert_eq!(
            name_before("print(x)", 2).map(|it| it.beginning),
            Some("pr")
        );
    }
}
