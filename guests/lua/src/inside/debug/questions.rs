//! What the debugger asks.

use super::desk::{self, Ending, Ends, Outcome, Question};
use super::{ATTEMPT, PATIENCE, answer, lua, on_vm};
use crate::inside::stacks;
use baton_core::sched::{ProcessId, State};
use baton_core::vm::{View, Vm};
use serde::Deserialize;
use serde_json::{Value, json};
use std::ffi::{CString, c_int};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The process with this number, and its record.
fn find(view: &View<'_>, number: u64) -> Option<(ProcessId, usize)> {
    let sched = view.sched();
    let mut all = sched
        .iter()
        .filter_map(|process| Some((process, sched.user_data(process)?)));
    all.find(|&(_, record)| stacks::number(record) == number)
}

#[derive(Deserialize)]
struct Breakpoints {
    path: CString,
    list: Vec<lua::Wish>,
}

#[derive(Deserialize)]
struct OfProcess {
    process: u64,
}

#[derive(Deserialize)]
struct EndOf {
    question: u64,
}

#[derive(Deserialize)]
struct FramesOf {
    process: u64,
    #[serde(default)]
    first: c_int,
    count: c_int,
}

#[derive(Deserialize)]
struct Resume {
    process: u64,
    step: lua::Step,
}

fn details<T: for<'a> Deserialize<'a>>(with: Value) -> Result<T, String> {
    serde_json::from_value(with).map_err(|error| format!("the details are wrong: {error}"))
}

/// Carries out a question. `None` if it is answered later.
pub(super) fn carry_out(
    vm: &Arc<Vm>,
    ask: &str,
    with: Value,
    id: u64,
) -> Result<Option<Value>, String> {
    match ask {
        "breakpoints" => set_breakpoints(vm, details(with)?).map(Some),
        "errors" => {
            let which = with.get("which").and_then(Value::as_u64).unwrap_or(0);
            on_vm(vm, move |_| lua::stop_at_errors(which.min(2) as u8))?;
            Ok(Some(Value::Null))
        }
        "processes" => {
            let all = on_vm(vm, |view| processes(view))?;
            let all = all.into_iter();
            Ok(Some(
                all.map(|(process, title)| json!({ "process": process, "title": title }))
                    .collect(),
            ))
        }
        "pause" => {
            let OfProcess { process } = details(with)?;
            pause(vm, process, id)
        }
        "frames" => frames(vm, details(with)?, id),
        "end" => {
            let EndOf { question } = details(with)?;
            end(vm, Ends::Question(question))?;
            Ok(Some(Value::Null))
        }
        "forget" => {
            forget(vm, id);
            Ok(Some(Value::Null))
        }
        "show" => task(vm, lua::Kind::Show, with, id),
        "set" => task(vm, lua::Kind::Set, with, id),
        "evaluate" => task(vm, lua::Kind::Evaluate, with, id),
        "complete" => task(vm, lua::Kind::Complete, with, id),
        "resume" => {
            let Resume { process, step } = details(with)?;
            let carry_out = Box::new(move |record| {
                lua::resume(record, step);
                answer(id, Ok(Value::Null));
                Outcome::GoesOn
            });
            match desk::ask(
                vm,
                process,
                Question {
                    id,
                    runs_code: false,
                    carry_out,
                },
            ) {
                true => Ok(None),
                false => Err(has_not_stopped(process)),
            }
        }
        "leave" => {
            desk::leave();
            Ok(Some(Value::Null))
        }
        other => Err(format!("a debugger's question expected, got '{other}'")),
    }
}

fn has_not_stopped(process: u64) -> String {
    format!("process {process} has not stopped")
}

/// The deputy's number. It is made if there is none.
fn need_deputy(vm: &Vm, process: u64) -> Result<u64, String> {
    if let Some(deputy) = desk::deputy() {
        return Ok(deputy);
    }
    if vm.is_simulated() {
        return Err(has_not_stopped(process));
    }
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        // Again and again: that of an earlier debugger may have to end first.
        lua::want_deputy();
        vm.request_signalled();
        if let Some(deputy) = desk::await_deputy(ATTEMPT) {
            return Ok(deputy);
        }
    }
    Err("a process keeps the VM, and does not let others run; or there is no memory".to_owned())
}

/// Asks the process that answers for this one.
fn ask_for(vm: &Vm, process: u64, question: Question) -> Result<(), String> {
    let answers = match desk::who_answers_for(process) {
        Some(answers) => answers,
        None => need_deputy(vm, process)?,
    };
    match desk::ask(vm, answers, question) {
        true => Ok(()),
        false => Err(has_not_stopped(process)),
    }
}

fn task(vm: &Vm, kind: lua::Kind, with: Value, id: u64) -> Result<Option<Value>, String> {
    let OfProcess { process } = details(with.clone())?;
    let task: lua::Task = details(with)?;
    let carry_out = Box::new(move |record| {
        answer(id, lua::perform(record, kind, &task));
        Outcome::Stays
    });
    ask_for(
        vm,
        process,
        Question {
            id,
            runs_code: true,
            carry_out,
        },
    )?;
    Ok(None)
}

