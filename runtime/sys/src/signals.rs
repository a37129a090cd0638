//! Signals: the preemption signal, watched signals, and the alternate stack of their handlers.
//!
//! Handlers run on an alternate stack, because a process may have no room left on its own. They
//! call only the registered function and preserve `errno`. That function must be async-signal-safe.
//!
//! | module | what it is |
//! |---|---|
//! | [`arrivals`] | notes of handlers: which signals have arrived, in which order |
//! | [`actions`] | signals that several parts of a program watch |
//! | [`mask`] | which signals a thread blocks |
//! | [`marked`] | signals with a mark |
//! | [`names`] | signals by name |
//! | `preemption` | the preemption signal |

pub mod actions;
pub mod arrivals;
pub mod marked;
pub mod mask;
pub mod names;
mod preemption;

pub use preemption::{
    Obstacle, PreemptTarget, handle_preempt_signal, install_preempt_handler, preempt_this_thread,
    preempt_this_thread_by,
};

use std::ffi::c_int;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::memory;
use crate::platform;

/// The signal that makes a native thread preempt its process. It is ignored by default, and
/// programs hardly use it, so a stray one does no harm.
pub const PREEMPT_SIGNAL: c_int = libc::SIGURG;

const SIGNAL_LIMIT: usize = 65;

/// Functions registered by [`watch`], by signal number. Written
/// before the handler is installed (Release), read in handlers (Acquire).
static HANDLERS: [AtomicPtr<()>; SIGNAL_LIMIT] =
    [const { AtomicPtr::new(ptr::null_mut()) }; SIGNAL_LIMIT];

/// Makes `signal` call `handler` with its number, on whichever thread gets it; meant for SIGINT and
/// SIGQUIT. `handler` must be async-signal-safe (set an atomic, kick a poller) and must not unwind.
///
/// # Errors
///
/// `EINVAL` for a number that is no signal or that cannot be caught; otherwise those of
/// `sigaction`.
pub fn watch(signal: c_int, handler: extern "C" fn(c_int)) -> io::Result<()> {
    let slot = slot_of(signal)?;
    // Release: pairs with the load in `on_watched`.
    slot.store(handler as *mut (), Ordering::Release);
    set_action(
        signal,
        on_watched as *const () as libc::sighandler_t,
        libc::SA_RESTART | libc::SA_ONSTACK,
    )
}

/// Restores the default action of `signal`.
///
/// # Errors
///
/// `EINVAL` for a number that is no signal or whose action cannot change.
pub fn restore_default(signal: c_int) -> io::Result<()> {
    slot_of(signal)?;
    set_action(signal, libc::SIG_DFL, 0)
}

/// Ignores `signal`.
///
/// # Errors
///
/// `EINVAL` for a number that is no signal or that cannot be ignored.
pub fn ignore(signal: c_int) -> io::Result<()> {
    slot_of(signal)?;
    set_action(signal, libc::SIG_IGN, 0)
}

fn slot_of(signal: c_int) -> io::Result<&'static AtomicPtr<()>> {
    usize::try_from(signal)
        .ok()
        .filter(|&number| number > 0)
        .and_then(|number| HANDLERS.get(number))
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
}

fn set_action(signal: c_int, handler: libc::sighandler_t, flags: c_int) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid sigaction: no handler, no flags, an empty mask on Linux.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: `action` is initialised; the handlers passed here have the type that their flags ask
    // for (no SA_SIGINFO: one integer).
    let result = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

