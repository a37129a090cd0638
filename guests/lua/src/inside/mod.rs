//! What observers ask of a program. Each question has a file of its own.
//!
//! | question | details | answer |
//! |---|---|---|
//! | `kill` | `id` | how the kill was taken (`kill.rs`) |
//! | `stacks` | `ids`, or none | processes with their stacks, in parts, and what they wait for (`instant.rs`) |
//! | `metrics` | | counters (`metrics.rs`) |
//! | `parameters` | | all parameters (`set.rs`) |
//! | `profile` | `what`, `seconds`, `rate` | samples (`profile/`) |
//! | `top` | `rows`, `sort`, `filter`, `again` | the processes that use most, and totals (`top.rs`) |
//! | `set` | `name`, `value` | the new value (`set.rs`) |
//! | `trace` | `seconds`, or null | a file for Perfetto, in parts, and its numbers (`trace/`) |
//! | `heap` | | all objects, in parts (`heap.rs`) |
//! | `debug` | `version`, `all_stop` | a conversation with a debugger (`debug/`) |

pub(crate) mod debug;
mod heap;
pub(crate) mod instant;
mod kill;
mod metrics;
mod objects;
mod own;
mod parent;
mod processes;
mod profile;
mod set;
mod stacks;
mod stop;
mod symbols;
mod top;
pub(crate) mod trace;

use crate::answers;
use answers::metrics::TextFormat;
use baton_core::vm::Vm;
use baton_observe::observer::{Conversation, Part, Session, Target, answer_text};
use baton_observe::protocol::Access;
use baton_observe::quit;
use baton_observe::{exporter, inherited};
use baton_sys::forking::Child;
use baton_sys::signals::marked;
use profile::Control;
use serde_json::Value;
use serde_json::value::RawValue;
use std::ffi::{c_char, c_int, c_void};
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::slice;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant};

/// How long a look waits for a safepoint, unless there is a reason to wait longer. The whole answer
/// should come within 100 ms.
const PATIENCE: Duration = Duration::from_millis(50);

/// The VM that observers ask about: the program's.
static VM: OnceLock<Arc<Vm>> = OnceLock::new();

/// When the program began.
static BEGAN: OnceLock<Instant> = OnceLock::new();

/// Lets observers ask about this VM. Called once, at the program's start.
pub(crate) fn open(vm: &Arc<Vm>) {
    let _ = VM.set(Arc::clone(vm));
    let _ = BEGAN.set(Instant::now());
    if let Err(why) = quit::prepare() {
        eprintln!("baton: {why}");
    }
    debug::serve_parent(target());
    parent::serve(target());
    serve_metrics(vm);
}

/// Serves the metrics over HTTP, if the environment says so. A simulated run has no time of its own
/// to show, and there may be many at once.
fn serve_metrics(vm: &Arc<Vm>) {
    if vm.is_simulated() {
        return;
    }
    let text = Arc::new(|format| {
        let format = match format {
            exporter::TextFormat::Prometheus => TextFormat::Prometheus,
            exporter::TextFormat::OpenMetrics => TextFormat::OpenMetrics,
        };
        answers::metrics::text(&metrics::answer(), format)
    });
    match exporter::start_as_the_environment_says(text) {
        Ok(false) => {}
        // SAFETY: the function lives as long as the program. Without memory for it, the socket
        // stays, and the next program that is to serve there replaces it.
        Ok(true) => unsafe {
            libc::atexit(end_of_exporter);
        },
        Err(why) => eprintln!("baton: {why}"),
    }
}

extern "C" fn end_of_exporter() {
    exporter::end();
}

/// Forgets what belonged to threads that are gone.
///
/// # Safety
/// The caller is the only thread, in a fork's child, and in no other function of this module.
pub(crate) unsafe fn renew_in_child() {
    // SAFETY: the caller's conditions.
    unsafe {
        profile::allocations::renew_in_child();
        profile::ending::renew_in_child();
        symbols::renew_in_child();
    }
    // SAFETY: the caller's condition.
    let child = unsafe { Child::assume() };
    quit::renew_in_child(&child);
    trace::renew_in_child(&child);
    top::renew_in_child(&child);
    for connection in inherited::connections() {
        let number = connection.number();
        // SAFETY: it is only asked what it is. One that is not open is nothing.
        if connection.is(unsafe { BorrowedFd::borrow_raw(number) }) {
            // SAFETY: the descriptor belongs to a thread that the child does not have.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
}

/// Whether a metric of ours has this name, without the `_total` of a counter.
pub(crate) fn has_metric(name: &str) -> bool {
    metrics::has(name)
}

/// The VM that observers ask about.
pub(crate) fn program() -> Option<&'static Arc<Vm>> {
    VM.get()
}

/// How long the program has run. A fork's child counts its parent's time, too.
fn uptime() -> Duration {
    BEGAN.get().map(Instant::elapsed).unwrap_or_default()
}

/// A time in nanoseconds.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The program, for observers.
struct Program;

/// The program, for observers.
pub(crate) fn target() -> &'static Arc<dyn Target> {
    static TARGET: LazyLock<Arc<dyn Target>> = LazyLock::new(|| Arc::new(Program));
    &TARGET
}