fn frames(vm: &Vm, asked: FramesOf, id: u64) -> Result<Option<Value>, String> {
    let FramesOf {
        process,
        first,
        count,
    } = asked;
    let carry_out = Box::new(move |answers| {
        let of = match stacks::number(answers) == process {
            true => lua::Frames::Of(answers),
            false => lua::Frames::By {
                answers,
                number: process,
            },
        };
        answer(id, Ok(lua::frames(of, first, count)));
        Outcome::Stays
    });
    // Not by the deputy: nothing needs to be evaluated.
    if desk::ask(
        vm,
        process,
        Question {
            id,
            runs_code: false,
            carry_out,
        },
    ) {
        return Ok(None);
    }
    let frames = move |view: &mut View<'_>| {
        let (_, record) = find(view, process)?;
        Some(lua::frames(lua::Frames::Of(record), first, count))
    };
    let frames = on_vm(vm, frames)?;
    frames
        .map(Some)
        .ok_or_else(|| format!("process {process} has ended"))
}

/// Has the deputy forget the values that it has shown.
fn forget(vm: &Vm, id: u64) {
    let Some(deputy) = desk::deputy() else {
        return;
    };
    let carry_out = Box::new(move |deputy| {
        lua::forget_shown(deputy);
        Outcome::Stays
    });
    let question = Question {
        id,
        runs_code: false,
        carry_out,
    };
    // If it ends, its values are gone, too.
    desk::ask(vm, deputy, question);
}

/// Stops a process. If it evaluates an expression, that ends, and the process stays where it has
/// stopped.
fn pause(vm: &Arc<Vm>, process: u64, id: u64) -> Result<Option<Value>, String> {
    if end(vm, Ends::Of(process))? {
        return Ok(Some(Value::Null));
    }
    let pause = move |view: &mut View<'_>| {
        let (process, record) = find(view, process)?;
        let waits = !matches!(
            view.sched().state(process),
            State::Running | State::Runnable
        );
        let paused = lua::pause(record, waits);
        lua::hurry(view, process);
        Some(paused)
    };
    match on_vm(vm, pause)? {
        None | Some(lua::Pause::Ended) => Err(format!("process {process} has ended")),
        Some(lua::Pause::Coming) => Ok(Some(Value::Null)),
        Some(lua::Pause::ByDeputy) if desk::has_lone() => Ok(Some(Value::Null)), // all have stopped
        Some(lua::Pause::ByDeputy) => {
            let deputy = need_deputy(vm, process)?;
            let carry_out = Box::new(move |deputy| {
                answer(id, Ok(Value::Null));
                lua::stop_for(deputy, process);
                Outcome::Stays
            });
            match desk::ask(
                vm,
                deputy,
                Question {
                    id,
                    runs_code: false,
                    carry_out,
                },
            ) {
                true => Ok(None),
                false => Err("the debugger is being detached".to_owned()),
            }
        }
    }
}

/// Has what carries a question out end. Returns whether something does.
fn end(vm: &Vm, ends: Ends) -> Result<bool, String> {
    let id = match desk::end(ends) {
        Ending::Nothing => return Ok(false),
        Ending::Done => return Ok(true),
        Ending::Hurries(id) => id,
    };
    let until = Instant::now() + PATIENCE;
    loop {
        // A process that keeps the VM is not looked at, but the look makes it reach a safepoint.
        hurry_all(vm, ATTEMPT);
        if !desk::carries_out(id, ATTEMPT) {
            return Ok(true);
        }
        if Instant::now() >= until {
            return Err(
                "the expression is in a call that cannot be interrupted; it ends after that"
                    .to_owned(),
            );
        }
    }
}

/// Has all processes notice which of their expressions are to end.
pub(super) fn hurry_all(vm: &Vm, patience: Duration) {
    let _ = vm.look(patience, |view| {
        let all: Vec<ProcessId> = view.sched().iter().collect();
        for process in all {
            lua::hurry(view, process);
        }
    });
}

/// The numbers and titles of all processes.
fn processes(view: &View<'_>) -> Vec<(u64, String)> {
    let sched = view.sched();
    let records = sched.iter().filter_map(|process| sched.user_data(process));
    let deputy = desk::deputy();
    records
        .map(|record| (stacks::number(record), stacks::title(record)))
        .filter(|&(number, _)| Some(number) != deputy)
        .collect()
}

fn set_breakpoints(vm: &Vm, asked: Breakpoints) -> Result<Value, String> {
    let until = Instant::now() + PATIENCE;
    let asked = Arc::new(asked);
    loop {
        let attempt = Arc::clone(&asked);
        let set = on_vm(vm, move |_| {
            lua::set_breakpoints(&attempt.path, &attempt.list)
        })?;
        match set {
            Some(lines) => return Ok(Value::Array(lines)),
            None if Instant::now() >= until => {
                return Err("a chunk is being loaded; try again".to_owned());
            }
            None => std::thread::sleep(Duration::from_millis(5)), // until it is loaded
        }
    }
}
