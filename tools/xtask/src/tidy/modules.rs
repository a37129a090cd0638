//! Checks that the files of a library crate form no circle.
//!
//! An arrow leads from a file to each file whose items it names by a path that begins with `crate`
//! or `super`. A name that a module re-exports belongs to the file that has it. A module and the
//! modules inside it are one part of the crate: arrows between them do not count. Tests do not
//! count, either.

use std::collections::BTreeMap;

use super::circles::Arrows;
use super::finding::Finding;
use super::source::Source;

/// The directories of the crates that are checked.
const LIBRARIES: [&str; 4] = ["runtime/", "bindings/", "guests/", "tools/formats"];

/// How many re-exports of one name are followed.
const REEXPORTS: usize = 4;

/// A path, such as `["vm", "inside"]`.
type Path = Vec<String>;

/// A file of a crate.
struct Module<'text> {
    source: &'text Source,
    /// The code without tests, and the offset of each line in it.
    code: Vec<char>,
    lines: Vec<usize>,
    /// The paths of the names that the file re-exports.
    exports: BTreeMap<String, Path>,
}

/// A crate: its files by their module paths.
type Modules<'text> = BTreeMap<Path, Module<'text>>;

/// Finds circles of files.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (_, arrows) in arrows(sources) {
        for arrow in arrows.in_circles() {
            let message = format!("modules form a circle: {} leads back here", arrow.to);
            findings.push(Finding::error(arrow.from, arrow.line, message));
        }
    }
    findings
}

/// The directory of each crate, with the arrows between its files.
pub(super) fn arrows(sources: &[Source]) -> Vec<(String, Arrows)> {
    let mut crates: BTreeMap<String, Modules<'_>> = BTreeMap::new();
    for source in sources {
        let Some((root, path)) = source.name.split_once("/src/") else {
            continue;
        };
        let is_library = LIBRARIES.iter().any(|library| root.starts_with(library));
        if is_library && let Some(path) = module_path(path) {
            let modules = crates.entry(root.to_owned()).or_default();
            modules.insert(path, Module::parse(source));
        }
    }
    crates
        .into_iter()
        .map(|(root, modules)| (root, arrows_of(&modules)))
        .collect()
}

/// The module path of a file below `src`; `None` if it is not Rust.
fn module_path(file: &str) -> Option<Path> {
    let mut path: Path = file
        .strip_suffix(".rs")?
        .split('/')
        .map(str::to_owned)
        .collect();
    if path.last().is_some_and(|last| last == "mod") || path == ["lib"] {
        path.pop();
    }
    Some(path)
}

fn arrows_of(modules: &Modules<'_>) -> Arrows {
    let mut arrows = Arrows::default();
    for (own, module) in modules {
        for (at, named) in module.named_paths(own) {
            let target = resolve(modules, named);
            if !target.starts_with(own)
                && !own.starts_with(&target)
                && let Some(other) = modules.get(&target)
            {
                let line = module.lines.partition_point(|&start| start <= at);
                arrows.add(&module.source.name, &other.source.name, line);
            }
        }
    }
    arrows
}

/// The module whose file has what `named` names.
fn resolve(modules: &Modules<'_>, mut named: Path) -> Path {
    for _ in 0..REEXPORTS {
        let depth = (0..=named.len())
            .rev()
            .find(|&depth| modules.contains_key(&named[..depth]))
            .unwrap_or(0);
        let export = named
            .get(depth)
            .and_then(|name| modules.get(&named[..depth])?.exports.get(name));
        match export {
            Some(path) => named = path.clone(),
            None => {
                named.truncate(depth);
                return named;
            }
        }
    }
    named
}

impl<'text> Module<'text> {
    fn parse(source: &'text Source) -> Self {
        let (mut code, mut lines) = (Vec::new(), Vec::new());
        for (line, is_test) in source.code.iter().zip(&source.is_test) {
            lines.push(code.len());
            if !is_test {
                code.extend(line.chars());
            }
            code.push('\n');
        }
        let path = source
            .name
            .split_once("/src/")
            .and_then(|(_, path)| module_path(path));
        let exports = exports(&code, &path.unwrap_or_default());
        Module {
            source,
            code,
            lines,
            exports,
        }
    }

    /// The paths in the code that begin with `crate` or `super`, and where they begin. They are
    /// complete, from the root of the crate.
    fn named_paths(&self, own: &Path) -> Vec<(usize, Path)> {
        let mut found = Vec::new();
        for (at, word) in words(&self.code) {
            let base = match word.as_str() {
                "crate" => Path::new(),
                "super" => parent(own),
                _ => continue,
            };
            let follows_path = at > 0 && matches!(self.code[at - 1], ':' | '$');
            if !follows_path {
                let mut leaves = Vec::new();
                read_tree(&self.code, at + word.len(), base, &mut leaves);
                found.extend(leaves.into_iter().map(|leaf| (at, leaf)));
            }
        }
        found
    }
}

fn parent(path: &Path) -> Path {
    path[..path.len().saturating_sub(1)].to_vec()
}

