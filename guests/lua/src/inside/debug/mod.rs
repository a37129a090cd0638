//! Conversations with a debugger.
//!
//! The question `debug` opens a conversation. From then on the debugger sends questions, each with
//! a number, and gets their answers and events, when they come:
//!
//! | question | details | who answers |
//! |---|---|---|
//! | `breakpoints` | `path`, `list` | the VM |
//! | `errors` | `which` | the VM |
//! | `processes` | | the VM |
//! | `pause` | `process` | the VM |
//! | `frames` | `process`, `first`, `count` | the process, or the VM if it runs |
//! | `show`, `set`, `evaluate` | `process`, and a [`lua::Task`] | the process, which must have stopped |
//! | `resume` | `process`, `step` | the process |
//! | `leave` | | the conversation: the program outlives it |
//!
//! | event | details |
//! |---|---|
//! | `stopped` | `process`, `title`, `reason`, `breakpoint`, `text`, `is_alone` |
//! | `continued` | `process`: killed, or freed by the end of the program |
//! | `placed` | `id`, `line`: a breakpoint has found its place |
//! | `log` | `process`, `breakpoint`, `text`; only `text` if it says how many were left out |
//!
//! What the VM answers runs in a look; or, if a process keeps the VM while it has stopped, on that
//! process's thread. A process that has stopped answers by itself, between two instructions
//! (`c/debugger/stopping.c`).
//!
//! A program that its debugger has started ends with the conversation, however that ends, unless
//! the debugger has asked `leave`. Other programs go on.

mod desk;
mod lua;

use super::stacks;
use baton_core::vm::{Inside, NoLook, View, Vm};
use baton_observe::observer::{self, Conversation, Session, Target};
use baton_observe::protocol::{Access, Ask, write_line};
use desk::{Next, Outcome, Question};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::net::Shutdown;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The version of these conversations. Another version is refused.
const VERSION: u64 = 1;

/// How long a question on the VM waits until a process lets the VM go.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a debugger waits for the end of the one before it.
const TO_GO: Duration = Duration::from_millis(500);

/// How long the program's end waits until its last lines are sent.
const LAST_LINES: Duration = Duration::from_secs(1);

/// How long each attempt waits.
const ATTEMPT: Duration = Duration::from_millis(100);

/// Serves the debugger that has started this program, if one has.
pub(super) fn serve_parent(program: &Arc<dyn Target>) {
    let Some(descriptor) = lua::take_descriptor() else {
        return;
    };
    desk::await_parent();
    // SAFETY: the debugger has opened it for this program, and nothing else uses it.
    let client = unsafe { UnixStream::from_raw_fd(descriptor) };
    let gone = || desk::give_up_parent(super::VM.get().map(Arc::as_ref));
    let target = Arc::new(ForParent(Arc::clone(program)));
    if let Err(error) = observer::serve_parent(client, target, gone) {
        eprintln!("baton: cannot serve the debugger: {error}");
        desk::give_up_parent(None);
    }
}

/// The program, for a debugger that has started it.
struct ForParent(Arc<dyn Target>);

impl Target for ForParent {
    fn program(&self) -> String {
        self.0.program()
    }

    fn begin(&self, access: Access) -> Box<dyn Session> {
        Box::new(Parents(self.0.begin(access)))
    }
}

/// Its questions. The program ends with the conversation.
struct Parents(Box<dyn Session>);

impl Session for Parents {
    fn answer(
        &mut self,
        ask: &str,
        with: &Value,
        part: observer::Part<'_>,
    ) -> Result<Box<RawValue>, String> {
        self.0.answer(ask, with, part)
    }

