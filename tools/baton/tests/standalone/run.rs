//! Runs a case with both programs and compares what they did.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{env, fmt, thread};

use crate::case::{Call, Case, Exception};

/// A program that has not ended by then hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// The name under which both programs run.
const NAME: &str = "lua";

/// The program under test.
pub(crate) fn baton() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_baton"))
}

/// The program to compare with. Its absence skips the comparison, loudly; in CI it fails.
pub(crate) fn reference() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let found = env::split_paths(&path)
        .map(|directory| directory.join("lua5.4"))
        .find(|program| program.is_file());
    if found.is_none() {
        assert!(
            env::var_os("CI").is_none(),
            "lua5.4 is needed: install the package lua5.4"
        );
        eprintln!("SKIPPED: no lua5.4 to compare with: install the package lua5.4");
    }
    found
}

/// What a program did.
#[derive(PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) status: String,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\n--- stdout\n{}\n--- stderr\n{}",
            self.status, self.stdout, self.stderr
        )
    }
}

/// Runs every case with both programs; fails with all the differences.
pub(crate) fn compare(cases: &[Case]) {
    let Some(reference) = reference() else {
        return;
    };
    let differences: Vec<String> = cases.iter().filter_map(|case| difference(case, &reference)).collect();
    assert!(
        differences.is_empty(),
        "{} of {} cases differ\n\n{}",
        differences.len(),
        cases.len(),
        differences.join("\n\n")
    );
}

fn difference(case: &Case, reference: &Path) -> Option<String> {
    let mut expected = outcome(case, reference);
    let mut found = outcome(case, baton());
    for exception in &case.exceptions {
        if let Err(unused) = allow(*exception, case, &mut expected, &mut found) {
            return Some(format!("=== {}: {unused}", case.name));
        }
    }
    (expected != found).then(|| format!("=== {}\n*** lua5.4: {expected}\n*** baton: {found}", case.name))
}

/// Takes the difference out of both outcomes. Fails if it was not there: the exception is then stale.
fn allow(exception: Exception, case: &Case, expected: &mut Outcome, found: &mut Outcome) -> Result<(), String> {
    match exception {
        Exception::Release => {
            without_release(&mut expected.stdout)?;
            without_release(&mut found.stdout)
        }
        Exception::ReadlineEcho => {
            without_echo(&mut expected.stdout, case.input);
            Ok(())
        }
        Exception::Newer { old, new, reason } => {
            for text in [&mut expected.stdout, &mut expected.stderr] {
                if text.contains(old) {
                    *text = text.replace(old, new);
                    return Ok(());
                }
            }
            if expected == found {
                return Ok(()); // the system's Lua is as new
            }
            Err(format!("lua5.4 did not print {old:?} ({reason})"))
        }
    }
}

fn without_release(text: &mut String) -> Result<(), String> {
    let start = text.find("Lua 5.4.").ok_or("there is no copyright line")?;
    let length = text[start..].find('\n').unwrap_or(text.len() - start);
    text.replace_range(start..start + length, "Lua 5.4");
    Ok(())
}

/// Takes out each line where readline repeated it: after a prompt.
fn without_echo(text: &mut String, input: &str) {
    let mut rest = 0;
    for line in input.lines() {
        let echo = format!("{line}\n");
        let after_prompt = text[rest..].find(&format!("> {echo}")).map(|at| at + 2);
        let Some(at) = after_prompt.or_else(|| text[rest..].find(&echo)) else {
            return; // the program ended before it read this line
        };
        rest += at;
        text.replace_range(rest..rest + echo.len(), "");
    }
}

fn outcome(case: &Case, program: &Path) -> Outcome {
    let mut command = match &case.call {
        Call::Direct(arguments) => interpreter(program, arguments),
        Call::Shell(script) => {
            let mut shell = Command::new("sh");
            clean(&mut shell).args(["-c", script]).env("LUA", program);
            shell
        }
    };
    command.envs(case.environment.iter().copied());
    let output = finish(spawn(&mut command), case.input.as_bytes());
    let place = program.to_str().expect("a path that is text");
    Outcome {
        stdout: normal(&output.stdout, place),
        stderr: normal(&output.stderr, place),
        status: describe(output.status),
    }
}

/// The program with these arguments, called "lua", in the directory of the test's files.
pub(crate) fn interpreter<S: AsRef<OsStr>>(program: &Path, arguments: &[S]) -> Command {
    let mut command = Command::new(program);
    clean(&mut command).arg0(NAME).args(arguments);
    command
}

/// Only what a test sets is in the environment.
fn clean(command: &mut Command) -> &mut Command {
    command
        .env_clear()
        .env("PATH", env::var_os("PATH").unwrap_or_default())
        .env("LC_ALL", "C")
        .env("TERM", "dumb")
        .env("INPUTRC", "/dev/null")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standalone/files"))
}

/// Starts a program with its three streams piped.
pub(crate) fn spawn(command: &mut Command) -> Child {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// Gives the input to the program and waits for its end. Ends and fails a program that hangs.
pub(crate) fn finish(mut child: Child, input: &[u8]) -> Output {
    let stdin = child.stdin.take();
    let id = child.id();
    let (ended, watch) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            // A program may end without reading its input.
            match stdin.map(|mut stdin| stdin.write_all(input)) {
                Some(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => panic!("{error}"),
                _ => {}
            }
        });
        scope.spawn(move || {
            if watch.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("the program {id} hangs: it is ended");
                Command::new("kill")
                    .args(["-KILL", &id.to_string()])
                    .status()
                    .expect("kill runs");
            }
        });
        let output = child.wait_with_output().expect("the program's output");
        drop(ended);
        output
    })
}

pub(crate) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => format!("{status}"),
    }
}

/// The text without what differs from run to run: where the program is, and addresses.
fn normal(bytes: &[u8], place: &str) -> String {
    let text = String::from_utf8_lossy(bytes).replace(place, NAME);
    let mut parts = text.split("0x");
    let mut normal = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|digit: char| digit.is_ascii_hexdigit());
        normal.push_str(if part.len() - rest.len() >= 8 { "ADDRESS" } else { "0x" });
        normal.push_str(if part.len() - rest.len() >= 8 { rest } else { part });
    }
    normal
}
