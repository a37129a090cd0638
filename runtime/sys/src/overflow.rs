//! Reports of stack overflows in C code. A fault inside malloc, say, cannot be unwound. But the
//! report names the process before the program ends.
//!
//! A fault calls the registered function, which checks whether the address is in a process's guard.
//! If so, it has written its report, and the program aborts. Every other fault goes to the previous
//! handler (Rust's own report for native threads' stacks, a debugger's or sanitizer's handler).
//!
//! Handlers run on the alternate stack (`signals::AltStack`), as the faulting stack has no room.
//! They call only async-signal-safe functions.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::fiber::label_on;
use crate::platform;
use crate::stack::stack_at;

/// Returns whether `fault_address` is in the guard of a process's stack; if so, it has written its
/// report to descriptor 2. Called on the alternate stack of the faulting thread. Must be
/// async-signal-safe and must not unwind.
pub type Describe = extern "C" fn(fault_address: usize) -> bool;

/// Describes the overflow of a process of any guest, by its id and its name.
///
/// ```text
/// baton: process 4294967297 'clerk' overflowed its C stack of 1048576 bytes (stack_size); ...
/// ```
pub extern "C" fn describe_process(fault_address: usize) -> bool {
    let Some(stack) = stack_at(fault_address) else {
        return false;
    };
    if !stack.guard().contains(&fault_address) {
        return false;
    }
    // SAFETY: its mapping is noted. Its process has made the fault, so it does not end; or another
    // one has, and then it does not run, and is none.
    let Some((number, name)) = (unsafe { label_on(&stack) }) else {
        return false;
    };
    let mut text = Text::default();
    text.add(b"baton: process ");
    text.add_number(number);
    if !name.is_empty() {
        text.add(b" '");
        text.add(name);
        text.add(b"'");
    }
    text.add(b" overflowed its C stack of ");
    text.add_number(stack.size() as u64);
    text.add(
        b" bytes (stack_size); give it more when it is spawned, or bound the depth of calls\n",
    );
    // SAFETY: write is async-signal-safe and reads the text. The program ends in any case.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, text.bytes.as_ptr().cast(), text.size) };
    true
}

/// A text of a bounded length.
struct Text {
    bytes: [u8; 320],
    size: usize,
}

impl Default for Text {
    fn default() -> Text {
        Text {
            bytes: [0; 320],
            size: 0,
        }
    }
}

impl Text {
    /// Appends what fits.
    fn add(&mut self, more: &[u8]) {
        for (to, from) in self.bytes[self.size..].iter_mut().zip(more) {
            *to = *from;
        }
        self.size = (self.size + more.len()).min(self.bytes.len());
    }

    fn add_number(&mut self, number: u64) {
        let mut digits = [0; 20];
        let mut first = digits.len();
        let mut rest = number;
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.add(&digits[first..]);
    }
}

/// The function, or null. Written with Release by [`set_describe`], read with Acquire by the
/// handler.
static DESCRIBE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

static FOR_SEGV: Previous = Previous::new();
static FOR_BUS: Previous = Previous::new();

/// The previous action of a signal.
struct Previous {
    action: UnsafeCell<MaybeUninit<libc::sigaction>>,
    /// Set with Release after `action` was written, read with Acquire by the handler; never
    /// cleared.
    known: AtomicBool,
}

// SAFETY: `action` is written once, under `INSTALLING` and before `known` is set, and only read
// afterwards.
unsafe impl Sync for Previous {}

/// Held while handlers are installed; guards writes to both `Previous`.
static INSTALLING: Mutex<()> = Mutex::new(());

impl Previous {
    const fn new() -> Previous {
        Previous {
            action: UnsafeCell::new(MaybeUninit::uninit()),
            known: AtomicBool::new(false),
        }
    }

    fn get(&self) -> Option<&libc::sigaction> {
        // Acquire: pairs with the store in `install`, which follows the writing of `action`.
        if !self.known.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: `known` says that `action` was written, and it is not written again.
        Some(unsafe { (*self.action.get()).assume_init_ref() })
    }
}

/// Registers `describe` and, with the first call, the handlers of SIGSEGV and SIGBUS.
///
/// Each native thread needs an alternate stack (`signals::AltStack`) for the report of an overflow.
///
/// # Errors
///
/// What `sigaction` says; none is known.
pub fn set_describe(describe: Describe) -> io::Result<()> {
    set(describe, Replaced::Any)
}

