//! The gate of a native thread: the fast half of the VM lock.
//!
//! Every native thread has its own words. To leave and to enter the VM, it only makes plain stores
//! to its own `gate`. The cost is on the other side: a thread that takes the VM from a thread
//! outside must use a barrier.
//!
//! | gate | slow | meaning |
//! |---|---|---|
//! | even | - | the thread is inside: it owns the VM (or will notice that it does not) |
//! | odd | - | the thread is outside: in a foreign call, or without a VM |
//! | any | `REVOKED` | it may not own the VM: the next enter must check under the VM's mutex |
//! | any | `ATTENTION` | the monitor requests that the running process gives way |
//! | any | `CAS` | the compare-and-swap variant is in use: every enter claims |
//! | any | `FORKED` | this is the child of a fork: the next enter rebuilds the VM |
//!
//! | edge | made by | ordering |
//! |---|---|---|
//! | even -> odd | [`OwnGate::leave`], `baton_gate_leave` | release, for the load in `take_*` |
//! | odd -> even | [`OwnGate::begin_enter`], `baton_gate_enter` | relaxed, before `slow` |
//! | `REVOKED` set | [`GateWords::take_fence_free`], [`GateWords::take_by_claim`] | see below |
//! | `REVOKED` cleared | [`OwnGate::own`] | under the VM's mutex |
//! | `slow`, `claim` read in a call | `baton_gate_is_revoked` | as in an enter, or with a fence |
//!
//! **Fence-free variant.** Enter stores the even gate and then reads `slow`. Take sets `REVOKED`,
//! runs `membarrier`, and then reads the gate. The barrier takes effect between two instructions of
//! the other thread:
//!
//! - before its store of the even gate: then its read of `slow` comes later and sees `REVOKED`;
//! - after that store: then take reads the even gate and gives up.
//!
//! So there is no execution in which the VM is taken and the thread continues inside.
//! `runtime/core/tests/store_buffer.rs` explores all executions on a store-buffer machine, and
//! fails when the barrier is removed.
//!
//! **Compare-and-swap variant** (no membarrier, or `--cfg baton_cas`). `slow` always has `CAS`, so
//! every enter takes the slow path. There it moves `claim` from the gate value of its last enter to
//! that of this one. Take moves the same word to [`TAKEN`]. One of the two compare-and-swaps fails.
//! `tests/loom_gate.rs` explores it.
//!
//! Leaving makes the value odd. Entering makes it the next even one, whatever it was before. So the
//! parity stays right even if a guest's locks and unlocks are not balanced. A value never repeats,
//! so an unchanged odd value means the same foreign call.
//!
//! **Who may do what.** [`GateWords`] has what any thread may do. What only the gate's own thread
//! may do is in [`OwnGate`], which stays on its thread:
//!
//! ```compile_fail,E0277
//! let mine = baton_sys::gate::here();
//! std::thread::spawn(move || mine.begin_enter());
//! ```
//!
//! Two of its operations say that the thread owns the VM, or owns it no longer. Only the VM's mutex
//! can prove that, so they are unsafe:
//!
//! ```compile_fail,E0133
//! baton_sys::gate::here().own();
//! ```
//!
//! So does leaving, as whatever was lent inside must not be used from then on:
//!
//! ```compile_fail,E0133
//! baton_sys::gate::here().leave();
//! ```

#[cfg(loom)]
use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use std::marker::PhantomData;

/// The thread does not own the VM, or may not own it.
pub const REVOKED: u32 = 1;
/// The running process must give way.
pub const ATTENTION: u32 = 2;
/// The compare-and-swap variant is in use.
pub const CAS: u32 = 4;
/// The program was forked since the last enter.
pub const FORKED: u32 = 8;

/// The value of `claim` after the VM was taken (no gate value gets this high).
pub const TAKEN: u64 = u64::MAX;

/// The words of one native thread. The layout is that of `struct baton_gate` in `c/gate.h`.
#[repr(C)]
#[derive(Debug)]
pub struct GateWords {
    /// Written only by its thread; read by the monitor.
    gate: AtomicU64,
    /// Bits that any thread may set. Cleared by the owner or under the VM's mutex.
    slow: AtomicU32,
    reserved: AtomicU32,
    /// Compare-and-swap variant: the gate value of the last enter, or [`TAKEN`].
    claim: AtomicU64,
    /// The guest's record of the process on this thread. Only for its own thread.
    process: AtomicPtr<()>,
    /// The carrier id of this thread plus one. Only for its own thread.
    carrier: AtomicU64,
}

/// The result of an attempt to take the VM from a thread.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// The VM was taken. The thread cannot continue inside until it gets the VM back.
    Taken,
    /// The thread came back in the meantime. It stays the owner and clears `REVOKED` at its next
    /// enter.
    GaveUp,
}

