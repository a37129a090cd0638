//! Checks the direction of dependencies between the folders of the Lua guest's C files.
//!
//! The folders have an order, so they form no circle. A file may include the headers of its own
//! folder, and the public header (the *face*) of each folder below. It may call functions of its
//! own folder and of folders below. A lower folder calls a higher one through a function pointer,
//! which the higher one installs. Within a folder, includes and calls must not form a circle.

use std::collections::BTreeMap;

use super::circles::Arrows;
use super::finding::Finding;
use super::source::Source;

/// The directory of the folders.
const ROOT: &str = "guests/lua/c/";

/// The folders, beginning with the lowest. Headers beside the folders are below all of them.
const FOLDERS: [&str; 21] = [
    "seam", "state", "heap", "shown", "debugger", "calls", "objects", "process", "copying",
    "sharing", "io", "values", "ffi", "json", "modules", "loopback", "net", "http", "program",
    "vms", "hosting",
];

/// Faces that are not named after their folder. `seam.h` is not a face: the build includes it
/// before each of Lua's own files.
const OTHER_FACES: [&str; 3] = ["seam/guest.h", "seam/internals.h", "state/checks.h"];

/// The header that redirects calls of Lua's own files. It may name functions of any folder.
const NAMES_FOR_LUA: &str = "seam/seam.h";

/// The number of entries that a folder may have.
const ENTRIES: std::ops::RangeInclusive<usize> = 4..=12;

/// A file, with its path below [`ROOT`].
struct File<'text> {
    path: &'text str,
    /// The place of its folder in the order, counted from 1; 0 for a header beside the folders.
    layer: usize,
    text: &'text str,
    source: Source,
}

/// Finds dependencies that lead upwards or form a circle. Each source is a path and a text.
pub(super) fn check(sources: &[(String, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let files = files(sources, &mut findings);
    for (what, arrows) in [
        ("includes", includes(&files, &mut findings)),
        ("calls", calls(&files, &mut findings)),
    ] {
        for arrow in arrows.in_circles() {
            let message = format!("{what} form a circle: {} leads back here", arrow.to);
            let name = format!("{ROOT}{}", arrow.from);
            findings.push(Finding::error(&name, arrow.line, message));
        }
    }
    findings.extend(entries(&files));
    findings
}

/// The calls between the files of each folder.
pub(super) fn arrows(sources: &[(String, String)]) -> Arrows {
    let mut findings = Vec::new();
    calls(&files(sources, &mut findings), &mut findings)
}

/// The files of the folders. Finds those that are in none.
fn files<'text>(
    sources: &'text [(String, String)],
    findings: &mut Vec<Finding>,
) -> Vec<File<'text>> {
    let mut files = Vec::new();
    for (name, text) in sources {
        let Some(path) = name.strip_prefix(ROOT) else {
            continue;
        };
        match layer_of(path) {
            Some(layer) => files.push(File {
                path,
                layer,
                text,
                source: Source::parse(name, text),
            }),
            None => findings.push(Finding::error(
                name,
                0,
                "in none of the folders whose order is known; move it",
            )),
        }
    }
    files
}

fn layer_of(path: &str) -> Option<usize> {
    match path.split_once('/') {
        None => Some(0),
        Some((folder, _)) => FOLDERS
            .iter()
            .position(|known| *known == folder)
            .map(|place| place + 1),
    }
}

fn folder_of(path: &str) -> &str {
    path.split_once('/').map_or("", |(folder, _)| folder)
}

fn is_face(path: &str) -> bool {
    let folder = folder_of(path);
    folder.is_empty()
        || OTHER_FACES.contains(&path)
        || path != NAMES_FOR_LUA && path == format!("{folder}/{folder}.h")
}

fn finding(file: &File<'_>, line: usize, message: String) -> Finding {
    Finding::error(&file.source.name, line, message)
}