extern "C" fn on_watched(signal: c_int) {
    keeping_errno(|| {
        // Acquire: pairs with the store in `watch`.
        let handler = HANDLERS[signal as usize].load(Ordering::Acquire);
        if !handler.is_null() {
            // SAFETY: the kernel passes a signal for which `watch` installed this handler, after
            // `watch` wrote a function of this type.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    });
}

/// Runs `body` and preserves `errno`. One address serves before and after, as a handler stays on
/// its thread.
fn keeping_errno(body: impl FnOnce()) {
    let errno = platform::errno();
    // SAFETY: the address is valid as long as the thread lives; no reference is formed.
    let saved = unsafe { *errno };
    body();
    // SAFETY: as above; still the same thread.
    unsafe { *errno = saved };
}

/// A native thread, so that other threads can interrupt it.
///
/// Valid while the thread lives. Later its number may be given to another thread of this program,
/// which would then be interrupted. That is useless but harmless for [`PREEMPT_SIGNAL`], as the
/// receiver decides what to do. In a fork's child, take a new handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadHandle {
    program: i32,
    thread: i32,
    is_first: bool,
}

/// The result of [`ThreadHandle::interrupt`].
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// The kernel accepted the signal.
    Sent,
    /// This program has no such thread.
    ThreadIsGone,
    /// The system refuses, with this error: a sandbox forbids the system call.
    Refused(c_int),
}

impl ThreadHandle {
    /// The calling thread.
    #[must_use]
    pub fn current() -> ThreadHandle {
        // SAFETY: the call takes nothing, touches no memory, and cannot fail.
        let program = unsafe { libc::getpid() };
        let thread = platform::thread_number();
        ThreadHandle {
            program,
            thread,
            is_first: platform::is_first_thread(program, thread),
        }
    }

    /// The kernel's number for the thread.
    #[must_use]
    pub fn id(self) -> i32 {
        self.thread
    }

    /// Whether it is the program's first thread. The kernel prefers it for signals to the program.
    #[must_use]
    pub fn is_first(self) -> bool {
        self.is_first
    }

    /// Sends [`PREEMPT_SIGNAL`] to the thread. Async-signal-safe.
    pub fn interrupt(self) -> Interrupted {
        match platform::signal_thread(self.program, self.thread, PREEMPT_SIGNAL) {
            0 => Interrupted::Sent,
            libc::ESRCH => Interrupted::ThreadIsGone,
            why => Interrupted::Refused(why),
        }
    }
}

/// The alternate stack of the calling thread's signal handlers: installed by [`AltStack::install`],
/// removed on drop. Must be dropped on the thread that installed it, hence neither `Send` nor
/// `Sync`.
///
/// The memory of the last one that was removed is kept for the next one: a host's thread installs
/// one for each stint. Also, Valgrind 3.19 runs handlers on a stack that was removed.
pub struct AltStack {
    /// Set until it is dropped.
    memory: Option<AltStackMemory>,
    previous: libc::stack_t,
    stays_on_its_thread: PhantomData<*mut ()>,
}

/// A guard page, and [`AltStack::SIZE`] bytes above it.
struct AltStackMemory(NonNull<u8>);

/// The memory that is kept, or null. Not a variable of each thread: one with a destructor would
/// wait while a library is being loaded.
static KEPT: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

impl AltStack {
    /// Bytes for handlers: enough for every register that the processor may save, and for a report.
    pub const SIZE: usize = 64 * 1024;

    /// Installs an alternate stack of [`AltStack::SIZE`] bytes, with a guard page below it, on the
    /// calling thread.
    ///
    /// # Errors
    ///
    /// When there is no memory for it, or when a handler is running on the present one (`EPERM`).
    pub fn install() -> io::Result<AltStack> {
        let memory = AltStackMemory::exchange_kept(None).map_or_else(AltStackMemory::map, Ok)?;
        // SAFETY: the offset lies inside the mapping of a page and `SIZE` bytes.
        let bottom = unsafe { memory.0.add(memory::page_size()) };
        let previous = exchange_alternate_stack(&libc::stack_t {
            ss_sp: bottom.as_ptr().cast(),
            ss_flags: 0,
            ss_size: Self::SIZE,
        })?;
        Ok(AltStack {
            memory: Some(memory),
            previous,
            stays_on_its_thread: PhantomData,
        })
    }
}

impl Drop for AltStack {
    fn drop(&mut self) {
        let memory = self.memory.take();
        if exchange_alternate_stack(&self.previous).is_ok() {
            drop(AltStackMemory::exchange_kept(memory));
        } else {
            // A handler runs on this stack, which must stay mapped.
            std::mem::forget(memory);
        }
    }
}

impl AltStackMemory {
    fn map() -> io::Result<AltStackMemory> {
        let guard = memory::page_size();
        let memory = AltStackMemory(memory::map(guard + AltStack::SIZE)?);
        // SAFETY: the pages are the first of the mapping just made.
        unsafe { memory::forbid_access(memory.0, guard) }?;
        Ok(memory)
    }

    /// Keeps this memory. Returns what was kept before.
    fn exchange_kept(memory: Option<AltStackMemory>) -> Option<AltStackMemory> {
        let memory = memory.map_or(ptr::null_mut(), |memory| {
            ManuallyDrop::new(memory).0.as_ptr()
        });
        // AcqRel: pairs with itself on other threads. What the last user did with the memory comes
        // before what the next one does.
        NonNull::new(KEPT.swap(memory, Ordering::AcqRel)).map(AltStackMemory)
    }
}

impl Drop for AltStackMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map`. The kernel does not use it: it was never
        // installed, or another stack has been installed on its thread since then.
        unsafe { memory::unmap(self.0, memory::page_size() + AltStack::SIZE) };
    }
}

fn exchange_alternate_stack(next: &libc::stack_t) -> io::Result<libc::stack_t> {
    let mut previous = libc::stack_t {
        ss_sp: ptr::null_mut(),
        ss_flags: 0,
        ss_size: 0,
    };
    // SAFETY: `next` names memory that stays mapped until another stack is set (or is the one that
    // the thread had before, or says SS_DISABLE); `previous` is valid for writes.
    let result = unsafe { libc::sigaltstack(next, &raw mut previous) };
    if result == 0 {
        Ok(previous)
    } else {
        Err(io::Error::last_os_error())
    }
}
