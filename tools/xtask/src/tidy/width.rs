//! Finds lines with too many columns.

use super::finding::Finding;

/// The largest number of characters in a line.
const COLUMNS: usize = 100;

/// The extensions of the files that are checked.
const CODE: [&str; 4] = [".rs", ".c", ".h", ".lua"];

/// Finds lines with too many characters, except lines that cannot be broken.
pub(super) fn check(name: &str, text: &str) -> Vec<Finding> {
    if !CODE.iter().any(|ending| name.ends_with(ending)) {
        return Vec::new();
    }
    let lines = text.lines().enumerate();
    let long = lines.filter(|(_, line)| line.chars().count() > COLUMNS && can_be_broken(line));
    let finding = |(index, line): (usize, &str)| {
        let length = line.chars().count();
        let message = format!("{length} columns, and {COLUMNS} are the most; break the line");
        Finding::error(name, index + 1, message)
    };
    long.map(finding).collect()
}

/// Whether a line can be broken at a blank. It cannot if it has only one word besides comment
/// marks, or if its long word is a URL. Rows of tables in doc comments, and annotations for Lua's
/// language server, must be on one line.
fn can_be_broken(line: &str) -> bool {
    if ["//! |", "/// |"]
        .iter()
        .any(|row| line.trim_start().starts_with(row))
    {
        return false;
    }
    let has_letters = |word: &&str| word.chars().any(char::is_alphanumeric);
    let words: Vec<&str> = line.split_whitespace().filter(has_letters).collect();
    let is_url = |word: &&str| word.contains("://") && word.chars().count() > COLUMNS / 2;
    words.len() > 1 && !words.iter().any(is_url) && !line.starts_with("---@")
}

#[cfg(test)]
mod checks {
    use super::*;

    fn lines_found(name: &str, text: &str) -> Vec<usize> {
        check(name, text).iter().map(Finding::line).collect()
    }

    #[test]
    fn a_line_of_a_hundred_columns_passes_and_one_more_does_not() {
        let line = |columns: usize| format!("x;\nf {};\n", "a".repeat(columns - 3));
        for name in ["trial.rs", "trial.c", "trial.h", "trial.lua"] {
            assert_eq!(lines_found(name, &line(100)), [0; 0], "{name}");
            assert_eq!(lines_found(name, &line(101)), [2], "{name}");
        }
        assert_eq!(lines_found("trial.md", &line(101)), [0; 0]);
    }

    #[test]
    fn characters_count_and_not_bytes() {
        let text = format!("// {}", "ä ".repeat(48));
        assert_eq!(text.chars().count(), 99);
        assert_eq!(lines_found("trial.rs", &text), [0; 0]);
    }

    #[test]
    fn a_line_that_cannot_be_broken_passes() {
        let literal = format!("    \"{}\",", "a".repeat(120));
        assert_eq!(lines_found("trial.rs", &literal), [0; 0]);
        let url = format!("// See https://example.org/{} there.", "a".repeat(120));
        assert_eq!(lines_found("trial.rs", &url), [0; 0]);
        let annotation = format!("---@field name {}", "string | ".repeat(12));
        assert_eq!(lines_found("trial.lua", &annotation), [0; 0]);
    }
}
