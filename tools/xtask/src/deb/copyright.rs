//! Writes the package's copyright file. It contains our licences, Lua's, and those of the crates
//! that are linked into the program.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::output;
use crate::cargo::cargo;
use crate::workspace;

/// A crate by other authors that is linked into the program.
pub(crate) struct Linked {
    name: String,
    version: String,
    licence: String,
    authors: Vec<String>,
    /// The directory of its source.
    directory: PathBuf,
}

/// All crates by other authors that are linked into some packages of this workspace for a target of
/// rustc; `None`: for this system.
pub(crate) fn linked_crates(
    packages: &[&str],
    target: Option<&str>,
) -> Result<Vec<Linked>, String> {
    let described = output(&mut cargo(&["metadata", "--format-version", "1"]))?;
    let metadata: Value =
        serde_json::from_str(&described).map_err(|why| format!("cargo metadata: {why}"))?;
    // cargo tree selects the crates for this system and these features.
    let mut tree = cargo(&["tree", "-e", "normal", "--prefix", "none", "--no-dedupe"]);
    tree.args(packages.iter().flat_map(|package| ["-p", *package]));
    if let Some(target) = target {
        tree.args(["--target", target]);
    }
    let tree = output(&mut tree)?;
    let mut needed: Vec<(&str, &str)> = tree
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.next()?.trim_start_matches('v')))
        })
        .collect();
    needed.sort_unstable();
    needed.dedup();
    let known = metadata["packages"]
        .as_array()
        .ok_or("cargo metadata has no packages")?;
    let linked = known
        .iter()
        .filter(|package| !package["source"].is_null())
        .filter_map(Linked::of)
        .filter(|linked| needed.contains(&(linked.name.as_str(), linked.version.as_str())));
    Ok(linked.collect())
}

impl Linked {
    fn of(package: &Value) -> Option<Self> {
        let text = |key: &str| package[key].as_str().map(str::to_owned);
        let authors = package["authors"].as_array()?;
        Some(Self {
            name: text("name")?,
            version: text("version")?,
            licence: text("license")?,
            authors: authors
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            directory: Path::new(&text("manifest_path")?).parent()?.to_path_buf(),
        })
    }

    /// The licence files that come with the crate. The Apache licence is left out, because every
    /// Debian system has it.
    fn notices(&self) -> Result<String, String> {
        let mut notices = String::new();
        let entries = fs::read_dir(&self.directory)
            .map_err(|why| format!("{}: {why}", self.directory.display()))?;
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        files.sort();
        for file in files {
            let name = file
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .to_uppercase();
            let is_notice = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT"]
                .iter()
                .any(|word| name.starts_with(word));
            if is_notice && !name.contains("APACHE") && file.is_file() {
                notices += &fs::read_to_string(&file)
                    .map_err(|why| format!("{}: {why}", file.display()))?;
                notices.push('\n');
            }
        }
        Ok(notices)
    }
}

/// The copyright file in Debian's machine-readable format (DEP-5), for something with Lua in it.
pub(crate) fn text(linked: &[Linked]) -> Result<String, String> {
    text_with(linked, true)
}

/// The copyright file, for something that may have Lua in it.
pub(crate) fn text_with(linked: &[Linked], has_lua: bool) -> Result<String, String> {
    let root = workspace::root();
    let mit = fs::read_to_string(root.join("LICENSE-MIT"))
        .map_err(|why| format!("LICENSE-MIT: {why}"))?;
    let holder = mit
        .lines()
        .find_map(|line| line.strip_prefix("Copyright (c) "))
        .ok_or("LICENSE-MIT names no holder of the copyright")?;
    let mut text = format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: Baton\n\n\
         Files: *\nCopyright: {holder}\nLicense: Expat or Apache-2.0\n"
    );
    if has_lua {
        text += "\nFiles: lua/*\nCopyright: 1994-2025 Lua.org, PUC-Rio\nLicense: Expat\n\
                 Comment: Lua is compiled into the program.\n";
    }
    for one in linked {
        let holders = match one.authors.is_empty() {
            true => format!("the authors of {}", one.name),
            false => one.authors.join("\n "),
        };
        let notices = one.notices()?;
        text += &format!(
            "\nFiles: crates/{}-{}/*\nCopyright: {holders}\nLicense: {}\nComment: Linked into the \
             program or into a module of it. Its own words:\n{}",
            one.name,
            one.version,
            deb_licence(&one.licence),
            folded(&notices)
        );
    }
    let grant = mit
        .split_once("\n\n")
        .and_then(|(_, rest)| rest.split_once("\n\n"));
    let grant = grant.map_or(mit.as_str(), |(_, grant)| grant);
    text += &format!("\nLicense: Expat\n{}", folded(grant));
    text += "\nLicense: Apache-2.0\n On Debian systems the text is in \
             /usr/share/common-licenses/Apache-2.0.\n";
    Ok(text)
}

/// A licence expression of SPDX, in Debian's words.
fn deb_licence(spdx: &str) -> String {
    spdx.replace("MIT", "Expat")
        .replace('/', " OR ")
        .replace(" OR ", " or ")
        .replace(" AND ", " and ")
}

/// Text as the continuation lines of a field: indented, with a full stop on empty lines.
pub(crate) fn folded(text: &str) -> String {
    text.trim()
        .lines()
        .map(|line| match line.trim() {
            "" => " .\n".to_owned(),
            line => format!(" {line}\n"),
        })
        .collect()
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn every_linked_crate_is_named_and_brings_its_notice() {
        let packages = crate::own_modules::with_program("baton");
        let linked = linked_crates(&packages, None).expect("cargo knows the crates");
        assert!(linked.iter().any(|one| one.name == "libc"));
        assert!(
            linked.iter().all(|one| !one.name.starts_with("baton")),
            "our own crates are no others'"
        );
        let text = text(&linked).expect("the licences can be read");
        for one in &linked {
            assert!(text.contains(&format!("\nFiles: crates/{}-{}/*\n", one.name, one.version)));
        }
        assert!(
            text.lines()
                .all(|line| line.is_empty() || line.starts_with(' ') || line.contains(':'))
        );
        assert!(text.contains("\nLicense: Expat\n Permission is hereby granted"));
    }

    /// They were more than half of the interpreter's crates.
    #[test]
    fn the_crates_of_the_cluster_are_in_its_module_and_not_in_the_interpreter() {
        let has_nats = |package: &str| {
            let linked = linked_crates(&[package], None).expect("cargo knows the crates");
            linked.iter().any(|one| one.name == "async-nats")
        };
        assert!(has_nats("baton-cluster"));
        assert!(!has_nats("baton"));
        assert!(!has_nats("baton-lua-library"));
    }

    #[test]
    fn licences_have_the_names_that_debian_gives_them() {
        assert_eq!(deb_licence("MIT OR Apache-2.0"), "Expat or Apache-2.0");
        assert_eq!(deb_licence("MIT/Apache-2.0"), "Expat or Apache-2.0");
    }
}
