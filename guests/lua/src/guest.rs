//! Lua as a guest of the runtime.

use crate::inside::trace::calls::before_end;
use crate::inside::trace::flight;
use crate::inside::{self, debug, instant, program, target};
use crate::vms::list::{self, Beside};
use crate::vms::reports;
use crate::wording::WORDING;
use crate::{call_times, own_metrics};
use baton_core::guest::{Guest, RetakePolicy, Unpreempted};
use baton_core::sched::{ProcessId, Wording};
use baton_core::vm::{Inside, Vm};
use baton_observe::observer;
use baton_observe::quit::{self, By, Left};
use baton_sys::activity::threads_of_this_program;
use baton_sys::commands;
use baton_sys::forking::Child;
use baton_sys::signals::Obstacle;
use baton_sys::{gate, thread};
use std::ffi::{c_char, c_int, c_void};
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

unsafe extern "C" {
    fn baton_lua_run(process: *mut c_void);
    fn baton_lua_switched(from: *mut c_void, to: *mut c_void);
    fn baton_lua_arrived(process: *mut c_void);
    fn baton_lua_departed();
    fn baton_lua_retake_policy(process: *mut c_void) -> c_int;
    fn baton_lua_warn_blocked(process: *mut c_void) -> c_int;
    fn baton_lua_has_delayed(vm: *const c_void) -> c_int;
    fn baton_lua_warn_thread(holder: *mut c_void, waiter: *mut c_void, is_bound: c_int);
    fn baton_lua_request_safepoint(process: *mut c_void);
    fn baton_lua_signalled(vm: *mut c_void);
    fn baton_lua_forked();
    fn baton_lua_scheduler_hook(current: *mut c_void, suggested: *mut c_void) -> u64;
    fn baton_lua_switch_hook(from: *mut c_void, to: *mut c_void);
    fn baton_lua_exit_status(vm: *const c_void) -> c_int;
    fn baton_lua_free_vm(vm: *mut c_void);
    fn baton_lua_has_heap(vm: *const c_void) -> c_int;
    fn baton_ffi_may_wake(vm: *const c_void) -> c_int;
    fn baton_ffi_threads(vm: *const c_void) -> c_int;
    fn baton_lua_post_notice(text: *const c_char, size: usize);
    fn baton_lua_end_notices(forever: c_int);
}

/// The guest of one VM.
pub(crate) struct LuaGuest {
    /// `struct baton_lua_vm` of the C half. It outlives the VM.
    pub(crate) record: usize,
    place: PlaceInProgram,
    /// In a fork's child: this VM is the only one, and the program ends with it.
    is_only: AtomicBool,
    /// The number of switches when the last deadlock was suspected.
    switches_at_check: AtomicU64,
    /// How often one was suspected since then.
    checks: AtomicU32,
}

/// Which VM of the program it is.
enum PlaceInProgram {
    /// The first one: the program ends with it.
    First,
    Beside(Arc<Beside>),
    /// That of a state which a program embeds.
    Hosted,
}

/// The time without a switch before the program's threads are counted. It doubles each time.
const FIRST_CHECK: Duration = Duration::from_secs(1);
const MOST_DOUBLINGS: u32 = 12;

/// The result of `baton_ffi_may_wake` if only a callback may wake a process, and no call with a
/// timeout.
const MAY_CALL_BACK: c_int = 1;

fn pointer(user_data: usize) -> *mut c_void {
    user_data as *mut c_void
}

impl LuaGuest {
    /// The guest of the program's first VM.
    pub(crate) fn new(record: usize) -> LuaGuest {
        LuaGuest::of(record, PlaceInProgram::First)
    }

    /// The guest of a state that a program embeds. It frees the record.
    pub(crate) fn hosted(record: usize) -> LuaGuest {
        LuaGuest::of(record, PlaceInProgram::Hosted)
    }

    /// The guest of another VM. It frees the record.
    pub(crate) fn beside(beside: Arc<Beside>) -> LuaGuest {
        LuaGuest::of(beside.record, PlaceInProgram::Beside(beside))
    }

    fn of(record: usize, place: PlaceInProgram) -> LuaGuest {
        LuaGuest {
            record,
            place,
            is_only: AtomicBool::new(false),
            switches_at_check: AtomicU64::new(u64::MAX),
            checks: AtomicU32::new(0),
        }
    }

    /// What is known of this VM if the program has another one that it ends with.
    fn as_beside(&self) -> Option<&Beside> {
        // Relaxed: it changes only in a fork's child, before there is another thread.
        let is_only = self.is_only.load(Ordering::Relaxed);
        match &self.place {
            PlaceInProgram::Beside(beside) if !is_only => Some(beside),
            _ => None,
        }
    }

