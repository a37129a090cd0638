//! `cargo xtask ci`: everything that continuous integration checks besides the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::cargo::{Steps, cargo, cargo_with_flags};
use crate::checker::Checker;
use crate::dist::zig;
use crate::readers::TYPOS;
use crate::{tidy, workspace};

/// The crates that have loom tests, with directory and name.
const LOOM_CRATES: [(&str, &str); 2] =
    [("runtime/sys", "baton-sys"), ("runtime/core", "baton-core")];

/// The systems for which the runtime and its bindings are compiled, and never run.
const ONLY_COMPILED: [&str; 2] = ["aarch64-apple-darwin", "x86_64-unknown-freebsd"];

/// The largest number of preemptions in an interleaving that loom explores.
const LOOM_PREEMPTIONS: &str = "2";

const CARGO_DENY: Checker = Checker {
    package: "cargo-deny",
    version: "0.18.9",
    program: "cargo-deny",
};

/// Advisories are left out. Their database is a git repository, which some networks cannot reach.
const DENIED: [&str; 4] = ["check", "licenses", "bans", "sources"];

/// Runs every check, even if an earlier one failed, and prints a summary.
pub(crate) fn run() -> Outcome {
    let mut steps = Steps::of("ci");
    steps.run("format", &mut cargo(&["fmt", "--all", "--check"]));
    steps.check("tidy", tidy::run);
    // Each lane has its own directory of build output. Alone, each one often leaves a processor
    // idle.
    steps.run_lanes(vec![
        Box::new(compiler_checks),
        Box::new(loom),
        Box::new(|steps| {
            for triple in ONLY_COMPILED {
                steps.check(&format!("compile for {triple}"), || zig::check(triple));
            }
            let typos = TYPOS.install_in_target();
            let typos = typos.map(|directory| directory.join("bin/typos"));
            run_checker("typos", typos, &[], steps);
            let deny = CARGO_DENY.installed();
            run_checker(CARGO_DENY.package, deny, &DENIED, steps);
        }),
    ]);
    steps.finish()
}

/// What the compiler and rustdoc say.
fn compiler_checks(steps: &mut Steps) {
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    steps.run("clippy", &mut cargo(&clippy));
    let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
    steps.run("documentation", doc.env("RUSTDOCFLAGS", "-D warnings"));
}

/// Runs the loom tests. They are in files whose name starts with `loom_`, under a crate's `tests`
/// or beside the code.
fn loom(steps: &mut Steps) {
    for (directory, package) in LOOM_CRATES {
        match loom_invocations(&workspace::root().join(directory), package) {
            Ok(invocations) if invocations.is_empty() => {
                steps.check(&format!("loom, {package}"), || {
                    Err(format!("no file loom_*.rs in {directory}"))
                });
            }
            Ok(invocations) => {
                for arguments in invocations {
                    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
                    let mut command = cargo_with_flags(&words, "--cfg loom", "loom");
                    command.env("LOOM_MAX_PREEMPTIONS", LOOM_PREEMPTIONS);
                    steps.run(&format!("loom, {package}"), &mut command);
                }
            }
            Err(why) => steps.check(&format!("loom, {package}"), || Err(why)),
        }
    }
}

/// The arguments for cargo that run all loom tests of a crate, and no other tests.
fn loom_invocations(directory: &Path, package: &str) -> Result<Vec<Vec<String>>, String> {
    let base = ["test", "--release", "-p", package]
        .map(str::to_owned)
        .to_vec();
    let mut invocations = Vec::new();

    let mut of_tests = base.clone();
    for name in loom_files(&directory.join("tests"))? {
        of_tests.extend(["--test".to_owned(), name]);
    }
    if of_tests.len() > base.len() {
        invocations.push(of_tests);
    }
    if !loom_files(&directory.join("src"))?.is_empty() {
        let mut of_library = base;
        // The name of a test contains the name of its module, which is the name of its file.
        of_library.extend(["--lib", "loom_"].map(str::to_owned));
        invocations.push(of_library);
    }
    Ok(invocations)
}

/// The names, without extension, of the files below `directory` that hold loom tests. The list is
/// empty if the directory does not exist.
fn loom_files(directory: &Path) -> Result<Vec<String>, String> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let is_loom = |path: &PathBuf| {
        let stem = path.file_stem()?.to_str()?.to_owned();
        (path.extension()? == "rs" && stem.starts_with("loom_")).then_some(stem)
    };
    Ok(workspace::files(directory)?
        .iter()
        .filter_map(is_loom)
        .collect())
}

/// Runs a checker that is not part of the Rust toolchain, if it could be installed.
fn run_checker(
    name: &str,
    installed: Result<PathBuf, String>,
    arguments: &[&str],
    steps: &mut Steps,
) {
    match installed {
        Ok(program) => {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(workspace::root());
            steps.run(name, &mut command);
        }
        Err(why) => {
            println!("\n!!! SKIPPED {name}: {why}");
            steps.skip(name, &why);
        }
    }
}

#[cfg(test)]
mod checks {
    use super::*;
    use std::fs;

    #[test]
    fn loom_files_are_found_under_tests_and_beside_the_code() {
        let crate_directory =
            std::env::temp_dir().join(format!("baton-xtask-loom-{}", std::process::id()));
        for (folder, file) in [
            ("tests", "loom_gate.rs"),
            ("tests", "other.rs"),
            ("src", "loom_inbox.rs"),
        ] {
            fs::create_dir_all(crate_directory.join(folder)).expect("a directory for the trial");
            fs::write(crate_directory.join(folder).join(file), "").expect("a file for the trial");
        }
        let invocations = loom_invocations(&crate_directory, "trial")
            .map(|all| all.iter().map(|one| one.join(" ")).collect());
        fs::remove_dir_all(&crate_directory).expect("the trial's directory to be removed");
        let expected: Vec<String> = [
            "test --release -p trial --test loom_gate",
            "test --release -p trial --lib loom_",
        ]
        .map(str::to_owned)
        .to_vec();
        assert_eq!(invocations, Ok(expected));
    }
}