impl Target for Program {
    fn program(&self) -> String {
        concat!("Baton ", env!("CARGO_PKG_VERSION")).to_owned()
    }

    fn begin(&self, access: Access) -> Box<dyn Session> {
        Box::new(Questions {
            access,
            seen: top::LastTables::default(),
        })
    }
}

/// The questions of one client.
struct Questions {
    access: Access,
    /// What `top` compares with.
    seen: top::LastTables,
}

impl Session for Questions {
    fn answer(&mut self, ask: &str, with: &Value, part: Part<'_>) -> Result<Box<RawValue>, String> {
        let vm = VM
            .get()
            .ok_or_else(|| "the program has no VM yet".to_owned())?;
        if ask != "profile" {
            parent::go_on();
        }
        let answer = match ask {
            "stacks" => instant::answer(with, part),
            "top" => return top::answer(with, &mut self.seen),
            "metrics" => Ok(metrics::answer()),
            "parameters" => Ok(set::list(vm)),
            "profile" => {
                let control = Control {
                    stop: &Arc::default(),
                    has_begun: &parent::go_on,
                };
                let answer = profile::answer(vm, with, &control, part);
                parent::go_on(); // also if the question was wrong
                answer
            }
            "trace" => trace::answer(vm, with, part),
            "kill" => {
                require_all(self.access, "this changes the program")?;
                kill::answer(with)
            }
            "set" => {
                require_all(self.access, "this changes the program")?;
                set::answer(vm, with)
            }
            "heap" => {
                require_all(self.access, "this shows values of the program")?;
                heap::answer(vm, part)
            }
            other => Err(format!(
                "{} does not know the question '{other}': 'stacks', 'top', 'profile', 'trace', \
                 'metrics', 'parameters', 'set', 'kill', 'heap' or 'debug' expected",
                Program.program()
            )),
        };
        answer_text(&answer?)
    }

    fn converse(
        &mut self,
        ask: &str,
        with: &Value,
        conversation: &mut Conversation<'_, '_>,
    ) -> Option<io::Result<()>> {
        let vm = VM.get().filter(|_| ask == "debug")?;
        Some(debug::converse(vm, self.access, with, conversation))
    }
}

/// Refuses what needs more access. `what` it does is for the refusal.
fn require_all(access: Access, what: &str) -> Result<(), String> {
    match access {
        Access::All => Ok(()),
        Access::Observe => Err(format!(
            "{what}, but the program lets others only see what its processes do: use --write, or \
             start the program with {}=all",
            quit::VARIABLE
        )),
    }
}

/// What an answer says of a process that keeps the VM.
pub(crate) fn why_kept(vm: &Vm) -> String {
    match vm.obstacle_to_preemption() {
        Some(obstacle) => format!("a process computes, and is not preempted: {obstacle}"),
        None if debug::has_stopped() => {
            "a debugger has stopped a process, which keeps the VM (--all-stop)".to_owned()
        }
        None => "a process computes inside the VM, without a safepoint: in a long step of the \
                 garbage collector, or in a function of Lua's library"
            .to_owned(),
    }
}

/// Notes a SIGQUIT. Async-signal-safe.
// SAFETY: the only definition of this symbol, with the signature of `observing.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_note_quit(is_observers: c_int) {
    quit::note(is_observers != 0);
}

/// Whether a signal is an observer's. Async-signal-safe.
///
/// # Safety
/// `info` is the `siginfo_t` that its handler was given.
// SAFETY: the only definition of this symbol, with the signature of `observing.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_is_observers(info: *const c_void) -> c_int {
    // SAFETY: the caller's condition.
    unsafe { marked::has_mark(info, quit::MARK) }.into()
}

/// Appends what the calling thread runs to an observer's request. Async-signal-safe.
///
/// # Safety
/// `text` is readable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `observing.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_note_running(text: *const c_char, size: usize) {
    // SAFETY: the caller's condition.
    quit::note_running(unsafe { slice::from_raw_parts(text.cast(), size) });
}
