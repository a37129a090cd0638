//! `baton.h` compiles by itself as C and C++, and says of each function from where it may be
//! called.

use std::path::{Path, PathBuf};
use std::process::Command;

const TAGS: [&str; 4] = [
    "BATON_INSIDE ",
    "BATON_OUTSIDE ",
    "BATON_ANY_THREAD ",
    "BATON_SIGNAL_HANDLER ",
];

fn header() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include/baton.h")
}

/// Compiles a file that includes nothing but the header, with all warnings as errors.
fn compiles(language: &str, standard: &str) {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let outcome = Command::new(compiler)
        .args(["-x", language, standard, "-fsyntax-only"])
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .arg(header())
        .output()
        .expect("there is a C compiler, which the build needs too");
    let said = String::from_utf8_lossy(&outcome.stderr);
    // A header alone gives no code; some compilers warn of a pragma in the main file.
    assert!(outcome.status.success(), "{language} {standard}: {said}");
}

#[test]
fn it_is_c11() {
    compiles("c", "-std=c11");
}

#[test]
fn it_is_cpp17_where_the_compiler_knows_cpp() {
    let knows = Command::new("c++").arg("--version").output();
    if knows.is_ok_and(|output| output.status.success()) {
        compiles("c++", "-std=c++17");
    }
}

/// The symbols that an object needs, compiled from calls of the gate's functions.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
fn needed(flag: &str) -> String {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let object = directory.join(format!("gate{flag}.o"));
    let source = directory.join("gate.c");
    let text = "#include \"baton.h\"\nint all(baton_vm *vm);\nint all(baton_vm *vm) {\n  \
                baton_leave(vm);\n  baton_enter(vm);\n  return baton_wants_safepoint(vm);\n}\n";
    std::fs::write(&source, text).expect("a source file");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let compiled = Command::new(compiler)
        .args(["-c", "-std=c11", "-O0", "-Wall", "-Wextra", "-Wpedantic"])
        .args(["-Werror", flag, "-I"])
        .arg(header().with_file_name(""))
        .arg(&source)
        .arg("-o")
        .arg(&object)
        .output()
        .expect("there is a C compiler, which the build needs too");
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{said}");
    let listed = Command::new("nm")
        .args(["--undefined-only", "--format=posix"])
        .arg(&object)
        .output()
        .expect("nm comes with the linker, which the build needs too");
    let listed = String::from_utf8_lossy(&listed.stdout);
    let names = listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| name.starts_with("baton_"));
    names.collect::<Vec<_>>().join(" ")
}

#[test]
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
fn the_gate_is_inlined_unless_a_program_does_not_want_that() {
    assert_eq!(
        needed("-DINLINE"),
        "baton_enter_cold baton_gate baton_gate_mistaken"
    );
    assert_eq!(
        needed("-DBATON_NO_INLINE"),
        "baton_enter baton_leave baton_wants_safepoint"
    );
}

/// Whether this declares a pointer to a function: a member of a structure.
fn is_member(declaration: &str) -> bool {
    declaration
        .split_once('(')
        .is_some_and(|(_, rest)| rest.starts_with('*'))
}

/// The declarations of functions: what ends in `);` and is no type.
fn declarations(text: &str) -> Vec<String> {
    let without_comments = text
        .split("/*")
        .map(|part| part.split_once("*/").map_or(part, |(_, code)| code))
        .collect::<String>();
    let code: String = without_comments
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect::<Vec<_>>()
        .join(" ");
    code.split(';')
        .map(|declaration| declaration.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|declaration| declaration.ends_with(')') && !declaration.starts_with("typedef"))
        .filter(|declaration| !is_member(declaration))
        .map(|declaration| declaration.replace("extern \"C\" { ", ""))
        .collect()
}

/// Whether a line begins a declaration at the top of the header: a function, a type, a constant.
fn begins_declaration(line: &str) -> bool {
    let is_function = TAGS.iter().any(|tag| line.starts_with(tag));
    let is_type = line.starts_with("enum") || line.starts_with("typedef");
    let is_structure = line.starts_with("struct ") && (line.ends_with('{') || line.ends_with(';'));
    is_function || is_type || is_structure
}

#[test]
fn each_declaration_has_a_comment_of_its_own() {
    for file in ["baton.h", "baton/guest.h", "baton/shared.h"] {
        let text = std::fs::read_to_string(header().with_file_name(file)).expect("the header");
        let lines: Vec<&str> = text.lines().collect();
        let bare: Vec<&str> = lines
            .windows(2)
            .filter(|pair| begins_declaration(pair[1]) && !pair[0].ends_with("*/"))
            .map(|pair| pair[1])
            .filter(|line| *line != "struct baton_spawn_options;") // baton.h has it
            .collect();
        assert_eq!(bare, [""; 0], "{file}");
    }
}

#[test]
fn each_parameter_has_a_name() {
    let read = |path: PathBuf| std::fs::read_to_string(path).expect("the header is there");
    let mut all = declarations(&read(header()));
    all.extend(declarations(&read(
        header().with_file_name("baton/guest.h"),
    )));
    for declaration in all {
        let (_, list) = declaration.split_once('(').expect("a function");
        let list = list.trim_end_matches(')');
        for parameter in list
            .split(',')
            .filter(|_| list != "void" && !list.contains('('))
        {
            let words = parameter.replace('*', " ");
            let count = words.split_whitespace().count();
            assert!(count >= 2, "{declaration}");
        }
    }
}

#[test]
fn each_function_says_from_where_it_may_be_called() {
    let read = |path: PathBuf| std::fs::read_to_string(path).expect("the header is there");
    let mut all = declarations(&read(header()));
    let of_guest = declarations(&read(header().with_file_name("baton/guest.h")));
    assert!(of_guest.len() > 12, "{of_guest:?}");
    all.extend(of_guest);
    assert!(all.len() > 100, "{all:?}");
    for declaration in all {
        let is_tagged = TAGS.iter().any(|tag| declaration.starts_with(tag));
        assert!(is_tagged, "no tag: {declaration}");
    }
}
