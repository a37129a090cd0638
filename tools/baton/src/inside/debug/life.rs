//! The program's life, as the session sees it: its start, its restart, its end.

use super::breakpoints;
use super::messages::Asked;
use super::program::{Events, Program, Wanted};
use super::session::{Flow, Session, ignore};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io;
use std::os::unix::process::ExitStatusExt;

/// The main process.
const MAIN: u64 = 1;

const NOT_STARTED_HERE: &str = "this program was not started for the session: it is not ended; \
                                disconnect leaves it running";

impl Session<'_> {
    /// `launch` and `attach`.
    pub(super) fn begin(&mut self, asked: &Asked, with: Value) -> io::Result<()> {
        if self.program.is_some() {
            let why = "a program is being debugged already".to_owned();
            return self.out.respond(asked, Err(why));
        }
        let reached = self.wanted(with).and_then(|wanted| {
            self.wanted = wanted;
            self.reach()
        });
        match reached {
            Err(why) => self.out.respond(asked, Err(why)),
            Ok(process) => {
                self.out.respond(asked, Ok(Value::Null))?;
                self.out.event("process", process)?;
                self.out.event("initialized", json!({}))
            }
        }
    }

    /// What a request and the command line ask for.
    fn wanted(&self, with: Value) -> Result<Wanted, String> {
        let mut wanted = Wanted::deserialize(with)
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
        Ok(wanted)
    }

    /// Starts the program, or attaches to it. Returns what the client is told of it.
    fn reach(&mut self) -> Result<Value, String> {
        self.generation += 1;
        let events = Events::new(self.events.clone(), self.generation);
        let program = Program::reach(&self.wanted, &events)?;
        let is_child = program.is_child();
        let process = json!({
            "name": program.name,
            "systemProcessId": program.pid,
            "isLocalProcess": true,
            "startMethod": if is_child { "launch" } else { "attach" },
        });
        self.program = Some(program);
        self.is_gone = false;
        self.open_outputs = if is_child { 2 } else { 0 };
        Ok(process)
    }

    /// Lets the main process begin, if it waits for that and the client is ready.
    pub(super) fn let_main_begin(&mut self) -> io::Result<()> {
        if !self.is_configured {
            return Ok(());
        }
        if self.waits_at_start {
            self.waits_at_start = false;
            let step = match self.wanted.stop_on_entry {
                true => "in",
                false => "continue",
            };
            self.ask("resume", json!({ "process": MAIN, "step": step }), ignore)?;
            return Ok(());
        }
        let is_child = self.program.as_ref().is_some_and(Program::is_child);
        if self.wanted.stop_on_entry && !is_child {
            self.ask("pause", json!({ "process": MAIN }), ignore)?;
        }
        Ok(())
    }

    /// `restart`: the program is started again, with the breakpoints that there are.
    pub(super) fn restart(&mut self, asked: Asked, with: &Value) -> io::Result<()> {
        let is_child = self.program.as_ref().is_some_and(Program::is_child);
        if !is_child {
            let why = "only a program that was started for the session is started again";
            return self.out.respond(&asked, Err(why.to_owned()));
        }
        if let Some(new) = with.get("arguments").filter(|new| new.is_object()) {
            match self.wanted(new.clone()) {
                Ok(wanted) => self.wanted = wanted,
                Err(why) => return self.out.respond(&asked, Err(why)),
            }
        }
        self.end();
        self.forget_all("the program was started again")?;
        match self.reach() {
            Err(why) => {
                self.out.respond(&asked, Err(why))?;
                self.is_terminated = true;
                self.out.event("terminated", json!({}))
            }
            Ok(process) => {
                self.out.respond(&asked, Ok(Value::Null))?;
                self.out.event("process", process)?;
                breakpoints::set_again(self)?;
                self.let_main_begin()
            }
        }
    }

    /// Forgets what belongs to a program that is gone.
    fn forget_all(&mut self, why: &str) -> io::Result<()> {
        self.waits_at_start = false;
        self.stopped.clear();
        self.references.clear();
        for (_, then) in std::mem::take(&mut self.pending) {
            then(self, Err(why.to_owned()))?;
        }
        Ok(())
    }

    pub(super) fn terminate(&mut self, asked: &Asked) -> io::Result<()> {
        let result = match &self.program {
            Some(program) if program.is_child() => program.terminate(),
            _ => Err(NOT_STARTED_HERE.to_owned()),
        };
        self.out.respond(asked, result.map(|()| Value::Null))
    }

    pub(super) fn disconnect(&mut self, with: &Value) -> io::Result<()> {
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
                self.output("console", text)?;
            }
            (Some(false), true) => program.leave(),
            (_, false) => program.let_go(),
        }
        Ok(())
    }

    /// Ends it. A program that it has started ends, too; another one goes on.
    pub(super) fn end(&mut self) {
        if let Some(mut program) = self.program.take() {
            program.end();
            program.let_go();
            program.wait();
        }
    }

    /// The conversation has ended: the program ends, or it does not want to be debugged.
    pub(super) fn program_gone(&mut self) -> io::Result<Flow> {
        self.is_gone = true;
        self.stopped.clear();
        if let Some(program) = &self.program {
            program.let_go();
            let events = Events::new(self.events.clone(), self.generation);
            program.watch_end(&events);
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
