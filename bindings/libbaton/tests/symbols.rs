//! `libbaton.a` has the functions that `baton.h` declares, and no others.

mod library;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// What `runtime/sys/c/gate.h` declares.
const OF_THE_GATE: [&str; 4] = [
    "baton_gate",
    "baton_gate_check_enter",
    "baton_gate_check_leave",
    "baton_gate_here",
];

/// The variable of the header.
const VARIABLE: &str = "baton_memory_is_short";

/// The names of functions that a header declares: the first `baton_...(` after each tag.
fn declared(header: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../capi/include")
        .join(header);
    let text = std::fs::read_to_string(path).expect("the header is there");
    let code: String = text
        .split("/*")
        .map(|part| part.split_once("*/").map_or(part, |(_, code)| code))
        .flat_map(|part| part.split_inclusive('\n'))
        .filter(|line| !line.starts_with('#'))
        .collect();
    code.split(';')
        .filter(|declaration| declaration.contains("BATON_") && !declaration.contains('{'))
        .filter_map(|declaration| {
            let (before, _) = declaration.split_once('(')?;
            let name = before.rsplit([' ', '*', '\n']).next()?;
            name.starts_with("baton_").then(|| name.to_owned())
        })
        .collect()
}

#[test]
fn the_library_has_the_functions_of_the_header() {
    let listed = Command::new("nm")
        .args(["--extern-only", "--defined-only", "--format=posix"])
        .arg(library::LIBRARY.built())
        .output()
        .expect("nm comes with the linker, which the build needs too");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let exported: BTreeSet<String> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| name.starts_with("baton_"))
        .filter(|name| !OF_THE_GATE.contains(name) && *name != VARIABLE)
        .map(str::to_owned)
        .collect();
    let mut expected = declared("baton.h");
    expected.extend(declared("baton/guest.h"));
    expected.extend(declared("baton/shared.h"));
    assert!(expected.len() > 150, "{expected:?}");
    let missing: Vec<_> = expected.difference(&exported).collect();
    let unknown: Vec<_> = exported.difference(&expected).collect();
    assert!(
        missing.is_empty(),
        "declared, not in the library: {missing:?}"
    );
    assert!(
        unknown.is_empty(),
        "in the library, not declared: {unknown:?}"
    );
}
