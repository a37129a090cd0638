//! Loads that choose what they do by a seed, each of which checks that nothing was lost. `cargo
//! xtask soak foreign` makes random foreign calls. `cargo xtask soak vms` starts, uses and kills
//! VMs. `cargo xtask soak http` has good and bad clients at a server.
//!
//! `NAME.lua` is the load, and `foreign.c` has the functions that the foreign one calls. The time
//! is divided into runs, each a new program with its own seed. A run that fails is reported with
//! its seed, so that it can be repeated.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use indicatif::{ProgressBar, ProgressStyle};

use crate::Outcome;
use crate::cargo::cargo;
use crate::workspace;

/// The seconds that the soak takes by default.
const DEFAULT_SECONDS: u64 = 600;

/// The largest length of one run, in seconds. It is long enough for leaks to show. It is short
/// enough that repeating a failure by its seed does not take long.
const RUN_SECONDS: u64 = 20;

/// The time that a run may take to end, beyond its length.
const PATIENCE: Duration = Duration::from_secs(180);

/// The time that a hanging program gets to write its report.
const TIME_TO_REPORT: Duration = Duration::from_secs(3);

/// A load that is driven from here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SeededLoad {
    /// As on the command line. The program's file has that name.
    pub(super) name: &'static str,
    what: &'static str,
    /// Whether the program takes the C library as its first argument.
    calls_library: bool,
}

pub(super) const LOADS: [SeededLoad; 3] = [
    SeededLoad {
        name: "foreign",
        what: "foreign calls",
        calls_library: true,
    },
    SeededLoad {
        name: "vms",
        what: "VMs",
        calls_library: false,
    },
    SeededLoad {
        name: "http",
        what: "servers and their clients",
        calls_library: false,
    },
];

/// The options on the command line.
#[derive(Debug, PartialEq, Eq)]
struct SeededSoakOptions {
    seconds: u64,
    seed: Option<u64>,
    release: bool,
}

/// Runs the soak for the requested time. Stops at the first failure.
pub(super) fn run(load: &SeededLoad, arguments: &[String]) -> Outcome {
    let request = SeededSoakOptions::parse(arguments)?;
    let baton = build(request.release)?;
    let library = load.calls_library.then(compile_library).transpose()?;
    let seed = request.seed.unwrap_or_else(seed_of_now);
    println!(
        "soak: {} for {} s, from seed {seed}",
        load.what, request.seconds
    );
    let progress = ProgressBar::new(request.seconds);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} s, {msg}") {
        progress.set_style(style);
    }
    let mut totals = Totals::default();
    let mut begun = 0;
    for (number, seconds) in lengths(request.seconds).into_iter().enumerate() {
        let round = Round {
            load,
            baton: &baton,
            library: library.as_deref(),
            seed: seed + number as u64,
            seconds,
        };
        let figures = round.run(|actions, elapsed| {
            progress.set_position(begun + elapsed.min(seconds));
            progress.set_message(format!("seed {}: {actions} actions", round.seed));
        });
        match figures {
            Ok(figures) => totals.add(&figures),
            Err(why) => {
                progress.abandon();
                return Err(why);
            }
        }
        begun += seconds;
        progress.set_position(begun);
        if progress.is_hidden() {
            println!("seed {}: {seconds} s passed", round.seed);
        }
    }
    progress.finish_and_clear();
    totals.print();
    Ok(())
}

impl SeededSoakOptions {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut request = Self {
            seconds: DEFAULT_SECONDS,
            seed: None,
            release: false,
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--seconds" => request.seconds = number(argument, rest.next())?.max(1),
                "--seed" => request.seed = Some(number(argument, rest.next())?),
                "--release" => request.release = true,
                other => return Err(format!("soak: unknown option '{other}'")),
            }
        }
        Ok(request)
    }
}

fn number(option: &str, word: Option<&String>) -> Result<u64, String> {
    let word = word.ok_or_else(|| format!("soak: '{option}' needs a number"))?;
    // The program reads the number as a Lua integer and multiplies it, so it must be small.
    word.parse::<u32>().map(u64::from).map_err(|_| {
        format!(
            "soak: '{option}' needs a number from 0 to {}, got '{word}'",
            u32::MAX
        )
    })
}

