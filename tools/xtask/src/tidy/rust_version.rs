//! Checks that crates and documents name the same version of Rust as the workspace.

use super::finding::Finding;

/// The documents that must name the version. Others may name it.
const MUST_SAY: [&str; 2] = ["CONTRIBUTING.md", "docs/book/src/installing.md"];

/// The path of the workspace's manifest.
const WORKSPACE: &str = "Cargo.toml";

/// Finds manifests and documents that name another version than the workspace's manifest. Each is
/// given as a path and a text.
pub(super) fn check(
    manifests: &[(String, String)],
    documents: &[(String, String)],
) -> Vec<Finding> {
    let workspace = manifests.iter().find(|(name, _)| name == WORKSPACE);
    let stated = workspace.and_then(|(_, text)| text.lines().find_map(stated_in_manifest));
    let Some(wanted) = stated else {
        let message =
            "no `rust-version = \"...\"`; the workspace names the version of Rust for all";
        return vec![Finding::error(WORKSPACE, 0, message)];
    };
    let mut findings = Vec::new();
    // Programs that the benches compare with are workspaces of their own, so they are not checked.
    let is_member = |text: &str| !text.lines().any(|line| line == "[workspace]");
    for (name, text) in manifests
        .iter()
        .filter(|(name, text)| name != WORKSPACE && is_member(text))
    {
        if !text
            .lines()
            .any(|line| line == "rust-version.workspace = true")
        {
            findings.push(Finding::error(
                name,
                0,
                "no `rust-version.workspace = true`; add it",
            ));
        }
    }
    for (name, text) in documents {
        let mut says = false;
        for (index, line) in text.lines().enumerate() {
            for version in stated_in_document(line) {
                says = true;
                if version != wanted {
                    let message = format!("Rust {version} or later, but {WORKSPACE} says {wanted}");
                    findings.push(Finding::error(name, index + 1, message));
                }
            }
        }
        if !says && MUST_SAY.contains(&name.as_str()) {
            let message =
                format!("does not say `Rust {wanted} or later`; readers need the version");
            findings.push(Finding::error(name, 0, message));
        }
    }
    findings
}

fn stated_in_manifest(line: &str) -> Option<&str> {
    line.strip_prefix("rust-version = \"")?.strip_suffix('"')
}

/// The versions that a line states in the form "Rust 1.95 or later". "Rust" may be a link.
fn stated_in_document(line: &str) -> Vec<&str> {
    let Some(first) = line.find("Rust") else {
        return Vec::new();
    };
    let before = line[first..].split(" or later").collect::<Vec<_>>();
    let (_, pieces) = before.split_last().unwrap_or((&"", &[]));
    let last_word = |piece: &&'_ str| piece.rfind(' ').map(|at| at + 1);
    pieces
        .iter()
        .filter_map(|piece| last_word(piece).map(|at| &piece[at..]))
        .filter(|word| {
            word.starts_with("1.")
                && word[2..]
                    .chars()
                    .all(|character| character.is_ascii_digit())
        })
        .collect()
}

#[cfg(test)]
mod checks {
    use super::*;

    fn found(crate_manifest: &str, document: &str, text: &str) -> Vec<String> {
        let manifests = [
            (
                "Cargo.toml".to_owned(),
                "[workspace.package]\nrust-version = \"1.95\"\n".to_owned(),
            ),
            ("tools/x/Cargo.toml".to_owned(), crate_manifest.to_owned()),
        ];
        let documents = [(document.to_owned(), text.to_owned())];
        check(&manifests, &documents)
            .iter()
            .map(Finding::to_string)
            .collect()
    }

    const FOLLOWS: &str = "rust-version.workspace = true\n";

    #[test]
    fn the_same_version_everywhere_is_right() {
        let text = "You need Rust 1.95 or later.\n[Rust](https://rustup.rs) 1.95 or later and a C \
                    compiler\n";
        assert!(found(FOLLOWS, "CONTRIBUTING.md", text).is_empty());
    }

    #[test]
    fn another_version_is_found_in_documents_and_crates() {
        let in_document = found(
            FOLLOWS,
            "README.md",
            "\nwith [Rust](https://rustup.rs) 1.88 or later\n",
        );
        assert_eq!(in_document.len(), 1, "{in_document:?}");
        assert!(in_document[0].contains("1.88"), "{in_document:?}");
        let in_crate = found("rust-version = \"1.88\"\n", "README.md", "");
        assert_eq!(in_crate.len(), 1, "{in_crate:?}");
    }

    #[test]
    fn a_document_that_must_name_the_version_is_checked() {
        assert_eq!(
            found(FOLLOWS, "docs/book/src/installing.md", "with Rust\n").len(),
            1
        );
        assert!(
            found(
                FOLLOWS,
                "docs/book/src/idle.md",
                "Rust, and Linux 5.11 or later\n"
            )
            .is_empty()
        );
    }
}
