//! Runs `baton` as a child program and checks the results.
//!
//! A test either runs one case of a Lua file (see [`cases`]), or starts a program with [`baton`].
//! Every run has a time limit. If a child exceeds it, the harness kills the child, and the test
//! fails with all its output.

#![allow(dead_code, unused_imports, unused_macros)] // each test binary uses its own part

pub(crate) mod between;
pub(crate) mod certificates;
pub(crate) mod debugger;
pub(crate) mod heap;
pub(crate) mod missing;
pub(crate) mod modules;
pub(crate) mod nats;
pub(crate) mod observed;
pub(crate) mod peer;
pub(crate) mod program;
pub(crate) mod readers;
pub(crate) mod scraped;
pub(crate) mod screen;
pub(crate) mod signals;
mod stream;
mod threads;
pub(crate) mod trace;

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) use baton_harness::skip;
use stream::Stream;
use threads::Threads;
pub(crate) use threads::Work;

/// The time limit of a run. The slowest needs 11 s of CPU in a debug build, and a busy machine may
/// give it a tenth of the time.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);

/// The time for a program that hangs to write its report.
const TIME_TO_REPORT: Duration = Duration::from_secs(3);

/// Makes one `#[test]` of each named case of a Lua file, and a test that fails if a case of the
/// file is missing here.
///
/// The file defines its cases as `function case.name() ... end` and ends with `check.run(case)`.
macro_rules! cases {
    ($(mod $module:ident from $file:literal: $($name:ident),+ $(,)?;)+) => {$(
        mod $module {
            $(#[test]
            fn $name() {
                crate::harness::run_case($file, stringify!($name));
            })+

            #[test]
            fn no_case_of_the_file_is_left_out() {
                crate::harness::assert_all_cases_named($file, &[$(stringify!($name)),+]);
            }
        }
    )+};
}
pub(crate) use cases;

/// Runs one case of a file under tests/lua. It must end with status 0, print that it passed, and
/// leave stderr empty.
pub(crate) fn run_case(file: &str, name: &str) {
    let outcome = baton().script(file).arg(name).run();
    check_case(file, name, &outcome);
}

/// Checks a run of a case. See [`run_case`].
pub(crate) fn check_case(file: &str, name: &str, outcome: &Outcome) {
    if missing::is_for_want_of_a_package(outcome, &format!("{file}, {name}")) {
        return;
    }
    outcome.succeeds();
    assert!(outcome.is_quiet(), "the case wrote to stderr\n{outcome}");
    assert!(
        outcome.stdout.ends_with(&format!("passed {name}\n")),
        "the case did not come to its end\n{outcome}"
    );
}

/// Fails if `file` defines a case that is not among `named`.
pub(crate) fn assert_all_cases_named(file: &str, named: &[&str]) {
    let text = std::fs::read_to_string(lua_dir().join(file)).expect("the Lua file is there");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("function case.") {
            let name = rest.split('(').next().unwrap_or(rest);
            assert!(
                named.contains(&name),
                "{file} has the case {name}, which no test runs; add it to the list of {file} in a \
                 `cases!` of this test"
            );
        }
    }
}

/// The directory of the Lua test files.
pub(crate) fn lua_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lua")
}

/// A run of `baton`, in a clean environment that finds `check.lua` and the compiled test modules.
pub(crate) fn baton() -> Run {
    Run::of(baton_path())
}

/// The program under test.
pub(crate) fn baton_path() -> &'static Path {
    program::path()
}

/// Runs `program` in a shell that first redirects a stream, such as `>&-` or `>/dev/full`.
pub(crate) fn redirected(program: &Path, redirection: &str) -> Run {
    Run::of(Path::new("/bin/sh"))
        .arg("-c")
        .arg(format!("exec \"$0\" \"$@\" {redirection}"))
        .arg(program)
}

/// `require "baton.process"` as the local `process`, then `code`: for `-e`.
pub(crate) fn with_process(code: &str) -> String {
    format!("local process = require 'baton.process'\n{code}")
}

/// A program to run: its arguments, environment and standard input.
pub(crate) struct Run {
    command: Command,
    stdin: Option<Vec<u8>>,
    scratch: PathBuf,
    hold_stdout: bool,
    hold_stderr: bool,
    open_stdin: bool,
    limit: Duration,
}