    fn converse(
        &mut self,
        ask: &str,
        with: &Value,
        conversation: &mut Conversation<'_, '_>,
    ) -> Option<io::Result<()>> {
        let result = self.0.converse(ask, with, conversation)?;
        if !desk::may_outlive() {
            // SAFETY: it takes two integers, and ends this program, as the debugger does.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        Some(result)
    }
}

/// Whether some process has stopped, and so may run again.
pub(crate) fn has_stopped() -> bool {
    desk::has_stopped()
}

/// In a fork's child: the debugger is not there.
///
/// # Safety
/// The caller is the only thread.
pub(crate) unsafe fn forked() {
    // SAFETY: the caller's condition.
    unsafe { desk::renew() };
}

/// The details of the first question.
#[derive(Deserialize)]
struct Opening {
    version: u64,
    #[serde(default)]
    all_stop: bool,
}

/// Converses with a debugger until it goes.
pub(super) fn converse(
    vm: &Arc<Vm>,
    access: Access,
    with: &Value,
    conversation: &mut Conversation<'_, '_>,
) -> io::Result<()> {
    let mut handle = conversation.handle()?;
    let mut refuse = |why: String| write_line(&mut handle, &json!({ "refused": why }));
    let opening = match Opening::deserialize(with) {
        Ok(opening) if opening.version == VERSION => opening,
        Ok(other) => {
            return refuse(format!(
                "version {VERSION} of the debugger's protocol expected, got {}",
                other.version
            ));
        }
        Err(error) => return refuse(format!("'version' expected: {error}")),
    };
    if let Err(why) = super::require_all(access, "stops the program and changes it") {
        return refuse(why);
    }
    if !desk::open(TO_GO) {
        return refuse("another debugger is attached".to_owned());
    }
    let detaches = Detaches(Arc::clone(vm));
    let mut sending = conversation.handle()?;
    let started = conversation.start_thread(move || {
        while let Some(lines) = desk::next_lines() {
            for line in lines {
                if write_line(&mut sending, &line).is_err() {
                    // It is gone: the thread that reads finds the end, and closes the desk.
                    let _ = sending.shutdown(Shutdown::Both);
                }
            }
        }
    });
    started.inspect_err(|_| desk::abandon())?;
    let all_stop = opening.all_stop;
    match on_vm(vm, move |_| lua::attach(all_stop)) {
        Ok(()) => desk::tell(json!({ "event": "attached", "version": VERSION })),
        Err(why) => desk::tell(json!({ "refused": why })),
    }
    while let Some(Ask { ask, with }) = conversation.next_line()? {
        let id = with.get("id").and_then(Value::as_u64).unwrap_or(0);
        match question(vm, &ask, with, id) {
            Ok(None) => {}
            Ok(Some(value)) => answer(id, Ok(value)),
            Err(why) => answer(id, Err(why)),
        }
    }
    drop(detaches);
    Ok(())
}

/// Detaches the debugger when it is dropped.
struct Detaches(Arc<Vm>);

impl Drop for Detaches {
    fn drop(&mut self) {
        lua::detach();
        desk::close(Some(&self.0));
    }
}

fn answer(id: u64, result: Result<Value, String>) {
    desk::tell(match result {
        Ok(value) => json!({ "answer": id, "value": value }),
        Err(why) => json!({ "answer": id, "error": why }),
    });
}

/// Runs a function on the VM: in a look, or on the thread of a process that keeps the VM.
fn on_vm<R: Send + 'static>(
    vm: &Vm,
    function: impl FnOnce(&mut View<'_>) -> R + Send + 'static,
) -> Result<R, String> {
    let until = Instant::now() + PATIENCE;
    let (sender, receiver) = std::sync::mpsc::channel();
    // The function is called once, in whichever place comes first.
    let function = Arc::new(std::sync::Mutex::new(Some(function)));
    let carry_out = move |view: &mut View<'_>| {
        let taken = function
            .lock()
            .ok()
            .and_then(|mut function| function.take());
        if let Some(function) = taken {
            let _ = sender.send(function(view));
        }
    };
    loop {
        if desk::ask_lone(Box::new(carry_out.clone())).is_ok() {
            // It is answered, or was released and so is no longer alone.
            if let Ok(result) = receiver.recv_timeout(ATTEMPT) {
                return Ok(result);
            }
        }
        let attempt = carry_out.clone();
        match vm.look(ATTEMPT, move |view| attempt(view)) {
            Err(NoLook::Ended) => return Err("the program is ending".to_owned()),
            _ => {
                if let Ok(result) = receiver.try_recv() {
                    return Ok(result);
                }
            }
        }
        if Instant::now() >= until {
            return Err("a process keeps the VM, and does not let others run".to_owned());
        }
    }
}

