//! Tests where `require "baton.cluster"` looks for its file, and which files it refuses.

mod harness;

use harness::{Outcome, Run, baton_path};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory of its own below that of the tests' files. It is there anew for each test.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cluster_file/{name}"));
    let _ = fs::remove_dir_all(&directory); // there may be none
    fs::create_dir_all(&directory).expect("a directory can be made");
    directory
}

/// Puts the program into a directory.
fn program_in(directory: &Path) -> PathBuf {
    let program = directory.join("baton");
    put(baton_path(), &program);
    program
}

fn put(from: &Path, to: &Path) {
    let directory = to.parent().expect("a file is in a directory");
    fs::create_dir_all(directory).expect("a directory can be made");
    if fs::hard_link(from, to).is_err() {
        fs::copy(from, to).expect("it can be copied");
    }
}

/// The module that cargo has built with the tests.
fn module() -> PathBuf {
    let deps = std::env::current_exe().expect("a test knows its program");
    deps.with_file_name("libbaton_cluster.so")
}

fn require(program: &Path) -> Outcome {
    let code = "print(type(require 'baton.cluster'.connect))";
    Run::of(program).code(code).run()
}

/// Compiles a shared library that is not the module.
fn compile(to: &Path, code: &str) {
    let source = to.with_extension("c");
    fs::create_dir_all(to.parent().expect("a file is in a directory")).expect("a directory");
    fs::write(&source, code).expect("the source can be written");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compile = Command::new(compiler);
    compile.args(["-shared", "-fPIC", "-o"]).arg(to);
    let status = compile.arg(&source).status().expect("there is a compiler");
    assert!(status.success());
}

#[test]
fn it_is_found_in_lib_baton_of_the_programs_prefix() {
    let prefix = directory("prefix");
    let program = program_in(&prefix.join("bin"));
    put(&module(), &prefix.join("lib/baton/cluster.so"));
    require(&program).succeeds().wrote("function\n").quietly();
}

#[test]
fn it_is_found_where_cargo_builds_it() {
    let built = directory("built/debug");
    let program = program_in(&built);
    put(&module(), &built.join("deps/libbaton_cluster.so"));
    require(&program).succeeds().wrote("function\n").quietly();
}

/// A program that embeds Lua may be anywhere.
#[test]
fn it_is_found_by_the_search_path_of_modules_in_c() {
    let elsewhere = directory("elsewhere");
    let program = program_in(&elsewhere.join("bin"));
    put(&module(), &elsewhere.join("modules/baton/cluster.so"));
    let path = elsewhere.join("modules/?.so");
    let code = format!(
        "package.cpath = '{}' print(type(require 'baton.cluster'.connect))",
        path.display()
    );
    let outcome = Run::of(&program).code(&code).run();
    outcome.succeeds().wrote("function\n").quietly();
}

#[test]
fn without_the_file_one_error_says_how_to_install_it() {
    let prefix = directory("without");
    let program = program_in(&prefix.join("bin"));
    let place = prefix.join("lib/baton/cluster.so");
    require(&program)
        .ends_with(1)
        .complained("module 'baton.cluster' is a file of its own, which is not there")
        .complained("install a package of Baton")
        .complained("`cargo build --release -p baton-cluster`")
        .complained(&format!("no file '{}'", place.display()))
        .without_panic();
}

#[test]
fn tls_without_its_file_says_how_to_install_it() {
    let prefix = directory("without_web");
    let program = program_in(&prefix.join("bin"));
    let place = prefix.join("lib/baton/web.so");
    let code = "local net = require 'baton.net'
                local listener = net.listen '127.0.0.1:0'
                net.connect(listener:address(), { tls = true })";
    let outcome = Run::of(&program).code(code).run();
    outcome
        .ends_with(1)
        .complained("module 'baton.web' is a file of its own, which is not there")
        .complained("`cargo build --release -p baton-web`")
        .complained(&format!("no file '{}'", place.display()))
        .without_panic();
}

#[test]
fn without_the_file_in_a_build_one_error_says_how_to_build_it() {
    let target = directory("unbuilt");
    for (profile, command) in [
        ("debug", "cargo build -p baton-cluster"),
        ("release", "cargo build --release -p baton-cluster"),
        ("dist", "cargo build --profile dist -p baton-cluster"),
    ] {
        let built = target.join(profile);
        let program = program_in(&built);
        fs::create_dir(built.join(".fingerprint")).expect("a directory can be made");
        let outcome = require(&program);
        outcome
            .ends_with(1)
            .complained(&format!("build it: {command}\n"));
    }
}

#[test]
fn a_file_for_another_version_is_refused_with_both_versions() {
    let prefix = directory("stale");
    let program = program_in(&prefix.join("bin"));
    compile(
        &prefix.join("lib/baton/cluster.so"),
        "const struct { const char *built_for; void *open; } baton_module = \
         {\"0.0.1 (interface 00000000)\", 0};",
    );
    let own = format!(
        "and this is Baton {} (interface ",
        env!("CARGO_PKG_VERSION")
    );
    require(&program)
        .ends_with(1)
        .complained("cluster.so was built for Baton 0.0.1 (interface 00000000), ")
        .complained(&own)
        .complained("cargo build --release -p baton-cluster");
}

#[test]
fn a_file_that_is_no_module_is_refused() {
    let prefix = directory("no_module");
    let program = program_in(&prefix.join("bin"));
    let file = prefix.join("lib/baton/cluster.so");
    compile(&file, "int other;");
    require(&program)
        .ends_with(1)
        .complained("cluster.so is no module of Baton");
    fs::write(&file, "text").expect("the file can be written");
    require(&program)
        .ends_with(1)
        .complained("cluster.so cannot be loaded by Baton");
}
