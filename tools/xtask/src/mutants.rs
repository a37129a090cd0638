//! `cargo xtask mutants`: what the tests of scheduling are worth. Each of many deliberate faults is put into a copy of the sources, and some test must fail.

mod list;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::workspace;
use list::{MUTANTS, Mutant};

/// The tests by suite, the quickest first: the rest are asked only about what these let pass.
const SUITES: &[(&str, &[&str])] = &[
    ("kernel", &["-p", "baton-core", "--lib"]),
    (
        "executor",
        &[
            "-p",
            "baton-core",
            "--test",
            "processes",
            "--test",
            "scheduling",
            "--test",
            "debts",
            "--test",
            "preemption",
            "--test",
            "idle",
            "--test",
            "waiting",
            "--test",
            "consulting",
            "--test",
            "thread_manager",
            "--test",
            "waking",
            "--test",
            "affinity",
            "--test",
            "descriptors",
        ],
    ),
    (
        "Lua",
        &[
            "-p",
            "baton",
            "--test",
            "concurrency_processes",
            "--test",
            "concurrency_sync",
            "--test",
            "concurrency_preempt",
            "--test",
            "concurrency_scheduling",
            "--test",
            "simulation",
        ],
    ),
];

/// A mutant may hang: then it is caught as well. Builds take as long as they take.
const LIMIT: Duration = Duration::from_secs(400);

/// How one suite took a mutant.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    /// The first test that failed, or how the test program died.
    Failed(String),
    /// The tests were not done by [`LIMIT`].
    Hung,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Verdict::Passed => f.write_str("SURVIVED"),
            Verdict::Failed(test) => f.write_str(test),
            Verdict::Hung => write!(f, "it hangs: no test has failed in {} s", LIMIT.as_secs()),
        }
    }
}

/// What the command line asks for: mutants whose fault or file contains this text.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let only = match arguments {
        [] => "",
        [option, text] if option == "--only" => text.as_str(),
        _ => return Err("mutants: '--only TEXT' is all that may follow".to_owned()),
    };
    let tree = Tree::copy()?;
    tree.check_originals()?;
    println!("the sources as they are:");
    for (name, suite) in SUITES {
        match tree.judge(suite)? {
            Verdict::Passed => println!("    {name}: passed"),
            why => return Err(format!("mutants: the suite '{name}' fails without any fault: {why}")),
        }
    }
    let is_meant = |mutant: &&Mutant| mutant.fault.contains(only) || mutant.file.contains(only);
    let chosen: Vec<&Mutant> = MUTANTS.iter().filter(is_meant).collect();
    let (mut survivors, mut hung) = (Vec::new(), Vec::new());
    for (number, mutant) in chosen.iter().enumerate() {
        let began = Instant::now();
        let (suite, verdict) = tree.with_fault(mutant, || tree.judge_by_all())?;
        match verdict {
            Verdict::Passed => survivors.push(mutant.fault),
            Verdict::Hung => hung.push(mutant.fault),
            Verdict::Failed(_) => {}
        }
        let seconds = began.elapsed().as_secs();
        println!(
            "{:>3}/{} {} [{seconds} s]: {suite}: {verdict}",
            number + 1,
            chosen.len(),
            mutant.fault
        );
    }
    let failed = chosen.len() - survivors.len() - hung.len();
    println!("{} faults: {failed} fail a test, {} hang", chosen.len(), hung.len());
    if !hung.is_empty() {
        println!("only a hang shows: {}", hung.join("; "));
    }
    match survivors.as_slice() {
        [] => Ok(()),
        survivors => Err(format!("mutants: no test notices: {}", survivors.join("; "))),
    }
}

/// A copy of the workspace, with build output of its own.
struct Tree {
    root: PathBuf,
    target: PathBuf,
}

