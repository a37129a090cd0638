//! Finds calls of `setjmp` in places where ISO C does not allow them.

use super::finding::Finding;
use super::source::Source;

/// The text that may precede the call: the head of a condition, or a cast to void.
const ALLOWED: [&str; 5] = ["if (", "switch (", "while (", "for (;", "(void)"];

/// Finds calls of `setjmp`, `_setjmp` and `sigsetjmp` that are not allowed (C11, 7.13.1.1). Such a
/// call must be a whole condition, possibly compared with a constant. Elsewhere its behaviour is
/// undefined.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    if source.is_rust() {
        return Vec::new();
    }
    let lines = source.code.iter().enumerate();
    lines
        .filter(|(_, line)| calls_elsewhere(line))
        .map(|(index, _)| {
            let message = "setjmp must be the condition of 'if' or 'switch', at most compared \
                           with a constant (C11, 7.13.1.1)";
            Finding::error(&source.name, index + 1, message)
        })
        .collect()
}

fn calls_elsewhere(line: &str) -> bool {
    line.match_indices("setjmp(").any(|(at, _)| {
        let before = line[..at].trim_end_matches("sig").trim_end_matches('_');
        let is_other_name = before.ends_with(char::is_alphanumeric);
        let is_allowed = before.trim().is_empty()
            || ALLOWED
                .iter()
                .any(|allowed| before.trim_end().ends_with(allowed));
        !is_other_name && !is_allowed
    })
}

#[cfg(test)]
mod checks {
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        check(&Source::parse("guests/lua/c/trial.c", text))
            .iter()
            .map(Finding::line)
            .collect()
    }

    #[test]
    fn a_call_in_an_assignment_or_a_return_is_found() {
        assert_eq!(found("x = 1;\nis_done = _setjmp(b) == 0;\n"), [2]);
        assert_eq!(
            found("int a = setjmp(b);\nreturn sigsetjmp(b, 1);\n"),
            [1, 2]
        );
    }

    #[test]
    fn conditions_comments_and_other_names_are_left_alone() {
        let text = "if (_setjmp(b) == 0) f();\nswitch (setjmp(b)) {\n(void)setjmp(b);\n\
                    setjmp(b);\n/* a = setjmp(b) */\na = our_own_setjmp(b);\n\
                    #define TRY(b, a) if (_setjmp(b) == 0) { a }\n";
        assert_eq!(found(text), [0_usize; 0]);
    }
}
