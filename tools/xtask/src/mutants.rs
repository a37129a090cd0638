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
            "preemption",
            "--test",
            "idle",
            "--test",
            "waiting",
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
            "simulation",
        ],
    ),
];

/// A mutant may hang: then it is caught as well. The build of the sources as they are is not limited.
const LIMIT: Duration = Duration::from_secs(400);

/// How one suite took a mutant.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    /// The first test that failed, or what else happened.
    Caught(String),
}

/// What the command line asks for: mutants whose fault contains this text.
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
        tree.build(suite)?;
        if let Verdict::Caught(why) = tree.judge(suite)? {
            return Err(format!("mutants: the suite '{name}' fails without any fault: {why}"));
        }
        println!("    {name}: passed");
    }
    let chosen: Vec<&Mutant> = MUTANTS.iter().filter(|mutant| mutant.fault.contains(only)).collect();
    let mut survivors = Vec::new();
    for (number, mutant) in chosen.iter().enumerate() {
        let began = Instant::now();
        let told = tree.with_fault(mutant, || tree.judge_by_all())?;
        let told = told.unwrap_or_else(|| {
            survivors.push(mutant.fault);
            "SURVIVED".to_owned()
        });
        let seconds = began.elapsed().as_secs();
        println!(
            "{:>3}/{} {} [{seconds} s]: {told}",
            number + 1,
            chosen.len(),
            mutant.fault
        );
    }
    println!("{} faults, {} caught", chosen.len(), chosen.len() - survivors.len());
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

    /// Who caught it; `None` if nobody did.
    fn judge_by_all(&self) -> Result<Option<String>, String> {
        for (name, suite) in SUITES {
            if let Verdict::Caught(by) = self.judge(suite)? {
                return Ok(Some(format!("{name}: {by}")));
            }
        }
        Ok(None)
    }

    fn build(&self, suite: &[&str]) -> Outcome {
        let status = self.cargo(suite).arg("--no-run").status();
        match status
            .map_err(|why| format!("mutants: cannot run cargo: {why}"))?
            .success()
        {
            true => Ok(()),
            false => Err("mutants: the sources do not build".to_owned()),
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

    fn judge(&self, suite: &[&str]) -> Result<Verdict, String> {
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
                Ok(Verdict::Caught("it hangs".to_owned()))
            }
            Some(status) if status.success() => Ok(Verdict::Passed),
            Some(_) if text.contains("error: could not compile") => {
                Err(format!("mutants: it does not compile:\n{text}"))
            }
            Some(_) => first_failure(&text)
                .map(Verdict::Caught)
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
