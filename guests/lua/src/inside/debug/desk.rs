//! The desk: where a debugger's questions wait for the process that they are for, and its answers
//! for the debugger.
//!
//! | state of a process | left by |
//! |---|---|
//! | runs | it stops: [`stopped`] |
//! | stopped, waits for a question | a question or a release, and then its wake-up |
//! | stopped, carries out questions | [`next`]: none is left (it waits), or it goes on (it runs) |
//!
//! One mutex guards all of it. A thread that gives a question or a release adds it under the mutex,
//! and then wakes the process. There are two ways to wait:
//!
//! - In the scheduler, for a semaphore. A signal that comes before the wait is kept by the
//!   semaphore, so it is not lost. One too many leads to a look that finds nothing.
//! - Alone, on the native thread, for a condition variable with the desk's mutex. A process looks
//!   under that mutex before it waits, so a question is found, or its signal finds the process
//!   waiting.
//!
//! The thread that sends to the debugger waits in the second way, too.

use super::lua;
use baton_core::sched::SemaphoreId;
use baton_core::vm::{View, Vm};
use baton_sys::forking::ForkMutex;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A question that the stopped process carries out, with its record.
pub(super) struct Question {
    /// The number of its answer.
    pub(super) id: u64,
    /// It may run code of the program.
    pub(super) runs_code: bool,
    pub(super) carry_out: Box<dyn FnOnce(usize) -> Outcome + Send>,
}

/// A question on the VM, for which no process runs.
pub(super) type VmQuestion = Box<dyn FnOnce(&mut View<'_>) + Send>;

/// What is left to do after a question.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The process stays where it is.
    Stays,
    /// It goes on.
    GoesOn,
}

/// A process that has stopped; or the deputy, which answers for processes that wait.
struct Stopped {
    questions: VecDeque<Question>,
    /// The record of the process that answers.
    answers: usize,
    /// The number of the question that it carries out.
    carried_out: Option<u64>,
    is_deputy: bool,
    /// Where it waits, unless it is alone.
    semaphore: u64,
    /// No other process runs.
    is_alone: bool,
    /// It goes on when its questions are done.
    is_released: bool,
    /// What the debugger is told of the stop.
    event: Value,
}

/// How many lines of log points may wait until they are sent. The others are counted.
const MOST_LOGS: usize = 10_000;

/// The debugger's side of the connection.
#[derive(Default)]
struct Outgoing {
    lines: VecDeque<Value>,
    /// How many of them are of log points, at most [`MOST_LOGS`]; and how many more there were.
    logs: usize,
    left_out: u64,
    /// Lines were taken, and are not sent yet.
    is_sending: bool,
    is_closed: bool,
}

/// The state of the desk.
#[derive(Default)]
pub(super) struct Desk {
    /// What is sent to the debugger; `None` if none is attached.
    outgoing: Option<Outgoing>,
    stopped: Option<HashMap<u64, Stopped>>,
    vm_questions: VecDeque<VmQuestion>,
    /// A debugger has started the program, and may still attach.
    awaits_parent: bool,
    /// The program outlives the conversation.
    may_outlive: bool,
}

static DESK: ForkMutex<Desk> = ForkMutex::new(Desk {
    outgoing: None,
    stopped: None,
    vm_questions: VecDeque::new(),
    awaits_parent: false,
    may_outlive: false,
});

/// Where a process that is alone waits.
static ASKED: Condvar = Condvar::new();

/// Where the thread that sends waits.
static TOLD: Condvar = Condvar::new();

fn wait<'a>(condition: &Condvar, desk: MutexGuard<'a, Desk>) -> MutexGuard<'a, Desk> {
    condition.wait(desk).unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    fn stopped(&mut self) -> &mut HashMap<u64, Stopped> {
        self.stopped.get_or_insert_default()
    }

    /// The number of the process that keeps the VM.
    fn lone(&self) -> Option<u64> {
        let mut all = self.stopped.iter().flatten();
        let lone = all.find(|(_, stopped)| stopped.is_alone && !stopped.is_released);
        lone.map(|(&number, _)| number)
    }

    fn deputy(&self) -> Option<u64> {
        let mut all = self.stopped.iter().flatten();
        let deputy = all.find(|(_, stopped)| stopped.is_deputy && !stopped.is_released);
        deputy.map(|(&number, _)| number)
    }
}

/// In a fork's child.
///
/// # Safety
/// The caller is the only thread.
pub(super) unsafe fn renew() {
    // SAFETY: the caller's condition; no function here forks.
    unsafe { DESK.renew(Desk::default()) };
}

