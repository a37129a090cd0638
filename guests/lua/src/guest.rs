//! Lua as a guest of the runtime.

use crate::call_times;
use crate::inside::trace::calls::before_end;
use crate::inside::trace::flight;
use crate::inside::{self, debug, program, stacks, target};
use crate::vms;
use crate::wording::WORDING;
use baton_core::guest::{Guest, RetakePolicy};
use baton_core::sched::{ProcessId, Wording};
use baton_core::vm::{Inside, View, Vm};
use baton_observe::observer;
use baton_observe::quit::{self, By, Left};
use baton_sys::activity::threads_of_this_program;
use baton_sys::forking::Child;
use std::ffi::{c_char, c_int, c_void};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

unsafe extern "C" {
    fn baton_lua_run(process: *mut c_void);
    fn baton_lua_switched(from: *mut c_void, to: *mut c_void);
    fn baton_lua_arrived(process: *mut c_void);
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
    fn baton_ffi_may_wake(vm: *const c_void) -> c_int;
    fn baton_ffi_threads(vm: *const c_void) -> c_int;
    fn baton_lua_post_notice(text: *const c_char, size: usize);
    fn baton_lua_end_notices(forever: c_int);
}

/// The guest of one VM.
pub(crate) struct LuaGuest {
    /// `struct baton_vm` of the C half. It outlives the VM.
    pub(crate) record: usize,
    /// Whether the program has another VM that it ends with.
    is_beside: AtomicBool,
    /// For reports. Of the program's first VM: empty.
    name: String,
    /// Whether a report on this VM's processes was asked for.
    must_report: AtomicBool,
    /// The number of switches when the last deadlock was suspected.
    switches_at_check: AtomicU64,
    /// How often one was suspected since then.
    checks: AtomicU32,
}

/// The time without a switch before the program's threads are counted. It doubles each time.
const FIRST_CHECK: Duration = Duration::from_secs(1);
const MOST_DOUBLINGS: u32 = 12;

/// How long a report waits for a VM that is idle.
const PATIENCE: Duration = Duration::from_secs(1);

/// The result of `baton_ffi_may_wake` if only a callback may wake a process, and no call with a
/// timeout.
const MAY_CALL_BACK: c_int = 1;

/// The maximal number of frames of each stack that a report reads: one more than it shows.
const MOST_REPORTED: c_int = 23;

fn pointer(user_data: usize) -> *mut c_void {
    user_data as *mut c_void
}

impl LuaGuest {
    /// The guest of the program's first VM.
    pub(crate) fn new(record: usize) -> LuaGuest {
        LuaGuest::of(record, false, String::new())
    }

    /// The guest of another VM. It frees the record.
    pub(crate) fn beside(record: usize, name: String) -> LuaGuest {
        LuaGuest::of(record, true, name)
    }

    fn of(record: usize, is_beside: bool, name: String) -> LuaGuest {
        LuaGuest {
            record,
            is_beside: AtomicBool::new(is_beside),
            name,
            must_report: AtomicBool::new(false),
            switches_at_check: AtomicU64::new(u64::MAX),
            checks: AtomicU32::new(0),
        }
    }

    /// Asks the owner of the VM for a report on its processes.
    pub(crate) fn ask_for_report(&self, vm: &Vm) {
        // AcqRel: as in `signalled`.
        self.must_report.swap(true, Ordering::AcqRel);
        vm.request_signalled();
    }

    fn is_beside(&self) -> bool {
        // Relaxed: it changes only in a fork's child, before there is another thread.
        self.is_beside.load(Ordering::Relaxed)
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
        let own = vm.own_threads() + usize::try_from(own).unwrap_or(0) + observer::threads();
        if threads_of_this_program() == Some(own) && may_wake == MAY_CALL_BACK {
            return None;
        }
        let checks = self.checks.fetch_add(1, Ordering::Relaxed) + 1;
        Some(FIRST_CHECK.saturating_mul(1 << checks.min(MOST_DOUBLINGS)))
    }

    /// Writes what every process is doing.
    fn write_processes(view: &View<'_>) -> String {
        let names = view.thread_names();
        let all = view.sched().iter();
        let processes = all.map(|process| stacks::process(view, &names, process, MOST_REPORTED));
        processes.fold(String::new(), |mut text, process| {
            // A string takes all that is written to it.
            let _ = write!(text, "{process}");
            text
        })
    }

    /// What the processes of another VM are doing. `of` says which VM it is.
    pub(crate) fn describe(vm: &Vm, of: &str) -> String {
        let processes = vm.look(PATIENCE, |view| Self::write_processes(view));
        format!(
            "baton: processes of {of}\n{}",
            processes.unwrap_or_default()
        )
    }

    /// Which VM this is, for reports. The program's first one has no name.
    pub(crate) fn title(&self) -> String {
        format!("VM '{}'", self.name)
    }

    /// Writes on standard error what every process is doing. The program waits until it is read
    /// only if it then ends.
    fn report(&self, inside: &Inside<'_>, heading: &str, is_last: bool) {
        let processes = inside.view(|view| Self::write_processes(view));
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

impl Drop for LuaGuest {
    fn drop(&mut self) {
        if self.is_beside() {
            // SAFETY: the VM is gone, and with it each of its threads.
            unsafe { baton_lua_free_vm(pointer(self.record)) };
        }
    }
}

impl Guest for LuaGuest {
    fn run<'vm>(&self, vm: Inside<'vm>, _process: ProcessId, user_data: usize) -> Inside<'vm> {
        // SAFETY: the user data is the record of the process that starts on this stack, inside the
        // VM.
        unsafe { baton_lua_run(pointer(user_data)) };
        if vm.is_stopped() && !self.is_beside() {
            vms::halt_others(&raw const *vm);
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

    fn deadlocked(&self, inside: &Inside<'_>) -> Option<Duration> {
        if let Some(later) = self.next_check(inside) {
            return Some(later);
        }
        if debug::has_stopped() {
            return Some(FIRST_CHECK); // its debugger may let it go on
        }
        // Another VM may end such a wait.
        if inside.sched(|sched| sched.shared_waits()) > 0 {
            inside.mark_stuck();
            if !vms::all_are_stuck(inside) {
                return None; // the last one that gets stuck reports it
            }
            vms::report_the_others(inside);
        }
        flight::write_now(inside, "deadlock");
        before_end(inside);
        let which = if self.is_beside() {
            format!(" ({})", self.title())
        } else {
            String::new()
        };
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
            debug::forked();
            baton_lua_forked();
            vms::renew_in_child(&Child::assume());
        }
        // Relaxed: as in `is_beside`.
        self.is_beside.store(false, Ordering::Relaxed);
    }

    fn wording(&self) -> &'static Wording {
        &WORDING
    }

    fn signalled(&self, inside: &Inside<'_>) {
        if self.is_beside() {
            // Signals and observers are the first VM's. AcqRel: pairs with itself, so that each
            // request is answered once.
            if self.must_report.swap(false, Ordering::AcqRel) {
                self.report(inside, &format!("processes of {}", self.title()), false);
            }
            return;
        }
        // SAFETY: the record of the VM outlives it; inside the VM.
        unsafe { baton_lua_signalled(pointer(self.record)) };
        if quit::serve(By::Owner, target()) == Left::Report {
            self.report(inside, "processes", false);
            vms::ask_for_reports();
        }
    }

    fn signal_waits(&self) {
        if self.is_beside() {
            return;
        }
        // A report is the owner's.
        let _ = quit::serve(By::Monitor, target());
    }
}
