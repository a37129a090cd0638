//! Finds dead links in documents.

use super::finding::Finding;

/// Finds relative links whose target does not exist. `exists` gets paths from the workspace's root.
pub(super) fn check(name: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_fence = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
            continue;
        }
        if in_fence {
            continue;
        }
        for target in targets(line) {
            let file = target.split('#').next().unwrap_or_default();
            let leads_elsewhere = file.contains("://") || file.starts_with("mailto:");
            if file.is_empty() || leads_elsewhere {
                continue;
            }
            match resolve(name, file) {
                Some(path) if exists(&path) => {}
                Some(path) => findings.push(Finding::error(
                    name,
                    index + 1,
                    format!("dead link: no file {path}"),
                )),
                None => findings.push(Finding::error(
                    name,
                    index + 1,
                    format!("a link out of the tree: {file}"),
                )),
            }
        }
    }
    findings
}

/// The targets of a line's links: `[text](target)` anywhere, and `[name]: target` at the start.
fn targets(line: &str) -> Vec<&str> {
    let line_without_code: Vec<&str> = line.split('`').collect();
    let mut found = Vec::new();
    // The odd pieces are between backquotes, so they are code. A link's text may be code, but not
    // its target.
    for piece in line_without_code.iter().step_by(2) {
        for after in piece.split("](").skip(1) {
            let inside = after.split(')').next().unwrap_or_default();
            found.extend(inside.split_whitespace().next());
        }
    }
    let definition = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]:"));
    found.extend(definition.and_then(|(_, target)| target.split_whitespace().next()));
    found
}

/// The path, from the workspace's root, of a link's target; `None` if it is outside of the root.
fn resolve(document: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod checks {
    use super::*;

    const NOWHERE: [usize; 0] = [];

    fn dead(document: &str, text: &str) -> Vec<usize> {
        let exists = |path: &str| ["README.md", "docs/guide.md", "docs"].contains(&path);
        check(document, text, exists)
            .iter()
            .map(Finding::line)
            .collect()
    }

    #[test]
    fn links_are_resolved_from_the_document_that_has_them() {
        assert_eq!(
            dead("README.md", "see [a](docs/guide.md#start) and [b](./docs/)"),
            NOWHERE
        );
        assert_eq!(
            dead("docs/guide.md", "[up](../README.md)\n[code `x`](guide.md)"),
            NOWHERE
        );
        assert_eq!(dead("docs/guide.md", "\n[gone](README.md)"), [2]);
    }

    #[test]
    fn reference_definitions_are_links_too() {
        assert_eq!(
            dead("README.md", "[a]: nowhere.md\n[b]: docs/guide.md\n"),
            [1]
        );
    }

    #[test]
    fn a_link_out_of_the_tree_is_found() {
        assert_eq!(dead("README.md", "[out](../elsewhere.md)"), [1]);
    }

    #[test]
    fn code_the_web_and_places_within_the_document_are_left_alone() {
        let text = "`a[i](x)` [w](https://example.org/a) [h](#here)\n```lua\nt[1](y)\n```\n";
        assert_eq!(dead("README.md", text), NOWHERE);
    }
}