impl Tree {
    /// Copies what git knows of, as it is in the working tree.
    fn copy() -> Result<Self, String> {
        let base = workspace::target_directory("mutants");
        let tree = Self {
            root: base.join("tree"),
            target: base.join("build"),
        };
        // What is gone from the workspace is gone from the copy; what was built of it stays.
        if tree.root.exists() {
            std::fs::remove_dir_all(&tree.root).map_err(|why| format!("mutants: {}: {why}", tree.root.display()))?;
        }
        let listing = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(workspace::root())
            .output()
            .map_err(|why| format!("mutants: cannot ask git for the files: {why}"))?;
        for name in listing.stdout.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            let name = String::from_utf8_lossy(name).into_owned();
            let (from, to) = (workspace::root().join(&name), tree.root.join(&name));
            if !from.is_file() {
                continue;
            }
            if let Some(directory) = to.parent() {
                std::fs::create_dir_all(directory).map_err(|why| format!("mutants: {name}: {why}"))?;
            }
            std::fs::copy(&from, &to).map_err(|why| format!("mutants: {name}: {why}"))?;
        }
        Ok(tree)
    }

    fn file(&self, mutant: &Mutant) -> PathBuf {
        self.root.join("runtime/core/src").join(mutant.file)
    }

    /// Every fault must still have its place.
    fn check_originals(&self) -> Outcome {
        for mutant in MUTANTS {
            let text = read(&self.file(mutant))?;
            let times = text.matches(mutant.original).count();
            if times != 1 {
                return Err(format!(
                    "mutants: '{}': its text stands {times} times in {}, and must stand there once; mend tools/xtask/src/mutants/list.rs",
                    mutant.fault, mutant.file
                ));
            }
        }
        Ok(())
    }

    /// Calls `f` while the fault is in the sources.
    fn with_fault<R>(&self, mutant: &Mutant, f: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
        let file = self.file(mutant);
        let text = read(&file)?;
        write(&file, &text.replace(mutant.original, mutant.replacement))?;
        let result = f();
        write(&file, &text)?;
        result
    }

    /// The first suite that does not pass, and how it took the fault; all of them if all pass.
    fn judge_by_all(&self) -> Result<(&'static str, Verdict), String> {
        for (name, suite) in SUITES {
            let verdict = self.judge(suite)?;
            if verdict != Verdict::Passed {
                return Ok((name, verdict));
            }
        }
        Ok(("all suites", Verdict::Passed))
    }

    fn build(&self, suite: &[&str]) -> Outcome {
        let built = self.cargo(suite).arg("--no-run").output();
        let built = built.map_err(|why| format!("mutants: cannot run cargo: {why}"))?;
        match built.status.success() {
            true => Ok(()),
            false => Err(format!(
                "mutants: it does not compile:\n{}",
                String::from_utf8_lossy(&built.stderr)
            )),
        }
    }

    fn cargo(&self, suite: &[&str]) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .arg("test")
            .args(suite)
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            // A fault may leave code unused.
            .env("RUSTFLAGS", "-Awarnings")
            .stdin(Stdio::null());
        command
    }

    /// Builds a suite and runs it.
    fn judge(&self, suite: &[&str]) -> Result<Verdict, String> {
        self.build(suite)?;
        let log = self.target.with_extension("log");
        let output = std::fs::File::create(&log).map_err(|why| format!("mutants: {}: {why}", log.display()))?;
        let errors = output
            .try_clone()
            .map_err(|why| format!("mutants: {}: {why}", log.display()))?;
        let mut child = self
            .cargo(suite)
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(|why| format!("mutants: cannot run cargo: {why}"))?;
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|why| format!("mutants: {why}"))? {
                break Some(status);
            }
            if began.elapsed() > LIMIT {
                break None;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let text = read(&log)?;
        match status {
            None => {
                // Cargo with the test program that hangs, which are a process group of their own.
                let group = format!("-{}", child.id());
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
                let _ = child.wait();
                Ok(first_failure(&text).map_or(Verdict::Hung, Verdict::Failed))
            }
            Some(status) if status.success() => Ok(Verdict::Passed),
            Some(_) => first_failure(&text)
                .map(Verdict::Failed)
                .ok_or(format!("mutants: the tests neither pass nor fail:\n{text}")),
        }
    }
}

/// The test that failed first, or how the test program ended otherwise.
fn first_failure(text: &str) -> Option<String> {
    let failed = text
        .lines()
        .find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    let died = || text.lines().find(|line| line.contains("(signal: "));
    failed.or_else(died).map(|line| line.trim().to_owned())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|why| format!("mutants: {}: {why}", path.display()))
}

fn write(path: &Path, text: &str) -> Outcome {
    std::fs::write(path, text).map_err(|why| format!("mutants: {}: {why}", path.display()))
}

#[cfg(test)]
mod checks {
    use super::*;

    /// So that a change of the kernel cannot take a fault's place away unnoticed.
    #[test]
    fn every_fault_has_its_place_and_is_one() {
        for mutant in MUTANTS {
            let path = workspace::root().join("runtime/core/src").join(mutant.file);
            let text = std::fs::read_to_string(&path).expect("the file is there");
            assert_eq!(text.matches(mutant.original).count(), 1, "{}", mutant.fault);
            assert_ne!(mutant.original, mutant.replacement, "{}", mutant.fault);
        }
    }

    #[test]
    fn there_are_many_and_each_is_told_from_the_others() {
        let mut faults: Vec<&str> = MUTANTS.iter().map(|mutant| mutant.fault).collect();
        faults.sort_unstable();
        faults.dedup();
        assert_eq!(faults.len(), MUTANTS.len());
        assert!(faults.len() >= 40);
    }

    #[test]
    fn the_first_test_that_failed_is_named() {
        let failed = "test a ... ok\ntest b::c ... FAILED\ntest d ... FAILED\n";
        assert_eq!(first_failure(failed).as_deref(), Some("b::c"));
        let died =
            "test a ... ok\n  process didn't exit successfully: `x` (signal: 6, SIGABRT: process abort signal)\n";
        assert!(first_failure(died).is_some_and(|told| told.contains("SIGABRT")));
        assert_eq!(first_failure("error: no space left on device"), None);
    }
}
