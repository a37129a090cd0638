//! A program that ends while it is profiled: the last samples are sent, too.
//!
//! The end of the program stops all profiles, and waits until they have sent what they have, for at
//! most [`PATIENCE`]. **It is not lost on a profile**: the list is changed under its mutex, and a
//! profile that is listed later than the end is not waited for.

use crate::inside::stop::Stop;
use baton_sys::forking::ForkMutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar};
use std::time::Duration;

/// How long the end of the program waits.
const PATIENCE: Duration = Duration::from_secs(1);

/// What stops each profile that goes on.
static LIST: ForkMutex<Vec<Arc<Stop>>> = ForkMutex::new(Vec::new());

/// Notified when a profile leaves the list.
static LEFT: Condvar = Condvar::new();

/// Whether [`at_exit`] is called at the end. A fork's child has it from its parent.
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// The program that has profiles. A fork's child finds its parent's number here.
static PROGRAM: AtomicU32 = AtomicU32::new(0);

/// A profile on the list, until it is dropped.
pub(super) struct Unfinished(Arc<Stop>);

impl Unfinished {
    pub(super) fn new(stop: &Arc<Stop>) -> Unfinished {
        let mut list = LIST.lock();
        // Relaxed (both): under the mutex of the list; the end reads the number before it touches
        // the mutex, which another thread of a fork's parent may have held.
        PROGRAM.store(std::process::id(), Ordering::Relaxed);
        if !IS_REGISTERED.swap(true, Ordering::Relaxed) {
            // SAFETY: a function of the program, which no unloading removes. Without memory for it,
            // the last samples of a program are missing.
            let _ = unsafe { libc::atexit(at_exit) };
        }
        list.push(Arc::clone(stop));
        Unfinished(Arc::clone(stop))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        LIST.lock().retain(|stop| !Arc::ptr_eq(stop, &self.0));
        LEFT.notify_all();
    }
}

/// Forgets the profiles of a fork's parent: their threads are not here.
///
/// # Safety
/// The caller is the only thread, in a fork's child, and in no other function of this file.
pub(in crate::inside) unsafe fn renew_in_child() {
    // SAFETY: the caller's conditions. Only this file locks the mutex.
    unsafe { LIST.renew(Vec::new()) };
    // Relaxed: there is no other thread.
    PROGRAM.store(0, Ordering::Relaxed);
}

extern "C" fn at_exit() {
    // Relaxed: as in `new`.
    if PROGRAM.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    let list = LIST.lock();
    list.iter().for_each(|stop| stop.request());
    // If time is over, a client is too slow.
    let _ = LEFT.wait_timeout_while(list, PATIENCE, |list| !list.is_empty());
}
