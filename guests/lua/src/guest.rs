//! Lua as a guest of the runtime.

use baton_core::guest::{Guest, Judgement};
use baton_core::kernel::{Blocker, CarrierId, Kernel, ProcessId, State};
use baton_core::vm::{Context, Vm};
use baton_sys::activity::threads_of_this_program;
use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{OnceLock, Weak};
use std::time::Duration;

unsafe extern "C" {
    fn baton_lua_run(process: *mut c_void);
    fn baton_lua_switched(from: *mut c_void, to: *mut c_void);
    fn baton_lua_arrived(process: *mut c_void);
    fn baton_lua_judge(process: *mut c_void) -> c_int;
    fn baton_lua_warn_blocked(process: *mut c_void);
    fn baton_lua_request_safepoint(process: *mut c_void);
    fn baton_lua_signalled(vm: *mut c_void);
    fn baton_lua_report_wanted() -> c_int;
    fn baton_lua_forked();
    fn baton_lua_choose(current: *mut c_void, suggested: *mut c_void) -> u64;
    fn baton_lua_tell_switch(from: *mut c_void, to: *mut c_void);
    fn baton_lua_exit_status() -> c_int;
    fn baton_ffi_may_wake(vm: *const c_void) -> c_int;
    fn baton_ffi_threads(vm: *const c_void) -> c_int;
    fn baton_lua_report_process(process: *mut c_void, state: *const c_char, blocker: *const c_char);
}

/// The guest of one VM.
pub(crate) struct LuaGuest {
    /// `struct baton_vm` of the C half; outlives the VM.
    pub(crate) record: usize,
    pub(crate) vm: OnceLock<Weak<Vm>>,
    /// The number of switches when no process could go on last.
    switches_at_look: AtomicU64,
    /// How often nobody could go on since then.
    looks: AtomicU32,
}

/// How long nothing happens before the program's threads are counted; each time after twice as long as before.
const FIRST_LOOK: Duration = Duration::from_secs(1);
const MOST_DOUBLINGS: u32 = 12;

/// What `baton_ffi_may_wake` answers if there is a callback, and no call that can be given up.
const MAY_CALL_BACK: c_int = 1;

/// Names of native threads.
type ThreadNames = HashMap<CarrierId, String>;

fn pointer(word: usize) -> *mut c_void {
    word as *mut c_void
}

impl LuaGuest {
    pub(crate) fn new(record: usize) -> LuaGuest {
        LuaGuest {
            record,
            vm: OnceLock::new(),
            switches_at_look: AtomicU64::new(u64::MAX),
            looks: AtomicU32::new(0),
        }
    }

    /// When to look again whether a thread that is none of ours may yet wake a process, by calling back or by ending a call; `None` if none may.
    ///
    /// As long as there is neither a callback nor such a call, that is certain. Else it takes another thread: the program's threads are counted,
    /// once nothing has happened for a while, so that who is called back often does not pay for it, and threads that were ending have ended.
    fn hopes(&self) -> Option<Duration> {
        let vm = self.vm()?;
        let record = pointer(self.record);
        // SAFETY: the record of the VM outlives it; inside the VM.
        let (may_wake, own) = unsafe { (baton_ffi_may_wake(record), baton_ffi_threads(record)) };
        if may_wake == 0 {
            return None;
        }
        let switches = vm.kernel(|kernel| kernel.counters().switches);
        // Relaxed (all): the owner's alone; the VM lock orders one owner's accesses before the next one's.
        if self.switches_at_look.swap(switches, Ordering::Relaxed) != switches {
            self.looks.store(0, Ordering::Relaxed);
            return Some(FIRST_LOOK);
        }
        let own = vm.own_threads() + usize::try_from(own).unwrap_or(0);
        if threads_of_this_program() == Some(own) && may_wake == MAY_CALL_BACK {
            return None;
        }
        let looks = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
        Some(FIRST_LOOK.saturating_mul(1 << looks.min(MOST_DOUBLINGS)))
    }

    fn vm(&self) -> Option<std::sync::Arc<Vm>> {
        self.vm.get()?.upgrade()
    }

    /// Writes what every process is doing to standard error. Inside the VM.
    fn report(&self, heading: &str) {
        let Some(vm) = self.vm() else { return };
        let names = vm.thread_names();
        let lines: Vec<(usize, &'static str, String)> = vm.kernel(|kernel| {
            let processes: Vec<ProcessId> = kernel.iter().collect();
            processes.into_iter().map(|pid| describe(kernel, &names, pid)).collect()
        });
        // Nobody else gets the VM while the C half reads the states.
        vm.set_retaking(false);
        vm.foreign(|| {
            eprintln!("baton: {heading}");
            for (word, state, blocker) in &lines {
                let (state, blocker) = (CString::new(*state), CString::new(blocker.as_str()));
                let (Ok(state), Ok(blocker)) = (state, blocker) else {
                    continue;
                };
                // SAFETY: the word is a live record (the list was taken from the kernel inside the VM, and nobody has run since), and
                // the function only reads the states of processes that are parked or outside.
                unsafe { baton_lua_report_process(pointer(*word), state.as_ptr(), blocker.as_ptr()) };
            }
        });
        vm.set_retaking(true);
    }
}

