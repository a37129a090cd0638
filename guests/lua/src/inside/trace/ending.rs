//! A program that ends while it is traced: the last events are sent, too.
//!
//! The end waits for the readers of traces, for at most [`PATIENCE`]. After
//! [`stop`](baton_core::vm::Inside::stop) no look is possible, so the events are copied before.
//!
//! | who | does | then |
//! |---|---|---|
//! | a reader | lists its [`Share`], and reads in looks; the look itself notes what was read | sleeps until the end, or for a short time |
//! | the owner, before it stops the VM | copies what each reader has not read ([`copy_rest`]) | ends the program |
//! | the program's end | says so, and waits until no reader is listed | ends |
//!
//! **No reader is waited for in vain.** A reader that is listed after the end has been said finds
//! that out before its first sleep. Both are under the mutex of the list.

use super::batch::{self, Batch, Known, Standing};
use baton_core::vm::{Inside, View};
use baton_sys::forking::{Child, ForkMutex};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long the end of the program waits for readers.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a reader shares with the owner.
#[derive(Default)]
pub(super) struct Share {
    /// The number of the event that is read next. Changed by owners, in looks.
    next: AtomicU64,
    rest: Mutex<Option<Rest>>,
}

/// What a reader had not read when the VM was stopped.
pub(super) struct Rest {
    pub(super) batch: Batch,
    pub(super) standing: Vec<Standing>,
}

struct List {
    shares: Vec<Arc<Share>>,
    is_ending: bool,
}

impl List {
    const EMPTY: List = List {
        shares: Vec::new(),
        is_ending: false,
    };
}

static LIST: ForkMutex<List> = ForkMutex::new(List::EMPTY);

/// Whether [`at_exit`] is called at the end. A fork's child has it from its parent. Changed under
/// the mutex of the list.
static IS_REGISTERED: AtomicBool = AtomicBool::new(false);

/// Notified when the program ends, and when a reader leaves the list.
static CHANGED: Condvar = Condvar::new();

/// The program that has readers. A fork's child finds its parent's number here.
static PROGRAM: AtomicU32 = AtomicU32::new(0);

/// Forgets the readers of a fork's parent: their threads are not here.
pub(in crate::inside) fn renew_in_child(child: &Child) {
    LIST.renew_in_child(child, List::EMPTY);
    // Relaxed: there is no other thread.
    PROGRAM.store(0, Ordering::Relaxed);
}

/// Whether readers may be listed in this program.
fn has_readers() -> bool {
    // Relaxed: a child that was made in another way than by the guest's fork must not touch the
    // list, whose mutex another thread of its parent may have held. The list itself is read with
    // its mutex.
    PROGRAM.load(Ordering::Relaxed) == std::process::id()
}

/// A reader on the list, until it is dropped.
pub(super) struct Listed(Arc<Share>);

impl Listed {
    pub(super) fn new() -> Listed {
        let share = Arc::new(Share::default());
        let mut list = LIST.lock();
        // Relaxed (all): see `has_readers`, and the mutex.
        PROGRAM.store(std::process::id(), Ordering::Relaxed);
        if !IS_REGISTERED.load(Ordering::Relaxed) {
            // SAFETY: a function of the program, which no unloading removes. Without memory for it,
            // the last events of a program are missing.
            let _ = unsafe { libc::atexit(at_exit) };
            // After that, so that a child never takes it for done. Twice does no harm.
            IS_REGISTERED.store(true, Ordering::Relaxed);
        }
        list.shares.push(Arc::clone(&share));
        Listed(share)
    }

    pub(super) fn share(&self) -> Arc<Share> {
        Arc::clone(&self.0)
    }

    /// Sleeps. Returns whether the program ends, for which it does not sleep any longer.
    pub(super) fn sleep(time: Duration) -> bool {
        let (list, _) = CHANGED
            .wait_timeout_while(LIST.lock(), time, |list| !list.is_ending)
            .unwrap_or_else(PoisonError::into_inner);
        list.is_ending
    }

    /// What the owner has copied.
    pub(super) fn rest(&self) -> Option<Rest> {
        let mut rest = self.0.rest.lock().unwrap_or_else(PoisonError::into_inner);
        rest.take()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        LIST.lock()
            .shares
            .retain(|share| !Arc::ptr_eq(share, &self.0));
        CHANGED.notify_all();
    }
}

impl Share {
    pub(super) fn begin_at(&self, next: u64) {
        // Relaxed (all): accesses are the owner's, or in looks, which the VM lock orders.
        self.next.store(next, Ordering::Relaxed);
    }

    /// Reads the next events, in a look.
    pub(super) fn read(&self, view: &mut View<'_>, most: usize, known: &mut Known) -> Batch {
        let batch = batch::read(view, self.next.load(Ordering::Relaxed), most, known);
        self.next.store(batch.reading.next, Ordering::Relaxed);
        batch
    }
}

/// Copies what readers have not read yet. Inside the VM, which is about to be stopped.
pub(crate) fn copy_rest(inside: &Inside<'_>) {
    if !has_readers() {
        return;
    }
    let shares = LIST.lock().shares.clone();
    for share in shares {
        let rest = inside.view(|view| {
            // Names are read again, for those that are new.
            let batch = share.read(view, usize::MAX, &mut Known::default());
            let standing = batch::standing(view);
            Rest { batch, standing }
        });
        *share.rest.lock().unwrap_or_else(PoisonError::into_inner) = Some(rest);
    }
}

/// Waits for readers at the end of the program.
extern "C" fn at_exit() {
    if !has_readers() {
        return;
    }
    let mut list = LIST.lock();
    if std::mem::replace(&mut list.is_ending, true) {
        return; // registered twice
    }
    CHANGED.notify_all();
    // If time is over, a reader's client is too slow.
    let _ = CHANGED.wait_timeout_while(list, PATIENCE, |list| !list.shares.is_empty());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_no_readers_and_a_free_list() {
        let listed = Listed::new();
        assert!(has_readers());
        std::thread::spawn(|| std::mem::forget(LIST.lock()))
            .join()
            .expect("it locks, and ends");
        // SAFETY: no other test uses the list, as in a child.
        renew_in_child(&unsafe { Child::assume() });
        assert!(!has_readers());
        assert!(LIST.lock().shares.is_empty());
        let next = Listed::new();
        assert_eq!(LIST.lock().shares.len(), 1);
        drop((listed, next));
        assert!(LIST.lock().shares.is_empty());
    }
}