/// Finds includes that lead upwards or to a private header. Returns those within folders.
fn includes(files: &[File<'_>], findings: &mut Vec<Finding>) -> Arrows {
    let mut arrows = Arrows::default();
    for file in files {
        for (index, text) in file.text.lines().enumerate() {
            let Some(target) = included(text) else {
                continue;
            };
            let Some(other) = files.iter().find(|other| other.path == target) else {
                continue;
            };
            if other.layer > file.layer {
                let message = format!(
                    "includes {target}, which is above; put it into a higher folder, or have that \
                     one install a function"
                );
                findings.push(finding(file, index + 1, message));
            } else if other.layer < file.layer && !is_face(target) {
                let message = format!("includes {target}, which is private to its folder");
                findings.push(finding(file, index + 1, message));
            } else if other.layer == file.layer {
                arrows.add(file.path, other.path, index + 1);
            }
        }
    }
    arrows
}

fn included(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("#include")?.trim_start();
    rest.strip_prefix('"')?.split('"').next()
}

/// Finds uses of functions of higher folders. Returns the calls within folders.
fn calls(files: &[File<'_>], findings: &mut Vec<Finding>) -> Arrows {
    let mut arrows = Arrows::default();
    let mut definitions = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.ends_with(".c")) {
        for name in functions(&file.source.code) {
            definitions.insert(name, (file.path, file.layer));
        }
    }
    for file in files.iter().filter(|file| file.path != NAMES_FOR_LUA) {
        for (index, line) in file.source.code.iter().enumerate() {
            for word in line.split(|character: char| !is_word(character)) {
                let Some(&(path, layer)) = definitions.get(word) else {
                    continue;
                };
                if layer > file.layer {
                    let message = format!(
                        "names {word} of {path}, which is above; have that folder install it as a \
                         function pointer"
                    );
                    findings.push(finding(file, index + 1, message));
                } else if layer == file.layer && path != file.path && file.path.ends_with(".c") {
                    arrows.add(file.path, path, index + 1);
                }
            }
        }
    }
    arrows
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// The names of the functions that these lines define, except static ones.
fn functions(code: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut line = 0;
    while line < code.len() {
        let starts =
            code[line].starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        if starts {
            let mut head = code[line].clone();
            while !head.contains(['{', ';']) && line + 1 < code.len() {
                line += 1;
                head.push(' ');
                head.push_str(code[line].trim());
            }
            found.extend(function_named(&head));
        }
        line += 1;
    }
    found
}

/// The name of the function that begins here; `None` if there is none or it is static.
fn function_named(head: &str) -> Option<String> {
    let head = head.split_once('{')?.0;
    if head.contains([';', '=']) || head.split_whitespace().any(|word| word == "static") {
        return None;
    }
    let before = match head.strip_prefix("__attribute__") {
        Some(rest) => &rest[rest.find("))")? + 2..],
        None => head,
    };
    let before = before.split_once('(')?.0.trim_end();
    let name = before.rsplit(|c: char| !is_word(c)).next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Finds folders with too many or too few entries.
fn entries(files: &[File<'_>]) -> Vec<Finding> {
    let mut counts = BTreeMap::new();
    for file in files.iter().filter(|file| file.layer > 0) {
        *counts.entry(folder_of(file.path)).or_insert(0) += 1;
    }
    let odd = counts
        .into_iter()
        .filter(|(_, count)| !ENTRIES.contains(count));
    odd.map(|(folder, count)| {
        let message = format!(
            "{count} files, and a folder has {} to {}; divide it or join it with another",
            ENTRIES.start(),
            ENTRIES.end()
        );
        Finding::error(&format!("{ROOT}{folder}"), 0, message)
    })
    .collect()
}

#[cfg(test)]
mod checks {
    use super::*;

    /// The messages about these files, except those about the number of entries.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<(String, String)> = files
            .iter()
            .map(|(path, text)| (format!("{ROOT}{path}"), (*text).to_owned()))
            .collect();
        let messages = check(&sources).into_iter().map(|found| found.to_string());
        messages
            .filter(|text| !text.contains(" files, and "))
            .collect()
    }

    #[test]
    fn lower_folders_may_be_included_and_called() {
        let files = [
            ("record.h", ""),
            (
                "state/state.h",
                "#include \"record.h\"\nvoid end_life(void);\n",
            ),
            (
                "state/life.c",
                "#include \"state/state.h\"\nvoid end_life(void) {\n}\n",
            ),
            (
                "io/files.c",
                "#include \"state/state.h\"\nstatic void close(void) {\n  end_life();\n}\n",
            ),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn an_include_of_a_higher_folder_is_found() {
        let messages = found(&[
            ("io/io.h", ""),
            ("state/life.c", "\n#include \"io/io.h\"\n"),
        ]);
        assert_eq!(messages.len(), 1);
        assert!(messages[0].contains("state/life.c:2"), "{messages:?}");
    }

    #[test]
    fn an_include_of_a_private_header_is_found() {
        let files = [
            ("calls/policies.h", ""),
            ("calls/policies.c", "#include \"calls/policies.h\"\n"),
            ("io/files.c", "#include \"calls/policies.h\"\n"),
        ];
        let messages = found(&files);
        assert_eq!(messages.len(), 1);
        assert!(messages[0].contains("io/files.c:1"), "{messages:?}");
    }

    #[test]
    fn a_name_of_a_higher_folder_is_found_in_code_only() {
        let files = [
            (
                "io/files.c",
                "int open_file(\n    const char *name) {\n  return 0;\n}\nstatic int own(void) \
                 {\n}\n",
            ),
            (
                "state/life.c",
                "/* open_file */\nint own;\nint end(void) {\n  return \
                 open_file(\"open_file\");\n}\n",
            ),
        ];
        let messages = found(&files);
        assert_eq!(messages.len(), 1);
        assert!(messages[0].contains("state/life.c:4"), "{messages:?}");
    }

    #[test]
    fn the_redirections_of_lua_s_files_may_name_any_folder() {
        let files = [
            ("seam/seam.h", "int open_file(void);\n"),
            ("io/files.c", "int open_file(void) { return 0; }\n"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn circles_within_a_folder_are_found() {
        let headers = [
            ("io/io.h", "#include \"io/pipes.h\"\n"),
            ("io/pipes.h", "#include \"io/io.h\"\n"),
        ];
        assert_eq!(found(&headers).len(), 2);
        let calls = [
            ("io/files.c", "void one(void) {\n  two();\n}\n"),
            ("io/pipes.c", "void two(void) {\n  three();\n}\n"),
            (
                "io/reading.c",
                "void three(void) {\n  one();\n}\nvoid four(void) {\n  one();\n}\n",
            ),
        ];
        assert_eq!(found(&calls).len(), 3);
    }

    #[test]
    fn files_in_unknown_folders_and_crowds_are_found() {
        assert_eq!(found(&[("elsewhere/stray.c", "")]).len(), 1);
        let crowd: Vec<(String, String)> = (0..13)
            .map(|number| (format!("{ROOT}io/file{number}.c"), String::new()))
            .collect();
        assert_eq!(check(&crowd).len(), 1);
        assert_eq!(check(&crowd[..12]).len(), 0);
        assert_eq!(check(&crowd[..3]).len(), 1);
    }
}
