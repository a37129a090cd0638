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
//! | `frames` | `process`, `first`, `count` | the process, or the VM if it has not stopped |
//! | `show`, `set`, `evaluate`, `complete` | a [`lua::Task`] | the process, or another one for it |
//! | `resume` | `process`, `step` | the process |
//! | `end` | `question`: what carries it out ends | the conversation |
//! | `forget` | | the deputy: it forgets the values that it has shown |
//! | `leave` | | the conversation: the program outlives it |
//!
//! | event | details |
//! |---|---|
//! | `stopped` | `process`, `title`, `reason`, `breakpoint`, `text`, `type`, `is_alone` |
//! | `continued` | `process`: killed, or freed by the end of the program |
//! | `placed` | `id`, `line`: a breakpoint has found its place |
//! | `log` | `process`, `breakpoint`, `wrong`: 1 its condition, 2 its text; `text`; or only `text`: how many were left out |
//!
//! What the VM answers runs in a look; or, if a process keeps the VM while it has stopped, on that
//! process's thread. A process that has stopped answers by itself, between two instructions
//! (`c/debugger/stopping.c`). For one that waits, a process that keeps the VM answers, or else the
//! deputy (`c/debugger/deputy.c`).
//!
//! | file | what it does |
//! |---|---|
//! | `mod.rs` | the conversation, from its begin to its end |
//! | `questions.rs` | what the debugger asks |
//! | `desk.rs` | where questions wait for a process, and answers for the debugger |
//! | `lua.rs`, `from_c.rs` | what the C half does; and what it calls |
//!
//! A program that its debugger has started ends with the conversation, however that ends, unless
//! the debugger has asked `leave`. Other programs go on.

mod desk;
mod from_c;
mod lua;
mod questions;

pub use lua::check_expression;

use baton_core::vm::{NoLook, View, Vm};
use baton_observe::observer::{self, Conversation, Session, Target};
use baton_observe::protocol::{Access, Ask, write_line};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::io;
use std::net::Shutdown;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The version of these conversations. Another version is refused.
const VERSION: u64 = 1;

/// How long a question on the VM waits until a process lets the VM go.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a debugger waits for the end of the one before it.
const TO_GO: Duration = Duration::from_millis(500);

/// How long the end of a conversation waits until the program has noticed it.
const TO_NOTICE: Duration = Duration::from_secs(1);

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
    let what = "the debugger stops processes, and changes values";
    if let Err(why) = super::require_all(access, what) {
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
        match questions::carry_out(vm, &ask, with, id) {
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
        // An expression that does not end would hold its process for ever.
        questions::hurry_all(&self.0, TO_NOTICE);
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