/// The record of a process with this number.
fn record_of(view: &View<'_>, number: u64) -> Option<usize> {
    let sched = view.sched();
    let mut records = sched.iter().filter_map(|process| sched.user_data(process));
    records.find(|&record| stacks::number(record) == number)
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
struct Frames {
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
fn question(vm: &Arc<Vm>, ask: &str, with: Value, id: u64) -> Result<Option<Value>, String> {
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
            match on_vm(vm, move |view| record_of(view, process).map(lua::pause))? {
                Some(true) => Ok(Some(Value::Null)),
                _ => Err(format!("process {process} has ended")),
            }
        }
        "frames" => {
            let Frames {
                process,
                first,
                count,
            } = details(with)?;
            let asked = ask_process(vm, process, id, move |record| {
                Ok(lua::frames(record, first, count))
            });
            if asked.is_ok() {
                return Ok(None);
            }
            let frames = move |view: &mut View<'_>| {
                record_of(view, process).map(|record| lua::frames(record, first, count))
            };
            let frames = on_vm(vm, frames)?;
            frames
                .map(Some)
                .ok_or_else(|| format!("process {process} has ended"))
        }
        "show" => task(vm, lua::Kind::Show, with, id),
        "set" => task(vm, lua::Kind::Set, with, id),
        "evaluate" => task(vm, lua::Kind::Evaluate, with, id),
        "resume" => {
            let Resume { process, step } = details(with)?;
            let carry_out = Box::new(move |record| {
                lua::resume(record, step);
                answer(id, Ok(Value::Null));
                Outcome::GoesOn
            });
            match desk::ask(vm, process, Question { id, carry_out }) {
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

fn ask_process(
    vm: &Vm,
    process: u64,
    id: u64,
    question: impl FnOnce(usize) -> Result<Value, String> + Send + 'static,
) -> Result<(), String> {
    let carry_out = Box::new(move |record| {
        answer(id, question(record));
        Outcome::Stays
    });
    match desk::ask(vm, process, Question { id, carry_out }) {
        true => Ok(()),
        false => Err(has_not_stopped(process)),
    }
}

fn task(vm: &Vm, kind: lua::Kind, with: Value, id: u64) -> Result<Option<Value>, String> {
    let OfProcess { process } = details(with.clone())?;
    let task: lua::Task = details(with)?;
    ask_process(vm, process, id, move |record| {
        lua::perform(record, kind, &task)
    })?;
    Ok(None)
}

/// The numbers and titles of all processes.
fn processes(view: &View<'_>) -> Vec<(u64, String)> {
    let sched = view.sched();
    let records = sched.iter().filter_map(|process| sched.user_data(process));
    records
        .map(|record| (stacks::number(record), stacks::title(record)))
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

// What the C half calls (`c/debugger/inside.h`).

/// The process has stopped. Outside the VM.
///
/// # Safety
/// `reason` is a C string, `text` is readable for `size` bytes, and `process` is the record of the
/// calling process.
// SAFETY: the only definition of this symbol, with the signature of `c/debugger/inside.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_debug_stopped(
    number: u64,
    process: usize,
    semaphore: u64,
    is_alone: c_int,
    reason: *const c_char,
    breakpoint: c_int,
    text: *const c_char,
    size: usize,
) {
    // SAFETY: the caller's conditions.
    let (reason, text) = unsafe { (CStr::from_ptr(reason), lossy(text, size)) };
    let event = json!({
        "event": "stopped",
        "process": number,
        "title": stacks::title(process),
        "reason": reason.to_string_lossy(),
        "breakpoint": breakpoint,
        "text": text,
        "is_alone": is_alone != 0,
    });
    desk::stopped(number, semaphore, is_alone != 0, event);
}

/// # Safety
/// `text` is readable for `size` bytes.
unsafe fn lossy(text: *const c_char, size: usize) -> String {
    if size == 0 {
        return String::new();
    }
    // SAFETY: the caller's condition.
    let bytes = unsafe { slice::from_raw_parts(text.cast::<u8>(), size) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Carries out what the calling process is asked. Returns whether it goes on. Outside the VM.
// SAFETY: the only definition of this symbol, with the signature of `c/debugger/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_debug_serve(number: u64, process: usize) -> c_int {
    loop {
        match desk::next(number) {
            Next::Answer(question) => {
                if (question.carry_out)(process) == Outcome::GoesOn {
                    desk::forget(number);
                    return 1;
                }
            }
            Next::Wait => return 0,
            Next::GoOn => return 1,
        }
    }
}

/// Waits until the calling process is asked something. Inside the VM.
// SAFETY: the only definition of this symbol, with the signature of `c/debugger/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_debug_await(number: u64) {
    let Some(vm) = super::VM.get() else {
        return;
    };
    // SAFETY: the C half calls this inside the VM.
    let inside = unsafe { Inside::assume(vm) };
    desk::await_alone(number, |question| inside.view(question));
}

/// The calling process goes on, and was not told to.
// SAFETY: the only definition of this symbol, with the signature of `c/debugger/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_debug_goes_on(number: u64) {
    desk::goes_on(number);
}

/// A text of a log point.
///
/// # Safety
/// `text` is readable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `c/debugger/inside.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_debug_log(
    number: u64,
    breakpoint: c_int,
    text: *const c_char,
    size: usize,
) {
    // SAFETY: the caller's condition.
    let text = unsafe { lossy(text, size) };
    desk::tell_log(json!({
        "event": "log",
        "process": number,
        "breakpoint": breakpoint,
        "text": text,
    }));
}

/// The program ends: what it has told its debugger is sent first.
// SAFETY: the only definition of this symbol, with the signature of `c/debugger/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_debug_flush() {
    desk::flush(LAST_LINES);
}

/// A breakpoint was placed in a chunk that was loaded.
// SAFETY: the only definition of this symbol, with the signature of `c/debugger/inside.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_debug_placed(_unused: usize, id: c_int, line: c_int) {
    desk::tell(json!({ "event": "placed", "id": id, "line": line }));
}