/// The result of an enter in the compare-and-swap variant.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The VM was not taken.
    Kept,
    /// The VM was taken.
    Taken,
}

impl Default for GateWords {
    fn default() -> Self {
        GateWords::new()
    }
}

impl GateWords {
    /// The words of a thread without a VM: outside and revoked.
    pub fn new() -> GateWords {
        GateWords {
            gate: AtomicU64::new(1),
            slow: AtomicU32::new(REVOKED),
            reserved: AtomicU32::new(0),
            claim: AtomicU64::new(0),
            process: AtomicPtr::new(std::ptr::null_mut()),
            carrier: AtomicU64::new(0),
        }
    }

    /// The gate value, for the monitor: odd means outside.
    #[inline]
    pub fn value(&self) -> u64 {
        // Acquire: pairs with the release store in `leave`.
        self.gate.load(Ordering::Acquire)
    }

    /// The reasons for the slow path.
    #[inline]
    pub fn slow(&self) -> u32 {
        // Acquire: pairs with the bits set by other threads.
        self.slow.load(Ordering::Acquire)
    }

    /// Takes the VM from a thread, if it still has the odd value `seen`. `barrier` is membarrier.
    /// The caller holds the VM's mutex.
    pub fn take_fence_free(&self, seen: u64, barrier: impl FnOnce()) -> Take {
        // Release: pairs with the acquire load in `begin_enter`; ordered before the load below by
        // `barrier`.
        self.slow.fetch_or(REVOKED, Ordering::Release);
        barrier();
        // Acquire: pairs with the release store in `leave`.
        if self.gate.load(Ordering::Acquire) == seen {
            Take::Taken
        } else {
            Take::GaveUp
        }
    }

    /// Takes the VM from a thread, if it still has the odd value `seen`, in the compare-and-swap
    /// variant. The caller holds the VM's mutex.
    pub fn take_by_claim(&self, seen: u64) -> Take {
        // Acquire: pairs with the release store in `leave`.
        if self.gate.load(Ordering::Acquire) != seen {
            return Take::GaveUp;
        }
        // AcqRel/Acquire: pairs with the exchange in `claim_enter`; one of the two fails.
        match self
            .claim
            .compare_exchange(seen - 1, TAKEN, Ordering::AcqRel, Ordering::Acquire)
        {
            // The second case: the VM was taken before, and left to the same call. That call cannot
            // enter without the mutex.
            Ok(_) | Err(TAKEN) => {}
            Err(_) => return Take::GaveUp,
        }
        // SeqCst: pairs with the fence in `baton_gate_is_revoked`. If that function read `claim`
        // too early to see the exchange, its earlier stores are visible from here on.
        fence(Ordering::SeqCst);
        // Release: pairs with the acquire load in `begin_enter`.
        self.slow.fetch_or(REVOKED, Ordering::Release);
        Take::Taken
    }

    /// Requests that the process on this thread gives way, at its next enter or virtual machine
    /// instruction.
    pub fn set_attention(&self) {
        // Release: pairs with the acquire load in `begin_enter`.
        self.slow.fetch_or(ATTENTION, Ordering::Release);
    }

    /// Makes the next enter take the slow path, as after a retake that was abandoned: its thread
    /// finds out under the VM's mutex that it is the owner.
    pub fn revoke(&self) {
        // Release: pairs with the acquire load in `begin_enter`.
        self.slow.fetch_or(REVOKED, Ordering::Release);
    }
}

/// The gate of the calling thread.
///
/// It does not leave its thread, so do not keep it across a switch: that may continue on another
/// one.
#[derive(Debug, Clone, Copy)]
pub struct OwnGate<'words> {
    words: &'words GateWords,
    /// Neither `Send` nor `Sync`.
    of_this_thread: PhantomData<*const ()>,
}

