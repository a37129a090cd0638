//! The session: requests from its start to its end, and how processes go on.

use super::messages::{Asked, Request, Sender};
use super::program::{Program, Wanted};
use super::references::References;
use super::{Happening, breakpoints};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, StdoutLock};
use std::os::unix::process::ExitStatusExt;
use std::sync::mpsc;

/// Whether the loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    GoesOn,
    Ends,
}

/// What is left to do when an answer of the program comes.
pub(super) type Then<'out> =
    Box<dyn FnOnce(&mut Session<'out>, Result<Value, String>) -> io::Result<()> + 'out>;

pub(super) struct Session<'out> {
    pub(super) out: Sender<StdoutLock<'out>>,
    events: mpsc::Sender<Happening>,
    /// What the command line asks for.
    asked_for: Wanted,
    /// What the client asks for, too.
    wanted: Wanted,
    program: Option<Program>,
    /// The conversation with it has ended.
    is_gone: bool,
    /// The program's output that is still open: stdout and stderr.
    open_outputs: u32,
    pending: HashMap<u64, Then<'out>>,
    pub(super) references: References,
    /// The processes that have stopped.
    pub(super) stopped: BTreeMap<u64, Stop>,
    /// The number of breakpoints so far.
    pub(super) last_breakpoint: i64,
    /// The main process waits at the start; and the client is ready.
    waits_at_start: bool,
    is_configured: bool,
    is_terminated: bool,
}

/// Where a process has stopped.
pub(super) struct Stop {
    /// The text of an error.
    text: String,
    /// No other process runs meanwhile.
    is_alone: bool,
}

/// The main process.
const MAIN: u64 = 1;

