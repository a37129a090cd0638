//! Finds words that must not be in the sources: marks of unfinished work, absolute paths of one
//! machine, and `unsafe` outside of the crates that may use it.

use std::path::Path;

use super::finding::Finding;
use super::source::Source;

/// The marks of unfinished work. They are composed here, so that this file passes its own rule.
const UNFINISHED: [&str; 6] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("X", "XX"),
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("#[", "ignore"),
];

/// Top directories that hold files of one person or one machine only.
const MACHINE_PLACES: [&str; 6] = ["home", "root", "Users", "work", "workspace", "builds"];

/// The places where unsafe code is allowed: the system crate, the tokens for code inside the VM,
/// the guest of the core's tests, the Lua guest and its modules, what C calls of HTTP, the C ABI,
/// foreign calls, the interpreter's C `main`, and test programs that are hosts themselves.
const UNSAFE_PLACES: [&str; 14] = [
    "runtime/sys/",
    "runtime/core/src/vm/inside.rs",
    "runtime/core/tests/",
    "guests/http/src/c.rs",
    "guests/lua/",
    "guests/cluster/src/host.rs",
    "guests/cluster/src/lua.rs",
    "guests/web/src/c/",
    "guests/web/src/record.rs",
    "bindings/capi/",
    "bindings/ffi/",
    "tools/baton/src/main.rs",
    "tools/baton/tests/copying.rs",
    "tools/baton/tests/linked_modules.rs",
];

/// Finds marks of unfinished work, and absolute paths of one machine.
pub(super) fn check(name: &str, text: &str, root: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    let checkout = root.to_string_lossy();
    for (index, line) in text.lines().enumerate() {
        for mark in UNFINISHED.iter().filter(|mark| has_word(line, mark)) {
            let message =
                format!("'{mark}' marks unfinished work; finish it, or document what is missing");
            findings.push(Finding::error(name, index + 1, message));
        }
        let own_place = checkout.len() > 1 && has_path(line, checkout.trim_start_matches('/'));
        if own_place || MACHINE_PLACES.iter().any(|place| has_path(line, place)) {
            findings.push(Finding::error(
                name,
                index + 1,
                "an absolute path of one machine; make it relative",
            ));
        }
    }
    findings
}

/// Finds unsafe Rust in crates that may not use it.
pub(super) fn check_unsafe(source: &Source) -> Vec<Finding> {
    if !source.is_rust()
        || UNSAFE_PLACES
            .iter()
            .any(|place| source.name.starts_with(place))
    {
        return Vec::new();
    }
    let lines = source
        .code
        .iter()
        .enumerate()
        .filter(|(_, line)| has_word(line, "unsafe"));
    let message = format!(
        "unsafe code outside of {}; move it there",
        UNSAFE_PLACES.join(", ")
    );
    lines
        .map(|(index, _)| Finding::error(&source.name, index + 1, message.as_str()))
        .collect()
}

/// Whether a line contains this word, with no letters directly before or after it.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let word_goes_on = word.ends_with(is_word) && after.is_some_and(is_word);
        !before.is_some_and(is_word) && !word_goes_on
    })
}

/// Whether a line has an absolute path into a directory. `directory` comes without its leading
/// slash.
fn has_path(line: &str, directory: &str) -> bool {
    line.match_indices('/').any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let begins_here = before
            .is_none_or(|character| character.is_whitespace() || "\"'`(=:<[".contains(character));
        let rest = line[at + 1..].strip_prefix(directory);
        begins_here && rest.is_some_and(|rest| rest.starts_with('/'))
    })
}

#[cfg(test)]
mod checks {
    use super::*;

    const NOWHERE: [usize; 0] = [];

    fn found(text: &str) -> Vec<usize> {
        check("trial.rs", text, Path::new("/place/of/checkout"))
            .iter()
            .map(Finding::line)
            .collect()
    }

    #[test]
    fn every_mark_of_unfinished_work_is_found() {
        for mark in UNFINISHED {
            assert_eq!(found(&format!("x\n// {mark} later\n")), [2], "{mark}");
        }
    }

    #[test]
    fn words_that_contain_a_mark_are_left_alone() {
        assert_eq!(found("mkstemp(\"baton-XXXXXX\"); // mastodons"), NOWHERE);
    }

    #[test]
    fn absolute_paths_of_one_machine_are_found() {
        let own = concat!("open(\"/", "home/me/file\")");
        assert_eq!(found(own), [1]);
        assert_eq!(found("see /place/of/checkout/file"), [1]);
        assert_eq!(
            found("open(\"/usr/lib/lua\"); a = b /c/ d; https://example.org/x; ../homework/x"),
            NOWHERE
        );
    }

    #[test]
    fn unsafe_code_is_found_outside_of_its_crates_only() {
        let text = "// unsafe in a comment\n#![forbid(unsafe_code)]\nunsafe { f() }\n";
        let lines = |name: &str| -> Vec<usize> {
            check_unsafe(&Source::parse(name, text))
                .iter()
                .map(Finding::line)
                .collect()
        };
        assert_eq!(lines("runtime/core/src/lib.rs"), [3]);
        assert_eq!(lines("runtime/sys/src/lib.rs"), NOWHERE);
    }
}