impl Run {
    /// A run of `program`, which may also be stock `lua`.
    pub(crate) fn of(program: &Path) -> Self {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let bytes = name.as_encoded_bytes();
            if bytes.starts_with(b"LUA_") || bytes.starts_with(b"BATON_") {
                command.env_remove(&name);
            }
        }
        let scratch = new_scratch_dir();
        command.env("SCRATCH", &scratch).env("LC_ALL", "C");
        command.env("LUA_PATH_5_4", format!("{}/?.lua;;", lua_dir().display()));
        command.env(
            "LUA_CPATH_5_4",
            format!("{}/?.so;;", modules::dir().display()),
        );
        Self {
            command,
            stdin: None,
            scratch,
            hold_stdout: false,
            hold_stderr: false,
            open_stdin: false,
            limit: LIMIT,
        }
    }

    /// Multiplies the time limit, for programs with much work.
    pub(crate) fn patiently(mut self, times: u32) -> Self {
        self.limit *= times;
        self
    }

    /// Runs the script `file`, a path under tests/lua.
    pub(crate) fn script(self, file: &str) -> Self {
        let path = lua_dir().join(file);
        self.arg(path)
    }

    /// Runs a chunk with `-e`.
    pub(crate) fn code(self, chunk: &str) -> Self {
        self.arg("-e").arg(chunk)
    }

    /// Runs a chunk with `-e` that has the module `baton.process` as the local `process`.
    pub(crate) fn process_code(self, chunk: &str) -> Self {
        let chunk = with_process(chunk);
        self.code(&chunk)
    }

    /// Adds an argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Adds an environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes an environment variable.
    pub(crate) fn without_env(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Sets the standard input. By default it is empty.
    pub(crate) fn stdin(mut self, text: &str) -> Self {
        self.stdin = Some(text.as_bytes().to_vec());
        self
    }

    /// The directory of this run. The program finds it in `SCRATCH`.
    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Sets the directory that the program starts in.
    pub(crate) fn in_dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    /// Keeps standard input open for [`Started::write_stdin`].
    pub(crate) fn open_stdin(mut self) -> Self {
        self.open_stdin = true;
        self
    }

    /// Does not read the program's output before [`Started::read_stdout`].
    pub(crate) fn hold_stdout(mut self) -> Self {
        self.hold_stdout = true;
        self
    }

    /// Does not read the program's stderr before [`Started::read_stderr`].
    pub(crate) fn hold_stderr(mut self) -> Self {
        self.hold_stderr = true;
        self
    }

    /// Runs the program to its end.
    pub(crate) fn run(self) -> Outcome {
        self.start().finish()
    }

    /// Starts the program. The test continues meanwhile.
    pub(crate) fn start(mut self) -> Started {
        let input = self.stdin.take();
        self.command.stdin(if input.is_some() || self.open_stdin {
            Stdio::piped()
        } else {
            Stdio::null()
        });
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let described = format!("{:?}", self.command);
        signals::give_children_default_actions();
        let mut child = self
            .command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {described}: {error}"));
        if let Some(bytes) = input
            && let Some(mut pipe) = child.stdin.take()
        {
            // A program may end without reading its input.
            std::thread::spawn(move || pipe.write_all(&bytes));
        }
        let mut stdout = Stream::of(child.stdout.take().expect("stdout is piped"));
        let mut stderr = Stream::of(child.stderr.take().expect("stderr is piped"));
        if !self.hold_stdout {
            stdout.read();
        }
        if !self.hold_stderr {
            stderr.read();
        }
        Started {
            child,
            described,
            stdout,
            stderr,
            scratch: self.scratch,
            until: Instant::now() + self.limit,
            ended: false,
        }
    }
}

/// A program that runs while the test does.
pub(crate) struct Started {
    child: Child,
    described: String,
    stdout: Stream,
    stderr: Stream,
    scratch: PathBuf,
    until: Instant,
    ended: bool,
}

impl Started {
    /// Waits until the program has written `text` to stdout.
    pub(crate) fn await_stdout(&mut self, text: &str) {
        if !self.stdout.await_text(text, self.time_left()) {
            self.fail(&format!("never wrote {text:?} to stdout"));
        }
    }

    /// Waits until the program has written `text` to stderr.
    pub(crate) fn await_stderr(&mut self, text: &str) {
        if !self.stderr.await_text(text, self.time_left()) {
            self.fail(&format!("never wrote {text:?} to stderr"));
        }
    }

    /// Writes to a standard input that was left open.
    pub(crate) fn write_stdin(&mut self, text: &str) {
        let pipe = self
            .child
            .stdin
            .as_mut()
            .expect("the run has an open stdin");
        pipe.write_all(text.as_bytes()).expect("the program reads");
    }

    /// Closes a standard input that was left open.
    pub(crate) fn close_stdin(&mut self) {
        self.child.stdin = None;
    }

    /// Starts to read a stdout that was held.
    pub(crate) fn read_stdout(&mut self) {
        self.stdout.read();
    }

    /// Starts to read a stderr that was held.
    pub(crate) fn read_stderr(&mut self) {
        self.stderr.read();
    }

    /// Closes the test's end of the program's stdout pipe.
    pub(crate) fn close_stdout(&mut self) {
        self.stdout.close();
    }

