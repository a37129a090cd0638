//! Checks that a package built alone has its crates with the features that they have in the
//! whole workspace.
//!
//! Cargo keeps what it has built apart by features. So `cargo build -p baton` after
//! `cargo test --workspace` takes what is there only if the features are alike. To repair a
//! difference, give the crate the missing features in the workspace's `Cargo.toml`; if no crate of
//! ours names it, name it in the package, with a comment.

use std::collections::BTreeSet;

use super::finding::Finding;
use crate::cargo::cargo;
use crate::deb::output;

/// The packages that people, scripts and `cargo xtask` build alone.
pub(super) const BUILT_ALONE: [&str; 5] = [
    "baton",
    "baton-conformance",
    "baton-library",
    "baton-lua-library",
    "xtask",
];

/// The other crates of a build: name, version and features of each.
pub(super) type Crates = BTreeSet<String>;

/// The other crates of a package.
pub(super) fn of(package: &str) -> Result<Crates, String> {
    tree(&["-p", package, "-e", "normal,build"])
}

/// Those of the whole workspace with its tests.
pub(super) fn of_workspace() -> Result<Crates, String> {
    tree(&["--workspace", "-e", "normal,build,dev"])
}

fn tree(words: &[&str]) -> Result<Crates, String> {
    let mut command = cargo(&["tree", "--locked", "--prefix", "none"]);
    command.args(["-f", "{p} with {f}"]).args(words);
    Ok(parse(&output(&mut command)?))
}

/// The lines of `cargo tree`, without the workspace's own crates, which have a path.
fn parse(tree: &str) -> Crates {
    let others = tree.lines().filter(|line| !line.contains("(/"));
    let crates = others.map(|line| line.trim_end_matches("(*)").trim());
    crates.map(str::to_owned).collect()
}

/// Finds the crates of a package that the whole workspace has with other features.
pub(super) fn check(package: &str, alone: &Crates, in_all: &Crates) -> Vec<Finding> {
    let name_of = |line: &str| line.split(" with").next().map(str::to_owned);
    let differs = |line: &&String| !in_all.contains(*line);
    let finding = |line: &String| {
        let same = |other: &&String| name_of(other) == name_of(line);
        let others: Vec<&str> = in_all.iter().filter(same).map(String::as_str).collect();
        Finding::error(
            "Cargo.toml",
            0,
            format!(
                "{package} alone has {line}, and the workspace has {}: cargo builds it twice; give \
                 both the same features",
                others.join(" and ")
            ),
        )
    };
    alone.iter().filter(differs).map(finding).collect()
}

#[cfg(test)]
mod checks {
    use super::*;

    const ALONE: &str = "\
baton v0.1.0 (/baton/tools/baton) with
libc v0.2.1 with default,std
nix v0.31.3 with fs
cc v1.2.0 with
";

    #[test]
    fn a_crate_with_other_features_in_the_workspace_is_found() {
        let all = "libc v0.2.1 with default,std (*)\nnix v0.31.3 with fs,user\n";
        let all = format!("{all}cc v1.2.0 with\n");
        let found = check("baton", &parse(ALONE), &parse(&all));
        let said: Vec<String> = found.iter().map(Finding::to_string).collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains("baton alone has nix v0.31.3 with fs, and the workspace has nix")
                && said[0].contains("with fs,user"),
            "{said:?}"
        );
    }

    #[test]
    fn with_the_same_features_nothing_is_found() {
        let all = parse(&format!("{ALONE}memchr v2.7.0 with default\n"));
        assert_eq!(check("baton", &parse(ALONE), &all), []);
    }
}
