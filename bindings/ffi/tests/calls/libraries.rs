//! Libraries by their names.

use baton_ffi::library::Library;

use crate::compiler;

#[test]
fn names_and_scripts_lead_to_libraries() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let path = compiler::library("int answer(void) { return 42; }", directory.path());
    let script = directory.path().join("libscript.so");
    std::fs::write(
        &script,
        format!("/* GNU ld script */\nGROUP ( {} )\n", path.display()),
    )
    .expect("it is writable");
    let library =
        Library::load(&script.to_string_lossy(), false).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(library.name(), path.to_string_lossy());
    library
        .symbol("answer")
        .unwrap_or_else(|error| panic!("{error}"));
    std::fs::write(
        &script,
        "no library at all, and long enough to hold what a library's head would need ....",
    )
    .expect("it is writable");
    assert!(Library::load(&script.to_string_lossy(), false).is_err());
}