impl<'words> OwnGate<'words> {
    /// The gate of the calling thread.
    ///
    /// # Safety
    /// The words are the calling thread's.
    #[inline(always)]
    pub unsafe fn of(words: &'words GateWords) -> OwnGate<'words> {
        OwnGate {
            words,
            of_this_thread: PhantomData,
        }
    }

    /// Leaves the VM: from now on it may be taken.
    ///
    /// # Safety
    /// Until it has entered again, the calling thread uses nothing that only the owner may use. The
    /// same holds for the thread that continues the process, if that is another one.
    #[inline]
    pub unsafe fn leave(self) {
        // Relaxed: the word is written by this thread alone.
        let gate = self.words.gate.load(Ordering::Relaxed);
        // Release: pairs with the acquire load in `take_*`, so that the taker sees all that was
        // done inside.
        self.words.gate.store(gate | 1, Ordering::Release);
    }

    /// The first half of an enter: makes the gate even, and returns the reasons for the slow path
    /// (0: none).
    #[inline]
    pub fn begin_enter(self) -> u32 {
        // Relaxed: the word is written by this thread alone.
        let gate = self.words.gate.load(Ordering::Relaxed);
        // Relaxed: the membarrier in `take_fence_free` orders this store before the load of `slow`.
        self.words.gate.store((gate | 1) + 1, Ordering::Relaxed);
        // SeqCst, for the compiler alone: pairs with the membarrier in `take_fence_free`.
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        // Acquire: pairs with the bit set in `take_*` and `set_attention`.
        self.words.slow.load(Ordering::Acquire)
    }

    /// The second half of an enter in the compare-and-swap variant.
    pub fn claim_enter(self) -> Claim {
        // Relaxed: the word is written by this thread alone.
        let now = self.words.gate.load(Ordering::Relaxed);
        // Relaxed: a stale value makes the exchange below fail, which rereads.
        let last = self.words.claim.load(Ordering::Relaxed);
        if last == TAKEN {
            return Claim::Taken;
        }
        // AcqRel/Acquire: pairs with the exchange in `take_by_claim`; one of the two fails.
        match self
            .words
            .claim
            .compare_exchange(last, now, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => Claim::Kept,
            Err(_) => Claim::Taken,
        }
    }

    /// As [`GateWords::value`].
    #[inline]
    pub fn value(self) -> u64 {
        self.words.value()
    }

    /// As [`GateWords::slow`].
    #[inline]
    pub fn slow(self) -> u32 {
        self.words.slow()
    }

    /// Whether the calling thread is inside and the owner, as a signal handler sees it. `false` if
    /// only the VM's mutex could tell, as in the compare-and-swap variant.
    ///
    /// In the fence-free variant, a thread with an even gate and without `REVOKED` is the owner. A
    /// taker sets `REVOKED`, and its barrier comes before the store of the even gate, or after. In
    /// the first case this sees `REVOKED`. In the second one, the taker sees the even gate.
    #[inline]
    pub fn is_inside(self) -> bool {
        self.value() & 1 == 0 && self.slow() & (REVOKED | CAS | FORKED) == 0
    }

    /// Makes the calling thread the owner again, inside.
    ///
    /// # Safety
    /// The caller holds the VM's mutex, under which the calling thread was made the owner.
    pub unsafe fn own(self) {
        // Relaxed: the word is written by this thread alone.
        let gate = self.words.gate.load(Ordering::Relaxed);
        let inside = if gate & 1 == 1 { gate + 1 } else { gate };
        // Relaxed: readers that matter hold the VM's mutex.
        self.words.gate.store(inside, Ordering::Relaxed);
        // Relaxed: as above.
        self.words.claim.store(inside, Ordering::Relaxed);
        // AcqRel: pairs with the bits set by other threads; only this one is cleared.
        self.words.slow.fetch_and(!REVOKED, Ordering::AcqRel);
    }

    /// Gives the VM up: outside and revoked. The caller holds the VM's mutex.
    ///
    /// # Safety
    /// As for [`OwnGate::leave`].
    pub unsafe fn disown(self) {
        // Release: pairs with the acquire load in `begin_enter`.
        self.words.slow.fetch_or(REVOKED, Ordering::Release);
        // Relaxed: the word is written by this thread alone.
        let gate = self.words.gate.load(Ordering::Relaxed);
        // Release: pairs with the acquire load in `value`.
        self.words.gate.store(gate | 1, Ordering::Release);
    }

    /// As [`GateWords::revoke`].
    pub fn revoke(self) {
        self.words.revoke();
    }

    /// Whether the VM was taken from the calling thread's present call, or is being taken. If not,
    /// a thread that takes it later sees all earlier stores of this thread: the fence-free variant
    /// ensures that by the taker's membarrier, the other one by the fence.
    /// `baton_gate_is_revoked` of `c/gate.h` is the same.
    pub fn is_revoked(self) -> bool {
        if self.slow() & CAS != 0 {
            // SeqCst: pairs with the exchange of `claim` in `take_by_claim`.
            fence(Ordering::SeqCst);
            // Acquire: as in `claim_enter`.
            if self.words.claim.load(Ordering::Acquire) == TAKEN {
                return true;
            }
        }
        // Only the compiler must keep the order: see above.
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        self.slow() & REVOKED != 0
    }

    /// As [`GateWords::set_attention`].
    pub fn set_attention(self) {
        self.words.set_attention();
    }

    /// Withdraws the request for attention. Returns whether there was one.
    pub fn clear_attention(self) -> bool {
        // AcqRel: pairs with `set_attention`.
        self.words.slow.fetch_and(!ATTENTION, Ordering::AcqRel) & ATTENTION != 0
    }

    /// Chooses the compare-and-swap variant.
    pub fn use_claims(self) {
        // Release: pairs with the acquire load in `begin_enter`.
        self.words.slow.fetch_or(CAS, Ordering::Release);
    }

    /// The carrier id of this thread, if it has one.
    pub fn carrier(self) -> Option<u32> {
        // Relaxed: this thread alone.
        (self.words.carrier.load(Ordering::Relaxed) as u32).checked_sub(1)
    }

    /// Sets the carrier id of this thread, and forgets the guest's record of its process.
    ///
    /// # Safety
    /// No other native thread of the VM has that id, now or until this one gives it up. The thread
    /// is outside the VM, or alone after a fork.
    pub unsafe fn set_carrier(self, number: Option<u32>) {
        // Relaxed: this thread alone.
        self.words
            .carrier
            .store(number.map_or(0, |n| u64::from(n) + 1), Ordering::Relaxed);
        if number.is_none() {
            // Relaxed: read by this thread alone (its signal handler included).
            self.words
                .process
                .store(std::ptr::null_mut(), Ordering::Relaxed);
        }
    }
}

#[cfg(not(loom))]
pub use of_threads::{Gate, here};

#[cfg(not(loom))]
mod of_threads {
    use super::{ATTENTION, CAS, FORKED, GateWords, OwnGate};
    use crate::forking::Child;
    use crate::membarrier;
    use std::ops::Deref;
    use std::ptr::NonNull;
    use std::sync::atomic::Ordering;