    /// Whether the program ends with this VM, which has its signals and its observers.
    fn is_programs(&self) -> bool {
        !matches!(self.place, PlaceInProgram::Hosted) && self.as_beside().is_none()
    }

    /// How long to wait before checking again, while a thread outside of the VM may still wake a
    /// process. `None` if no thread can.
    ///
    /// Such a thread wakes a process by a callback or by the end of a call with a timeout. Without
    /// callbacks and such calls, no thread can. Otherwise there must be a thread that is not the
    /// VM's. So the program's threads are counted. That happens only after some time without a
    /// switch. So a program with many callbacks does not pay for it, and threads that are ending
    /// have ended.
    fn next_check(&self, vm: &Inside<'_>) -> Option<Duration> {
        let record = pointer(self.record);
        // SAFETY: the record of the VM outlives it; inside the VM.
        let (may_wake, own) = unsafe { (baton_ffi_may_wake(record), baton_ffi_threads(record)) };
        if may_wake == 0 {
            return None;
        }
        let switches = vm.sched(|sched| sched.counters().switches);
        // Relaxed (all): only the owner uses them, and the VM lock orders one owner's accesses
        // before the next owner's.
        if self.switches_at_check.swap(switches, Ordering::Relaxed) != switches {
            self.checks.store(0, Ordering::Relaxed);
            return Some(FIRST_CHECK);
        }
        let own = vm.own_threads()
            + usize::try_from(own).unwrap_or(0)
            + observer::threads()
            + commands::threads();
        if threads_of_this_program() == Some(own) && may_wake == MAY_CALL_BACK {
            return None;
        }
        let checks = self.checks.fetch_add(1, Ordering::Relaxed) + 1;
        Some(FIRST_CHECK.saturating_mul(1 << checks.min(MOST_DOUBLINGS)))
    }

    /// Writes on standard error what every process is doing. The program waits until it is read
    /// only if it then ends.
    fn report(&self, inside: &Inside<'_>, heading: &str, is_last: bool) {
        let processes = inside.view(instant::of_all);
        let text = format!("baton: {heading}\n{processes}");
        // SAFETY: the text is readable. The first function copies it, and the second one waits.
        unsafe {
            baton_lua_post_notice(text.as_ptr().cast(), text.len());
            if is_last {
                baton_lua_end_notices(1);
            }
        }
    }
}

/// Sets the executor in the C half's record.
///
/// # Safety
/// `record` is a `struct baton_lua_vm`, whose first member is the executor.
pub(crate) unsafe fn set_executor(record: *mut c_void, vm: &Arc<Vm>) {
    // SAFETY: the caller's condition.
    unsafe { record.cast::<*const c_void>().write(Arc::as_ptr(vm).cast()) };
}

impl Drop for LuaGuest {
    /// Frees the record, and the heap of a VM that was halted. The last reference to a VM may be
    /// dropped by a thread of another one, where no other heap is touched.
    fn drop(&mut self) {
        if self.is_programs() {
            return;
        }
        let record = self.record;
        let free = move || {
            // SAFETY: the VM is gone, and with it each of its threads. If there is a heap, this
            // thread is a carrier of no VM.
            unsafe { baton_lua_free_vm(pointer(record)) };
        };
        // SAFETY: as above.
        let has_heap = unsafe { baton_lua_has_heap(pointer(record)) } != 0;
        if has_heap && gate::here().carrier().is_some() {
            // Without room for a thread, the heap stays.
            let _ = thread::start_helper("freeing", free);
        } else {
            free();
        }
    }
}

