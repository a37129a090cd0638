//! Finds file names that say nothing about what is in the file, and names that two types of a crate
//! have.

use std::collections::HashMap;

use super::finding::Finding;
use super::source::Source;

const BANNED: [&str; 8] = [
    "util",
    "utils",
    "helper",
    "helpers",
    "common",
    "misc",
    "stuff",
    "tools_misc",
];

/// Groups of files that define the same types for different systems. A build has one of each group.
const ALTERNATIVES: [&[&str]; 2] = [
    &[
        "runtime/sys/src/poller/epoll.rs",
        "runtime/sys/src/poller/portable.rs",
    ],
    &[
        "runtime/sys/src/poller/wake_up_timer.rs",
        "runtime/sys/src/poller/no_wake_up_timer.rs",
    ],
];

/// The words that begin the definition of a type.
const TYPES: [&str; 5] = ["struct", "enum", "union", "trait", "type"];

/// Finds a part of a path that could be the name of any file.
pub(super) fn check(name: &str) -> Option<Finding> {
    let stems = name
        .split('/')
        .map(|part| part.split('.').next().unwrap_or_default());
    let banned = stems.into_iter().find(|stem| BANNED.contains(stem))?;
    Some(Finding::error(
        name,
        0,
        format!("'{banned}' says nothing; name the file after its contents"),
    ))
}

/// Finds types of one crate that have the same name. Types in tests, in functions and in inline
/// modules do not count.
pub(super) fn check_types(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut known: HashMap<(&str, &str), (&str, usize)> = HashMap::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        let Some((directory, _)) = source.name.split_once("/src/") else {
            continue;
        };
        for (index, line) in source.code.iter().enumerate() {
            let Some(name) = defined_type(line).filter(|_| !source.is_test[index]) else {
                continue;
            };
            let here = (source.name.as_str(), index + 1);
            let first = *known.entry((directory, name)).or_insert(here);
            if first != here && !are_alternatives(first.0, here.0) {
                let (file, line) = first;
                let message = format!(
                    "'{name}' is also a type in {file}, line {line}; give one of them another name"
                );
                findings.push(Finding::error(here.0, here.1, message));
            }
        }
    }
    findings
}

/// The name of the type that a line without indentation defines.
fn defined_type(line: &str) -> Option<&str> {
    let mut rest = line;
    if let Some(public) = rest.strip_prefix("pub") {
        rest = match public.strip_prefix('(') {
            Some(scope) => scope.split_once(')')?.1,
            None => public,
        };
        rest = rest.strip_prefix(' ')?;
    }
    rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let (word, after) = rest.split_once(' ')?;
    let is_end = |character: char| !character.is_alphanumeric() && character != '_';
    TYPES
        .contains(&word)
        .then(|| after.split(is_end).next().unwrap_or(after))
}

fn are_alternatives(one: &str, other: &str) -> bool {
    ALTERNATIVES
        .iter()
        .any(|group| group.contains(&one) && group.contains(&other))
}

#[cfg(test)]
mod checks {
    use super::*;

    fn duplicates(files: &[(&str, &str)]) -> Vec<usize> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(name, text)| Source::parse(name, text))
            .collect();
        check_types(&sources).iter().map(Finding::line).collect()
    }

    #[test]
    fn a_type_name_that_a_crate_has_twice_is_found() {
        let first = ("runtime/core/src/one.rs", "pub struct Event;\n");
        for second in [
            "\nenum Event {}",
            "\npub(in crate::vm) struct Event<'a>(&'a ());",
            "\npub unsafe trait Event {}",
            "\npub(crate) type Event = u8;",
        ] {
            assert_eq!(
                duplicates(&[first, ("runtime/core/src/vm/two.rs", second)]),
                [2],
                "{second}"
            );
        }
    }

    #[test]
    fn other_crates_tests_inner_types_and_alternatives_may_share_a_name() {
        let type_of = |name| (name, "struct Event;\n");
        for second in [
            ("runtime/sys/src/two.rs", "struct Event;"),
            ("runtime/core/tests/two.rs", "struct Event;"),
            ("runtime/core/src/sched/tests/two.rs", "struct Event;"),
            (
                "runtime/core/src/two.rs",
                "#[cfg(test)]\nmod tests {\nstruct Event;\n}",
            ),
            ("runtime/core/src/two.rs", "    type Event = u8;"),
            (
                "runtime/core/src/two.rs",
                "// struct Event;\nstruct Events;",
            ),
        ] {
            let found = duplicates(&[type_of("runtime/core/src/one.rs"), second]);
            assert_eq!(found, [0_usize; 0], "{second:?}");
        }
        let [pollers, _] = ALTERNATIVES;
        let files: Vec<_> = pollers.iter().map(|name| type_of(*name)).collect();
        assert_eq!(duplicates(&files), [0_usize; 0]);
    }

    #[test]
    fn names_that_say_nothing_are_found_for_files_and_directories() {
        assert!(check("runtime/core/src/utils.rs").is_some());
        assert!(check("tools/baton/tests/common/mod.rs").is_some());
        assert!(check("runtime/core/src/run_queue.rs").is_none());
        assert!(check("runtime/core/src/commonest.rs").is_none());
    }
}
