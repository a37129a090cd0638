//! Splits Rust and C sources into code and comments.
//!
//! This is a lexer for what the rules need, and no more. It knows comments (nested in Rust),
//! strings (including raw and byte strings), and the difference between characters and lifetimes.

/// A source file, split into code and comments.
pub(super) struct Source {
    /// The path of the file in the workspace.
    pub(super) name: String,
    /// The code of each line. Comments and the contents of strings and characters are replaced by
    /// blanks.
    pub(super) code: Vec<String>,
    /// The comments of each line.
    pub(super) comments: Vec<String>,
    /// Whether each line is part of a test: in a `#[cfg(test)]` module, or anywhere in a test file.
    pub(super) is_test: Vec<bool>,
}

#[derive(Clone, Copy)]
enum State {
    Code,
    LineComment,
    /// In a comment, with the nesting depth of the comment.
    BlockComment(u32),
    /// In a string, in which a backslash escapes the next character.
    Text,
    /// In a raw string, with the number of `#` that end it.
    RawText(usize),
}

impl Source {
    /// Splits a file's text.
    pub(super) fn parse(name: &str, text: &str) -> Self {
        let (code, comments) = separate(text, name.ends_with(".rs"));
        let code: Vec<String> = code.lines().map(str::to_owned).collect();
        let comments = comments.lines().map(str::to_owned).collect();
        let is_test = if is_test_file(name) {
            vec![true; code.len()]
        } else {
            test_modules(&code)
        };
        Self {
            name: name.to_owned(),
            code,
            comments,
            is_test,
        }
    }

    /// Whether the file is Rust; otherwise it is C.
    pub(super) fn is_rust(&self) -> bool {
        self.name.ends_with(".rs")
    }
}

/// The code and the comments of a text. Both results have the lines and columns of the text, and
/// each is blank where the other one is not.
fn separate(text: &str, is_rust: bool) -> (String, String) {
    let characters: Vec<char> = text.chars().collect();
    let (mut code, mut comments) = (String::new(), String::new());
    let mut state = State::Code;
    let mut at = 0;
    while at < characters.len() {
        let (next, length) = step(
            state,
            &characters[at..],
            is_rust,
            at.checked_sub(1).map(|before| characters[before]),
        );
        for &character in &characters[at..at + length] {
            if character == '\n' {
                code.push('\n');
                comments.push('\n');
                continue;
            }
            let (in_code, in_comment) = match (state, next) {
                (State::LineComment | State::BlockComment(_), _)
                | (_, State::LineComment | State::BlockComment(_)) => (' ', character),
                (State::Code, State::Code) if length == 1 => (character, ' '),
                // The quotes stay, so that an empty string is visible as code. The text between
                // them goes.
                (State::Code, _) | (_, State::Code) if character == '"' => (character, ' '),
                _ => (' ', ' '),
            };
            code.push(in_code);
            comments.push(in_comment);
        }
        at += length;
        state = next;
    }
    (code, comments)
}

