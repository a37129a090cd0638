//! Data that only the owner of a VM may use.

use std::cell::{Cell, UnsafeCell};

/// A cell whose contents belong to the owner of the VM.
///
/// The VM lock gives ownership to one native thread at a time, and orders one owner's accesses
/// before the next one's (see [`crate::gate`]). This cell relies on that protocol: its callers are
/// inside the VM, or hold the VM's mutex after a take. The cell itself checks that accesses do not
/// nest. Builds with debug assertions also check that the calling thread is inside.
#[derive(Debug)]
pub struct OwnerCell<T> {
    value: UnsafeCell<T>,
    /// Guarded like the value.
    borrowed: Cell<bool>,
}

// SAFETY: the type's contract: one owner at a time, ordered by the VM lock.
unsafe impl<T: Send> Sync for OwnerCell<T> {}

/// Ends the borrow, even if the closure panics.
struct Borrow<'a>(&'a Cell<bool>);

impl Drop for Borrow<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl<T> OwnerCell<T> {
    /// A cell for `value`.
    pub const fn new(value: T) -> OwnerCell<T> {
        OwnerCell {
            value: UnsafeCell::new(value),
            borrowed: Cell::new(false),
        }
    }

    /// Runs `f` on the contents.
    ///
    /// # Safety
    /// The calling thread is the owner, inside the VM.
    ///
    /// # Panics
    /// If called from within another access.
    #[inline(always)] // Each caller has an `f` of its own, and a switch should be one function.
    pub unsafe fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        #[cfg(not(loom))]
        debug_assert!(
            crate::gate::here().value() & 1 == 0,
            "the owner's data is touched from outside the VM"
        );
        // SAFETY: nobody else accesses the contents, as the calling thread is the owner.
        unsafe { self.with_mutex_held(f) }
    }

    /// Runs `f` on the contents.
    ///
    /// # Safety
    /// The calling thread holds the VM's mutex, and no other thread is inside; or it is the owner.
    ///
    /// # Panics
    /// If called from within another access.
    #[inline(always)] // Each caller has an `f` of its own, and a switch should be one function.
    pub unsafe fn with_mutex_held<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        if self.borrowed.replace(true) {
            nested();
        }
        let _borrow = Borrow(&self.borrowed);
        // SAFETY: the caller promises that no other thread accesses the value; the flag says that
        // this one does not.
        f(unsafe { &mut *self.value.get() })
    }
}

#[cold]
#[inline(never)]
fn nested() -> ! {
    panic!("the owner's data is already in use by this thread (the executor is broken)");
}
