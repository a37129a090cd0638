//! Fibers: execution contexts with their own C stack, and the switch between them.
//!
//! The switch is symmetric: it goes directly from one fiber to another. It saves the callee-saved
//! registers on the stack that it leaves, and its stack pointer in the fiber's header. The header
//! is at the top of the fiber's own stack, so that a suspended fiber uses one page.
//!
//! ```text
//!   top of the stack ->  +---------------------+
//!                        | FiberHeader         |  saved stack pointer, state, entry
//!                        +---------------------+
//!                        | frames of the entry |
//!                        | ...                 |
//!   saved stack ptr  ->  | callee-saved regs   |
//! ```
//!
//! A fiber may continue on another native thread than the one it was left on. So code that runs on
//! fibers keeps nothing of a thread across a switch: no address of a thread-local, no lock guard.
//! Types cannot express this: it is a condition of each switch, and an invariant of the project
//! (`ARCHITECTURE.md`).
//!
//! The state word checks the executor's bookkeeping. It publishes nothing: the switch writes the
//! stack pointer and the registers after the state. Another native thread gets all that it needs to
//! continue a fiber together with the VM. The executor hands over the VM, or a message about the
//! fiber, only after the fiber was left. It does so under a mutex or through the inbox.
//!
//! A handle proves nothing: any thread may have a copy. So all that uses the fiber behind it is
//! unsafe, and its conditions say who may:
//!
//! ```compile_fail,E0133
//! use baton_sys::fiber::Fiber;
//! fn continue_elsewhere(from: Fiber, to: Fiber) {
//!     std::thread::spawn(move || from.switch_to(to));
//! }
//! ```

mod sanitizer;

use crate::stack::Stack;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

const PARKED: u8 = 0;
const RUNNING: u8 = 1;
const ENDED: u8 = 2;

/// The function of a fiber. It must not return; it ends by a last switch away.
pub type Entry = fn(argument: usize) -> !;

struct FiberHeader {
    /// Where to continue; written by the switch that leaves the fiber.
    stack_pointer: *mut u8,
    state: AtomicU8,
    entry: Option<Entry>,
    argument: usize,
    /// For the report of an overflow.
    label: Label,
    /// The fiber's context for a race detector; empty without one.
    watched: sanitizer::Context,
}

/// What the report of an overflow says of a fiber.
#[derive(Clone, Copy)]
struct Label {
    number: u64,
    name: *const u8,
    name_size: usize,
}

impl Label {
    const NONE: Label = Label {
        number: 0,
        name: std::ptr::null(),
        name_size: 0,
    };
}

/// A handle to a fiber; a plain word.
///
/// Its memory belongs to the owner of the stack (or to the [`ThreadFiber`]). The handle is *alive*
/// while that memory is the fiber's. A use after that is caught only if the state word still shows
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fiber(NonNull<FiberHeader>);

// SAFETY: a handle is a word; what uses the fiber behind it is unsafe, and says on which thread.
unsafe impl Send for Fiber {}
// SAFETY: as above.
unsafe impl Sync for Fiber {}

/// The context of a native thread's own stack, so that fibers can switch back to it.
#[derive(Debug)]
pub struct ThreadFiber(Box<FiberHeaderCell>);

#[derive(Debug)]
struct FiberHeaderCell(std::cell::UnsafeCell<std::mem::MaybeUninit<FiberHeader>>);

impl ThreadFiber {
    /// A context for the calling thread, which is running. `argument` is a word that belongs to it.
    pub fn new(argument: usize) -> ThreadFiber {
        let header = FiberHeader {
            stack_pointer: std::ptr::null_mut(),
            state: AtomicU8::new(RUNNING),
            entry: None,
            argument,
            label: Label::NONE,
            watched: sanitizer::Context::of_this_thread(),
        };
        ThreadFiber(Box::new(FiberHeaderCell(std::cell::UnsafeCell::new(
            std::mem::MaybeUninit::new(header),
        ))))
    }

    /// The handle; alive while this value lives.
    pub fn fiber(&self) -> Fiber {
        // SAFETY: a pointer into a live box is not null.
        Fiber(unsafe { NonNull::new_unchecked(self.0.0.get().cast::<FiberHeader>()) })
    }
}

impl Fiber {
    /// Prepares a fiber on `stack`, which calls `entry(argument)` at the first switch to it.
    /// Touches only the top page of the stack.
    ///
    /// # Safety
    /// No other fiber is on the stack, unless that has ended and was left. The handle is not used
    /// after the stack is recycled.
    pub unsafe fn prepare(stack: &Stack, entry: Entry, argument: usize) -> Fiber {
        let pointer = header_on(stack);
        let header = pointer as usize;
        // SAFETY: the stack is writable up to `top`, no fiber uses it, as the caller promises, and
        // the header's place is aligned and inside it; `prepare_frames` writes just below the
        // header.
        unsafe {
            pointer.write(FiberHeader {
                stack_pointer: arch::prepare_frames(header as *mut u8),
                state: AtomicU8::new(PARKED),
                entry: Some(entry),
                argument,
                label: Label::NONE,
                watched: sanitizer::Context::new(),
            });
            Fiber(NonNull::new_unchecked(pointer))
        }
    }

