//! A guest that is a table of functions in C: `struct baton_guest`.

use crate::engine::Engine;
use crate::fingerprints::Fingerprints;
use crate::functions::gate::{check_return_of_run, in_callback, mistake};
use baton_core::guest::{Guest, RetakePolicy};
use baton_core::sched::ProcessId;
use baton_core::vm::{Inside, Vm};
use baton_sys::gate;
use baton_sys::signals::{PreemptTarget, preempt_this_thread_by};
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;

/// `struct baton_guest`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CTable {
    pub(crate) size: usize,
    pub(crate) run: Option<unsafe extern "C" fn(*mut c_void, *const Vm, u64, usize)>,
    pub(crate) preempt: Option<extern "C" fn(*mut c_void)>,
    pub(crate) switched: Option<unsafe extern "C" fn(*mut c_void, usize, usize)>,
    pub(crate) retake_policy: Option<unsafe extern "C" fn(*mut c_void, usize) -> c_int>,
    pub(crate) request_safepoint: Option<unsafe extern "C" fn(*mut c_void, usize)>,
    pub(crate) deadlocked: Option<unsafe extern "C" fn(*mut c_void, *const Vm)>,
    pub(crate) signalled: Option<unsafe extern "C" fn(*mut c_void, *const Vm)>,
    pub(crate) forked: Option<unsafe extern "C" fn(*mut c_void, *const Vm, usize)>,
    pub(crate) warn_stalled: Option<unsafe extern "C" fn(*mut c_void, usize)>,
    pub(crate) departed: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(crate) fingerprint: Option<unsafe extern "C" fn(*mut c_void) -> u64>,
    pub(crate) choose: Option<unsafe extern "C" fn(*mut c_void, *const Vm, usize, usize) -> u64>,
    pub(crate) noted: Option<unsafe extern "C" fn(*mut c_void, *const Vm, usize, usize)>,
}

/// The bytes up to the end of the last member that a guest must give.
const LEAST: usize = offset_of!(CTable, switched);

/// Of `enum baton_policy`.
const STAY: c_int = 0;
const RETAKE_PINNED: c_int = 2;

impl CTable {
    /// A copy of a guest's table, which may be that of an older header. `None` if it lacks what a
    /// guest must give.
    ///
    /// # Safety
    /// `table` is readable for as many bytes as its first member says.
    pub(crate) unsafe fn read(table: *const CTable) -> Option<CTable> {
        // SAFETY: the caller's condition.
        let size = unsafe { table.cast::<usize>().read() };
        if size < LEAST {
            return None;
        }
        // SAFETY: all zero is a table without functions.
        let mut copy: CTable = unsafe { std::mem::zeroed() };
        // SAFETY: both are as large as that, by the caller's condition.
        unsafe {
            std::ptr::copy_nonoverlapping(
                table.cast::<u8>(),
                (&raw mut copy).cast::<u8>(),
                size.min(size_of::<CTable>()),
            );
        }
        (copy.run.is_some() && copy.preempt.is_some()).then_some(copy)
    }
}

/// What the signal handler calls for a guest.
struct PreemptCall {
    preempt: extern "C" fn(*mut c_void),
    guest: *mut c_void,
}

// SAFETY: the pointer is only handed back to the guest's function, in the signal handler of the
// thread that runs a process of its VM.
unsafe impl Send for PreemptCall {}
// SAFETY: as for `Send`.
unsafe impl Sync for PreemptCall {}

/// Makes `baton_wants_safepoint` say yes, and arms the guest's poll. A guest may use either of
/// them. A request that is repeated comes by the signal alone.
extern "C" fn preempt(call: *mut c_void) {
    let here = gate::here();
    if here.value() & 1 == 0 {
        here.set_attention();
    }
    // SAFETY: the call is that of the VM whose process runs on this thread, and lives as long.
    let call = unsafe { &*call.cast::<PreemptCall>() };
    (call.preempt)(call.guest);
}

/// The guest of one VM.
pub(crate) struct CGuest {
    table: CTable,
    guest: *mut c_void,
    /// What preempts on the VM's threads. Its argument is `_call`.
    target: PreemptTarget,
    _call: Arc<PreemptCall>,
    engine: Engine,
    /// Of debug builds.
    fingerprints: Fingerprints,
}

// SAFETY: the pointer is only handed back to the guest's functions, which `baton.h` says may be
// called by the VM's threads, and which of them at the same time.
unsafe impl Send for CGuest {}
// SAFETY: as for `Send`.
unsafe impl Sync for CGuest {}

impl CGuest {
    /// `None` if the table has no `preempt`.
    pub(crate) fn new(table: CTable, guest: *mut c_void) -> Option<CGuest> {
        let call = Arc::new(PreemptCall {
            preempt: table.preempt?,
            guest,
        });
        let target = PreemptTarget {
            preempt,
            argument: Arc::as_ptr(&call).cast_mut().cast(),
        };
        Some(CGuest {
            table,
            guest,
            target,
            _call: call,
            engine: Engine::default(),
            fingerprints: Fingerprints::default(),
        })
    }

