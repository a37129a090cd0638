//! States that a program embeds: a VM whose main process is the program itself, the *host*.
//!
//! The host calls Lua on its own stack, and returns to its own code whenever it wants. So its stack
//! is the main process's stack. Three stacks take part, all on the host's thread:
//!
//! | stack | what is on it |
//! |---|---|
//! | the host's | the program, and the Lua that it calls |
//! | the place | the main process as the executor made it: it waits there while the host has gone |
//! | the base | the loop that runs the VM's stints, and so the executor's own loop |
//!
//! | edge | from | to |
//! |---|---|---|
//! | the host comes ([`baton_host_come`]) | host | base: a stint begins, and wakes the main process on its place -> host |
//! | Lua waits in a call of the host | host | base or another process: the executor's own switch |
//! | that wait is over | base or another process | host: likewise |
//! | the host goes ([`baton_host_go`]) | host | place: the main process suspends itself -> others; at the end of the stint, base -> host |
//! | the VM ends ([`baton_host_end`]) | host | place: the main process ends -> base -> host |
//!
//! The executor notices nothing of the first and the last column: to it, the main process runs from
//! the moment it continues on its place until it suspends itself there. A switch that the executor
//! makes meanwhile saves the stack pointer of the host's stack, and returns to that.
//!
//! A host that comes is more urgent than all others, until it is here: what a program's own thread
//! wants is not delayed by a slice of a script.

use crate::guest::{LuaGuest, set_executor};
use crate::program::describe_overflow;
use baton_capi::write_message;
use baton_core::sched::{Priority, ProcessId, SpawnOptions};
use baton_core::vm::{Inside, Spawned, StintEnd, Vm, WakeAction, Waker};
use baton_sys::clock::Instant;
use baton_sys::fiber::{Fiber, ThreadFiber};
use baton_sys::overflow;
use baton_sys::reserve;
use baton_sys::signals::{self, ThreadHandle};
use baton_sys::stack::{Stack, StackPool};
use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant as Moment};

unsafe extern "C" {
    fn baton_lua_preempt();
    fn baton_lua_set_main_id(process: *mut c_void, id: u64);
}

/// The stack of the base, in bytes. The executor's loop runs there, never a process.
const BASE_STACK: usize = 512 << 10;

/// The stack of the place, in bytes. The main process only waits there.
const PLACE_STACK: usize = 64 << 10;

/// How long the end of a state waits for native threads that are in no call.
const TO_END: Duration = Duration::from_millis(100);

/// `enum baton_lua_stint` of `baton_lua.h`.
const ENDED: c_int = 0;
const IDLE: c_int = 1;
const TIME_IS_UP: c_int = 2;

/// How many hosts there are.
static HOSTS: AtomicUsize = AtomicUsize::new(0);

/// Where the host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// It has gone, or has not come yet.
    Gone,
    /// It is on its way.
    Comes,
    Here,
    /// It goes; the others may run until then.
    Goes(Instant),
    /// The VM ends.
    Ends,
}

/// What a host's thread knows of its VM. Only that thread uses it, but for `vm` and `thread`.
pub(crate) struct Host {
    vm: Arc<Vm>,
    /// The host's thread.
    thread: i32,
    main: ProcessId,
    presence: Cell<Presence>,
    /// How the last stint ended, for the host.
    end: Cell<c_int>,
    /// The host's stack.
    host: ThreadFiber,
    /// The base; `None` before the first stint.
    base: Cell<Option<Fiber>>,
    /// The place, while the main process is there or beneath the host's stack.
    place: Cell<Option<Fiber>>,
    /// Resumes the main process. Made by itself.
    waker: RefCell<Option<Waker>>,
    /// The memory of the base.
    stack: Cell<Option<Stack>>,
    pool: RefCell<StackPool>,
}

extern "C" fn preempt() {
    // SAFETY: async-signal-safe; reads the calling thread's own words.
    unsafe { baton_lua_preempt() }
}

impl Host {
    fn presence(&self) -> Presence {
        self.presence.get()
    }

    /// Leaves the host's stack for another one of the host's. Returns when it is continued.
    ///
    /// # Safety
    /// The caller is on the host's stack, and `to` is suspended.
    unsafe fn leave_for(&self, to: Fiber) {
        // SAFETY: 1. the caller's condition. 2. `to` lives as long as the host, and only this
        // thread continues it; the caller's condition. 3. The host never leaves its thread.
        unsafe { self.host.fiber().switch_to(to) };
    }

    /// Continues the host on its own stack. Returns when `from` is continued.
    ///
    /// # Safety
    /// The caller is on `from`, a stack of this host, and the host's stack is suspended.
    unsafe fn continue_host(&self, from: Fiber) {
        // SAFETY: as in `leave_for`.
        unsafe { from.switch_to(self.host.fiber()) };
    }
}