    /// Leaves the calling fiber `self` and continues `to`. Returns after a switch back to `self`,
    /// perhaps on another native thread.
    ///
    /// Ends the program if `to` is running or has ended: the executor's bookkeeping is broken.
    ///
    /// # Safety
    /// 1. `self` is the fiber that calls this.
    /// 2. `to` is alive, suspended, and continued by no other thread. What its last switch wrote is
    ///    visible to this thread.
    /// 3. The caller keeps nothing of its native thread across the switch.
    #[inline]
    pub unsafe fn switch_to(self, to: Fiber) {
        // SAFETY: both headers are alive (conditions 1 and 2). `to` was left before, and only this
        // thread continues it, so its stack pointer is one that a switch or `prepare` wrote.
        unsafe {
            let from_header = self.0.as_ptr();
            let to_header = to.0.as_ptr();
            // Relaxed (all): only checks; the VM's hand-over orders them (see the module's text).
            if (*to_header).state.load(Ordering::Relaxed) != PARKED {
                refuse(to);
            }
            (*to_header).state.store(RUNNING, Ordering::Relaxed);
            (*from_header).state.store(PARKED, Ordering::Relaxed);
            (*to_header).watched.continues();
            arch::switch(
                &raw mut (*from_header).stack_pointer,
                (*to_header).stack_pointer,
            );
            sanitizer::forget_the_ended();
        }
    }

    /// Leaves the calling fiber for good and continues `to`. The stack of `self` may then be
    /// recycled.
    ///
    /// # Safety
    /// As for [`Fiber::switch_to`]. Nothing on the stack of `self` is dropped.
    pub unsafe fn end(self, to: Fiber) -> ! {
        // SAFETY: as in `switch_to`; `self` is marked ended, so no switch continues it.
        unsafe {
            let from_header = self.0.as_ptr();
            let to_header = to.0.as_ptr();
            // Relaxed (all): as in `switch_to`.
            if (*to_header).state.load(Ordering::Relaxed) != PARKED {
                refuse(to);
            }
            (*to_header).state.store(RUNNING, Ordering::Relaxed);
            (*from_header).state.store(ENDED, Ordering::Relaxed);
            (*from_header).watched.ends();
            (*to_header).watched.continues();
            arch::switch(
                &raw mut (*from_header).stack_pointer,
                (*to_header).stack_pointer,
            );
        }
        unreachable!("a fiber that had ended was continued");
    }

    /// Where the stack of a suspended fiber ends: its registers and all of its frames are at this
    /// address and above.
    ///
    /// # Safety
    /// The fiber is alive and suspended, and no thread continues it meanwhile. What its last switch
    /// wrote is visible to this thread.
    pub unsafe fn stack_pointer(self) -> *const u8 {
        // SAFETY: the caller's conditions.
        unsafe { (*self.0.as_ptr()).stack_pointer }
    }

    /// The argument of [`Fiber::prepare`] or [`ThreadFiber::new`]: a word that belongs to the
    /// fiber.
    ///
    /// # Safety
    /// The fiber is alive, and no thread sets its argument meanwhile.
    #[inline]
    pub unsafe fn argument(self) -> usize {
        // SAFETY: the caller's conditions.
        unsafe { (*self.0.as_ptr()).argument }
    }

    /// Whether it was continued, and not left since.
    ///
    /// # Safety
    /// The fiber is alive. Only the thread that it runs on, or would run on, relies on the answer;
    /// or one that keeps all threads from switching.
    #[must_use]
    pub unsafe fn is_running(self) -> bool {
        // SAFETY: the caller's condition.
        // Relaxed: the thread's own; otherwise ordered by what keeps the others from switching.
        unsafe { (*self.0.as_ptr()).state.load(Ordering::Relaxed) == RUNNING }
    }

    /// Labels the fiber for the report of an overflow, by a number and a name, which may be empty.
    ///
    /// # Safety
    /// The fiber is alive, and no other thread uses it meanwhile. The name lives as long as the
    /// fiber.
    pub unsafe fn set_label(self, number: u64, name: &str) {
        let label = Label {
            number,
            name: name.as_ptr(),
            name_size: name.len(),
        };
        // SAFETY: the caller's conditions.
        unsafe { (*self.0.as_ptr()).label = label }
    }

