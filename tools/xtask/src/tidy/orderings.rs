//! Finds memory orderings without an explanation.

use super::finding::Finding;
use super::source::Source;

/// The crates whose atomics are protocols between threads.
const PLACES: [&str; 3] = ["runtime/sys/", "runtime/core/", "bindings/ffi/"];

const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// The largest number of lines between the start of a comment and its ordering.
const REACH: usize = 8;

/// Finds memory orderings, outside of tests, without a comment nearby. The comment must say what
/// the ordering pairs with, or why a relaxed one suffices.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    if !source.is_rust() || !PLACES.iter().any(|place| source.name.starts_with(place)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in source
        .code
        .iter()
        .enumerate()
        .filter(|(index, _)| !source.is_test[*index])
    {
        if imports_orderings(line) {
            findings.push(Finding::error(
                &source.name,
                index + 1,
                "import Ordering itself, so that each use is visible",
            ));
        }
        let named = ORDERINGS.iter().find(|ordering| uses(line, ordering));
        if let Some(ordering) = named
            && !is_explained(source, index, ordering)
        {
            let wanted = match *ordering {
                "Relaxed" => "'Relaxed: ...' or 'pairs with ...'",
                _ => "'pairs with ...'",
            };
            let message = format!(
                "Ordering::{ordering} without a comment {wanted} in the {REACH} lines above"
            );
            findings.push(Finding::error(&source.name, index + 1, message));
        }
    }
    findings
}

fn imports_orderings(line: &str) -> bool {
    let trimmed = line.trim_start();
    (trimmed.starts_with("use ") || trimmed.starts_with("pub use "))
        && ORDERINGS.iter().any(|one| uses(line, one))
        || line.contains("atomic::Ordering::{")
        || line.contains("atomic::Ordering::*")
}

fn uses(line: &str, ordering: &str) -> bool {
    line.split("Ordering::").skip(1).any(|after| {
        let word = after
            .split(|character: char| !character.is_alphanumeric())
            .next();
        word == Some(ordering)
    })
}

fn is_explained(source: &Source, index: usize, ordering: &str) -> bool {
    let above = index.saturating_sub(REACH);
    source.comments[above..=index].iter().any(|comment| {
        let comment = comment.to_lowercase();
        let names_pair = comment.contains("pairs with") || comment.contains("paired with");
        names_pair || ordering == "Relaxed" && comment.contains("relaxed")
    })
}

#[cfg(test)]
mod checks {
    use super::*;

    const NOWHERE: [usize; 0] = [];

    fn found(name: &str, text: &str) -> Vec<usize> {
        check(&Source::parse(name, text))
            .iter()
            .map(Finding::line)
            .collect()
    }

    const PLACE: &str = "runtime/core/src/inbox.rs";

    #[test]
    fn an_ordering_without_its_pair_is_found() {
        assert_eq!(
            found(PLACE, "fn f() {\n    a.load(Ordering::Acquire);\n}\n"),
            [2]
        );
        assert_eq!(
            found(
                PLACE,
                "// Pairs with the release in g.\na.load(Ordering::Acquire);\n"
            ),
            NOWHERE
        );
        assert_eq!(
            found(PLACE, "a.load(Ordering::Acquire); // pairs with g\n"),
            NOWHERE
        );
    }

    #[test]
    fn only_a_comment_nearby_counts() {
        let far = format!(
            "// pairs with g\n{}a.load(Ordering::Acquire);\n",
            "x;\n".repeat(REACH)
        );
        assert_eq!(found(PLACE, &far), [REACH + 2]);
        assert_eq!(
            found(PLACE, "f(\"pairs with g\");\na.load(Ordering::Acquire);\n"),
            [2]
        );
    }

    #[test]
    fn a_reason_suffices_for_relaxed_but_not_for_others() {
        assert_eq!(
            found(
                PLACE,
                "// Relaxed: only a counter.\na.load(Ordering::Relaxed);\n"
            ),
            NOWHERE
        );
        assert_eq!(
            found(
                PLACE,
                "// Relaxed: only a counter.\na.load(Ordering::SeqCst);\n"
            ),
            [2]
        );
    }

    #[test]
    fn imported_orderings_are_found() {
        assert_eq!(
            found(
                PLACE,
                "use std::sync::atomic::Ordering::{Acquire, Release};\n"
            ),
            [1]
        );
    }

    #[test]
    fn tests_comparisons_and_other_crates_are_left_alone() {
        let in_test = "#[cfg(test)]\nmod tests {\n    fn f() { a.load(Ordering::SeqCst); }\n}\n";
        assert_eq!(found(PLACE, in_test), NOWHERE);
        assert_eq!(found(PLACE, "a.cmp(b) == Ordering::Less\n"), NOWHERE);
        assert_eq!(
            found("tools/bench/src/main.rs", "a.load(Ordering::SeqCst);\n"),
            NOWHERE
        );
    }
}