/// A debugger that has started the program will attach.
pub(super) fn await_parent() {
    DESK.lock().awaits_parent = true;
}

/// Opens the desk for a debugger. `false` if there is one already, and it does not go within
/// `patience`.
pub(super) fn open(patience: Duration) -> bool {
    let (mut desk, _) = TOLD
        .wait_timeout_while(DESK.lock(), patience, |desk| desk.outgoing.is_some())
        .unwrap_or_else(PoisonError::into_inner);
    if desk.outgoing.is_some() {
        return false;
    }
    desk.awaits_parent = false; // this is the parent, or another one in its place
    // The main process may wait at its start already. What an earlier debugger has released does
    // not count.
    let waiting = desk
        .stopped()
        .values()
        .filter(|stopped| !stopped.is_released && !stopped.is_deputy);
    let lines = waiting.map(|stopped| stopped.event.clone()).collect();
    desk.outgoing = Some(Outgoing {
        lines,
        ..Outgoing::default()
    });
    true
}

/// The debugger that has started the program has gone. If it was never attached, the program
/// begins.
pub(super) fn give_up_parent(vm: Option<&Vm>) {
    if std::mem::take(&mut DESK.lock().awaits_parent) {
        close(vm);
    }
}

/// The program outlives the conversation with the debugger that has started it.
pub(super) fn leave() {
    DESK.lock().may_outlive = true;
}

pub(super) fn may_outlive() -> bool {
    DESK.lock().may_outlive
}

/// Forgets a debugger to which nothing can be sent.
pub(super) fn abandon() {
    DESK.lock().outgoing = None;
}

/// Closes the desk: every process that has stopped goes on.
pub(super) fn close(vm: Option<&Vm>) {
    let mut desk = DESK.lock();
    if let Some(outgoing) = &mut desk.outgoing {
        outgoing.is_closed = true;
    }
    let mut semaphores = Vec::new();
    for stopped in desk.stopped().values_mut() {
        stopped.is_released = true;
        if stopped.carried_out.is_some() {
            lua::ask_to_end(stopped.answers, true);
        }
        if !stopped.is_alone {
            semaphores.push(stopped.semaphore);
        }
    }
    drop(desk);
    ASKED.notify_all();
    TOLD.notify_all();
    for semaphore in semaphores {
        wake(vm, semaphore);
    }
}

fn wake(vm: Option<&Vm>, semaphore: u64) {
    if let (Some(vm), Some(id)) = (vm, SemaphoreId::from_bits(semaphore)) {
        vm.signal_from_outside(id);
    }
}

/// Sends a line to the debugger.
pub(super) fn tell(line: Value) {
    let mut desk = DESK.lock();
    if let Some(outgoing) = &mut desk.outgoing {
        outgoing.lines.push_back(line);
        drop(desk);
        TOLD.notify_all();
    }
}

/// As [`tell`], for a line of a log point. It is left out if too many wait.
pub(super) fn tell_log(line: Value) {
    let mut desk = DESK.lock();
    let Some(outgoing) = &mut desk.outgoing else {
        return;
    };
    if outgoing.logs == MOST_LOGS {
        outgoing.left_out += 1;
        return; // the thread that sends was told already
    }
    outgoing.logs += 1;
    outgoing.lines.push_back(line);
    drop(desk);
    TOLD.notify_all();
}

impl Outgoing {
    /// All lines, and at the end how many were left out.
    fn take(&mut self) -> VecDeque<Value> {
        let mut lines = std::mem::take(&mut self.lines);
        self.logs = 0;
        let left_out = std::mem::take(&mut self.left_out);
        if left_out > 0 {
            let text = format!("({left_out} lines of log points left out: they came too fast)");
            lines.push_back(json!({ "event": "log", "text": text }));
        }
        lines
    }
}

/// Waits for lines to send. `None` at the end; then the desk can be opened again.
pub(super) fn next_lines() -> Option<VecDeque<Value>> {
    let mut desk = DESK.lock();
    loop {
        let outgoing = desk.outgoing.as_mut()?;
        if std::mem::replace(&mut outgoing.is_sending, !outgoing.lines.is_empty()) {
            TOLD.notify_all(); // for `flush`
        }
        if !outgoing.lines.is_empty() {
            return Some(outgoing.take());
        }
        if outgoing.is_closed {
            desk.outgoing = None;
            TOLD.notify_all(); // for `open`
            return None;
        }
        desk = wait(&TOLD, desk);
    }
}

