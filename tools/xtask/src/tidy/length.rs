//! Finds files and functions that are too long to read in one go.

use super::finding::Finding;
use super::source::{Source, block_end};

/// The length, in lines, from which on a file should be divided; longer ones are a warning.
const FILE_LINES: usize = 600;

/// The largest length of a file, in lines; longer ones are an error.
const FILE_LINES_AT_MOST: usize = 800;

/// The largest length of a function, in lines, so that it fits a screen.
const FUNCTION_LINES: usize = 80;

/// Finds files and functions that are too long.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = source.code.len();
    if lines > FILE_LINES_AT_MOST {
        let message =
            format!("{lines} lines, more than the limit of {FILE_LINES_AT_MOST}; divide the file");
        findings.push(Finding::error(&source.name, 0, message));
    } else if lines > FILE_LINES {
        let message = format!("{lines} lines, more than {FILE_LINES}; consider dividing the file");
        findings.push(Finding::warning(&source.name, 0, message));
    }
    for (start, end) in functions(source) {
        let lines = end - start + 1;
        if lines > FUNCTION_LINES {
            let message = format!(
                "a function of {lines} lines, more than the limit of {FUNCTION_LINES}; divide it"
            );
            findings.push(Finding::error(&source.name, start + 1, message));
        }
    }
    findings
}

/// The first and last line, counted from 0, of each function that has a body.
fn functions(source: &Source) -> Vec<(usize, usize)> {
    let starts = (0..source.code.len()).filter(|&line| match source.is_rust() {
        true => starts_rust_function(&source.code[line]),
        false => starts_c_function(&source.code, line),
    });
    starts
        .filter_map(|start| Some((start, block_end(&source.code, start)?)))
        .collect()
}

fn starts_rust_function(line: &str) -> bool {
    let before = line.split_whitespace().take_while(|word| *word != "fn");
    let is_qualifier = |word: &str| {
        let visibility =
            word.starts_with("pub") || word.starts_with("crate") || word.ends_with(')');
        visibility
            || ["const", "async", "unsafe", "extern"].contains(&word)
            || word.starts_with('"')
    };
    line.split_whitespace().any(|word| word == "fn") && before.into_iter().all(is_qualifier)
}

/// Whether a function of C starts here. Its line begins at the margin, has the opening parenthesis
/// of the parameters, and is no directive. A body follows.
fn starts_c_function(code: &[String], line: usize) -> bool {
    let text = &code[line];
    let at_margin = text
        .chars()
        .next()
        .is_some_and(|first| first.is_alphabetic() || first == '_');
    let Some(open) = text.find('(') else {
        return false;
    };
    at_margin && !text[..open].contains(['=', '{', ';'])
}

#[cfg(test)]
mod checks {
    use super::*;

    const NOWHERE: [usize; 0] = [];

    fn lines_found(name: &str, text: &str) -> Vec<usize> {
        check(&Source::parse(name, text))
            .iter()
            .map(Finding::line)
            .collect()
    }

    fn function_of(head: &str, lines: usize) -> String {
        format!("{head} {{\n{}}}\n", "    x;\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_of_eighty_lines_passes_and_one_more_does_not() {
        assert_eq!(lines_found("trial.rs", &function_of("fn f()", 80)), NOWHERE);
        assert_eq!(lines_found("trial.rs", &function_of("fn f()", 81)), [1]);
        assert_eq!(
            lines_found("trial.c", &function_of("static int f(int a)", 81)),
            [1]
        );
    }

    #[test]
    fn qualified_methods_are_functions_too() {
        let method = function_of(
            "    pub(crate) unsafe extern \"C\" fn f<T: A>(x: [u8; 4]) -> T",
            90,
        );
        assert_eq!(
            lines_found("trial.rs", &format!("impl A {{\n{method}}}\n")),
            [2]
        );
    }

    #[test]
    fn braces_in_strings_and_declarations_without_body_do_not_count() {
        let text = "trait T {\n    fn f();\n}\nfn g() {\n    p(\"{\");\n}\n";
        assert_eq!(functions(&Source::parse("trial.rs", text)), [(3, 5)]);
    }

    #[test]
    fn a_long_file_is_a_warning_and_a_very_long_one_an_error() {
        for (lines, expected) in [(600, vec![]), (601, vec!["warning"]), (801, vec!["error"])] {
            let source = Source::parse("trial.rs", &"x;\n".repeat(lines));
            let found: Vec<String> = check(&source).iter().map(Finding::to_string).collect();
            assert_eq!(found.len(), expected.len(), "{lines}");
            assert!(
                found
                    .iter()
                    .zip(&expected)
                    .all(|(found, word)| found.contains(word)),
                "{lines}"
            );
        }
    }
}
