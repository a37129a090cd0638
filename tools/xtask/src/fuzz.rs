//! `cargo xtask fuzz http`: gives random and mutated bytes to the parsers of `baton.http`, and to
//! its server and client.
//!
//! The first half of the time goes to the parsers in Rust, by the test `random_bytes` of
//! `guests/http`. The second half goes to `own_http/random_bytes.lua`, in simulated runs: the
//! network is in memory, and timeouts take no time. An input that fails is made as short as it can
//! be, and is written to the folder `fuzz` below that for build output.

mod shorten;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::Outcome;
use crate::cargo::cargo;
use crate::workspace;
use shorten::shortest;

const DEFAULT_SECONDS: u64 = 600;

/// The inputs of one run of the Lua program.
const INPUTS: u64 = 500;

/// How long a run may take: a hundred times as long as it does.
const PATIENCE: Duration = Duration::from_secs(300);

/// The options on the command line.
#[derive(Debug, PartialEq, Eq)]
struct FuzzOptions {
    seconds: u64,
    seed: Option<u64>,
}

pub(crate) fn run(arguments: &[String]) -> Outcome {
    let options = FuzzOptions::parse(arguments)?;
    let seed = options.seed.unwrap_or_else(seed_of_now);
    let found = workspace::target_directory("fuzz");
    fs::create_dir_all(&found).map_err(|why| format!("fuzz: {}: {why}", found.display()))?;
    println!("fuzz: http for {} s, from seed {seed}", options.seconds);
    let half = (options.seconds / 2).max(1);
    let baton = build()?;
    fuzz_parsers(half, seed, &found)?;
    let program = FuzzedProgram {
        baton,
        script: workspace::root().join("tools/baton/tests/lua/own_http/random_bytes.lua"),
        seed,
        folder: found,
    };
    let inputs = program.fuzz(Duration::from_secs(half))?;
    println!("fuzz: {inputs} inputs for the server and the client passed");
    Ok(())
}

impl FuzzOptions {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let (target, rest) = arguments
            .split_first()
            .ok_or("fuzz: what is to be fuzzed is missing; there is: http")?;
        if target != "http" {
            return Err(format!(
                "fuzz: nothing is called '{target}'; there is: http"
            ));
        }
        let mut options = Self {
            seconds: DEFAULT_SECONDS,
            seed: None,
        };
        let mut rest = rest.iter();
        while let Some(option) = rest.next() {
            match option.as_str() {
                "--seconds" => options.seconds = number(option, rest.next())?.max(2),
                "--seed" => options.seed = Some(number(option, rest.next())?),
                other => return Err(format!("fuzz: unknown option '{other}'")),
            }
        }
        Ok(options)
    }
}

fn number(option: &str, word: Option<&String>) -> Result<u64, String> {
    let word = word.ok_or_else(|| format!("fuzz: '{option}' needs a number"))?;
    word.parse::<u32>().map(u64::from).map_err(|_| {
        format!(
            "fuzz: '{option}' needs a number from 0 to {}, got '{word}'",
            u32::MAX
        )
    })
}

fn seed_of_now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(1, |since| u64::from(since.subsec_nanos()))
}

fn fuzz_parsers(seconds: u64, seed: u64, found: &Path) -> Outcome {
    let test = ["test", "--package", "baton-http", "--test", "random_bytes"];
    let mut command = cargo(&test);
    command
        .args(["--", "--nocapture", "random_bytes_in_pieces"])
        .env("BATON_HTTP_SECONDS", seconds.to_string())
        .env("BATON_HTTP_SEED", seed.to_string())
        .env("BATON_HTTP_FOUND", found);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!(
            "fuzz: a parser fails; its input is in {}",
            found.display()
        )),
        Err(why) => Err(format!("fuzz: cannot start cargo: {why}")),
    }
}

/// Builds the interpreter as the tests do, and returns its path.
fn build() -> Result<PathBuf, String> {
    let mut command = cargo(&["build", "--quiet", "--workspace", "--bin", "baton"]);
    match command.status() {
        Ok(status) if status.success() => Ok(workspace::target_directory("debug").join("baton")),
        Ok(status) => Err(format!("fuzz: baton does not build: {status}")),
        Err(why) => Err(format!("fuzz: cannot start cargo: {why}")),
    }
}

/// The Lua program.
struct FuzzedProgram {
    baton: PathBuf,
    script: PathBuf,
    seed: u64,
    folder: PathBuf,
}