/// Waits until all lines are sent, for at most `patience`.
pub(super) fn flush(patience: Duration) {
    let until = Instant::now() + patience;
    let mut desk = DESK.lock();
    while desk
        .outgoing
        .as_ref()
        .is_some_and(|outgoing| outgoing.is_sending || !outgoing.lines.is_empty())
    {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        desk = TOLD
            .wait_timeout(desk, left)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
    }
}

/// Whether some process has stopped.
pub(super) fn has_stopped() -> bool {
    let mut desk = DESK.lock();
    let mut all = desk.stopped().values();
    all.any(|stopped| !stopped.is_deputy)
}

/// Who answers questions about a process: itself, if it has stopped; else one that keeps the VM;
/// else the deputy.
pub(super) fn who_answers_for(process: u64) -> Option<u64> {
    let mut desk = DESK.lock();
    let has_stopped = desk
        .stopped()
        .get(&process)
        .is_some_and(|stopped| !stopped.is_released);
    has_stopped
        .then_some(process)
        .or_else(|| desk.lone())
        .or_else(|| desk.deputy())
}

/// Whether a process keeps the VM.
pub(super) fn has_lone() -> bool {
    DESK.lock().lone().is_some()
}

/// The number of the deputy.
pub(super) fn deputy() -> Option<u64> {
    DESK.lock().deputy()
}

/// Waits until the deputy answers. Returns its number, if it comes within `patience`.
pub(super) fn await_deputy(patience: Duration) -> Option<u64> {
    let (desk, _) = TOLD
        .wait_timeout_while(DESK.lock(), patience, |desk| {
            desk.deputy().is_none() && desk.outgoing.is_some()
        })
        .unwrap_or_else(PoisonError::into_inner);
    desk.deputy()
}

/// The deputy answers from now on.
pub(super) fn deputy_answers(answers: usize, number: u64, semaphore: u64) {
    let mut desk = DESK.lock();
    if desk.outgoing.as_ref().is_none_or(|it| it.is_closed) {
        return; // it ends at once
    }
    let deputy = Stopped {
        questions: VecDeque::new(),
        answers,
        carried_out: None,
        is_deputy: true,
        semaphore,
        is_alone: false,
        is_released: false,
        event: Value::Null,
    };
    desk.stopped().insert(number, deputy);
    drop(desk);
    TOLD.notify_all();
}

/// Which questions are to end.
#[derive(Clone, Copy)]
pub(super) enum Ends {
    /// The one with this number.
    Question(u64),
    /// What this process carries out, or is asked.
    Of(u64),
}

/// What the end of questions needs.
pub(super) enum Ending {
    /// There was none.
    Nothing,
    /// They had not begun.
    Done,
    /// This question is being carried out. It is to be hurried until [`carries_out`] says that it
    /// has ended.
    Hurries(u64),
}

/// Has questions end: those that wait are answered, and the one that is carried out is to end.
pub(super) fn end(ends: Ends) -> Ending {
    let mut desk = DESK.lock();
    let mut ending = Ending::Nothing;
    let mut dropped = Vec::new();
    for (&number, stopped) in desk.stopped() {
        let is_meant = |question: u64| match ends {
            Ends::Question(meant) => meant == question,
            Ends::Of(process) => process == number,
        };
        stopped.questions.retain(|question| {
            let is_dropped = question.runs_code && is_meant(question.id);
            dropped.extend(is_dropped.then_some(question.id));
            !is_dropped
        });
        if let Some(id) = stopped.carried_out.filter(|&id| is_meant(id)) {
            lua::ask_to_end(stopped.answers, true);
            ending = Ending::Hurries(id);
        }
    }
    if let Ending::Nothing = ending
        && !dropped.is_empty()
    {
        ending = Ending::Done;
    }
    if let Some(outgoing) = &mut desk.outgoing {
        let why = "the expression was ended";
        let answers = dropped.iter();
        outgoing
            .lines
            .extend(answers.map(|id| json!({ "answer": id, "error": why })));
    }
    drop(desk);
    TOLD.notify_all();
    ending
}

/// Whether a process carries this question out still after `patience`.
pub(super) fn carries_out(id: u64, patience: Duration) -> bool {
    let is_carried_out = |desk: &mut Desk| {
        let mut all = desk.stopped().values();
        all.any(|stopped| stopped.carried_out == Some(id))
    };
    let (mut desk, _) = TOLD
        .wait_timeout_while(DESK.lock(), patience, is_carried_out)
        .unwrap_or_else(PoisonError::into_inner);
    is_carried_out(&mut desk)
}

