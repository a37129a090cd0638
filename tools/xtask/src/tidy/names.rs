//! Finds file names that say nothing about what is in the file.

use super::finding::Finding;

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

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn names_that_say_nothing_are_found_for_files_and_directories() {
        assert!(check("runtime/core/src/utils.rs").is_some());
        assert!(check("tools/baton/tests/common/mod.rs").is_some());
        assert!(check("runtime/core/src/run_queue.rs").is_none());
        assert!(check("runtime/core/src/commonest.rs").is_none());
    }
}