/// The names that `pub use` statements re-export from modules inside this one.
fn exports(code: &[char], own: &Path) -> BTreeMap<String, Path> {
    let mut found = BTreeMap::new();
    let words = words(code);
    for window in words.windows(3) {
        let is_public = window[0].1 == "pub"
            && (window[1].1 == "use" || window[1].1 == "crate" && window[2].1 == "use");
        if !is_public {
            continue;
        }
        let (at, _) = if window[1].1 == "use" {
            window[1].clone()
        } else {
            window[2].clone()
        };
        let mut leaves = Vec::new();
        read_segments(code, at + "use".len(), own.clone(), &mut leaves);
        for leaf in leaves {
            if let Some(name) = leaf.last() {
                found.insert(name.clone(), leaf.clone());
            }
        }
    }
    found
}

/// The words of the code, and where they begin.
fn words(code: &[char]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let word = word_at(code, at);
        if !word.is_empty() {
            found.push((at, word.clone()));
        }
        at += word.len().max(1);
    }
    found
}

fn word_at(code: &[char], at: usize) -> String {
    let rest = code[at..].iter();
    rest.take_while(|c| c.is_ascii_alphanumeric() || **c == '_')
        .collect()
}

fn skip_blanks(code: &[char], mut at: usize) -> usize {
    while code.get(at).is_some_and(|c| c.is_whitespace()) {
        at += 1;
    }
    at
}

/// Reads what follows a part of a path: `::` and a tree, or nothing. Adds the complete paths to
/// `leaves`. Returns where it stopped.
fn read_tree(code: &[char], at: usize, path: Path, leaves: &mut Vec<Path>) -> usize {
    let start = skip_blanks(code, at);
    if code[start..].starts_with(&[':', ':']) {
        read_segments(code, start + 2, path, leaves)
    } else {
        leaves.push(path);
        at
    }
}

/// Reads a name and what follows it, or a group in braces.
fn read_segments(code: &[char], at: usize, mut path: Path, leaves: &mut Vec<Path>) -> usize {
    let mut at = skip_blanks(code, at);
    if code.get(at) == Some(&'{') {
        at += 1;
        while at < code.len() && code[at] != '}' {
            let stopped = read_segments(code, at, path.clone(), leaves);
            // An alias, a comma, a blank.
            at = stopped.max(at + 1);
            while at < code.len() && code[at] != ',' && code[at] != '}' {
                at += 1;
            }
            at = skip_blanks(code, at + usize::from(code.get(at) == Some(&',')));
        }
        return at + 1;
    }
    let word = word_at(code, at);
    if word.is_empty() {
        leaves.push(path);
        return at;
    }
    match word.as_str() {
        "super" => path = parent(&path),
        "self" => {}
        _ => path.push(word.clone()),
    }
    read_tree(code, at + word.len(), path, leaves)
}

#[cfg(test)]
mod checks {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| Source::parse(&format!("runtime/core/src/{path}"), text))
            .collect();
        check(&sources).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_circle_of_two_files_is_found_at_both() {
        let messages = found(&[
            ("lib.rs", "mod one;\nmod two;\n"),
            ("one.rs", "use crate::two::{Two, Other as Another};\n"),
            ("two.rs", "\nfn f() { super::one::g(); }\n"),
        ]);
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert!(messages[0].contains("src/one.rs:1"), "{messages:?}");
        assert!(messages[1].contains("src/two.rs:2"), "{messages:?}");
    }

    #[test]
    fn a_circle_of_three_files_in_groups_is_found() {
        let messages = found(&[
            ("a/mod.rs", ""),
            ("a/x.rs", "use crate::{\n    a::{y::Y, z},\n    b::B,\n};\n"),
            ("a/y.rs", "use super::z;\n"),
            ("a/z.rs", "use super::{super::b, x::X};\n"),
            ("b.rs", ""),
        ]);
        assert_eq!(messages.len(), 4, "{messages:?}");
    }

    #[test]
    fn arrows_down_and_within_a_module_are_no_circle() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\n"),
            (
                "a/mod.rs",
                "mod x;\nuse x::X;\npub(in crate::a) struct A;\n",
            ),
            ("a/x.rs", "use super::A;\nuse crate::b::B;\n"),
            ("b.rs", "// crate::a::A\nstruct B;\n"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn a_name_that_is_reexported_belongs_to_its_file() {
        let through = |reexport: &str| {
            found(&[
                (
                    "a/mod.rs",
                    &format!("mod x;\n{reexport}\nuse crate::b::B;\n"),
                ),
                ("a/x.rs", "pub struct X;\n"),
                ("b.rs", "use crate::a::X;\n"),
            ])
        };
        assert_eq!(through("pub use x::{X, Y};"), [""; 0]);
        assert_eq!(through("pub(crate) use self::x::X;"), [""; 0]);
        assert_eq!(through("struct X;").len(), 2);
    }

    #[test]
    fn tests_and_other_crates_do_not_count() {
        let text = "use crate::one::One;\n";
        let files = [
            (
                "one.rs",
                "#[cfg(test)]\nmod tests {\n    use crate::two::Two;\n}\n",
            ),
            ("two.rs", text),
        ];
        assert_eq!(found(&files), [""; 0]);
        let tool = [
            Source::parse("tools/bench/src/one.rs", "use crate::two::Two;\n"),
            Source::parse("tools/bench/src/two.rs", text),
        ];
        assert!(check(&tool).is_empty());
    }
}