/// The lengths of the runs, in seconds.
fn lengths(seconds: u64) -> Vec<u64> {
    let count = seconds.div_ceil(RUN_SECONDS);
    (0..count)
        .map(|number| RUN_SECONDS.min(seconds - number * RUN_SECONDS))
        .collect()
}

fn seed_of_now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(1, |since| u64::from(since.subsec_nanos()))
}

/// Builds the interpreter and returns its path.
fn build(release: bool) -> Result<PathBuf, String> {
    let mut command = cargo(&["build", "--quiet"]);
    if release {
        command.args(["--release", "--package", "baton"]);
    } else {
        // As the tests build it. For one package, cargo would choose other features of its
        // dependencies, and build most of them again.
        command.args(["--workspace", "--bin", "baton"]);
    }
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("soak: baton does not build: {status}")),
        Err(why) => return Err(format!("soak: cannot start cargo: {why}")),
    }
    let profile = if release { "release" } else { "debug" };
    Ok(workspace::target_directory(profile).join("baton"))
}

fn sources() -> PathBuf {
    workspace::root().join("tools/xtask/src/soak")
}

fn compile_library() -> Result<PathBuf, String> {
    let directory = workspace::target_directory("soak");
    std::fs::create_dir_all(&directory)
        .map_err(|why| format!("soak: {}: {why}", directory.display()))?;
    let library = directory.join("libforeign.so");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command
        .args([
            "-O1", "-g", "-Wall", "-Wextra", "-shared", "-fPIC", "-pthread", "-o",
        ])
        .arg(&library)
        .arg(sources().join("foreign.c"));
    match command.status() {
        Ok(status) if status.success() => Ok(library),
        Ok(status) => Err(format!("soak: the C library does not compile: {status}")),
        Err(why) => Err(format!("soak: cannot start {}: {why}", compiler.display())),
    }
}

/// One run of the program.
struct Round<'a> {
    load: &'a SeededLoad,
    baton: &'a Path,
    library: Option<&'a Path>,
    seed: u64,
    seconds: u64,
}

type Figures = BTreeMap<String, f64>;

impl Round<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new(self.baton);
        for (name, _) in std::env::vars_os() {
            let name_bytes = name.as_encoded_bytes();
            if name_bytes.starts_with(b"LUA_") || name_bytes.starts_with(b"BATON_") {
                command.env_remove(&name);
            }
        }
        // Freed memory is overwritten, so that whoever uses it fails.
        command.env("MALLOC_PERTURB_", "170");
        command
            .arg(sources().join(self.load.name).with_extension("lua"))
            .args(self.library);
        command.args([self.seed, self.seconds].map(|number| number.to_string()));
        command
    }

    /// Runs the program. Every second, `tell` gets the seconds so far and the number of actions
    /// that have begun. An error contains everything that the program printed.
    fn run(&self, tell: impl Fn(u64, u64)) -> Result<Figures, String> {
        let mut command = self.command();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|why| format!("soak: cannot start {}: {why}", self.baton.display()))?;
        let (lines, errors) = read(&mut child)?;
        let started = Instant::now();
        let limit = Duration::from_secs(self.seconds) + PATIENCE;
        let mut figures = Figures::new();
        let mut has_passed = false;
        loop {
            match lines.recv_timeout(limit.saturating_sub(started.elapsed())) {
                Ok(line) => match line.split_once(char::is_whitespace) {
                    Some(("progress", actions)) => {
                        tell(actions.parse().unwrap_or(0), started.elapsed().as_secs())
                    }
                    Some((name, value)) => {
                        figures.insert(name.to_owned(), value.trim().parse().unwrap_or(0.0));
                    }
                    None => has_passed |= line == "passed",
                },
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => ask_for_report(&mut child)?,
            }
            if started.elapsed() > limit + TIME_TO_REPORT {
                // The program ends, and then its output ends too.
                child.kill().map_err(|why| format!("soak: {why}"))?;
            }
        }
        let status = child.wait().map_err(|why| format!("soak: {why}"))?;
        let said = errors.join().unwrap_or_default();
        if status.success() && has_passed && said.is_empty() {
            return Ok(figures);
        }
        let repeat = format!(
            "cargo xtask soak {} --seconds {} --seed {}",
            self.load.name, self.seconds, self.seed
        );
        Err(format!(
            "soak: seed {}: {status}\n{said}\nrepeat it by: {repeat}",
            self.seed
        ))
    }
}

