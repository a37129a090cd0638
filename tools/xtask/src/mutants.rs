//! `cargo xtask mutants`: puts one fault at a time into a copy of the sources. Each time, a test
//! must fail.
//!
//! cargo-mutants makes most of the faults, in the files that `.cargo/mutants.toml` names. It
//! replaces bodies, operators and conditions. [`seeded`] lists faults that it cannot make.

mod seeded;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::cargo::{Steps, cargo_with_flags};
use crate::checker::Checker;
use crate::workspace;
use seeded::{Fault, SUITES, Suite};

const CARGO_MUTANTS: Checker = Checker {
    package: "cargo-mutants",
    version: "27.1.0",
    program: "cargo-mutants",
};

/// The packages in which cargo-mutants makes faults, with the arguments for the tests that must
/// notice them.
const EXAMINED: [(&str, &[&str]); 2] = [
    ("baton-core", &["--lib"]),
    ("baton-ffi", &["--lib", "--tests"]),
];

/// The directories of the sources that seeded faults are written for.
const SEEDED: [&str; 3] = ["runtime", "bindings", "guests"];

/// The time limit of a test program, in seconds. One that takes longer is taken to hang.
const LIMIT: &str = "300";

/// The options on the command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// Only faults whose name or file contains this text are made.
    only: String,
    /// One part of all faults: its number, counted from 0, and the number of parts.
    shard: Option<(usize, usize)>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        for pair in arguments.chunks(2) {
            match pair {
                [name, text] if name == "--only" => options.only.clone_from(text),
                [name, text] if name == "--shard" => {
                    let parts = text
                        .split_once('/')
                        .and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
                    options.shard = parts.filter(|(part, parts)| part < parts);
                    if options.shard.is_none() {
                        return Err(format!(
                            "mutants: '{text}' is not a part such as 0/4 or 3/4"
                        ));
                    }
                }
                _ => return Err("mutants: expected [--only TEXT] [--shard K/N]".to_owned()),
            }
        }
        Ok(options)
    }

    fn is_meant(&self, number: usize, fault: &Fault, file: &Path) -> bool {
        let is_named =
            fault.what.contains(&self.only) || file.to_string_lossy().contains(&self.only);
        is_named
            && self
                .shard
                .is_none_or(|(part, parts)| number % parts == part)
    }
}

/// Makes the requested faults. Returns an error if no test notices one of them.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let options = Options::parse(arguments)?;
    let mut steps = Steps::of("mutants");
    let program = CARGO_MUTANTS.installed()?;
    for (package, tests) in EXAMINED {
        let output = workspace::target_directory("mutants").join(package);
        std::fs::create_dir_all(&output).map_err(|why| format!("mutants: {why}"))?;
        let mut command = Command::new(&program);
        command.args([
            "mutants",
            "--no-shuffle",
            "--colors=never",
            "--package",
            package,
        ]);
        command.args(tests.iter().map(|which| format!("--cargo-arg={which}")));
        if !options.only.is_empty() {
            command.args(["--re", &options.only]);
        }
        if let Some((part, parts)) = options.shard {
            command.arg(format!("--shard={part}/{parts}"));
        }
        command.arg("--output").arg(output);
        command
            .current_dir(workspace::root())
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        steps.run(package, &mut command);
    }
    run_seeded(&options, &mut steps)?;
    steps.finish()
}

/// Runs the tests of each suite without a fault, and then once with each fault.
fn run_seeded(options: &Options, steps: &mut Steps) -> Outcome {
    let places = places()?;
    let mut numbered = places.iter().enumerate();
    let mut tree = None;
    for suite in SUITES {
        let of_suite = numbered.by_ref().take(suite.faults.len());
        let chosen: Vec<_> = of_suite
            .zip(suite.faults)
            .filter(|((number, place), fault)| options.is_meant(*number, fault, &place.file))
            .collect();
        if chosen.is_empty() {
            continue;
        }
        let tree = match &tree {
            Some(tree) => tree,
            None => tree.insert(copy_of_workspace()?),
        };
        steps.check(
            &format!("{} without a fault", suite.name),
            || match judge(suite, tree)? {
                None => Ok(()),
                Some(test) => Err(format!("{test} fails")),
            },
        );
        for ((_, place), fault) in chosen {
            steps.check(fault.what, || {
                match place.with(tree, fault, || judge(suite, tree))? {
                    None => Err(format!("no test of {} notices", suite.name)),
                    Some(test) => {
                        println!("    noticed by {test}");
                        Ok(())
                    }
                }
            });
        }
    }
    Ok(())
}

/// The place of a fault in the sources.
struct Place {
    /// The path of the file in the workspace.
    file: PathBuf,
    bytes: Range<usize>,
}

impl Place {
    /// Puts the fault into the file, calls `f`, and restores the file.
    fn with<R>(
        &self,
        tree: &Path,
        fault: &Fault,
        f: impl FnOnce() -> Result<R, String>,
    ) -> Result<R, String> {
        let file = tree.join(&self.file);
        let text = std::fs::read_to_string(&file).map_err(|why| format!("mutants: {why}"))?;
        let mut faulty = text.clone();
        faulty.replace_range(self.bytes.clone(), fault.becomes);
        std::fs::write(&file, faulty).map_err(|why| format!("mutants: {why}"))?;
        let result = f();
        std::fs::write(&file, text).map_err(|why| format!("mutants: {why}"))?;
        result
    }
}