impl<'out> Session<'out> {
    pub(super) fn new(
        asked_for: Wanted,
        events: mpsc::Sender<Happening>,
        out: StdoutLock<'out>,
    ) -> Session<'out> {
        Session {
            out: Sender::new(out),
            events,
            wanted: asked_for.clone(),
            asked_for,
            program: None,
            is_gone: false,
            open_outputs: 0,
            pending: HashMap::new(),
            references: References::default(),
            stopped: BTreeMap::new(),
            last_breakpoint: 0,
            waits_at_start: false,
            is_configured: false,
            is_terminated: false,
        }
    }

    /// Ends it. A program that it has started ends, too; another one goes on.
    pub(super) fn end(&mut self) {
        if let Some(mut program) = self.program.take() {
            program.end();
            program.let_go();
            program.wait();
        }
    }

    /// Asks the program; `then` gets the answer.
    pub(super) fn ask(
        &mut self,
        ask: &str,
        with: Value,
        then: impl FnOnce(&mut Session<'out>, Result<Value, String>) -> io::Result<()> + 'out,
    ) -> io::Result<()> {
        let asked = match &mut self.program {
            Some(program) if !self.is_gone => program.ask(ask, with),
            _ => Err("no program is being debugged".to_owned()),
        };
        match asked {
            Ok(id) => {
                self.pending.insert(id, Box::new(then));
                Ok(())
            }
            Err(why) => then(self, Err(why)),
        }
    }

    /// Handles a request of the client.
    pub(super) fn request(&mut self, request: Request) -> io::Result<Flow> {
        let asked = Asked {
            seq: request.seq,
            command: request.command,
        };
        let with = request.arguments;
        match asked.command.as_str() {
            "initialize" => self.out.respond(&asked, Ok(capabilities()))?,
            "launch" | "attach" => self.begin(&asked, with)?,
            "configurationDone" => {
                self.is_configured = true;
                self.out.respond(&asked, Ok(Value::Null))?;
                self.let_main_begin()?;
            }
            "setBreakpoints" => breakpoints::set(self, &asked, with)?,
            "setExceptionBreakpoints" => breakpoints::set_for_errors(self, &asked, &with)?,
            "threads" => self.threads(asked)?,
            "continue" => self.resume(asked, &with, "continue")?,
            "next" => self.resume(asked, &with, "over")?,
            "stepIn" => self.resume(asked, &with, "in")?,
            "stepOut" => self.resume(asked, &with, "out")?,
            "pause" => self.pause(asked, &with)?,
            "stackTrace" => self.stack_trace(asked, &with)?,
            "scopes" => self.scopes(asked, &with)?,
            "variables" => self.variables(asked, with)?,
            "setVariable" => self.set_variable(asked, &with)?,
            "evaluate" => self.evaluate(asked, &with)?,
            "exceptionInfo" => self.exception_info(&asked, &with)?,
            "source" => self.source(&asked, &with)?,
            "terminate" => {
                let result = match &self.program {
                    Some(program) if program.is_child() => program.terminate(),
                    _ => Err(
                        "this program was not started for the session: it is not ended; \
                              disconnect leaves it running"
                            .to_owned(),
                    ),
                };
                self.out.respond(&asked, result.map(|()| Value::Null))?;
            }
            "disconnect" => {
                self.disconnect(&with)?;
                self.out.respond(&asked, Ok(Value::Null))?;
                return Ok(Flow::Ends);
            }
            other => {
                let why = format!("Baton's debugger does not know the request '{other}'");
                self.out.respond(&asked, Err(why))?;
            }
        }
        Ok(Flow::GoesOn)
    }

    fn begin(&mut self, asked: &Asked, with: Value) -> io::Result<()> {
        let reached = self.reach(with);
        let process = match &reached {
            Ok(program) => json!({
                "name": program.name,
                "systemProcessId": program.pid,
                "isLocalProcess": true,
                "startMethod": if program.is_child() { "launch" } else { "attach" },
            }),
            Err(why) => return self.out.respond(asked, Err(why.clone())),
        };
        self.program = reached.ok();
        self.is_gone = false;
        self.open_outputs = match self.program.as_ref().is_some_and(Program::is_child) {
            true => 2,
            false => 0,
        };
        self.out.respond(asked, Ok(Value::Null))?;
        self.out.event("process", process)?;
        self.out.event("initialized", json!({}))
    }

    fn reach(&mut self, with: Value) -> Result<Program, String> {
        if self.program.is_some() {
            return Err("a program is being debugged already".to_owned());
        }
        let mut wanted = Wanted::deserialize(&with)
            .map_err(|error| format!("the arguments of the request are wrong: {error}"))?;
        if wanted.program.is_none() && wanted.pid.is_none() {
            wanted.program.clone_from(&self.asked_for.program);
            wanted.pid = self.asked_for.pid;
            wanted.raw_args.clone_from(&self.asked_for.raw_args);
        }
        wanted.all_stop |= self.asked_for.all_stop;
        wanted.write = self.asked_for.write;
        wanted.simulate = wanted.simulate.or_else(|| self.asked_for.simulate.clone());
        // Without a debugger, it stops nowhere. Attaching is for debugging.
        wanted.no_debug &= wanted.pid.is_none();
        wanted.stop_on_entry &= !wanted.no_debug;
        self.wanted = wanted;
        Program::reach(&self.wanted, &self.events)
    }

    /// Lets the main process begin, if it waits for that and the client is ready.
    fn let_main_begin(&mut self) -> io::Result<()> {
        if !self.is_configured {
            return Ok(());
        }
        if self.waits_at_start {
            self.waits_at_start = false;
            let step = match self.wanted.stop_on_entry {
                true => "in",
                false => "continue",
            };
            return self.ask("resume", json!({ "process": MAIN, "step": step }), ignore);
        }
        let is_child = self.program.as_ref().is_some_and(Program::is_child);
        if self.wanted.stop_on_entry && !is_child {
            return self.ask("pause", json!({ "process": MAIN }), ignore);
        }
        Ok(())
    }

    fn disconnect(&mut self, with: &Value) -> io::Result<()> {
        let Some(mut program) = self.program.take() else {
            return Ok(());
        };
        let ends = with.get("terminateDebuggee").and_then(Value::as_bool);
        match (ends, program.is_child()) {
            (None | Some(true), true) => {
                program.end();
                program.let_go();
                program.wait();
            }
            (Some(true), false) => {
                program.let_go();
                let text = "This program was not started for the session. It goes on.\n";
                self.out
                    .event("output", json!({ "category": "console", "output": text }))?;
            }
            (Some(false), true) => program.leave(),
            (_, false) => program.let_go(),
        }
        Ok(())
    }

    /// Whether the program was started to run without a debugger.
    pub(super) fn is_undebugged(&self) -> bool {
        self.wanted.no_debug
    }

    /// Whether there is a program, which may be asked.
    fn converses(&self) -> bool {
        self.program.is_some() && !self.is_gone
    }

    fn threads(&mut self, asked: Asked) -> io::Result<()> {
        self.ask("processes", json!({}), move |session, answer| {
            let threads = answer.map(|all| {
                let all = all.as_array().into_iter().flatten();
                let threads: Vec<Value> = all
                    .map(|process| json!({ "id": process["process"], "name": process["title"] }))
                    .collect();
                json!({ "threads": threads })
            });
            // A program that has ended has none. Clients ask at any time.
            let threads = match session.is_terminated || !session.converses() {
                true => Ok(json!({ "threads": [] })),
                false => threads,
            };
            session.out.respond(&asked, threads)
        })
    }

    fn resume(&mut self, asked: Asked, with: &Value, step: &'static str) -> io::Result<()> {
        let mut process = thread_of(with);
        if !self.stopped.contains_key(&process) {
            // While one has stopped alone, the others wait for it.
            let mut stopped = self.stopped.iter();
            let lone = stopped.find(|(_, stop)| stop.is_alone);
            process = lone.map_or(process, |(&lone, _)| lone);
        }
        let with = json!({ "process": process, "step": step });
        let had_program = self.converses();
        let all = self.goes_on(process);
        self.ask("resume", with, move |session, answer| {
            let answer = match answer {
                // It has gone on to the program's end.
                Err(_) if had_program && !session.converses() => Ok(Value::Null),
                answer => answer,
            };
            let body = answer.map(|_| match step {
                "continue" => json!({ "allThreadsContinued": all }),
                _ => Value::Null,
            });
            session.out.respond(&asked, body)
        })
    }

    /// Forgets that a process has stopped. Returns whether all others that stood go on with it.
    fn goes_on(&mut self, process: u64) -> bool {
        self.references.forget(process);
        let stop = self.stopped.remove(&process);
        stop.is_some_and(|stop| stop.is_alone) && self.stopped.is_empty()
    }

    fn pause(&mut self, asked: Asked, with: &Value) -> io::Result<()> {
        let with = json!({ "process": thread_of(with) });
        self.ask("pause", with, move |session, answer| {
            session.out.respond(&asked, answer.map(|_| Value::Null))
        })
    }

    fn exception_info(&mut self, asked: &Asked, with: &Value) -> io::Result<()> {
        let process = thread_of(with);
        let info = match self.stopped.get(&process) {
            Some(stop) if !stop.text.is_empty() => Ok(json!({
                "exceptionId": "error",
                "description": stop.text,
                "breakMode": "always",
            })),
            _ => Err(format!("process {process} has not stopped at an error")),
        };
        self.out.respond(asked, info)
    }

    /// Handles a line of the program.
    pub(super) fn program_says(&mut self, line: &Value) -> io::Result<Flow> {
        if let Some(id) = line.get("answer").and_then(Value::as_u64) {
            let Some(then) = self.pending.remove(&id) else {
                return Ok(Flow::GoesOn);
            };
            let answer = match line.get("error").and_then(Value::as_str) {
                Some(why) => Err(why.to_owned()),
                None => Ok(line["value"].clone()),
            };
            then(self, answer)?;
            return Ok(Flow::GoesOn);
        }
        let process = line["process"].as_u64().unwrap_or(0);
        match line["event"].as_str().unwrap_or_default() {
            "stopped" if line["reason"] == "start" => {
                self.waits_at_start = true;
                self.let_main_begin()?;
            }
            "stopped" => self.process_stopped(process, line)?,
            "continued" => {
                let all = self.goes_on(process);
                let body = json!({ "threadId": process, "allThreadsContinued": all });
                self.out.event("continued", body)?;
            }
            "placed" => {
                let breakpoint =
                    json!({ "id": line["id"], "verified": true, "line": line["line"] });
                let body = json!({ "reason": "changed", "breakpoint": breakpoint });
                self.out.event("breakpoint", body)?;
            }
            "log" => {
                let text = format!("{}\n", line["text"].as_str().unwrap_or_default());
                self.out
                    .event("output", json!({ "category": "console", "output": text }))?;
            }
            _ => {}
        }
        Ok(Flow::GoesOn)
    }

    fn process_stopped(&mut self, process: u64, line: &Value) -> io::Result<()> {
        let text = line["text"].as_str().unwrap_or_default();
        let is_alone = line["is_alone"].as_bool().unwrap_or(false);
        let stop = Stop {
            text: text.to_owned(),
            is_alone,
        };
        self.stopped.insert(process, stop);
        let mut body = json!({
            "reason": line["reason"],
            "threadId": process,
            "allThreadsStopped": is_alone,
        });
        if line["reason"] == "breakpoint" {
            body["hitBreakpointIds"] = json!([line["breakpoint"]]);
        }
        if !text.is_empty() {
            body["text"] = text.into();
            body["description"] = "Error".into();
        }
        self.out.event("stopped", body)
    }

    pub(super) fn output(&mut self, category: &str, text: &str) -> io::Result<Flow> {
        if !text.is_empty() {
            self.out
                .event("output", json!({ "category": category, "output": text }))?;
        }
        Ok(Flow::GoesOn)
    }

    pub(super) fn output_ends(&mut self) -> io::Result<Flow> {
        self.open_outputs = self.open_outputs.saturating_sub(1);
        Ok(Flow::GoesOn)
    }

    pub(super) fn has_open_output(&self) -> bool {
        self.open_outputs > 0
    }

    /// The conversation has ended: the program ends, or it does not want to be debugged.
    pub(super) fn program_gone(&mut self) -> io::Result<Flow> {
        self.is_gone = true;
        self.stopped.clear();
        if let Some(program) = &self.program {
            program.let_go();
            program.watch_end(&self.events);
        }
        for (_, then) in std::mem::take(&mut self.pending) {
            then(self, Err("the program has ended".to_owned()))?;
        }
        Ok(Flow::GoesOn)
    }

    /// The program has ended; or it was attached to, and the conversation has.
    pub(super) fn program_ended(&mut self) -> io::Result<Flow> {
        let status = self.program.take().and_then(|mut program| program.wait());
        if let Some(status) = status {
            // As a shell has it.
            let code = status
                .code()
                .or(status.signal().map(|signal| 128 + signal))
                .unwrap_or(1);
            self.out.event("exited", json!({ "exitCode": code }))?;
        }
        if !std::mem::replace(&mut self.is_terminated, true) {
            self.out.event("terminated", json!({}))?;
        }
        Ok(Flow::GoesOn)
    }
}

/// For an answer that the client does not wait for.
fn ignore(_: &mut Session<'_>, _: Result<Value, String>) -> io::Result<()> {
    Ok(())
}

/// The process that a request is about.
pub(super) fn thread_of(with: &Value) -> u64 {
    with.get("threadId").and_then(Value::as_u64).unwrap_or(0)
}

fn capabilities() -> Value {
    json!({
        "supportsConfigurationDoneRequest": true,
        "supportsConditionalBreakpoints": true,
        "supportsHitConditionalBreakpoints": true,
        "supportsLogPoints": true,
        "supportsEvaluateForHovers": true,
        "supportsSetVariable": true,
        "supportsExceptionInfoRequest": true,
        "supportsTerminateRequest": true,
        "supportTerminateDebuggee": true,
        "supportsDelayedStackTraceLoading": true,
        "supportsSingleThreadExecutionRequests": true,
        "exceptionBreakpointFilters": [
            {
                "filter": "uncaught",
                "label": "Uncaught errors",
                "description": "Stops where an error is raised that ends its process",
                "default": true,
            },
            {
                "filter": "all",
                "label": "All errors",
                "description": "Stops where any error is raised",
                "default": false,
            },
        ],
    })
}