/// Reads standard output line by line as it comes, and standard error as a whole.
fn read(child: &mut Child) -> Result<(Receiver<String>, thread::JoinHandle<String>), String> {
    let (Some(output), Some(mut errors)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("soak: the program has no output".to_owned());
    };
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        // Show as much as could be read. The exit status tells whether the program failed.
        let _ = errors.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    Ok((lines, errors))
}

/// Makes a hanging program report what each of its processes does, and kills it.
fn ask_for_report(child: &mut Child) -> Outcome {
    let cannot = |why: std::io::Error| format!("soak: {why}");
    let process = child.id().to_string();
    Command::new("kill")
        .args(["-QUIT", &process])
        .status()
        .map_err(cannot)?;
    thread::sleep(TIME_TO_REPORT);
    child.kill().map_err(cannot)
}

/// The sums of the figures of all runs.
#[derive(Default)]
struct Totals {
    runs: u32,
    sums: Figures,
    most: Figures,
}

/// The figures of which the largest is shown, instead of the sum.
const LARGEST: [&str; 3] = ["longest_gap_ms", "lua_kib", "rss_kib"];

impl Totals {
    fn add(&mut self, figures: &Figures) {
        self.runs += 1;
        for (name, value) in figures {
            match LARGEST.contains(&name.as_str()) {
                true => {
                    let most = self.most.entry(name.clone()).or_default();
                    *most = most.max(*value);
                }
                false => *self.sums.entry(name.clone()).or_default() += value,
            }
        }
    }

    fn print(&self) {
        println!("soak: {} runs passed; nothing was lost", self.runs);
        for (name, value) in &self.sums {
            println!("{value:14.0}  {name}");
        }
        for (name, value) in &self.most {
            println!("{value:14.1}  {name}, at most");
        }
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    fn parse(words: &[&str]) -> Result<SeededSoakOptions, String> {
        SeededSoakOptions::parse(
            &words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn ten_minutes_are_soaked_unless_told_otherwise() {
        let expected = SeededSoakOptions {
            seconds: 600,
            seed: None,
            release: false,
        };
        assert_eq!(parse(&[]), Ok(expected));
        let told = parse(&["--seconds", "30", "--seed", "7", "--release"]);
        assert_eq!(
            told,
            Ok(SeededSoakOptions {
                seconds: 30,
                seed: Some(7),
                release: true
            })
        );
    }

    #[test]
    fn a_wrong_soak_command_is_refused() {
        for words in [&["--seconds"][..], &["--seed", "-1"], &["--fast"]] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn the_program_of_every_seeded_load_is_there() {
        for load in LOADS {
            let program = sources().join(load.name).with_extension("lua");
            assert!(program.is_file(), "{}", program.display());
        }
    }

    #[test]
    fn the_time_is_divided_into_runs() {
        assert_eq!(lengths(30), [20, 10]);
        assert_eq!(lengths(20), [20]);
        assert_eq!(lengths(600).len(), 30);
    }

    #[test]
    fn sums_and_largest_figures_are_kept_apart() {
        let mut totals = Totals::default();
        for (kills, gap) in [(3.0, 9.0), (4.0, 2.0)] {
            totals.add(&Figures::from([
                ("kills".to_owned(), kills),
                ("longest_gap_ms".to_owned(), gap),
            ]));
        }
        assert_eq!(
            (totals.sums["kills"], totals.most["longest_gap_ms"]),
            (7.0, 9.0)
        );
    }

    #[test]
    fn a_failure_is_reported_with_its_seed() {
        let round = Round {
            load: &LOADS[1],
            baton: Path::new("/bin/false"),
            library: None,
            seed: 77,
            seconds: 1,
        };
        let why = round.run(|_, _| {}).expect_err("it fails");
        assert!(why.contains("soak vms --seconds 1 --seed 77"), "{why}");
    }
}
