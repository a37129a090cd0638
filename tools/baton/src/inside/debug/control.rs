//! Requests: processes, how they stop and go on.

use super::messages::Asked;
use super::session::{Session, Stop, ignore, thread_of};
use serde_json::{Value, json};
use std::io;

impl Session<'_> {
    pub(super) fn threads(&mut self, asked: Asked) -> io::Result<()> {
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
        })?;
        Ok(())
    }

    pub(super) fn resume(
        &mut self,
        asked: Asked,
        with: &Value,
        step: &'static str,
    ) -> io::Result<()> {
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
        })?;
        // What was shown of processes that wait.
        if self.converses() {
            self.ask("forget", json!({}), ignore)?;
        }
        Ok(())
    }

    /// Forgets that a process has stopped. Returns whether all others that stood go on with it.
    pub(super) fn goes_on(&mut self, process: u64) -> bool {
        let stop = self.stopped.remove(&process);
        self.forget_references();
        stop.is_some_and(|stop| stop.is_alone) && self.stopped.is_empty()
    }

    /// Forgets what was shown of processes that have not stopped: others have answered for them,
    /// and keep their values no longer.
    fn forget_references(&mut self) {
        let stopped = &self.stopped;
        self.references
            .retain(|process| stopped.contains_key(&process));
    }

    pub(super) fn process_stopped(&mut self, process: u64, line: &Value) -> io::Result<()> {
        let text = line["text"].as_str().unwrap_or_default();
        let is_alone = line["is_alone"].as_bool().unwrap_or(false);
        let stop = Stop {
            text: text.to_owned(),
            kind: line["type"].as_str().unwrap_or_default().to_owned(),
            is_alone,
        };
        match is_alone {
            true => self.forget_references(), // from now on, this process answers for them
            false => self.references.retain(|other| other != process),
        }
        self.stopped.insert(process, stop);
        let mut body = json!({
            "reason": line["reason"],
            "threadId": process,
            "allThreadsStopped": is_alone,
        });
        if line["reason"] == "breakpoint" {
            body["hitBreakpointIds"] = json!([line["breakpoint"]]);
        }
        if line["reason"] == "exception" {
            body["text"] = text.into();
            body["description"] = "Error".into();
        }
        self.out.event("stopped", body)
    }

    pub(super) fn exception_info(&mut self, asked: &Asked, with: &Value) -> io::Result<()> {
        let process = thread_of(with);
        let info = match self.stopped.get(&process) {
            Some(stop) if !stop.kind.is_empty() => Ok(json!({
                "exceptionId": match stop.kind.as_str() { "string" => "error", kind => kind },
                "description": stop.text,
                "breakMode": self.breakpoints.break_mode(),
                "details": { "message": stop.text, "typeName": stop.kind },
            })),
            _ => Err(format!("process {process} has not stopped at an error")),
        };
        self.out.respond(asked, info)
    }
}