fn describe(kernel: &Kernel<Context>, names: &ThreadNames, pid: ProcessId) -> (usize, &'static str, String) {
    let state = match kernel.state(pid) {
        State::Running => "running",
        State::Runnable => "runnable",
        State::Waiting => "waiting",
        State::Sleeping => "sleeping",
        State::Suspended => "suspended",
        State::Foreign => "foreign",
        State::Dead => "dead",
    };
    (kernel.guest(pid), state, blocker(kernel, names, pid))
}

/// What a process waits for, as reports say it; empty if it waits for nothing.
pub(crate) fn blocker(kernel: &Kernel<Context>, names: &ThreadNames, pid: ProcessId) -> String {
    match kernel.blocker(pid) {
        None => String::new(),
        Some(Blocker::Sleep) => "until a time".into(),
        Some(Blocker::Join(_)) => "for the end of another process (join)".into(),
        Some(Blocker::Rest) => "for the end of all other processes".into(),
        Some(Blocker::Semaphore(_)) => "for a semaphore".into(),
        Some(Blocker::Mutex(_)) => "for a mutex".into(),
        Some(Blocker::Condition(_)) => "for a condition".into(),
        Some(Blocker::Event(_)) => "for an event".into(),
        Some(Blocker::Read(_)) => "to read under a lock".into(),
        Some(Blocker::Write(_)) => "to write under a lock".into(),
        Some(Blocker::Barrier(_)) => "for others at a barrier".into(),
        Some(Blocker::Send(_)) => "to send to a channel".into(),
        Some(Blocker::Receive(_)) => "to receive from a channel".into(),
        Some(Blocker::Select(cases)) => format!("in a select of {cases} cases"),
        Some(Blocker::Queue(_)) => "for a file or a module in use".into(),
        Some(Blocker::Descriptor(number)) => format!("for descriptor {number}"),
        Some(Blocker::Descriptors(count)) => format!("for one of {count} descriptors"),
        Some(Blocker::Thread(carrier)) => match names.get(&carrier) {
            Some(name) => format!("for the thread '{name}', which is out in a call of another process"),
            None => "for its native thread, which is out in a call of another process".into(),
        },
    }
}

impl Guest for LuaGuest {
    fn run(&self, _process: ProcessId, word: usize) {
        // SAFETY: the word is the record of the process that starts on this stack, inside the VM.
        unsafe { baton_lua_run(pointer(word)) };
        if self.vm().is_some_and(|vm| vm.is_stopped()) {
            // The main process has closed Lua's state. The program ends here, on whatever thread: home may be out in a
            // call that never returns.
            // SAFETY: no conditions.
            std::process::exit(unsafe { baton_lua_exit_status() });
        }
    }

    fn switched(&self, from: Option<usize>, to: Option<usize>) {
        // SAFETY: the words are records of live processes; the caller owns the VM and is on the thread that switches.
        unsafe { baton_lua_switched(pointer(from.unwrap_or(0)), pointer(to.unwrap_or(0))) }
    }

    fn arrived(&self, word: usize) {
        // SAFETY: the record of a process that continues on this thread, and on no other.
        unsafe { baton_lua_arrived(pointer(word)) }
    }

    fn judge(&self, word: usize) -> Judgement {
        // SAFETY: the process is outside, the VM was taken from it, and so its states are still.
        match unsafe { baton_lua_judge(pointer(word)) } {
            0 => Judgement::Stay,
            verdict => Judgement::Retake { pinned: verdict == 2 },
        }
    }

    fn warn_blocked(&self, word: usize) {
        // SAFETY: as for `judge`.
        unsafe { baton_lua_warn_blocked(pointer(word)) }
    }

    fn request_safepoint(&self, word: usize) {
        // SAFETY: the record is that of a live process that is not running; the caller owns the VM.
        unsafe { baton_lua_request_safepoint(pointer(word)) }
    }

    fn choose(&self, current: Option<usize>, suggested: usize) -> Option<ProcessId> {
        // SAFETY: the words are records of living processes; inside the VM, and no process runs on this thread.
        ProcessId::from_bits(unsafe { baton_lua_choose(pointer(current.unwrap_or(0)), pointer(suggested)) })
    }

    fn switching(&self, from: Option<usize>, to: Option<usize>) {
        // SAFETY: as for `choose`; the runtime names one of the two at least.
        unsafe { baton_lua_tell_switch(pointer(from.unwrap_or(0)), pointer(to.unwrap_or(0))) }
    }

    fn deadlocked(&self) -> Option<Duration> {
        if let Some(later) = self.hopes() {
            return Some(later);
        }
        self.report("deadlock: no process can ever run again");
        std::process::exit(1);
    }

    fn forked(&self, _word: usize) {
        // SAFETY: a process has forked and is the calling one, so its record is that of this thread's gate (while the state is being closed, the
        // kernel's word is no longer one); inside the VM, and no other process runs any more.
        unsafe { baton_lua_forked() }
    }

    fn signalled(&self) {
        // SAFETY: the record of the VM outlives it; inside the VM.
        unsafe { baton_lua_signalled(pointer(self.record)) };
        // SAFETY: no conditions.
        if unsafe { baton_lua_report_wanted() } != 0 {
            self.report("processes");
        }
    }
}
