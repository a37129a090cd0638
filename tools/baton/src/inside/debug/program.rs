//! The program that is debugged: a child, or one that ran already; and the conversation with it.

use super::super::rights;
use super::super::started::connection_for;
use super::{FromProgram, Happening};
use baton_core::recording::RunDecision;
use baton_observe::client::{self, Connection};
use baton_observe::protocol::{Ask, LONGEST_REPLY, read_line, write_line};
use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::{BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

/// The version of the conversation.
const VERSION: u64 = 1;

/// How long an expression of a watch or a hover may take, unless the client says otherwise; and the
/// most that it may say, in seconds.
const WATCH_LIMIT: Duration = Duration::from_secs(2);
const LONGEST_WATCH: f64 = 86_400.0;

/// What the requests `launch` and `attach` say, and the command line.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Wanted {
    /// The script.
    pub(super) program: Option<PathBuf>,
    pub(super) args: Vec<String>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) env: BTreeMap<String, Option<String>>,
    /// The id of a running program: a number, or a text with one.
    #[serde(deserialize_with = "process_id")]
    pub(super) pid: Option<u32>,
    pub(super) stop_on_entry: bool,
    /// A program that is started runs without breakpoints.
    pub(super) no_debug: bool,
    pub(super) all_stop: bool,
    /// The seconds that an expression of a watch or a hover may take.
    #[serde(deserialize_with = "seconds")]
    pub(super) watch_limit: Option<Duration>,
    /// The simulated run that is replayed.
    pub(super) simulate: Option<SimulatedRun>,
    /// Attaches to a program that was not started with BATON_ATTACH=all.
    #[serde(skip)]
    pub(super) write: bool,
    /// Arguments as the command line has given them.
    #[serde(skip)]
    pub(super) raw_args: Vec<OsString>,
}

impl Wanted {
    pub(super) fn watch_limit(&self) -> Duration {
        self.watch_limit.unwrap_or(WATCH_LIMIT)
    }
}

fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let Some(seconds) = Option::<f64>::deserialize(from)? else {
        return Ok(None);
    };
    let is_time = seconds > 0.0 && seconds <= LONGEST_WATCH;
    is_time
        .then(|| Some(Duration::from_secs_f64(seconds)))
        .ok_or_else(|| {
            Error::custom(format!(
                "seconds expected for 'watchLimit', more than 0 and at most {LONGEST_WATCH}, got \
                 {seconds}"
            ))
        })
}

/// A number, or a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(u64),
    Text(String),
}

impl fmt::Display for NumberOrText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NumberOrText::Number(number) => write!(f, "{number}"),
            NumberOrText::Text(text) => write!(f, "{}", text.trim()),
        }
    }
}

fn process_id<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let Some(given) = Option::<NumberOrText>::deserialize(from)? else {
        return Ok(None);
    };
    let pid = given.to_string();
    pid.parse().map(Some).map_err(|_| {
        Error::custom(format!(
            "the id of a running program expected for 'pid', such as 4711, got '{pid}'"
        ))
    })
}

/// The simulated run that is replayed: a seed, or a seed with decisions, as `--simulate` takes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "NumberOrText")]
pub(super) struct SimulatedRun(String);

impl FromStr for SimulatedRun {
    type Err = String;

    fn from_str(text: &str) -> Result<SimulatedRun, String> {
        let (seed, decisions) = text.split_once(':').unwrap_or((text, ""));
        let mut decisions = decisions.split(',').filter(|_| !decisions.is_empty());
        let is_run = seed.parse::<u64>().is_ok()
            && decisions.all(|decision| decision.parse::<RunDecision>().is_ok());
        match is_run {
            true => Ok(SimulatedRun(text.to_owned())),
            false => Err(format!(
                "one seed expected for 'simulate', such as 16, or a run that --simulate has \
                 printed, such as 1:p5@62=6; got '{text}'"
            )),
        }
    }
}

impl TryFrom<NumberOrText> for SimulatedRun {
    type Error = String;

    fn try_from(given: NumberOrText) -> Result<SimulatedRun, String> {
        given.to_string().parse()
    }
}

/// Where what comes from a program goes. A program that was started again is another one.
#[derive(Clone)]
pub(super) struct Events {
    sender: Sender<Happening>,
    generation: u64,
}

impl Events {
    pub(super) fn new(sender: Sender<Happening>, generation: u64) -> Events {
        Events { sender, generation }
    }

    /// Returns whether the session is still there.
    fn send(&self, what: FromProgram) -> bool {
        let event = Happening::Program(self.generation, what);
        self.sender.send(event).is_ok()
    }
}

/// A program, with the conversation that is open with it.
pub(super) struct Program {
    /// Its process id.
    pub(super) pid: u32,
    /// What it is called.
    pub(super) name: String,
    writer: UnixStream,
    child: Option<Child>,
    /// The number of questions so far.
    asked: u64,
}

impl Program {
    /// Starts or attaches to the program. What comes from it goes to `events`.
    pub(super) fn reach(wanted: &Wanted, events: &Events) -> Result<Program, String> {
        match wanted.pid {
            Some(pid) => Program::attach(pid, wanted, events),
            None => Program::launch(wanted, events),
        }
    }

    fn attach(pid: u32, wanted: &Wanted, events: &Events) -> Result<Program, String> {
        let connection = {
            let _own = rights::of_the_user_of(pid)?;
            client::attach(pid, wanted.write).map_err(|error| error.to_string())?
        };
        let writer = converse(connection, wanted.all_stop, events)?;
        Ok(Program {
            pid,
            name: format!("process {pid}"),
            writer,
            child: None,
            asked: 0,
        })
    }

