//! A program: one VM, its main process on the program's first thread, and the exit status.

use crate::guest::{LuaGuest, set_executor};
use crate::inside;
use crate::inside::trace::calls::trace_run;
use baton_core::recording::Recording;
use baton_core::sched::SpawnOptions;
use baton_core::vm::{Spawned, Vm};
use baton_sys::{commands, overflow, reserve, signals};
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A `lua_CFunction`.
pub(crate) type LuaFunction = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

/// Reports the error on the top of a `lua_State`'s stack, and pops it.
pub(crate) type ErrorReport = unsafe extern "C" fn(*mut c_void);

unsafe extern "C" {
    fn baton_lua_preempt();
    fn baton_vms_install();
    fn baton_lua_new_vm(progname: *const c_char) -> *mut c_void;
    fn baton_lua_new_main(
        vm: *mut c_void,
        body: LuaFunction,
        report: ErrorReport,
        argc: c_int,
        argv: *mut *mut c_char,
    ) -> *mut c_void;
    fn baton_lua_set_main_id(process: *mut c_void, id: u64);
    fn baton_lua_simulate(seed: u64, failed: Option<extern "C" fn(c_int)>);
    fn baton_lua_report_overflow(address: usize) -> c_int;
}

/// A simulated run.
#[derive(Clone, Copy, Debug)]
pub struct Simulation {
    /// The seed that decides what chance decides.
    pub seed: u64,
    /// Where the run is recorded, if it is; see [`Recording`].
    pub recording: Option<Recording>,
    /// The file that the run is written to as a trace, if it is.
    pub trace: Option<&'static Path>,
    /// Called last, with the exit status, if the program ends with another status than 0.
    pub failed: Option<extern "C" fn(c_int)>,
}

/// The stack size of the main process: the usual one of a program's main thread.
const MAIN_STACK: usize = 8 << 20;

/// The VM of the program. It is never freed, since the guest's record points to it.
static PROGRAM: OnceLock<Arc<Vm>> = OnceLock::new();

extern "C" fn preempt() {
    // SAFETY: async-signal-safe; reads the calling thread's own words.
    unsafe { baton_lua_preempt() }
}

/// Reports the overflow of a Lua process: see [`overflow::Describe`].
pub(crate) extern "C" fn describe_overflow(address: usize) -> bool {
    // SAFETY: it reads the calling thread's own words, and the record of the process on this
    // thread.
    unsafe { baton_lua_report_overflow(address) != 0 }
}

fn fail(what: &str, error: &dyn std::fmt::Display) -> c_int {
    eprintln!("baton: {what}: {error}");
    1
}

/// Runs a program. Its main process calls `main(L)` on a new Lua state, with the integer `argc` and
/// the light userdata `argv`.
///
/// Returns the exit status: the result of `main`, or 1 after an error, which `report` reports. With
/// `simulation`, the run is a simulated one.
///
/// # Safety
/// `argv` holds `argc` C strings and a null, valid until the program ends. `main` is a
/// `lua_CFunction`. `report` takes a `lua_State` with an error on its top, which it pops.
pub unsafe fn run_program(
    main: LuaFunction,
    report: ErrorReport,
    argc: c_int,
    argv: *mut *mut c_char,
    simulation: Option<Simulation>,
) -> c_int {
    if let Err(error) = signals::install_preempt_handler(preempt) {
        return fail("cannot handle the preemption signal", &error);
    }
    if !reserve::replenish() {
        return fail("cannot start", &"not enough memory");
    }
    // SAFETY: argv is as the caller promises.
    let first = unsafe {
        if argc > 0 {
            *argv
        } else {
            std::ptr::null_mut()
        }
    };
    let progname = if first.is_null() {
        c"baton".as_ptr()
    } else {
        first.cast_const()
    };
    // SAFETY: there is no VM yet.
    unsafe { baton_vms_install() };
    // SAFETY: progname is a C string that lives as long as the program.
    let record = unsafe { baton_lua_new_vm(progname) };
    let vm = match Vm::new(Arc::new(LuaGuest::new(record as usize))) {
        Ok(vm) => vm,
        Err(error) => return fail("cannot start", &error),
    };
    if let Some(simulation) = simulation {
        vm.simulate(simulation.seed);
        if let Some(recording) = simulation.recording {
            vm.record(recording);
        }
        if let Some(path) = simulation.trace {
            trace_run(&vm, path);
        }
        // SAFETY: there is no Lua state yet, and no other thread.
        unsafe { baton_lua_simulate(simulation.seed, simulation.failed) };
    }
    vm.have_monitor_receive(libc::SIGQUIT);
    commands::start_on_lasting_thread();
    let _ = PROGRAM.set(Arc::clone(&vm));
    inside::open(&vm);
    if let Err(error) = overflow::set_describe(describe_overflow) {
        return fail("cannot handle stack overflows", &error);
    }
    // SAFETY: the record is fresh; the executor outlives it (PROGRAM holds it until the program
    // ends).
    unsafe { set_executor(record, &vm) };
    // SAFETY: as promised by the caller; the record lives as long as the program.
    let process = unsafe { baton_lua_new_main(record, main, report, argc, argv) };
    let options = SpawnOptions {
        user_data: process as usize,
        ..SpawnOptions::default()
    };
    match vm.spawn_first(options, Some(MAIN_STACK), Spawned::Now) {
        Ok(pid) => {
            vm.prefer_home(pid);
            // SAFETY: the record is that of the process just made, which has not started.
            unsafe { baton_lua_set_main_id(process, pid.to_bits()) }
        }
        Err(error) => return fail("cannot make the main process", &error),
    }
    // The main process ends the program, so `run` does not return.
    vm.run();
    if vm.is_stopped() {
        // Another VM ends the program, and has halted this one.
        loop {
            std::thread::park();
        }
    }
    fail("cannot go on", &"the main process is gone")
}