    /// Replaces the argument.
    ///
    /// # Safety
    /// The fiber is alive, and no other thread uses its argument meanwhile.
    pub unsafe fn set_argument(self, argument: usize) {
        // SAFETY: the caller's conditions.
        unsafe { (*self.0.as_ptr()).argument = argument }
    }
}

/// The place of a fiber's header on its stack.
fn header_on(stack: &Stack) -> *mut FiberHeader {
    ((stack.top() as usize - std::mem::size_of::<FiberHeader>()) & !63) as *mut FiberHeader
}

/// The label of the fiber that runs on a stack; `None` if none runs there, or it has no number.
///
/// # Safety
/// The stack is mapped, and its size is right. If a fiber runs on it, the fiber does not end
/// meanwhile.
pub(crate) unsafe fn label_on(stack: &Stack) -> Option<(u64, &[u8])> {
    // SAFETY: the header is on the stack. Without a fiber it is zero, or that of an earlier one.
    let header = unsafe { &*header_on(stack) };
    // Relaxed: written by this thread.
    let runs = header.state.load(Ordering::Relaxed) == RUNNING;
    let Label {
        number,
        name,
        name_size,
    } = header.label;
    if !runs || number == 0 {
        return None;
    }
    // SAFETY: `set_label`'s condition; a text is not null.
    let name = unsafe { std::slice::from_raw_parts(name, name_size) };
    Some((number, name))
}

/// A fiber that only switches back to its thread: it measures the switch of stacks alone.
#[derive(Debug)]
pub struct Echo<'stack> {
    thread: ThreadFiber,
    fiber: Fiber,
    _on: PhantomData<&'stack mut Stack>,
    /// Neither `Send` nor `Sync`: it switches back to this thread.
    _of_this_thread: PhantomData<*const ()>,
}

