//! A client of the Debug Adapter Protocol.

use super::{LIMIT, baton_path};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// A session with `baton debug`.
pub(crate) struct Session {
    server: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// Events that came while something else was waited for.
    events: VecDeque<Value>,
    sent: i64,
    /// What the program has written so far.
    pub(crate) output: String,
}

/// A frame of a process that has stopped.
pub(crate) struct Stop {
    pub(crate) thread: i64,
    pub(crate) reason: String,
    /// The whole event.
    pub(crate) event: Value,
    /// Functions and lines, innermost first.
    pub(crate) frames: Vec<(String, i64)>,
    /// The ids of the frames.
    pub(crate) ids: Vec<i64>,
}

/// A script in a scratch directory, and its path.
pub(crate) fn script(code: &str) -> PathBuf {
    let path = super::new_scratch_dir().join("script.lua");
    fs::write(&path, code).expect("the scratch directory is writable");
    fs::canonicalize(path).expect("it is there")
}

impl Session {
    /// Starts `baton debug` with these arguments.
    pub(crate) fn start(arguments: &[&str]) -> Session {
        let mut server = Command::new(baton_path())
            .arg("debug")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut output = BufReader::new(server.stdout.take().expect("a pipe"));
        let (sender, messages) = channel();
        thread::spawn(move || {
            while let Some(message) = read_message(&mut output) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut session = Session {
            input: server.stdin.take(),
            server,
            messages,
            events: VecDeque::new(),
            sent: 0,
            output: String::new(),
        };
        session.ask("initialize", json!({ "adapterID": "baton" }));
        session
    }

    /// Starts a script, with breakpoints at these lines, and lets it begin.
    pub(crate) fn launch(script: &str, lines: &[i64]) -> Session {
        let mut session = Session::start(&[]);
        session.begin(json!({ "program": script }));
        let wishes: Vec<Value> = lines.iter().map(|line| json!({ "line": line })).collect();
        session.set_breakpoints(script, json!(wishes));
        session.configured();
        session
    }

    /// `launch`, up to the event `initialized`.
    pub(crate) fn begin(&mut self, with: Value) {
        self.ask("launch", with);
        self.event("initialized");
    }

    pub(crate) fn configured(&mut self) {
        self.ask("configurationDone", json!({}));
    }

    pub(crate) fn set_breakpoints(&mut self, script: &str, wishes: Value) -> Value {
        let with = json!({ "source": { "path": script }, "breakpoints": wishes });
        self.ask("setBreakpoints", with)["breakpoints"].clone()
    }

    pub(crate) fn stop_at_errors(&mut self, filters: &[&str]) {
        self.ask("setExceptionBreakpoints", json!({ "filters": filters }));
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, command: &str, with: Value) -> i64 {
        self.sent += 1;
        let message = json!({
            "seq": self.sent, "type": "request", "command": command, "arguments": with,
        });
        self.send_bytes(message.to_string().as_bytes());
        self.sent
    }

    fn send_bytes(&mut self, body: &[u8]) {
        let input = self.input.as_mut().expect("the input is open");
        write!(input, "Content-Length: {}\r\n\r\n", body.len()).expect("it reads");
        input.write_all(body).expect("it reads");
        input.flush().expect("it reads");
    }

    /// Sends a request, and returns the body of the answer, or why there is none.
    pub(crate) fn try_ask(&mut self, command: &str, with: Value) -> Result<Value, String> {
        let seq = self.send(command, with);
        self.answer(seq)
    }

    /// Waits for the answer of a request: its body, or why there is none.
    pub(crate) fn answer(&mut self, seq: i64) -> Result<Value, String> {
        let is_answer =
            |message: &Value| message["type"] == "response" && message["request_seq"] == seq;
        // It may have come while something else was waited for.
        let known = self.events.iter().position(is_answer);
        let known = known.and_then(|at| self.events.remove(at));
        let message = known.unwrap_or_else(|| {
            loop {
                let message = self.next();
                if is_answer(&message) {
                    break message;
                }
                self.events.push_back(message);
            }
        });
        match message["success"].as_bool() {
            Some(true) => Ok(message["body"].clone()),
            _ => Err(message["message"].as_str().unwrap_or_default().to_owned()),
        }
    }

    /// Waits until all these requests are answered.
    pub(crate) fn answers(&mut self, requests: &[i64]) {
        let mut left = requests.to_vec();
        while !left.is_empty() {
            let message = self.next();
            match message["type"] == "response" {
                true => left.retain(|&seq| message["request_seq"] != seq),
                false => self.events.push_back(message),
            }
        }
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, command: &str, with: Value) -> Value {
        let answer = self.try_ask(command, with);
        answer.unwrap_or_else(|why| panic!("{command}: {why}"))
    }

    fn next(&mut self) -> Value {
        let message = self.messages.recv_timeout(LIMIT);
        let message = message.unwrap_or_else(|error| {
            panic!(
                "no message ({error}); before: {:?}; {}",
                self.events, self.output
            )
        });
        if message["event"] == "output" {
            self.output += message["body"]["output"].as_str().unwrap_or_default();
        }
        message
    }

    /// Waits for an event, and returns its body.
    pub(crate) fn event(&mut self, name: &str) -> Value {
        let known = self.events.iter().position(|event| event["event"] == name);
        if let Some(event) = known.and_then(|at| self.events.remove(at)) {
            return event["body"].clone();
        }
        loop {
            let message = self.next();
            if message["event"] == name {
                return message["body"].clone();
            }
            self.events.push_back(message);
        }
    }

    /// Waits until the program has written a text.
    pub(crate) fn await_output(&mut self, text: &str) {
        while !self.output.contains(text) {
            let message = self.next();
            self.events.push_back(message);
        }
    }

    /// The event that has told of an output with this text.
    pub(crate) fn output_event(&self, text: &str) -> Value {
        let mut all = self.events.iter().map(|event| &event["body"]);
        let told = all.find(|body| body["output"].as_str().is_some_and(|it| it.contains(text)));
        told.cloned()
            .unwrap_or_else(|| panic!("no {text} in {:?}", self.events))
    }

    /// Waits until a process stops, and looks at its stack.
    pub(crate) fn stopped(&mut self) -> Stop {
        let event = self.event("stopped");
        let thread = event["threadId"].as_i64().expect("a number");
        let stack = self.ask("stackTrace", json!({ "threadId": thread }));
        let frames = stack["stackFrames"].as_array().expect("a list");
        Stop {
            thread,
            reason: event["reason"].as_str().unwrap_or_default().to_owned(),
            frames: frames
                .iter()
                .map(|frame| {
                    let name = frame["name"].as_str().unwrap_or_default().to_owned();
                    (name, frame["line"].as_i64().unwrap_or(-1))
                })
                .collect(),
            ids: frames
                .iter()
                .map(|frame| frame["id"].as_i64().unwrap_or(0))
                .collect(),
            event,
        }
    }

    /// Lets a process go on: "continue", "next", "stepIn" or "stepOut".
    pub(crate) fn resume(&mut self, how: &str, thread: i64) {
        self.ask(how, json!({ "threadId": thread }));
    }

    /// Makes a step, and returns where it ends.
    pub(crate) fn step(&mut self, how: &str, thread: i64) -> Stop {
        self.resume(how, thread);
        self.stopped()
    }

    /// The result of an expression in a frame, as text.
    #[track_caller]
    pub(crate) fn evaluate(&mut self, frame: i64, expression: &str) -> String {
        let with = json!({ "expression": expression, "frameId": frame, "context": "repl" });
        let result = self.ask("evaluate", with);
        result["result"].as_str().unwrap_or_default().to_owned()
    }

    /// The reference of a scope of a frame.
    pub(crate) fn scope(&mut self, frame: i64, name: &str) -> i64 {
        let scopes = self.ask("scopes", json!({ "frameId": frame }));
        let scopes = scopes["scopes"].as_array().expect("a list");
        let scope = scopes.iter().find(|scope| scope["name"] == name);
        let scope = scope.unwrap_or_else(|| panic!("no scope '{name}'"));
        scope["variablesReference"].as_i64().expect("a number")
    }

    /// What is found at a reference.
    pub(crate) fn variables(&mut self, reference: i64) -> Vec<Value> {
        let found = self.ask("variables", json!({ "variablesReference": reference }));
        found["variables"].as_array().cloned().expect("a list")
    }

    /// The variables of a scope, as "name=value".
    pub(crate) fn shown(&mut self, frame: i64, scope: &str) -> Vec<String> {
        let reference = self.scope(frame, scope);
        let all = self.variables(reference);
        all.iter()
            .map(|variable| {
                let name = variable["name"].as_str().unwrap_or_default();
                format!("{name}={}", variable["value"].as_str().unwrap_or_default())
            })
            .collect()
    }

    /// The process id of the program.
    pub(crate) fn program(&mut self) -> u32 {
        let process = self.event("process");
        let pid = process["systemProcessId"].as_u64().expect("a number");
        u32::try_from(pid).expect("a process id")
    }

    /// Waits for the end of the program; returns its exit code.
    pub(crate) fn exit_code(&mut self) -> i64 {
        let code = self.event("exited")["exitCode"].as_i64();
        self.event("terminated");
        code.expect("a number")
    }

    /// Ends the session, and returns how the server has ended.
    pub(crate) fn disconnect(mut self) -> ExitStatus {
        self.ask("disconnect", json!({}));
        self.wait()
    }

    /// Waits for the end of the server.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.server.wait().expect("it ends")
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        self.server.kill().expect("it runs");
        self.server.wait().expect("it ends");
    }

    /// Closes the server's input.
    pub(crate) fn close(&mut self) {
        self.input = None;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn read_message(stream: &mut impl BufRead) -> Option<Value> {
    let mut length = None;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            header => {
                let value = header.strip_prefix("Content-Length: ");
                length = value.and_then(|value| value.parse::<u64>().ok());
            }
        }
    }
    let mut body = Vec::new();
    stream.take(length?).read_to_end(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}