/// The state after the next few characters, and the number of these characters.
fn step(state: State, rest: &[char], is_rust: bool, before: Option<char>) -> (State, usize) {
    let second = rest.get(1).copied();
    match (state, rest[0], second) {
        (State::Code, '/', Some('/')) => (State::LineComment, 2),
        (State::Code, '/', Some('*')) => (State::BlockComment(1), 2),
        (State::Code, '"', _) => (State::Text, 1),
        (State::Code, 'r', Some('"' | '#'))
            if is_rust && !before.is_some_and(is_word) || raw_after_prefix(rest, before) =>
        {
            let hashes = rest[1..]
                .iter()
                .take_while(|character| **character == '#')
                .count();
            match rest.get(1 + hashes) {
                Some('"') => (State::RawText(hashes), hashes + 2),
                // This is a raw identifier.
                _ => (State::Code, 1),
            }
        }
        (State::Code, '\'', _) => (State::Code, character_length(rest)),
        (State::LineComment, '\n', _) => (State::Code, 1),
        (State::BlockComment(depth), '/', Some('*')) if is_rust => {
            (State::BlockComment(depth + 1), 2)
        }
        (State::BlockComment(1), '*', Some('/')) => (State::Code, 2),
        (State::BlockComment(depth), '*', Some('/')) => (State::BlockComment(depth - 1), 2),
        (State::Text, '\\', Some(_)) => (State::Text, 2),
        (State::Text, '"', _) => (State::Code, 1),
        (State::RawText(hashes), '"', _)
            if rest[1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes =>
        {
            (State::Code, hashes + 1)
        }
        (state, _, _) => (state, 1),
    }
}

/// Whether this character is the `r` of `br"` or `cr"`.
fn raw_after_prefix(rest: &[char], before: Option<char>) -> bool {
    rest[0] == 'r' && matches!(before, Some('b' | 'c'))
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The length of a character literal; 1 if the quote begins a lifetime.
fn character_length(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', _, tail @ ..] => tail
            .iter()
            .position(|c| *c == '\'')
            .map_or(1, |end| end + 4),
        ['\'', _, '\'', ..] => 3,
        _ => 1,
    }
}

/// Whether the whole file is a test, by its place or its name.
fn is_test_file(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    name.contains("/tests/") || file == "tests.rs" || file.starts_with("loom_")
}

/// Whether each line is in a module under `#[cfg(test)]` or `#[cfg(all(test, ...))]`.
fn test_modules(code: &[String]) -> Vec<bool> {
    let mut is_test = vec![false; code.len()];
    let mut line = 0;
    while line < code.len() {
        let trimmed = code[line].trim();
        let opens = trimmed.starts_with("#[cfg(test)") || trimmed.starts_with("#[cfg(all(test,");
        let end = if opens { block_end(code, line) } else { None };
        if let Some(end) = end {
            is_test[line..=end].fill(true);
            line = end;
        }
        line += 1;
    }
    is_test
}

/// The line on which the block ends that starts at or after `line`. `None` if a `;` comes before
/// any block.
pub(super) fn block_end(code: &[String], line: usize) -> Option<usize> {
    let mut depth = 0_u32;
    let mut brackets = 0_u32;
    for (number, text) in code.iter().enumerate().skip(line) {
        for character in text.chars() {
            match character {
                '(' | '[' => brackets += 1,
                ')' | ']' => brackets = brackets.saturating_sub(1),
                ';' if depth == 0 && brackets == 0 => return None,
                '{' => depth += 1,
                '}' if depth == 1 => return Some(number),
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod checks {
    use super::*;

    fn code_of(text: &str) -> String {
        Source::parse("trial.rs", text).code.join("\n")
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        assert_eq!(code_of("a // b"), "a     ");
        assert_eq!(code_of("a /* b /* c */ d */ e"), "a                   e");
        assert_eq!(code_of(r#"f("x \" y") g"#), r#"f("      ") g"#);
        assert_eq!(
            code_of("r#\"a \" b\"# c").trim_start_matches([' ', '"']),
            "c"
        );
        assert_eq!(
            code_of("br\"\\\" c").trim_start_matches([' ', '"', 'b']),
            "c"
        );
    }

    #[test]
    fn a_character_is_no_code_and_a_lifetime_is() {
        assert_eq!(code_of("'{' b"), "    b");
        assert_eq!(code_of(r"'\'' b"), "     b");
        assert_eq!(code_of("fn f<'a>(x: &'a T)"), "fn f<'a>(x: &'a T)");
    }

    #[test]
    fn comments_keep_their_lines() {
        let source = Source::parse("trial.rs", "a\n/* one\n two */ b // three\n");
        assert_eq!(source.comments[1].trim(), "/* one");
        assert_eq!(source.comments[2].trim_end(), " two */   // three");
        assert_eq!(source.code[2].trim(), "b");
    }

    #[test]
    fn a_string_over_several_lines_keeps_them() {
        assert_eq!(
            Source::parse("trial.rs", "\"a\nb\"\nc").code,
            ["\" ", " \"", "c"]
        );
    }

    #[test]
    fn lines_of_test_modules_are_known() {
        let text = "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() { }\n}\nfn h() \
                    {}\n#[cfg(test)]\nuse x;\nfn i() {}";
        let expected = [false, true, true, true, true, false, false, false, false];
        assert_eq!(Source::parse("src/trial.rs", text).is_test, expected);
        assert_eq!(
            Source::parse("runtime/core/tests/trial.rs", "fn f() {}").is_test,
            [true]
        );
    }
}