impl<'stack> Echo<'stack> {
    /// An echo on a stack.
    pub fn new(stack: &'stack mut Stack) -> Echo<'stack> {
        let thread = ThreadFiber::new(0);
        let argument = thread.fiber().0.as_ptr() as usize;
        // SAFETY: the stack is borrowed while the echo lives, so no other fiber is on it.
        let fiber = unsafe { Fiber::prepare(stack, answer, argument) };
        // SAFETY: the fiber of this thread is alive, and only this thread knows it.
        unsafe { thread.fiber().set_argument(fiber.0.as_ptr() as usize) };
        Echo {
            thread,
            fiber,
            _on: PhantomData,
            _of_this_thread: PhantomData,
        }
    }

    /// Switches to the echo's stack and back.
    #[inline]
    pub fn there_and_back(&mut self) {
        // SAFETY: 1. the echo belongs to this thread, which is not on the echo's fiber, as that
        // runs nothing else. 2. That fiber is alive and suspended while the echo can be called, and
        // knows no other thread. 3. Nothing is kept.
        unsafe { self.thread.fiber().switch_to(self.fiber) };
    }
}

/// The entry of an [`Echo`]: `caller` is the header of the thread's fiber, whose argument is that
/// of this one.
fn answer(caller: usize) -> ! {
    let handle = |header: usize| {
        NonNull::new(header as *mut FiberHeader).map_or_else(|| std::process::abort(), Fiber)
    };
    let caller = handle(caller);
    // SAFETY: the thread's fiber is alive while it waits for the answer.
    let this = handle(unsafe { caller.argument() });
    loop {
        // SAFETY: 1. `Echo::new` made this fiber. 2. The thread's fiber was left by the switch to
        // this one, on the same thread. 3. Nothing is kept.
        unsafe { this.switch_to(caller) };
    }
}

#[cold]
#[inline(never)]
fn refuse(to: Fiber) -> ! {
    // SAFETY: the header is alive, as the callers' callers promise.
    // Relaxed: only for the message.
    let state = unsafe { (*to.0.as_ptr()).state.load(Ordering::Relaxed) };
    eprintln!(
        "baton: switch to a fiber that is {} (the executor's bookkeeping is broken)",
        match state {
            RUNNING => "running",
            ENDED => "over",
            _ => "damaged",
        }
    );
    std::process::abort();
}

/// The first function on a new stack. `header` is passed in a callee-saved register.
unsafe extern "C" fn begin(header: *mut FiberHeader) -> ! {
    sanitizer::forget_the_ended();
    // SAFETY: `prepare` wrote the header, and the stack lives while the fiber runs.
    let (entry, argument) = unsafe { ((*header).entry.take(), (*header).argument) };
    match entry {
        Some(entry) => entry(argument),
        None => std::process::abort(),
    }
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use super::FiberHeader;
    use std::arch::{asm, naked_asm};

    /// Writes the frame that the first switch pops, right below `header`, and returns its stack
    /// pointer.
    ///
    /// # Safety
    /// 128 bytes below `header` must be writable; `header` is 64-aligned.
    pub(super) unsafe fn prepare_frames(header: *mut u8) -> *mut u8 {
        // SAFETY: the caller's condition.
        unsafe {
            let frame = header.cast::<usize>().sub(3);
            frame.add(0).write(0); // rbx
            frame.add(1).write(0); // rbp: ends chains of frame pointers
            frame.add(2).write(start as *const () as usize);
            frame.cast()
        }
    }

    /// The entry of a new fiber: the frame has been popped, so the stack pointer is at the header.
    #[unsafe(naked)]
    unsafe extern "C" fn start() -> ! {
        naked_asm!(
            ".cfi_startproc",
            ".cfi_undefined rip",
            "mov rdi, rsp",
            "call {begin}",
            "ud2",
            ".cfi_endproc",
            begin = sym super::begin,
        )
    }

    /// Saves the continuation and the stack pointer to `*from`, and continues at `to`.
    ///
    /// It is inlined, without `call` and `ret`. So the processor's return prediction stays
    /// balanced, whichever fiber continues, and the compiler saves only the registers that are live
    /// here.
    ///
    /// # Safety
    /// `to` is a stack pointer left by this function or made by [`prepare_frames`], continued once.
    #[inline(always)]
    pub(super) unsafe fn switch(from: *mut *mut u8, to: *mut u8) {
        // SAFETY: all registers that the compiler may use are declared as clobbered. The two that
        // cannot be are saved on the stack that is left. The place behind the jump is reached by a
        // switch back. The rest is the caller's condition.
        unsafe {
            asm!(
                "lea rax, [rip + 2f]",
                "push rax",
                "push rbp",
                "push rbx",
                "mov [rdi], rsp",
                "mov rsp, rsi",
                "pop rbx",
                "pop rbp",
                "pop rax",
                "jmp rax",
                "2:",
                inout("rdi") from => _,
                inout("rsi") to => _,
                lateout("r12") _,
                lateout("r13") _,
                lateout("r14") _,
                lateout("r15") _,
                clobber_abi("C"),
            );
        }
    }

    const _: () = assert!(std::mem::size_of::<FiberHeader>() <= 64);
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use super::FiberHeader;
    use std::arch::{asm, naked_asm};

    /// Writes the frame that the first switch pops, right below `header`, and returns its stack
    /// pointer.
    ///
    /// # Safety
    /// 128 bytes below `header` must be writable; `header` is 64-aligned.
    pub(super) unsafe fn prepare_frames(header: *mut u8) -> *mut u8 {
        // SAFETY: the caller's condition.
        unsafe {
            let frame = header.cast::<usize>().sub(4);
            frame.add(0).write(0); // x29: ends chains of frame pointers
            frame.add(1).write(start as *const () as usize);
            frame.add(2).write(0); // x19
            frame.add(3).write(0); // keeps the stack pointer 16-aligned
            frame.cast()
        }
    }

    /// The entry of a new fiber: the frame has been popped, so the stack pointer is at the header.
    #[unsafe(naked)]
    unsafe extern "C" fn start() -> ! {
        naked_asm!(
            ".cfi_startproc",
            ".cfi_undefined x30",
            "mov x0, sp",
            "bl {begin}",
            "brk #1",
            ".cfi_endproc",
            begin = sym super::begin,
        )
    }

    /// Saves the continuation and the stack pointer to `*from`, and continues at `to`.
    ///
    /// It is inlined, without `bl` and `ret`. So the processor's return prediction stays balanced,
    /// whichever fiber continues, and the compiler saves only the registers that are live here.
    ///
    /// # Safety
    /// `to` is a stack pointer left by this function or made by [`prepare_frames`], continued once.
    #[inline(always)]
    pub(super) unsafe fn switch(from: *mut *mut u8, to: *mut u8) {
        // SAFETY: all registers that the compiler may use are declared as clobbered. The two that
        // cannot be are saved on the stack that is left. The place behind the jump is reached by a
        // switch back. The rest is the caller's condition.
        unsafe {
            asm!(
                "adr x9, 2f",
                "stp x29, x9, [sp, #-32]!",
                "str x19, [sp, #16]",
                "mov x9, sp",
                "str x9, [x0]",
                "mov sp, x1",
                "ldr x19, [sp, #16]",
                "ldp x29, x9, [sp], #32",
                "br x9",
                "2:",
                inout("x0") from => _,
                inout("x1") to => _,
                lateout("x20") _,
                lateout("x21") _,
                lateout("x22") _,
                lateout("x23") _,
                lateout("x24") _,
                lateout("x25") _,
                lateout("x26") _,
                lateout("x27") _,
                lateout("x28") _,
                clobber_abi("C"),
            );
        }
    }

    const _: () = assert!(std::mem::size_of::<FiberHeader>() <= 64);
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("baton-sys has a stack switch for x86_64 and aarch64 only: add one to src/fiber.rs");