/// As [`set_describe`], for a program that others wrote: a signal that it handles or ignores is
/// left to it. There, no overflow is described.
///
/// # Errors
///
/// As [`set_describe`].
pub fn set_describe_by_default(describe: Describe) -> io::Result<()> {
    set(describe, Replaced::Default)
}

/// Which actions are replaced by ours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replaced {
    Any,
    Default,
}

fn set(describe: Describe, replaced: Replaced) -> io::Result<()> {
    // Release: pairs with the load in `is_described`.
    DESCRIBE.store(describe as *mut (), Ordering::Release);
    let installing = INSTALLING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    install(libc::SIGSEGV, &FOR_SEGV, replaced)?;
    install(libc::SIGBUS, &FOR_BUS, replaced)?;
    drop(installing);
    Ok(())
}

fn install(signal: c_int, previous: &Previous, replaced: Replaced) -> io::Result<()> {
    // Relaxed: written under `INSTALLING` alone, which the caller holds.
    if previous.known.load(Ordering::Relaxed) {
        return Ok(());
    }
    // The old action is read before ours is set, so that a fault in between finds it.
    let mut old = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: no new action is passed; the old one is written to `old`.
    check(unsafe { libc::sigaction(signal, ptr::null(), old.as_mut_ptr()) })?;
    // SAFETY: the kernel has just written it.
    let is_default = unsafe { old.assume_init_ref() }.sa_sigaction == libc::SIG_DFL;
    if replaced == Replaced::Default && !is_default {
        return Ok(());
    }
    // SAFETY: `INSTALLING` is held by the caller and `known` is false, so no other thread uses
    // `action`.
    unsafe { *previous.action.get() = old };
    // Release: pairs with the load in `get`.
    previous.known.store(true, Ordering::Release);

    // SAFETY: all-zero bytes are a valid sigaction: no handler, no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_fault as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `action` is initialised, and `on_fault` has the three parameters that SA_SIGINFO asks
    // for.
    check(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) })
}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

extern "C" fn on_fault(signal: c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
    let errno = platform::errno();
    // SAFETY: the address is valid for the calling thread; a handler stays on its thread.
    let saved = unsafe { *errno };
    // SAFETY: the kernel passes valid information to a handler with SA_SIGINFO.
    let by_kernel = unsafe { (*information).si_code > 0 };
    if by_kernel {
        // SAFETY: as above; faults of the kernel's own making carry an address.
        let address = unsafe { (*information).si_addr() } as usize;
        if is_described(address) {
            // SAFETY: abort is async-signal-safe (POSIX) and needs nothing.
            unsafe { libc::abort() };
        }
    }
    let previous = if signal == libc::SIGBUS {
        &FOR_BUS
    } else {
        &FOR_SEGV
    };
    match previous.get().map(|action| (action.sa_sigaction, action)) {
        None | Some((libc::SIG_DFL, _)) => end_by_default(signal, by_kernel),
        // An ignored fault would repeat for ever; the kernel kills the program for it, and so does
        // this. A signal sent by `kill` has no effect.
        Some((libc::SIG_IGN, _)) if by_kernel => end_by_default(signal, by_kernel),
        Some((libc::SIG_IGN, _)) => (),
        Some((_, action)) => call_previous(action, signal, information, context),
    }
    // SAFETY: as at the beginning.
    unsafe { *errno = saved };
}

fn is_described(address: usize) -> bool {
    // Acquire: pairs with the store in `set_describe`.
    let describe = DESCRIBE.load(Ordering::Acquire);
    if describe.is_null() {
        return false;
    }
    // SAFETY: `set_describe` alone writes the pointer, from a function of this type.
    let describe: Describe = unsafe { std::mem::transmute(describe) };
    describe(address)
}

fn call_previous(
    action: &libc::sigaction,
    signal: c_int,
    information: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    if action.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: an action with SA_SIGINFO that is neither default nor ignored holds a function of
        // this type.
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
            unsafe { std::mem::transmute(action.sa_sigaction) };
        handler(signal, information, context);
    } else {
        // SAFETY: without SA_SIGINFO it holds a function of this type.
        let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(action.sa_sigaction) };
        handler(signal);
    }
}

/// Restores the default action. A fault repeats when the handler returns, and then kills the
/// program. A signal that was sent is sent again, and kills it when the handler's return unblocks
/// the signal.
fn end_by_default(signal: c_int, by_kernel: bool) {
    // SAFETY: signal and raise are async-signal-safe and take integers.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        if !by_kernel {
            libc::raise(signal);
        }
    }
}
