//! `cargo xtask ci`: what continuous integration checks besides the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::cargo::{Steps, cargo, cargo_with_flags};
use crate::{tidy, workspace};

/// The crates that have loom tests: their directory and name.
const LOOM_CRATES: [(&str, &str); 1] = [("runtime/sys", "baton-sys")];

/// Loom explores every interleaving with at most this many preemptions.
const LOOM_PREEMPTIONS: &str = "2";

/// A checker that is not part of the Rust toolchain.
struct Checker {
    /// The crate that it is installed from, and the version that we know to work.
    package: &'static str,
    version: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

const CHECKERS: [Checker; 2] = [
    Checker {
        package: "cargo-deny",
        version: "0.18.9",
        program: "cargo-deny",
        // Advisories are left out: their database is a git repository, which not every network reaches.
        arguments: &["check", "licenses", "bans", "sources"],
    },
    Checker {
        package: "typos-cli",
        version: "1.40.0",
        program: "typos",
        arguments: &[],
    },
];

/// Runs every check, whether or not an earlier one failed, and sums them up.
pub(crate) fn run() -> Outcome {
    let mut steps = Steps::of("ci");
    steps.run("format", &mut cargo(&["fmt", "--all", "--check"]));
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    steps.run("clippy", &mut cargo(&clippy));
    steps.check("tidy", tidy::run);
    let mut doc = cargo(&["doc", "--workspace", "--no-deps"]);
    steps.run("documentation", doc.env("RUSTDOCFLAGS", "-D warnings"));
    loom(&mut steps);
    for checker in &CHECKERS {
        checker.check(&mut steps);
    }
    steps.finish()
}

/// Runs the loom tests: files whose name starts with `loom_`, under a crate's `tests` or beside the code.
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
                    command
                        .env("LOOM_MAX_PREEMPTIONS", LOOM_PREEMPTIONS)
                        .env("CARGO_PROFILE_RELEASE_LTO", "off");
                    steps.run(&format!("loom, {package}"), &mut command);
                }
            }
            Err(why) => steps.check(&format!("loom, {package}"), || Err(why)),
        }
    }
}

/// The cargo command lines that run all of a crate's loom tests and none of its others.
fn loom_invocations(directory: &Path, package: &str) -> Result<Vec<Vec<String>>, String> {
    let base = ["test", "--release", "-p", package].map(str::to_owned).to_vec();
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
        // The names of tests within such a file contain the module's name, which is the file's.
        of_library.extend(["--lib", "loom_"].map(str::to_owned));
        invocations.push(of_library);
    }
    Ok(invocations)
}

/// The stems of the files below `directory`, if it exists, that hold loom tests.
fn loom_files(directory: &Path) -> Result<Vec<String>, String> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let is_loom = |path: &PathBuf| {
        let stem = path.file_stem()?.to_str()?.to_owned();
        (path.extension()? == "rs" && stem.starts_with("loom_")).then_some(stem)
    };
    Ok(workspace::files(directory)?.iter().filter_map(is_loom).collect())
}

impl Checker {
    /// Installs this checker unless it is there, and runs it.
    fn check(&self, steps: &mut Steps) {
        let program = match self.installed() {
            Ok(program) => program,
            Err(why) => {
                println!("\n!!! SKIPPED {}: {why}", self.package);
                return steps.skip(self.package, &why);
            }
        };
        let mut command = Command::new(program);
        command.args(self.arguments).current_dir(workspace::root());
        steps.run(self.package, &mut command);
    }

    /// The program of our version: built in the target directory, and thus out of the way of the user's own.
    fn installed(&self) -> Result<PathBuf, String> {
        let root = workspace::target_directory("checkers");
        let program = root.join("bin").join(self.program);
        let says_version = Command::new(&program).arg("--version").output();
        if says_version.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains(self.version)) {
            return Ok(program);
        }
        println!("\n==> ci install {} {}", self.package, self.version);
        // Unoptimized, as building an optimized one takes longer than it could ever save on sources of our size.
        let mut install = cargo(&[
            "install",
            "--locked",
            "--debug",
            "--force",
            "--quiet",
            "--version",
            self.version,
        ]);
        install.arg("--root").arg(&root).arg(self.package);
        install.env("CARGO_TARGET_DIR", root.join("build"));
        match install.status() {
            Ok(status) if status.success() => Ok(program),
            Ok(status) => Err(format!("cargo install {} {}: {status}", self.package, self.version)),
            Err(why) => Err(format!("cannot start cargo: {why}")),
        }
    }
}

#[cfg(test)]
mod checks {
    use super::*;
    use std::fs;

    #[test]
    fn loom_files_are_found_under_tests_and_beside_the_code() {
        let crate_directory = std::env::temp_dir().join(format!("baton-xtask-loom-{}", std::process::id()));
        for (folder, file) in [
            ("tests", "loom_gate.rs"),
            ("tests", "other.rs"),
            ("src", "loom_inbox.rs"),
        ] {
            fs::create_dir_all(crate_directory.join(folder)).expect("a directory for the trial");
            fs::write(crate_directory.join(folder).join(file), "").expect("a file for the trial");
        }
        let invocations =
            loom_invocations(&crate_directory, "trial").map(|all| all.iter().map(|one| one.join(" ")).collect());
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