/// The loop of the base. It ends with the VM.
fn run_stints(host: usize) -> ! {
    // SAFETY: the argument is the host, which lives until this loop has ended.
    let host = unsafe { &*(host as *const Host) };
    let Some(base) = host.base.get() else {
        fail("its base is unknown")
    };
    loop {
        if let Some(waker) = &*host.waker.borrow() {
            waker.wake();
        }
        let mut until = Instant::FAR_FUTURE;
        let end = loop {
            let end = match host.vm.run_until(until) {
                Ok(end) => end,
                Err(refused) => fail(&format!("a stint is refused: {refused:?}")),
            };
            match (host.presence(), end) {
                (_, StintEnd::Ended) => break ENDED,
                (Presence::Goes(_), StintEnd::Idle(_)) => break IDLE,
                (Presence::Goes(_), StintEnd::TimeIsUp) => break TIME_IS_UP,
                // A call of the host waits for something.
                (_, StintEnd::Idle(deadline)) => wait(&host.vm, deadline),
                (_, StintEnd::TimeIsUp) => until = Instant::FAR_FUTURE,
            }
        };
        host.end.set(end);
        host.presence.set(Presence::Gone);
        // SAFETY: this is the base, and the host left its stack for it or for its place.
        unsafe { host.continue_host(base) };
        host.presence.set(Presence::Comes);
    }
}

fn fail(why: &str) -> ! {
    eprintln!("baton: a program that embeds Lua cannot run its processes: {why}");
    std::process::abort();
}

/// Waits until the VM has something to do.
fn wait(vm: &Vm, deadline: Option<Instant>) {
    let timeout = match deadline.filter(|_| !vm.descriptor_has_deadlines()) {
        None => -1,
        Some(deadline) => {
            let left = deadline.saturating_duration_since(Instant::now());
            c_int::try_from(left.as_millis() + 1).unwrap_or(c_int::MAX)
        }
    };
    let mut watched = libc::pollfd {
        fd: vm.descriptor(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one record, writable. After a signal, the VM is asked again.
    unsafe { libc::poll(&raw mut watched, 1, timeout) };
}

/// Has the preemption signal handled, and the faults of processes that have used up their C stack,
/// unless the program handles faults itself. Returns 0, or an errno.
// SAFETY: the only definition of this symbol, with the signature in `hosting/hosting.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_host_handle_signals() -> c_int {
    let handled = signals::install_preempt_handler(preempt)
        .and_then(|()| overflow::set_describe_by_default(describe_overflow));
    match handled {
        Ok(()) => 0,
        Err(error) => error.raw_os_error().unwrap_or(libc::EINVAL),
    }
}

/// Makes the VM of a record, with the calling thread as its home.
///
/// # Safety
/// `record` is a fresh `struct baton_lua_vm`, which belongs to the VM from now on, and `main` the
/// record of its main process. `message` is writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature in `hosting/hosting.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_host_new(
    record: *mut c_void,
    main: *mut c_void,
    message: *mut c_char,
    size: usize,
) -> *const Host {
    // SAFETY: the caller's conditions.
    match unsafe { new(record, main) } {
        Ok(host) => Box::into_raw(host),
        Err(why) => {
            // SAFETY: the caller's condition.
            unsafe { write_message(message, size, &why) };
            std::ptr::null()
        }
    }
}

/// # Safety
/// As for [`baton_host_new`].
unsafe fn new(record: *mut c_void, main: *mut c_void) -> Result<Box<Host>, String> {
    // From here on, dropping the guest frees the record.
    let guest = Arc::new(LuaGuest::hosted(record as usize));
    if !reserve::replenish() {
        return Err("not enough memory".to_owned());
    }
    let vm = Vm::new(guest).map_err(|error| error.to_string())?;
    vm.abandon_calls_at_end();
    // SAFETY: the record is fresh, and its guest lives as long as the VM.
    unsafe { set_executor(record, &vm) };
    let options = SpawnOptions {
        user_data: main as usize,
        ..SpawnOptions::default()
    };
    let pid = vm
        .spawn_first(options, Some(PLACE_STACK), Spawned::Now)
        .map_err(|error| format!("cannot make the main process: {error}"))?;
    vm.prefer_home(pid);
    // SAFETY: the record is that of the process just made, which has not started.
    unsafe { baton_lua_set_main_id(main, pid.to_bits()) };
    let refused = |error: &dyn std::fmt::Display| format!("no stack for the VM: {error}");
    let mut pool = StackPool::new(BASE_STACK).map_err(|error| refused(&error))?;
    let stack = pool.allocate(None).map_err(|error| refused(&error))?;
    let host = Box::new(Host {
        vm,
        thread: ThreadHandle::current().id(),
        main: pid,
        presence: Cell::new(Presence::Gone),
        end: Cell::new(ENDED),
        host: ThreadFiber::new(0),
        base: Cell::new(None),
        place: Cell::new(None),
        waker: RefCell::new(None),
        stack: Cell::new(None),
        pool: RefCell::new(pool),
    });
    // SAFETY: the stack is new, and is recycled after the base has ended.
    let base = unsafe { Fiber::prepare(&stack, run_stints, &raw const *host as usize) };
    host.base.set(Some(base));
    host.stack.set(Some(stack));
    // Relaxed: a count.
    HOSTS.fetch_add(1, Ordering::Relaxed);
    Ok(host)
}

