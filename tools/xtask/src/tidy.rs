//! `cargo xtask tidy`: checks rules on the sources that no compiler checks.
//!
//! Each rule is one module. It gets the text of one file, or of all files, and returns its
//! findings. A rule never reads files itself, so that its tests can give it small bad examples. The
//! rules also run as a test of this crate.

mod c_layers;
mod circles;
mod features;
mod finding;
mod jumps;
mod layers;
mod length;
mod links;
mod modules;
mod names;
mod orderings;
mod rust_version;
mod signal_safe;
mod source;
mod width;
mod words;

use std::path::Path;

use crate::Outcome;
use crate::workspace;
use finding::{Finding, Severity};
use source::Source;

/// The extensions of our text files. Files without an extension are also ours if they are in `.ci`.
const TEXT: [&str; 8] = ["rs", "c", "h", "lua", "md", "toml", "sh", "yml"];

/// Texts by other authors, which are not checked.
const NOT_OURS: [&str; 3] = ["Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT"];

/// `cargo xtask tidy [--graph]`.
pub(crate) fn run_with(arguments: &[String]) -> Outcome {
    match arguments {
        [] => run(),
        [graph] if graph == "--graph" => draw(&workspace::root()),
        _ => Err(format!(
            "'tidy' takes --graph or nothing, but got '{}'",
            arguments.join(" ")
        )),
    }
}

/// Prints which file uses which: in the Rust libraries, and within the folders of the Lua guest's C
/// files.
fn draw(root: &Path) -> Outcome {
    let read = read(root)?;
    for (directory, arrows) in modules::arrows(&read.sources) {
        println!(
            "{directory}\n{}",
            arrows.drawn(&format!("{directory}/src/"))
        );
    }
    println!(
        "calls in guests/lua/c\n{}",
        c_layers::arrows(&read.c_files).drawn("")
    );
    Ok(())
}

/// Checks the workspace and prints the findings. Returns an error if one is more than a warning.
pub(crate) fn run() -> Outcome {
    let findings = check(&workspace::root())?;
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings
        .iter()
        .filter(|finding| finding.severity == Severity::Error)
        .count();
    let warnings = findings.len() - errors;
    match errors {
        0 => {
            println!("tidy: no errors, {warnings} warnings");
            Ok(())
        }
        _ => Err(format!("tidy: {errors} errors, {warnings} warnings")),
    }
}

/// Our files that several rules read.
#[derive(Default)]
struct Files {
    /// The names and texts of all.
    texts: Vec<(String, String)>,
    /// Those in Rust and C.
    sources: Vec<Source>,
    c_files: Vec<(String, String)>,
}

fn read(root: &Path) -> Result<Files, String> {
    let mut files = Files::default();
    for path in workspace::files(root)? {
        let name = workspace::shown(root, &path);
        if !is_ours(&name) {
            continue;
        }
        let bytes = std::fs::read(&path).map_err(|why| format!("cannot read {name}: {why}"))?;
        let text = String::from_utf8(bytes).map_err(|_| format!("{name} is not UTF-8"))?;
        let is_c = name.ends_with(".c") || name.ends_with(".h");
        if is_c || name.ends_with(".rs") {
            files.sources.push(Source::parse(&name, &text));
        }
        if is_c {
            files.c_files.push((name.clone(), text.clone()));
        }
        files.texts.push((name, text));
    }
    Ok(files)
}

fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let files = read(root)?;
    let mut findings = Vec::new();
    for (name, text) in &files.texts {
        findings.extend(names::check(name));
        findings.extend(width::check(name, text));
        findings.extend(words::check(name, text, root));
        if name.ends_with(".md") {
            findings.extend(links::check(name, text, |target| {
                root.join(target).exists()
            }));
        }
    }
    for source in &files.sources {
        findings.extend(length::check(source));
        findings.extend(words::check_unsafe(source));
        findings.extend(orderings::check(source));
        findings.extend(jumps::check(source));
    }
    let ending = |ending: &str| -> Vec<(String, String)> {
        let texts = files
            .texts
            .iter()
            .filter(|(name, _)| name.ends_with(ending));
        texts.cloned().collect()
    };
    let (manifests, documents) = (ending("Cargo.toml"), ending(".md"));
    findings.extend(names::check_types(&files.sources));
    findings.extend(layers::check(&manifests));
    findings.extend(modules::check(&files.sources));
    findings.extend(c_layers::check(&files.c_files));
    findings.extend(signal_safe::check(&files.sources));
    findings.extend(rust_version::check(&manifests, &documents));
    let of_all = features::of_workspace()?;
    for package in features::BUILT_ALONE {
        findings.extend(features::check(package, &features::of(package)?, &of_all));
    }
    Ok(findings)
}

fn is_ours(name: &str) -> bool {
    if NOT_OURS.contains(&name) {
        return false;
    }
    match Path::new(name)
        .extension()
        .and_then(|extension| extension.to_str())
    {
        Some(extension) => TEXT.contains(&extension),
        None => name.starts_with(".ci/"),
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let findings = check(&workspace::root()).expect("the workspace to be readable");
        let errors: Vec<String> = findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error)
            .map(Finding::to_string)
            .collect();
        assert!(errors.is_empty(), "\n{}", errors.join("\n"));
    }

    #[test]
    fn the_checked_tree_has_the_expected_files() {
        let root = workspace::root();
        let files = workspace::files(&root).expect("the workspace to be readable");
        let names: Vec<String> = files
            .iter()
            .map(|path| workspace::shown(&root, path))
            .collect();
        for expected in [
            "Cargo.toml",
            "README.md",
            ".ci/run",
            "runtime/sys/src/lib.rs",
            "tools/xtask/src/tidy.rs",
        ] {
            assert!(names.iter().any(|name| name == expected), "{expected}");
        }
        assert!(
            !names
                .iter()
                .any(|name| name.starts_with("target/") || name.starts_with(".git/"))
        );
    }
}