    /// Puts away the engine's state of the process `from`, and brings back that of `to`. 0: of
    /// none.
    fn exchange(&self, from: usize, to: usize) {
        if cfg!(debug_assertions)
            && from != 0
            && let Some(left) = self.fingerprint()
        {
            self.fingerprints.note(from, left);
        }
        if let Some(switched) = self.table.switched {
            // SAFETY: the caller owns the VM, and is on the thread that switches.
            in_callback("switched", || unsafe { switched(self.guest, from, to) });
        }
        if cfg!(debug_assertions)
            && to != 0
            && let Some(found) = self.fingerprint()
            && let Err(differs) = self.fingerprints.compare(to, found)
        {
            mistake(&differs.message(to));
        }
    }

    /// A number for what the engine has.
    fn fingerprint(&self) -> Option<u64> {
        let fingerprint = self.table.fingerprint?;
        // SAFETY: as in `exchange`.
        Some(in_callback("fingerprint", || unsafe {
            fingerprint(self.guest)
        }))
    }

    /// To be called before the guest is called inside without a switch.
    fn settle(&self) {
        self.engine.settle(|from, to| self.exchange(from, to));
    }
}

impl Guest for CGuest {
    fn run<'vm>(&self, vm: Inside<'vm>, process: ProcessId, user_data: usize) -> Inside<'vm> {
        if let Some(run) = self.table.run {
            // SAFETY: on the process's stack, inside the VM.
            unsafe { run(self.guest, &raw const *vm, process.to_bits(), user_data) };
            check_return_of_run();
            self.engine.process_has_ended();
        }
        vm
    }

    fn switched(&self, _from: Option<usize>, to: Option<usize>) {
        // SAFETY: this guest outlives the VM's threads, which run no other VM; `baton_vm_run` takes
        // it from the thread that it returns on.
        unsafe { preempt_this_thread_by(&raw const self.target) };
        self.engine
            .switch(to.unwrap_or(0), |from, to| self.exchange(from, to));
    }

    fn retake_policy(&self, user_data: usize) -> RetakePolicy {
        let policy = self.table.retake_policy.map(|policy| {
            // SAFETY: the process is outside, and the VM was taken from it.
            in_callback("retake_policy", || unsafe { policy(self.guest, user_data) })
        });
        match policy {
            Some(STAY) => RetakePolicy::Stay,
            policy => {
                self.engine.call_has_lost_vm();
                RetakePolicy::Retake {
                    pinned: policy == Some(RETAKE_PINNED),
                }
            }
        }
    }

    fn warn_blocked(&self, user_data: usize) {
        if let Some(warn) = self.table.warn_stalled {
            // SAFETY: as for `retake_policy`.
            in_callback("warn_stalled", || unsafe { warn(self.guest, user_data) });
        }
    }

    fn departed(&self) {
        if let Some(departed) = self.table.departed {
            // SAFETY: on the thread of the call.
            in_callback("departed", || unsafe { departed(self.guest) });
        }
    }

    fn user_data_changed(&self, before: usize, after: usize) {
        self.engine.rename(before, after);
        if cfg!(debug_assertions) {
            self.fingerprints.rename(before, after);
        }
    }

    fn request_safepoint(&self, user_data: usize) {
        self.settle();
        if let Some(request) = self.table.request_safepoint {
            // SAFETY: the process lives and does not run. The caller owns the VM.
            in_callback("request_safepoint", || unsafe {
                request(self.guest, user_data);
            });
        }
    }

    fn scheduler_hook(
        &self,
        vm: &Inside<'_>,
        current: Option<usize>,
        suggested: usize,
    ) -> Option<ProcessId> {
        let choose = self.table.choose?;
        self.settle();
        let left = current.unwrap_or(0);
        // SAFETY: inside the VM, and no process is current.
        let chosen = unsafe { choose(self.guest, &raw const **vm, left, suggested) };
        ProcessId::from_bits(chosen)
    }

    fn switch_hook(&self, vm: &Inside<'_>, from: Option<usize>, to: Option<usize>) {
        if let Some(noted) = self.table.noted {
            self.settle();
            let (from, to) = (from.unwrap_or(0), to.unwrap_or(0));
            // SAFETY: as in `scheduler_hook`.
            unsafe { noted(self.guest, &raw const **vm, from, to) };
        }
    }

    fn deadlocked(&self, vm: &Inside<'_>) -> Option<Duration> {
        let Some(deadlocked) = self.table.deadlocked else {
            eprintln!("baton: deadlock: no process can ever run again");
            vm.stop_in_deadlock();
            return None;
        };
        self.settle();
        // SAFETY: inside the VM.
        unsafe { deadlocked(self.guest, &raw const **vm) };
        None
    }

    fn forked(&self, vm: &Inside<'_>, user_data: usize) {
        self.engine
            .keep_only(user_data, |from, to| self.exchange(from, to));
        if let Some(forked) = self.table.forked {
            // SAFETY: inside the VM, on the only thread.
            unsafe { forked(self.guest, &raw const **vm, user_data) };
        }
    }

    fn signalled(&self, vm: &Inside<'_>) {
        if let Some(signalled) = self.table.signalled {
            self.settle();
            // SAFETY: inside the VM.
            unsafe { signalled(self.guest, &raw const **vm) };
        }
    }
}