impl FuzzedProgram {
    /// Runs the program until the time is over. Returns the number of inputs.
    fn fuzz(&self, time: Duration) -> Result<u64, String> {
        let input = self.folder.join("current");
        let (began, mut count) = (Instant::now(), 0);
        while began.elapsed() < time {
            let first = self.seed.wrapping_add(count);
            let numbers = [first, first + INPUTS - 1].map(|number| number.to_string());
            let [first, last] = &numbers;
            let mut command = self.command();
            command.args(["make", first, last]).arg(&input);
            if let Some(why) = failure_of(command)? {
                return Err(self.report(&input, &why));
            }
            count += INPUTS;
        }
        Ok(count)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.baton);
        // Freed memory is overwritten, so that whoever uses it fails.
        command.env("MALLOC_PERTURB_", "170");
        // The failure is in the bytes, and not in switches.
        command.args(["--simulate", "1", "--explain", "0"]);
        command.arg(&self.script);
        command
    }

    /// What to say of an input that fails, which is made shorter.
    fn report(&self, input: &Path, why: &str) -> String {
        let Ok(whole) = fs::read(input) else {
            return format!("fuzz: the program fails before its first input:\n{why}");
        };
        let kept = self.folder.join(format!("http-{}", self.seed));
        // The kind is on the first line.
        let begin = whole.iter().position(|&byte| byte == b'\n');
        let (kind, bytes) = whole.split_at(begin.map_or(0, |at| at + 1));
        let trial = self.folder.join("trial");
        let fails = |bytes: &[u8]| {
            let mut command = self.command();
            command.arg("try").arg(&trial);
            let is_written = fs::write(&trial, [kind, bytes].concat()).is_ok();
            is_written && matches!(failure_of(command), Ok(Some(_)))
        };
        let (what, short) = match fails(bytes) {
            true => ("the shortest input", shortest(bytes.to_vec(), &fails)),
            false => ("the last of several inputs", bytes.to_vec()),
        };
        let _ = fs::write(&kept, [kind, &short].concat());
        format!(
            "fuzz: seed {}: {why}\n{what} is in {}: \"{}\"",
            self.seed,
            kept.display(),
            short.escape_ascii()
        )
    }
}

/// Runs a command. Returns why it has failed, with what it has written; or nothing.
fn failure_of(mut command: Command) -> Result<Option<String>, String> {
    let cannot = |why: std::io::Error| format!("fuzz: {why}");
    let output = Stdio::piped;
    command
        .stdin(Stdio::null())
        .stdout(output())
        .stderr(output());
    let child = command.spawn().map_err(cannot)?;
    let id = child.id();
    let waiting = thread::spawn(move || child.wait_with_output());
    let began = Instant::now();
    while !waiting.is_finished() && began.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
    let is_late = !waiting.is_finished();
    if is_late {
        let kill = ["-KILL".to_owned(), id.to_string()];
        Command::new("kill").args(kill).status().map_err(cannot)?;
    }
    let ended = waiting.join().map_err(|_| "fuzz: no output".to_owned())?;
    let Output { status, stderr, .. } = ended.map_err(cannot)?;
    let said = String::from_utf8_lossy(&stderr);
    Ok(match (is_late, status.success()) {
        (true, _) => Some(format!("it does not end in {PATIENCE:?}\n{said}")),
        (false, false) => Some(format!("{status}\n{said}")),
        (false, true) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<FuzzOptions, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        FuzzOptions::parse(&words)
    }

    #[test]
    fn fuzzing_takes_ten_minutes_unless_something_else_is_said() {
        let expected = |seconds, seed| Ok(FuzzOptions { seconds, seed });
        assert_eq!(parse("http"), expected(600, None));
        assert_eq!(parse("http --seconds 30 --seed 7"), expected(30, Some(7)));
    }

    #[test]
    fn a_wrong_argument_is_named() {
        for (line, complaint) in [
            ("", "there is: http"),
            ("json", "nothing is called 'json'"),
            ("http --seconds x", "got 'x'"),
            ("http --seed", "needs a number"),
            ("http 30", "unknown option '30'"),
        ] {
            let error = parse(line).expect_err("it is wrong");
            assert!(error.contains(complaint), "{error}");
        }
    }

    #[test]
    fn what_a_failing_command_says_is_known() {
        let failure = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]);
            failure_of(command).expect("it runs")
        };
        assert_eq!(failure("exit 0"), None);
        let said = failure("echo broken >&2; exit 3").expect("it fails");
        assert!(said.contains("3") && said.contains("broken"), "{said}");
    }
}