    fn launch(wanted: &Wanted, events: &Events) -> Result<Program, String> {
        let script = wanted.program.as_ref().ok_or(
            "'program' expected: the script to run; or 'pid', the id of a running program",
        )?;
        let this_program = std::env::current_exe()
            .map_err(|error| format!("cannot find this program's file: {error}"))?;
        let mut command = Command::new(this_program);
        let (ours, theirs) = connection_for(&mut command, "BATON_DEBUGGER")?;
        if let Some(SimulatedRun(run)) = &wanted.simulate {
            command.arg("--simulate").arg(run);
            command.args(["--explain", "0"]);
        }
        command
            .arg("--")
            .arg(script)
            .args(&wanted.args)
            .args(&wanted.raw_args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(directory) = &wanted.cwd {
            command.current_dir(directory);
        }
        for (name, value) in &wanted.env {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command
            .spawn()
            .map_err(|error| format!("cannot start the script: {error}"))?;
        drop(theirs);
        forward(child.stdout.take(), "stdout", events);
        forward(child.stderr.take(), "stderr", events);
        let writer = Connection::to_child(ours)
            .map_err(|error| error.to_string())
            .and_then(|connection| converse(connection, wanted.all_stop, events))
            .inspect_err(|_| {
                // It would run on unseen. It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
            })?;
        Ok(Program {
            pid: child.id(),
            name: script.display().to_string(),
            writer,
            child: Some(child),
            asked: 0,
        })
    }

    /// Whether it was started for this session.
    pub(super) fn is_child(&self) -> bool {
        self.child.is_some()
    }

    /// Sends a question. Returns the number of its answer.
    pub(super) fn ask(&mut self, ask: &str, mut with: Value) -> Result<u64, String> {
        self.asked += 1;
        with["id"] = self.asked.into();
        let ask = Ask {
            ask: ask.to_owned(),
            with,
        };
        write_line(&mut self.writer, &ask)
            .map_err(|error| format!("the program does not answer: {error}"))?;
        Ok(self.asked)
    }

    /// Ends the conversation, and lets a program that was started for this session go on.
    pub(super) fn leave(&mut self) {
        // It reads this before the end. An error says that it has gone.
        let _ = self.ask("leave", json!({}));
        self.let_go();
    }

    /// Ends the conversation: what has stopped goes on. A program that was started for this session
    /// ends.
    pub(super) fn let_go(&self) {
        // An error says that it is closed already.
        let _ = self.writer.shutdown(std::net::Shutdown::Both);
    }

    /// Ends a program that was started for this session.
    pub(super) fn end(&mut self) {
        if let Some(child) = &mut self.child {
            // An error says that it has ended.
            let _ = child.kill();
        }
    }

    /// Asks such a program to end.
    pub(super) fn terminate(&self) -> Result<(), String> {
        let pid = i32::try_from(self.pid).map_err(|_| "no such process".to_owned())?;
        let pid = Pid::from_raw(pid);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)
            .map_err(|error| format!("cannot end the program: {error}"))
    }

    /// Has its end become an event, at once if it was not started for this session.
    pub(super) fn watch_end(&self, events: &Events) {
        let child = self.child.as_ref();
        let child = child.map(|child| Pid::from_raw(child.id().cast_signed()));
        let events = events.clone();
        thread::spawn(move || {
            if let Some(pid) = child {
                // It keeps its number until `wait`.
                let how = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
                while waitid(Id::Pid(pid), how) == Err(Errno::EINTR) {}
            }
            events.send(FromProgram::Ended);
        });
    }

    /// Waits for its end, if it was started for this session.
    pub(super) fn wait(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.wait().ok()
    }
}

/// Opens the conversation. Lines of the program become events.
fn converse(connection: Connection, all_stop: bool, events: &Events) -> Result<UnixStream, String> {
    let opening = json!({ "version": VERSION, "all_stop": all_stop });
    let (mut reader, writer) = connection.open("debug", opening)?;
    loop {
        // The main process may have stopped at its start before the debugger was attached.
        let line = next_line(&mut reader)?.ok_or("the program has ended")?;
        if let Some(why) = line.get("refused").and_then(Value::as_str) {
            return Err(why.to_owned());
        }
        if line["event"] == "attached" {
            break;
        }
        events.send(FromProgram::Says(line));
    }
    let events = events.clone();
    thread::spawn(move || {
        while let Ok(Some(line)) = next_line(&mut reader) {
            if !events.send(FromProgram::Says(line)) {
                return;
            }
        }
        events.send(FromProgram::Gone);
    });
    Ok(writer)
}

fn next_line(reader: &mut BufReader<UnixStream>) -> Result<Option<Value>, String> {
    read_line(reader, LONGEST_REPLY)
        .map_err(|error| format!("the program does not answer: {error}"))
}

/// Passes what the program writes on, as text. A character is never cut.
fn forward(stream: Option<impl Read + Send + 'static>, category: &'static str, events: &Events) {
    let Some(mut stream) = stream else {
        return;
    };
    let events = events.clone();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut chunk = [0; 16 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut chunk) {
            bytes.extend_from_slice(&chunk[..count]);
            let whole = bytes.len() - unfinished(&bytes);
            let rest = bytes.split_off(whole);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            bytes = rest;
            if !text.is_empty() && !events.send(FromProgram::Output(category, text)) {
                return;
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        events.send(FromProgram::Output(category, text));
        events.send(FromProgram::OutputEnds);
    });
}

/// How many bytes at the end begin a character that is not complete.
fn unfinished(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.len() - error.valid_up_to(),
        Err(_) => bytes.utf8_chunks().last().map_or(0, |chunk| {
            match std::str::from_utf8(chunk.invalid()) {
                Err(error) if error.error_len().is_none() => chunk.invalid().len(),
                _ => 0,
            }
        }),
        Ok(_) => 0,
    }
}