/// The place of each seeded fault, in order. Returns an error unless each has exactly one place.
fn places() -> Result<Vec<Place>, String> {
    let root = workspace::root();
    let mut sources = Vec::new();
    for directory in SEEDED {
        for path in workspace::files(&root.join(directory))? {
            let name = workspace::shown(&root, &path);
            let is_code = [".rs", ".c", ".h"]
                .iter()
                .any(|ending| name.ends_with(ending));
            if is_code && !name.contains("/tests/") {
                let text =
                    std::fs::read_to_string(&path).map_err(|why| format!("{name}: {why}"))?;
                sources.push((PathBuf::from(name), Significant::of(&text)));
            }
        }
    }
    let place = |fault: &Fault| {
        let wanted = Significant::of(fault.text);
        let found: Vec<(&PathBuf, Range<usize>)> = sources
            .iter()
            .flat_map(|(name, text)| {
                text.find(&wanted)
                    .into_iter()
                    .map(move |range| (name, range))
            })
            .collect();
        match found.as_slice() {
            [(name, range)] => Ok(Place {
                file: (*name).clone(),
                bytes: range.clone(),
            }),
            _ => Err(format!(
                "mutants: '{}': its text must be in the sources once, and is there {} times; \
                 change it in tools/xtask/src/mutants/seeded.rs",
                fault.what,
                found.len()
            )),
        }
    };
    SUITES
        .iter()
        .flat_map(|suite| suite.faults)
        .map(place)
        .collect()
}

/// A text without white space and commas, which formatters change.
struct Significant {
    text: String,
    /// The offset of each byte in the original text.
    offsets: Vec<usize>,
}

impl Significant {
    fn of(text: &str) -> Self {
        let is_significant = |&(_, byte): &(usize, u8)| !byte.is_ascii_whitespace() && byte != b',';
        let bytes = text.bytes().enumerate().filter(is_significant);
        Self {
            offsets: bytes.map(|(offset, _)| offset).collect(),
            text: text.replace(|c: char| c.is_ascii_whitespace() || c == ',', ""),
        }
    }

    /// The ranges of this text's original in which `wanted` occurs.
    fn find(&self, wanted: &Self) -> Vec<Range<usize>> {
        let length = wanted.text.len();
        let found = self.text.match_indices(&wanted.text);
        found
            .map(|(at, _)| self.offsets[at]..self.offsets[at + length - 1] + 1)
            .collect()
    }
}

/// Copies the workspace, so that the copy is built from nothing.
fn copy_of_workspace() -> Result<PathBuf, String> {
    let (root, tree) = (
        workspace::root(),
        workspace::target_directory("mutants/tree"),
    );
    // A file that is gone from the workspace must not stay in the copy.
    if tree.exists() {
        std::fs::remove_dir_all(&tree).map_err(|why| format!("mutants: {why}"))?;
    }
    for from in workspace::files(&root)? {
        let to = tree.join(workspace::shown(&root, &from));
        let directory = to.parent().unwrap_or(&tree);
        std::fs::create_dir_all(directory)
            .and_then(|()| std::fs::copy(&from, &to))
            .map_err(|why| format!("mutants: cannot copy {}: {why}", from.display()))?;
    }
    Ok(tree)
}

/// Builds a suite and runs it. Returns the first test that fails, or `None` if all pass.
fn judge(suite: &Suite, tree: &Path) -> Result<Option<String>, String> {
    let run = |more: &[&str]| {
        let limit = format!("target.'cfg(all())'.runner=['timeout', '{LIMIT}']");
        // libffi's build fails if the path contains blanks.
        let directory = format!("mutants/build{}", suite.flags.replace(' ', ""));
        let mut command = cargo_with_flags(&["test", "--config", &limit], suite.flags, &directory);
        command
            .args(suite.tests)
            .args(more)
            .current_dir(tree)
            .env("LOOM_MAX_PREEMPTIONS", "2");
        command
            .output()
            .map_err(|why| format!("mutants: cannot run cargo: {why}"))
    };
    let built = run(&["--no-run"])?;
    if !built.status.success() {
        let errors = String::from_utf8_lossy(&built.stderr);
        return Err(format!("it does not compile:\n{errors}"));
    }
    let ended = run(&[])?;
    let said = String::from_utf8_lossy(&ended.stdout);
    let failed = said
        .lines()
        .find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    Ok((!ended.status.success())
        .then(|| failed.unwrap_or("a test that hangs or crashes").to_owned()))
}

#[cfg(test)]
mod checks {
    use super::*;

    /// Guards against a change of the sources that removes the place of a fault.
    #[test]
    fn every_seeded_fault_has_one_place() {
        assert_eq!(places().map(|_| ()), Ok(()));
    }

    #[test]
    fn a_text_is_found_however_it_is_formatted() {
        let found = |text: &str, wanted: &str| -> Vec<String> {
            let places = Significant::of(text).find(&Significant::of(wanted));
            places
                .into_iter()
                .map(|range| text[range].to_owned())
                .collect()
        };
        assert_eq!(
            found("a; f(b,\n  c,\n); d;", "f(b, c);"),
            ["f(b,\n  c,\n);"]
        );
        assert_eq!(found("f(b); f(b);", "f(b)").len(), 2);
    }

    #[test]
    fn parts_are_counted_from_zero() {
        let parse = |words: &[&str]| {
            Options::parse(
                &words
                    .iter()
                    .map(|word| (*word).to_owned())
                    .collect::<Vec<_>>(),
            )
        };
        let both = parse(&["--only", "mutex", "--shard", "3/4"]);
        assert_eq!(
            both,
            Ok(Options {
                only: "mutex".to_owned(),
                shard: Some((3, 4))
            })
        );
        assert!(parse(&["--shard", "4/4"]).is_err());
        assert!(parse(&["--only"]).is_err());
    }
}