    /// The directory of this run. The program finds it in `SCRATCH`.
    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Sends a signal by its name without `SIG`.
    pub(crate) fn signal(&self, name: &str) {
        signals::send(self.child.id(), name);
    }

    /// Sends a signal, by its name without `SIG`, every few milliseconds until the program ends.
    pub(crate) fn signal_until_it_ends(mut self, name: &str) -> Outcome {
        while matches!(self.child.try_wait(), Ok(None)) && !self.time_left().is_zero() {
            self.signal(name);
            std::thread::sleep(Duration::from_millis(5));
        }
        self.finish()
    }

    /// The program's process number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns once no thread of the program has done anything for a while.
    pub(crate) fn await_rest(&mut self) {
        const WHILE: Duration = Duration::from_millis(50);
        while self.work_while(|_| std::thread::sleep(WHILE)) != Work::default() {
            if self.time_left().is_zero() {
                self.fail("did not come to rest within the limit");
            }
        }
    }

    /// Returns what the program's threads do until `event` has happened.
    pub(crate) fn work_while(&mut self, event: impl FnOnce(&mut Self)) -> Work {
        let before = Threads::of(self.pid());
        event(self);
        Threads::of(self.pid()).work_since(&before)
    }

    /// Waits for the program's end.
    pub(crate) fn finish(mut self) -> Outcome {
        loop {
            if let Some(status) = self.child.try_wait().expect("the child can be waited for") {
                self.ended = true;
                return Outcome {
                    described: self.described.clone(),
                    stdout: self.stdout.take_all(),
                    stderr: self.stderr.take_all(),
                    status,
                };
            }
            if self.time_left().is_zero() {
                self.fail("did not end within the limit");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn time_left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Fails the test with the program's output. If it still runs, asks it for a report of all
    /// processes first.
    fn fail(&mut self, why: &str) -> ! {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal("QUIT");
            std::thread::sleep(TIME_TO_REPORT);
        }
        self.end();
        panic!(
            "{why}: {}\n--- stdout\n{}\n--- stderr\n{}",
            self.described,
            self.stdout.take_all(),
            self.stderr.take_all()
        );
    }

    fn end(&mut self) {
        if !self.ended {
            self.ended = true;
            // It may have ended by itself already.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.end();
        // Files that stay only take room in the target directory.
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

/// A program's output, and how it ended.
pub(crate) struct Outcome {
    pub(crate) described: String,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) status: ExitStatus,
}

impl Outcome {
    /// The program ended with status 0.
    pub(crate) fn succeeds(&self) -> &Self {
        self.ends_with(0)
    }

    /// The program exited with this status.
    pub(crate) fn ends_with(&self, code: i32) -> &Self {
        assert_eq!(
            self.status.code(),
            Some(code),
            "status {code} expected\n{self}"
        );
        self
    }

    /// This signal ended the program.
    pub(crate) fn ended_by_signal(&self, number: i32) -> &Self {
        assert_eq!(
            self.status.signal(),
            Some(number),
            "an end by signal {number} expected\n{self}"
        );
        self
    }

    /// Stdout is exactly this text.
    pub(crate) fn wrote(&self, text: &str) -> &Self {
        assert_eq!(self.stdout, text, "another stdout expected\n{self}");
        self
    }

    /// Stderr contains this text.
    pub(crate) fn complained(&self, text: &str) -> &Self {
        assert!(
            self.stderr.contains(text),
            "{text:?} expected on stderr\n{self}"
        );
        self
    }

    /// Nothing was written to stderr.
    pub(crate) fn quietly(&self) -> &Self {
        assert!(self.is_quiet(), "nothing expected on stderr\n{self}");
        self
    }

    /// Whether nothing was written to stderr. Under an emulator, some lines do not count: a call of
    /// some milliseconds may take the tenth of a second after which Baton warns, and the emulator's
    /// own loader cannot preload what is for the program.
    fn is_quiet(&self) -> bool {
        let is_the_emulators = |line: &str| {
            line.starts_with("baton: warning: ") && line.contains("process.params.warn_blocked")
                || line.starts_with("ERROR: ld.so: object ")
                    && line.contains(" from LD_PRELOAD cannot be preloaded ")
        };
        self.stderr.is_empty()
            || program::is_emulated() && self.stderr.lines().all(is_the_emulators)
    }

    /// There is no trace of a Rust panic.
    pub(crate) fn without_panic(&self) -> &Self {
        assert!(
            !self.stderr.contains("panicked at"),
            "the program panicked\n{self}"
        );
        self
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}\n--- {}\n--- stdout\n{}\n--- stderr\n{}",
            self.described, self.status, self.stdout, self.stderr
        )
    }
}

fn new_scratch_dir() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("run-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory for the run can be made");
    dir
}
