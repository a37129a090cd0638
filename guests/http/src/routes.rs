//! Routes: which pattern of a program a path matches, by the crate matchit.
//!
//! | in a pattern | matches |
//! |---|---|
//! | `/notes` | itself, byte by byte |
//! | `/:id` | one segment that is not empty |
//! | `/*rest` | all that is left, if it is not empty; only at the end |
//!
//! The most exact pattern wins, in whatever order they were added.

use crate::span::Span;
use crate::text::is_token;
use matchit::InsertError;

/// The most parameters of a pattern.
pub const MOST_PARAMETERS: usize = 16;

/// Patterns, each with a number.
#[derive(Default)]
pub struct Routes {
    tree: matchit::Router<u32>,
}

/// A path matches a pattern.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The number of the pattern.
    pub number: u32,
    /// The number of parameters.
    pub count: u32,
    /// What the parameters match, in their order.
    pub parameters: [Span; MOST_PARAMETERS],
}

impl Routes {
    /// Adds a pattern.
    ///
    /// # Errors
    /// Says what is wrong with the pattern.
    pub fn add(&mut self, pattern: &[u8], number: u32) -> Result<(), String> {
        let pattern = std::str::from_utf8(pattern).map_err(|_| "it is no UTF-8".to_owned())?;
        let added = self.tree.insert(translated(pattern)?, number);
        added.map_err(|error| match error {
            InsertError::Conflict { with } => format!(
                "it matches the same paths as '{}', which was added before",
                shown(&with)
            ),
            other => other.to_string(),
        })
    }

    /// The pattern that the path matches.
    #[must_use]
    pub fn find(&self, path: &[u8]) -> Option<Route> {
        let text = std::str::from_utf8(path).ok()?;
        let matched = self.tree.at(text).ok()?;
        let mut found = Route {
            number: *matched.value,
            ..Route::default()
        };
        for ((_, value), span) in matched.params.iter().zip(&mut found.parameters) {
            *span = Span::of(value.as_bytes(), path);
            found.count += 1;
        }
        Some(found)
    }
}

/// The pattern as matchit writes it.
fn translated(pattern: &str) -> Result<String, String> {
    let Some(rest) = pattern.strip_prefix('/') else {
        return Err("it has no '/' at its beginning".to_owned());
    };
    let mut names: Vec<&str> = Vec::new();
    let mut made = String::with_capacity(pattern.len() + 8);
    let mut segments = rest.split('/').peekable();
    while let Some(segment) = segments.next() {
        made.push('/');
        let (mark, name) = match (segment.strip_prefix(':'), segment.strip_prefix('*')) {
            (Some(name), _) => ("", name),
            (_, Some(name)) if segments.peek().is_none() => ("*", name),
            (_, Some(_)) => return Err(format!("'{segment}' is not at its end")),
            (None, None) => {
                made.push_str(&segment.replace('{', "{{").replace('}', "}}"));
                continue;
            }
        };
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if !is_token(name.as_bytes()) || !name.bytes().all(is_word) {
            return Err(format!(
                "'{segment}' has no name of letters, digits and '_'"
            ));
        }
        if names.contains(&name) {
            return Err(format!("it has two parameters '{name}'"));
        }
        if names.len() == MOST_PARAMETERS {
            return Err(format!("it has more than {MOST_PARAMETERS} parameters"));
        }
        names.push(name);
        made.push_str(&format!("{{{mark}{name}}}"));
    }
    Ok(made)
}

/// The pattern as programs write it. matchit gives it without what escapes braces.
fn shown(pattern: &str) -> String {
    let segment = |segment: &str| {
        let name = segment
            .strip_prefix('{')
            .and_then(|it| it.strip_suffix('}'));
        match name {
            Some(name) if name.starts_with('*') => name.to_owned(),
            Some(name) => format!(":{name}"),
            None => segment.to_owned(),
        }
    };
    let segments: Vec<String> = pattern.split('/').map(segment).collect();
    segments.join("/")
}