impl Guest for LuaGuest {
    fn run<'vm>(&self, vm: Inside<'vm>, _process: ProcessId, user_data: usize) -> Inside<'vm> {
        // SAFETY: the user data is the record of the process that starts on this stack, inside the
        // VM.
        unsafe { baton_lua_run(pointer(user_data)) };
        if vm.is_stopped() && self.is_programs() {
            list::halt_others(&raw const *vm);
            // The main process has closed Lua's state, so the program ends here. It cannot wait for
            // the home thread, which may be in a call that never returns. SAFETY: the record of
            // the VM outlives it.
            std::process::exit(unsafe { baton_lua_exit_status(pointer(self.record)) });
        }
        vm
    }

    fn switched(&self, from: Option<usize>, to: Option<usize>) {
        // SAFETY: both are records of live processes, or null. The caller owns the VM, and is on
        // the thread that switches.
        unsafe { baton_lua_switched(pointer(from.unwrap_or(0)), pointer(to.unwrap_or(0))) }
    }

    fn arrived(&self, user_data: usize) {
        // SAFETY: the record of a process that continues on this thread, and on no other.
        unsafe { baton_lua_arrived(pointer(user_data)) }
    }

    fn departed(&self) {
        // SAFETY: a process is about to leave this thread, outside of the VM.
        unsafe { baton_lua_departed() }
    }

    fn retake_policy(&self, user_data: usize) -> RetakePolicy {
        // SAFETY: the process is outside and the VM was taken from it, so its states do not change.
        match unsafe { baton_lua_retake_policy(pointer(user_data)) } {
            0 => RetakePolicy::Stay,
            policy => RetakePolicy::Retake {
                pinned: policy == 2,
            },
        }
    }

    fn warn_blocked(&self, user_data: usize) {
        // SAFETY: as for `retake_policy`.
        let has_warned = unsafe { baton_lua_warn_blocked(pointer(user_data)) != 0 };
        if has_warned && let Some(vm) = program() {
            flight::write_beside(vm, "stall");
        }
    }

    fn warn_unpreempted(&self, obstacle: Obstacle) {
        let mut line = [0; 512];
        let mut rest = &mut line[..];
        // The line has room for each of the texts.
        let _ = writeln!(rest, "baton: warning: {}", Unpreempted(obstacle));
        let left = rest.len();
        let size = line.len() - left;
        // SAFETY: the text is readable, and is copied.
        unsafe { baton_lua_post_notice(line.as_ptr().cast(), size) };
    }

    fn has_delayed(&self) -> bool {
        // SAFETY: the record of the VM outlives it; inside the VM.
        unsafe { baton_lua_has_delayed(pointer(self.record)) != 0 }
    }

    fn warn_thread(&self, holder: usize, waiter: usize, is_bound: bool) {
        // SAFETY: both are records of living processes, and no other thread can get the VM.
        unsafe { baton_lua_warn_thread(pointer(holder), pointer(waiter), c_int::from(is_bound)) }
    }

    fn request_safepoint(&self, user_data: usize) {
        // SAFETY: the record of a live process that is not running. The caller owns the VM.
        unsafe { baton_lua_request_safepoint(pointer(user_data)) }
    }

    fn scheduler_hook(
        &self,
        _inside: &Inside<'_>,
        current: Option<usize>,
        suggested: usize,
    ) -> Option<ProcessId> {
        // SAFETY: both are records of living processes, or null. Inside the VM, and no process runs
        // on this thread.
        ProcessId::from_bits(unsafe {
            baton_lua_scheduler_hook(pointer(current.unwrap_or(0)), pointer(suggested))
        })
    }

    fn switch_hook(&self, _inside: &Inside<'_>, from: Option<usize>, to: Option<usize>) {
        // SAFETY: as for `scheduler_hook`. At least one is not null.
        unsafe { baton_lua_switch_hook(pointer(from.unwrap_or(0)), pointer(to.unwrap_or(0))) }
    }

    fn may_be_woken(&self, inside: &Inside<'_>) -> Option<Duration> {
        let its_debugger_may_let_it_go_on = debug::has_stopped().then_some(FIRST_CHECK);
        self.next_check(inside).or(its_debugger_may_let_it_go_on)
    }

    fn deadlocked(&self, inside: &Inside<'_>) -> Option<Duration> {
        reports::report_the_others(inside);
        flight::write_now(inside, "deadlock");
        before_end(inside);
        let which = self
            .as_beside()
            .map(|beside| format!(" ({})", beside.title()));
        let which = which.unwrap_or_default();
        let heading = format!("deadlock: no process can ever run again{which}");
        self.report(inside, &heading, true);
        std::process::exit(1);
    }

    fn forked(&self, _inside: &Inside<'_>, _user_data: usize) {
        // SAFETY: the calling process has forked, so this thread's gate has its record. (While the
        // state is being closed, the scheduler's user data is not a record any more.) Inside the
        // VM, and no other process runs.
        unsafe {
            inside::renew_in_child();
            call_times::renew_in_child();
            own_metrics::renew_in_child(&Child::assume());
            debug::forked();
            baton_lua_forked();
            list::renew_in_child(&Child::assume());
        }
        // Relaxed: as in `as_beside`.
        self.is_only.store(true, Ordering::Relaxed);
    }

    fn wording(&self) -> &'static Wording {
        &WORDING
    }

    fn signalled(&self, inside: &Inside<'_>) {
        if matches!(self.place, PlaceInProgram::Hosted) {
            return; // signals are the program's
        }
        if let Some(beside) = self.as_beside() {
            // Signals and observers are the first VM's.
            if beside.takes_report() {
                self.report(inside, &format!("processes of {}", beside.title()), false);
            }
            return;
        }
        // SAFETY: the record of the VM outlives it; inside the VM.
        unsafe { baton_lua_signalled(pointer(self.record)) };
        if quit::serve(By::Owner, target()) == Left::Report {
            self.report(inside, "processes", false);
            list::ask_for_reports();
        }
    }

    fn signal_waits(&self) {
        if !self.is_programs() {
            return;
        }
        // A report is the owner's.
        let _ = quit::serve(By::Monitor, target());
    }
}