/// The host comes. Returns inside the VM, in the main process.
///
/// # Safety
/// Called on the host's own stack and thread, while the host has gone.
// SAFETY: the only definition of this symbol, with the signature in `hosting/hosting.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_host_come(host: &Host) {
    let Some(base) = host
        .base
        .get()
        .filter(|_| host.presence() == Presence::Gone)
    else {
        fail("the host comes although it has not gone")
    };
    host.presence.set(Presence::Comes);
    // SAFETY: the caller's condition; the base is suspended while the host has gone.
    unsafe { host.leave_for(base) };
}

/// The host goes, and the others run until `deadline`, in nanoseconds.
///
/// # Safety
/// Called on the host's own stack, inside the VM, in the main process.
// SAFETY: the only definition of this symbol, with the signature in `hosting/hosting.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_host_go(host: &Host, deadline: u64) -> c_int {
    let Some(place) = host
        .place
        .get()
        .filter(|_| host.presence() == Presence::Here)
    else {
        fail("the host goes although it is not here")
    };
    host.presence
        .set(Presence::Goes(Instant::from_nanos(deadline)));
    // SAFETY: the caller's condition; the place is suspended while the host is here.
    unsafe { host.leave_for(place) };
    host.end.get()
}

/// The main process, on its place.
///
/// # Safety
/// Called by the main process when it starts, inside the VM.
// SAFETY: the only definition of this symbol, with the signature in `hosting/hosting.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_host_keep_place(host: &Host) {
    // SAFETY: the caller's condition, and each switch back to this stack is made inside.
    let vm = unsafe { Inside::assume(&host.vm) };
    let place = ThreadFiber::new(0);
    host.place.set(Some(place.fiber()));
    *host.waker.borrow_mut() = Some(vm.new_waker(WakeAction::Resume(host.main)));
    loop {
        host.presence.set(Presence::Here);
        // The host's loop may wait for the descriptor before it gives time to the others.
        vm.announce_stint();
        // SAFETY: this is the place. The host has left its own stack: it comes, and so is on the
        // base, or it has just been continued.
        unsafe { host.continue_host(place.fiber()) };
        match host.presence() {
            Presence::Goes(until) => suspend(&vm, host, until),
            _ => break,
        }
    }
    host.place.set(None);
    *host.waker.borrow_mut() = None;
}

/// Suspends the main process until the host comes. It is then the most urgent one.
fn suspend(vm: &Inside<'_>, host: &Host, until: Instant) {
    let priority = vm.sched(|sched| sched.priority(host.main));
    vm.sched(|sched| sched.set_priority(host.main, Priority::HIGHEST));
    vm.limit_stint(until);
    while host.presence() != Presence::Comes {
        let _ = vm.suspend(host.main); // another process may have resumed it
    }
    vm.sched(|sched| sched.set_priority(host.main, priority));
}

/// Ends a VM that has been stopped.
///
/// # Safety
/// `host` is of [`baton_host_new`], and is not used again. Called on the host's own stack, inside
/// the VM, in the main process.
// SAFETY: the only definition of this symbol, with the signature in `hosting/hosting.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_host_end(host: *mut Host) {
    // SAFETY: the caller's condition.
    let host = unsafe { Box::from_raw(host) };
    let Some(place) = host.place.get() else {
        fail("it ends before it has begun")
    };
    host.presence.set(Presence::Ends);
    // SAFETY: the caller's condition; the place is suspended while the host is here.
    unsafe { host.leave_for(place) };
    // The base has ended, and is left for good.
    if let Some(stack) = host.stack.take() {
        host.pool.borrow_mut().recycle(stack);
    }
    // Relaxed: a count.
    HOSTS.fetch_sub(1, Ordering::Relaxed);
    let until = Moment::now() + TO_END;
    // Each thread has a reference until it has ended.
    while Arc::strong_count(&host.vm) > 1 && Moment::now() < until {
        std::thread::sleep(TO_END / 500);
    }
}

/// Stops the VMs that a host's VM has started, if it is the last host.
// SAFETY: the only definition of this symbol, with the signature in `hosting/hosting.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_host_halt_vms(host: &Host) {
    // Relaxed: a count.
    if HOSTS.load(Ordering::Relaxed) == 1 {
        crate::vms::list::end_others(Arc::as_ptr(&host.vm));
    }
}

/// Whether the calling thread is the host's.
// SAFETY: the only definition of this symbol, with the signature in `hosting/hosting.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_host_is_at_home(host: &Host) -> c_int {
    (host.thread == ThreadHandle::current().id()).into()
}
