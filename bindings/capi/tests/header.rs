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