    unsafe extern "C" {
        fn baton_gate_here() -> *mut GateWords;
    }

    /// A native thread's gate, for other threads.
    #[derive(Debug, Clone, Copy)]
    pub struct Gate(NonNull<GateWords>);

    // SAFETY: the words are atomics; the caller of `OwnGate::for_others` keeps them alive.
    unsafe impl Send for Gate {}
    // SAFETY: as above.
    unsafe impl Sync for Gate {}

    impl Deref for Gate {
        type Target = GateWords;
        fn deref(&self) -> &GateWords {
            // SAFETY: the thread, and so its thread-local, lives: `OwnGate::for_others`.
            unsafe { self.0.as_ref() }
        }
    }

    /// The calling thread's gate. Do not keep it across a switch.
    #[inline]
    pub fn here() -> OwnGate<'static> {
        // SAFETY: the function has no conditions and returns the address of a thread-local of the
        // calling thread. An `OwnGate` does not outlive its thread, as it cannot leave it.
        unsafe { OwnGate::of(&*baton_gate_here()) }
    }

    impl OwnGate<'_> {
        /// The gate for other threads.
        ///
        /// # Safety
        /// No copy is used after the calling thread has ended.
        pub unsafe fn for_others(self) -> Gate {
            Gate(NonNull::from(self.words))
        }

        /// Chooses the variant of the VM lock: by membarrier if there is one, or by claims.
        pub fn choose_variant(self) {
            if membarrier::available() {
                // AcqRel: pairs with `use_claims`.
                self.words.slow.fetch_and(!CAS, Ordering::AcqRel);
            } else {
                self.use_claims();
            }
        }

        /// In the child of a fork: makes the next enter rebuild the VM.
        pub fn mark_forked(self, _child: &Child) {
            // Release: pairs with the acquire load in `begin_enter`.
            self.words.slow.fetch_or(FORKED, Ordering::Release);
        }

        /// In the child of a fork: the VM is being rebuilt. Requests from before are void.
        pub fn clear_forked(self) {
            // AcqRel: pairs with `mark_forked` and `set_attention`.
            self.words
                .slow
                .fetch_and(!(FORKED | ATTENTION), Ordering::AcqRel);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_signal_handler_is_inside_only_if_no_mutex_is_needed_to_know() {
        let words = GateWords::new();
        // SAFETY: the words belong to this thread alone.
        let gate = unsafe { OwnGate::of(&words) };
        // SAFETY: there is no VM, so nothing is lent by it.
        let own = || unsafe { gate.own() };
        assert!(!gate.is_inside(), "it has no VM");
        own();
        assert!(gate.is_inside());
        gate.revoke();
        assert!(!gate.is_inside(), "it may not own the VM");
        own();
        gate.set_attention();
        assert!(gate.is_inside(), "a request for attention takes nothing");
        // SAFETY: as above.
        unsafe { gate.leave() };
        assert!(!gate.is_inside(), "it is in a foreign call");
        assert_eq!(gate.begin_enter() & REVOKED, 0);
        assert!(gate.is_inside());
        gate.use_claims();
        assert!(!gate.is_inside(), "the claim decides");
    }
}
