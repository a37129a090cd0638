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
//! | even -> odd | [`GateWords::leave`], `baton_gate_leave` | release, for the load in `take_*` |
//! | odd -> even | [`GateWords::begin_enter`], `baton_gate_enter` | relaxed, before `slow` |
//! | `REVOKED` set | [`GateWords::take_fence_free`], [`GateWords::take_by_claim`] | see below |
//! | `REVOKED` cleared | [`GateWords::own`] | under the VM's mutex |
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

#[cfg(loom)]
use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

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

    /// Leaves the VM: from now on it may be taken.
    #[inline]
    pub fn leave(&self) {
        // Relaxed: the word is written by this thread alone.
        let gate = self.gate.load(Ordering::Relaxed);
        // Release: pairs with the acquire load in `take_*`, so that the taker sees all that was
        // done inside.
        self.gate.store(gate | 1, Ordering::Release);
    }

    /// The first half of an enter: makes the gate even, and returns the reasons for the slow path
    /// (0: none).
    #[inline]
    pub fn begin_enter(&self) -> u32 {
        // Relaxed: the word is written by this thread alone.
        let gate = self.gate.load(Ordering::Relaxed);
        // Relaxed: the membarrier in `take_fence_free` orders this store before the load of `slow`.
        self.gate.store((gate | 1) + 1, Ordering::Relaxed);
        // SeqCst, for the compiler alone: pairs with the membarrier in `take_fence_free`.
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        // Acquire: pairs with the bit set in `take_*` and `set_attention`.
        self.slow.load(Ordering::Acquire)
    }

    /// The second half of an enter in the compare-and-swap variant.
    pub fn claim_enter(&self) -> Claim {
        // Relaxed: the word is written by this thread alone.
        let now = self.gate.load(Ordering::Relaxed);
        // Relaxed: a stale value makes the exchange below fail, which rereads.
        let last = self.claim.load(Ordering::Relaxed);
        if last == TAKEN {
            return Claim::Taken;
        }
        // AcqRel/Acquire: pairs with the exchange in `take_by_claim`; one of the two fails.
        match self
            .claim
            .compare_exchange(last, now, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => Claim::Kept,
            Err(_) => Claim::Taken,
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

    /// Makes the calling thread the owner again, inside. The caller holds the VM's mutex and is
    /// this gate's thread.
    pub fn own(&self) {
        // Relaxed: the word is written by this thread alone.
        let gate = self.gate.load(Ordering::Relaxed);
        let inside = if gate & 1 == 1 { gate + 1 } else { gate };
        // Relaxed: readers that matter hold the VM's mutex.
        self.gate.store(inside, Ordering::Relaxed);
        // Relaxed: as above.
        self.claim.store(inside, Ordering::Relaxed);
        // AcqRel: pairs with the bits set by other threads; only this one is cleared.
        self.slow.fetch_and(!REVOKED, Ordering::AcqRel);
    }

    /// Gives the VM up: outside and revoked. The caller holds the VM's mutex and is this gate's
    /// thread.
    pub fn disown(&self) {
        // Release: pairs with the acquire load in `begin_enter`.
        self.slow.fetch_or(REVOKED, Ordering::Release);
        // Relaxed: the word is written by this thread alone.
        let gate = self.gate.load(Ordering::Relaxed);
        // Release: pairs with the acquire load in `value`.
        self.gate.store(gate | 1, Ordering::Release);
    }

    /// Requests that the process on this thread gives way, at its next enter or virtual machine
    /// instruction.
    pub fn set_attention(&self) {
        // Release: pairs with the acquire load in `begin_enter`.
        self.slow.fetch_or(ATTENTION, Ordering::Release);
    }

    /// Withdraws the request for attention. Returns whether there was one.
    pub fn clear_attention(&self) -> bool {
        // AcqRel: pairs with `set_attention`.
        self.slow.fetch_and(!ATTENTION, Ordering::AcqRel) & ATTENTION != 0
    }

    /// Sets the permanent bits of `slow`: [`CAS`] when that variant is chosen, [`FORKED`] after a
    /// fork.
    pub fn set_slow(&self, bits: u32) {
        // Release: pairs with the acquire load in `begin_enter`.
        self.slow.fetch_or(bits, Ordering::Release);
    }

    /// Clears bits of `slow`.
    pub fn clear_slow(&self, bits: u32) {
        // AcqRel: pairs with `set_slow`.
        self.slow.fetch_and(!bits, Ordering::AcqRel);
    }

    /// Sets the guest's record of the process on this thread.
    pub fn set_process(&self, record: usize) {
        // Relaxed: read by this thread alone (its signal handler included).
        self.process.store(record as *mut (), Ordering::Relaxed);
    }

    /// The carrier id of this thread, if it has one.
    pub fn carrier(&self) -> Option<u32> {
        // Relaxed: this thread alone.
        (self.carrier.load(Ordering::Relaxed) as u32).checked_sub(1)
    }

    /// Sets the carrier id of this thread.
    pub fn set_carrier(&self, number: Option<u32>) {
        // Relaxed: this thread alone.
        self.carrier
            .store(number.map_or(0, |n| u64::from(n) + 1), Ordering::Relaxed);
    }
}

#[cfg(not(loom))]
pub use of_threads::{Gate, here};

#[cfg(not(loom))]
mod of_threads {
    use super::GateWords;
    use std::ops::Deref;
    use std::ptr::NonNull;

    unsafe extern "C" {
        fn baton_gate_here() -> *mut GateWords;
    }

    /// A native thread's gate, for other threads to read.
    ///
    /// It must be dropped before that thread ends. An executor lists its carriers under the VM's
    /// mutex, and a carrier removes itself from the list before its thread returns.
    #[derive(Debug, Clone, Copy)]
    pub struct Gate(NonNull<GateWords>);

    // SAFETY: the words are atomics; the type's contract keeps them alive.
    unsafe impl Send for Gate {}
    // SAFETY: as above.
    unsafe impl Sync for Gate {}

    impl Gate {
        /// The gate of the calling thread.
        pub fn of_this_thread() -> Gate {
            // SAFETY: the function has no conditions and returns the address of a thread-local.
            Gate(unsafe { NonNull::new_unchecked(baton_gate_here()) })
        }

        /// Whether this is the calling thread's gate.
        pub fn is_mine(&self) -> bool {
            Gate::of_this_thread().0 == self.0
        }
    }

    impl Deref for Gate {
        type Target = GateWords;
        fn deref(&self) -> &GateWords {
            // SAFETY: the type's contract: the thread, and so its thread-local, lives.
            unsafe { self.0.as_ref() }
        }
    }

    /// The calling thread's gate. Do not keep it across a switch.
    #[inline]
    pub fn here() -> Gate {
        Gate::of_this_thread()
    }
}
