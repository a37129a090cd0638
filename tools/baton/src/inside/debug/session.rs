//! The session: what it knows, the client's requests, and what the program says.

use super::breakpoints::Known;
use super::evaluate::Evaluation;
use super::messages::{Asked, Request, Sender};
use super::program::{Program, Wanted};
use super::references::References;
use super::{Happening, breakpoints};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, StdoutLock};
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
    pub(super) events: mpsc::Sender<Happening>,
    /// What the command line asks for.
    pub(super) asked_for: Wanted,
    /// What the client asks for, too.
    pub(super) wanted: Wanted,
    pub(super) program: Option<Program>,
    /// The number of the program, after restarts.
    pub(super) generation: u64,
    /// The conversation with it has ended.
    pub(super) is_gone: bool,
    /// The program's output that is still open: stdout and stderr.
    pub(super) open_outputs: u32,
    pub(super) pending: HashMap<u64, Then<'out>>,
    pub(super) references: References,
    /// The processes that have stopped.
    pub(super) stopped: BTreeMap<u64, Stop>,
    pub(super) breakpoints: Known,
    /// Expressions that run, by the numbers of their requests.
    pub(super) evaluations: HashMap<i64, Evaluation>,
    /// The main process waits at the start; and the client is ready.
    pub(super) waits_at_start: bool,
    pub(super) is_configured: bool,
    pub(super) is_terminated: bool,
    /// The client counts columns from 1.
    pub(super) columns_from_1: bool,
}

/// Where a process has stopped.
pub(super) struct Stop {
    /// The text of an error, and its type.
    pub(super) text: String,
    pub(super) kind: String,
    /// No other process runs meanwhile.
    pub(super) is_alone: bool,
}

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
            generation: 0,
            is_gone: false,
            open_outputs: 0,
            pending: HashMap::new(),
            references: References::default(),
            stopped: BTreeMap::new(),
            breakpoints: Known::default(),
            evaluations: HashMap::new(),
            waits_at_start: false,
            is_configured: false,
            is_terminated: false,
            columns_from_1: true,
        }
    }

    /// Asks the program; `then` gets the answer. Returns the number of the question, if it is
    /// asked.
    pub(super) fn ask(
        &mut self,
        ask: &str,
        with: Value,
        then: impl FnOnce(&mut Session<'out>, Result<Value, String>) -> io::Result<()> + 'out,
    ) -> io::Result<Option<u64>> {
        let asked = match &mut self.program {
            Some(program) if !self.is_gone => program.ask(ask, with),
            _ => Err("no program is being debugged".to_owned()),
        };
        match asked {
            Ok(id) => {
                self.pending.insert(id, Box::new(then));
                Ok(Some(id))
            }
            Err(why) => then(self, Err(why)).map(|()| None),
        }
    }

    /// Asks the program, and gives its answer to the client if there is only success to tell.
    pub(super) fn ask_for(&mut self, asked: Asked, ask: &str, with: Value) -> io::Result<()> {
        let then = move |session: &mut Session<'out>, answer: Result<Value, String>| {
            session.out.respond(&asked, answer.map(|_| Value::Null))
        };
        self.ask(ask, with, then).map(|_| ())
    }

    /// Handles a request of the client.
    pub(super) fn request(&mut self, request: Request) -> io::Result<Flow> {
        let asked = Asked {
            seq: request.seq,
            command: request.command,
        };
        let with = request.arguments;
        match asked.command.as_str() {
            "initialize" => {
                self.columns_from_1 = with["columnsStartAt1"].as_bool().unwrap_or(true);
                self.out.respond(&asked, Ok(capabilities()))?;
            }
            "launch" | "attach" => self.begin(&asked, with)?,
            "restart" => self.restart(asked, &with)?,
            "configurationDone" => {
                self.is_configured = true;
                self.out.respond(&asked, Ok(Value::Null))?;
                self.let_main_begin()?;
            }
            "setBreakpoints" => breakpoints::set(self, &asked, with)?,
            "setExceptionBreakpoints" => breakpoints::set_for_errors(self, asked, &with)?,
            "threads" => self.threads(asked)?,
            "continue" => self.resume(asked, &with, "continue")?,
            "next" => self.resume(asked, &with, "over")?,
            "stepIn" => self.resume(asked, &with, "in")?,
            "stepOut" => self.resume(asked, &with, "out")?,
            "pause" => self.ask_for(asked, "pause", json!({ "process": thread_of(&with) }))?,
            "stackTrace" => self.stack_trace(asked, &with)?,
            "scopes" => self.scopes(&asked, &with)?,
            "variables" => self.variables(asked, with)?,
            "setVariable" => self.set_variable(asked, &with)?,
            "evaluate" => self.evaluate(asked, &with)?,
            "setExpression" => self.set_expression(asked, &with)?,
            "completions" => self.completions(asked, &with)?,
            "cancel" => self.cancel(&asked, &with)?,
            "exceptionInfo" => self.exception_info(&asked, &with)?,
            "source" => self.source(&asked, &with)?,
            "terminate" => self.terminate(&asked)?,
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

    /// Whether the program was started to run without a debugger.
    pub(super) fn is_undebugged(&self) -> bool {
        self.wanted.no_debug
    }

    /// Whether there is a program, which may be asked.
    pub(super) fn converses(&self) -> bool {
        self.program.is_some() && !self.is_gone
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
                let (id, line) = (line["id"].as_i64(), line["line"].as_i64());
                if let Some((id, line)) = id.zip(line) {
                    self.breakpoint_is_placed(id, line)?;
                }
            }
            "log" => self.log_point(line)?,
            _ => {}
        }
        Ok(Flow::GoesOn)
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
}

/// For an answer that the client does not wait for.
pub(super) fn ignore(_: &mut Session<'_>, _: Result<Value, String>) -> io::Result<()> {
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
        "supportsSetExpression": true,
        "supportsCompletionsRequest": true,
        "completionTriggerCharacters": [".", ":"],
        "supportsCancelRequest": true,
        "supportsRestartRequest": true,
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
