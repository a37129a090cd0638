//! What the C half calls for traces: of a function, at an error, and at the end of the program.

use super::ending::copy_rest;
use super::flight;
use super::taken::Taken;
use baton_capi::write_message;
use baton_core::vm::{Inside, Vm};
use baton_sys::forking::{Child, ForkMutex};
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// A simulated run that is written as a trace at its end.
struct TracedRun {
    /// Where it is written.
    path: &'static Path,
    /// The program whose run that is.
    program: u32,
    /// The VM that is traced: the program's first one.
    vm: Arc<Vm>,
}

static OF_RUN: ForkMutex<Option<TracedRun>> = ForkMutex::new(None);

/// A fork's child is not the program that is simulated.
pub(super) fn renew_in_child(child: &Child) {
    OF_RUN.renew_in_child(child, None);
}

/// Has the whole run written as a trace at its end. Before the VM runs.
pub(crate) fn trace_run(vm: &Arc<Vm>, path: &'static Path) {
    *OF_RUN.lock() = Some(TracedRun {
        path,
        program: std::process::id(),
        vm: Arc::clone(vm),
    });
    vm.trace_from_start();
}

/// To be called inside a VM before the program ends.
pub(crate) fn before_end(inside: &Inside<'_>) {
    copy_rest(inside);
    let run = OF_RUN.lock().take();
    // A fork's child is not the program that is simulated.
    let Some(run) = run.filter(|run| run.program == std::process::id()) else {
        return;
    };
    let taken = if run.is_of(inside) {
        Ok(Taken::new(inside, 0))
    } else {
        Taken::of_other(&run.vm).map_err(|why| io::Error::other(format!("{why:?}")))
    };
    if let Err(error) = taken.and_then(|taken| taken.write_to(run.path)) {
        // An error of this write cannot be reported.
        let _ = writeln!(
            io::stderr(),
            "baton: cannot write {}: {error}",
            run.path.display()
        );
    }
}

impl TracedRun {
    fn is_of(&self, vm: &Vm) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.vm), vm)
    }
}

/// Ends the VM, and before it the trace of a traced run.
// SAFETY: the only definition of this symbol, with the signature in `c/program/program.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_lua_stop(vm: &Vm) {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let inside = unsafe { Inside::assume(vm) };
    // The end of another VM is not that of the program.
    let goes_on = OF_RUN.lock().as_ref().is_some_and(|run| !run.is_of(vm));
    if !goes_on {
        before_end(&inside);
    }
    inside.stop();
}

/// See `observing.h`.
// SAFETY: the only definition of this symbol, with the signature of `observing.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_before_exit(vm: &Vm) {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    before_end(&unsafe { Inside::assume(vm) });
}

/// See `observing.h`.
///
/// # Safety
/// `why` is a C string.
// SAFETY: the only definition of this symbol, with the signature of `observing.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_write_flight(vm: &Vm, why: *const c_char) {
    // SAFETY: the caller's condition; the C half calls this inside the VM (`baton.h`).
    let (why, inside) = unsafe { (CStr::from_ptr(why), Inside::assume(vm)) };
    flight::write_now(&inside, &why.to_string_lossy());
}

/// See `observing.h`.
// SAFETY: the only definition of this symbol, with the signature of `observing.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_begin_trace(vm: &Vm) -> u64 {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    unsafe { Inside::assume(vm) }.view(|view| view.begin_trace())
}

/// See `observing.h`.
// SAFETY: the only definition of this symbol, with the signature of `observing.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_end_trace(vm: &Vm, begin: u64) -> *mut Taken {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let inside = unsafe { Inside::assume(vm) };
    let taken = Taken::new(&inside, begin);
    inside.view(|view| view.end_trace());
    Box::into_raw(Box::new(taken))
}

/// See `observing.h`.
///
/// # Safety
/// `taken` is a result of `baton_end_trace` that was not written yet, `path` a C string, and
/// `message` writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `observing.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_write_trace(
    taken: *mut Taken,
    path: *const c_char,
    message: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller's conditions.
    let (taken, path) = unsafe { (Box::from_raw(taken), CStr::from_ptr(path)) };
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    match taken.write_to(path) {
        Ok(()) => 1,
        Err(error) => {
            let why = format!("cannot write {}: {error}", path.display());
            // SAFETY: the caller's condition.
            unsafe { write_message(message, size, &why) };
            0
        }
    }
}