/// Asks a process that has stopped. `false` if it has not.
pub(super) fn ask(vm: &Vm, process: u64, question: Question) -> bool {
    let mut desk = DESK.lock();
    let Some(stopped) = desk.stopped().get_mut(&process) else {
        return false;
    };
    if stopped.is_released {
        return false;
    }
    stopped.questions.push_back(question);
    let (is_alone, semaphore) = (stopped.is_alone, stopped.semaphore);
    drop(desk);
    match is_alone {
        true => ASKED.notify_all(),
        false => wake(Some(vm), semaphore),
    }
    true
}

/// Asks a process that keeps the VM. Gives the question back if there is none.
pub(super) fn ask_lone(question: VmQuestion) -> Result<(), VmQuestion> {
    let mut desk = DESK.lock();
    if desk.lone().is_none() {
        return Err(question);
    }
    desk.vm_questions.push_back(question);
    drop(desk);
    ASKED.notify_all();
    Ok(())
}

/// A process has stopped. `answers` is the record of the one that answers for it. `event` is for
/// the debugger.
pub(super) fn stopped(process: u64, answers: usize, semaphore: u64, is_alone: bool, event: Value) {
    let mut desk = DESK.lock();
    let may_wait = desk.awaits_parent || desk.outgoing.as_ref().is_some_and(|it| !it.is_closed);
    if !may_wait {
        return; // it goes on at once
    }
    let stopped = Stopped {
        questions: VecDeque::new(),
        answers,
        carried_out: None,
        is_deputy: false,
        semaphore,
        is_alone,
        is_released: false,
        event: event.clone(),
    };
    desk.stopped().insert(process, stopped);
    if let Some(outgoing) = &mut desk.outgoing {
        outgoing.lines.push_back(event);
    }
    drop(desk);
    TOLD.notify_all();
}

/// The next step of a process that has stopped.
pub(super) enum Next {
    /// It carries a question out.
    Answer(Question),
    /// It waits.
    Wait,
    /// It goes on.
    GoOn,
}

/// What the process does next.
pub(super) fn next(process: u64) -> Next {
    let mut desk = DESK.lock();
    let Some(stopped) = desk.stopped().get_mut(&process) else {
        return Next::GoOn;
    };
    if stopped.carried_out.take().is_some() {
        TOLD.notify_all(); // for `carries_out`
    }
    lua::ask_to_end(stopped.answers, false); // asked too late for the last one
    match stopped.questions.pop_front() {
        Some(question) => {
            stopped.carried_out = Some(question.id);
            Next::Answer(question)
        }
        None if stopped.is_released => {
            desk.stopped().remove(&process);
            Next::GoOn
        }
        None => Next::Wait,
    }
}

/// The process goes on. What it has still been asked is answered.
pub(super) fn forget(process: u64) {
    let mut desk = DESK.lock();
    let Some(stopped) = desk.stopped().remove(&process) else {
        return;
    };
    let Some(outgoing) = &mut desk.outgoing else {
        return;
    };
    let why = format!("process {process} has gone on");
    let answers = stopped.questions.iter();
    outgoing
        .lines
        .extend(answers.map(|question| json!({ "answer": question.id, "error": why })));
    drop(desk);
    TOLD.notify_all();
}

/// As [`forget`], for a process that was not told to. Tells the debugger.
pub(super) fn goes_on(process: u64) {
    let is_deputy = deputy() == Some(process);
    forget(process);
    if is_deputy {
        return;
    }
    tell(json!({ "event": "continued", "process": process }));
}

/// Waits until there is something for a process that is alone. What is asked of the VM is carried
/// out meanwhile by `carry_out`.
pub(super) fn await_alone(process: u64, mut carry_out: impl FnMut(VmQuestion)) {
    let mut desk = DESK.lock();
    loop {
        if let Some(question) = desk.vm_questions.pop_front() {
            drop(desk);
            carry_out(question);
            desk = DESK.lock();
            continue;
        }
        let is_asked = desk
            .stopped()
            .get(&process)
            .is_none_or(|stopped| stopped.is_released || !stopped.questions.is_empty());
        if is_asked {
            return;
        }
        desk = wait(&ASKED, desk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_points_that_nobody_reads_take_a_bounded_room() {
        assert!(open(Duration::ZERO));
        for number in 0..MOST_LOGS + 5 {
            tell_log(json!({ "event": "log", "text": number }));
        }
        tell(json!({ "event": "placed" }));
        let lines = next_lines().expect("there are some");
        assert_eq!(lines.len(), MOST_LOGS + 2);
        let last = lines[MOST_LOGS + 1]["text"].as_str().expect("a text");
        assert!(last.starts_with("(5 lines"), "{last}");
        tell_log(json!({ "event": "log", "text": "again" }));
        assert_eq!(next_lines().map(|lines| lines.len()), Some(1));
        abandon();
    }
}
