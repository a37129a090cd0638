//! Asymmetric fences: free on the frequent side, a system call on the rare side.
//!
//! # Why the pair is as good as two sequentially consistent fences
//!
//! The frequent side does `store A; light(); load B`, the rare side `store B; heavy(); load A`.
//! Both loads must not miss the other side's store (store buffering).
//!
//! `light()` only keeps the compiler from moving the load before the store. The processor may still
//! hold `A` in its store buffer while it loads `B`. `heavy()` is `membarrier(PRIVATE_EXPEDITED)`.
//! At some moment between the call and its return, every processor that runs a thread of this
//! program executes a full barrier. A thread that was not running passed a barrier when it was
//! switched out or in (man membarrier). That moment on the frequent side's processor is either
//!
//! - after the store to `A` in program order: the barrier drained the store before `heavy()`
//!   returned, so the rare side's load sees it; or
//! - before the store to `A`: then it is also before the load of `B`. The rare side's store to `B`
//!   was visible before the barrier was requested, so the load sees it.
//!
//! There is no third case: `light()` keeps the compiler from reordering the two accesses, so the
//! moment cannot be between them in the wrong order.
//!
//! The system call is missing in kernels before 4.14, in some sandboxes, and under `--cfg
//! baton_cas`. Then both sides are sequentially consistent fences. They give the same guarantee by
//! the memory model of the language. Code that inlines the light side elsewhere checks
//! [`available`] once, and uses another protocol if it is false.

use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};

use crate::platform::membarrier;

const UNKNOWN: u8 = 0;
const AVAILABLE: u8 = 1;
const MISSING: u8 = 2;

/// The kernel's answer. No lock guards it: every thread that finds `UNKNOWN` asks, and stores the
/// same answer. Relaxed everywhere, as the value publishes no other memory.
static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);

// include/uapi/linux/membarrier.h
const COMMAND_PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const COMMAND_REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// Whether [`heavy`] is a real `membarrier`, so that [`light`] costs nothing. The answer never
/// changes while the program runs. The first call registers the program with the kernel.
#[inline]
#[must_use]
pub fn available() -> bool {
    // Relaxed: the answer publishes nothing.
    match ANSWER.load(Ordering::Relaxed) {
        AVAILABLE => true,
        MISSING => false,
        _ => ask_kernel(),
    }
}

/// The frequent side: called between its store and its load. The module's documentation has the
/// pairing. Until the kernel has been asked, this is a fence: `heavy` has one, too.
#[inline]
pub fn light() {
    // Relaxed: the answer publishes nothing. SeqCst (below): either fence pairs with the one in
    // `heavy`.
    if ANSWER.load(Ordering::Relaxed) == AVAILABLE {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The rare side: called between its store and its load. Costs some microseconds and interrupts
/// every processor that runs a thread of this program.
pub fn heavy() {
    // SeqCst: pairs with the fence in `light`.
    fence(Ordering::SeqCst);
    if !available() {
        return;
    }
    if membarrier(COMMAND_PRIVATE_EXPEDITED) {
        return;
    }
    // This fails only if a kernel does not pass the registration on to a fork's child. The light
    // side may already rely on it, so there is no fallback: without the barrier the program would
    // be unsound.
    register_after_fork();
    if !membarrier(COMMAND_PRIVATE_EXPEDITED) {
        std::process::abort();
    }
}

/// Registers again in a fork's child. Async-signal-safe.
pub fn register_after_fork() {
    // Relaxed: as in `available`; a fork's child has the one thread that called fork.
    if ANSWER.load(Ordering::Relaxed) == AVAILABLE {
        let _ = membarrier(COMMAND_REGISTER_PRIVATE_EXPEDITED);
    }
}

#[cold]
fn ask_kernel() -> bool {
    let registered = !cfg!(baton_cas)
        && membarrier(COMMAND_REGISTER_PRIVATE_EXPEDITED)
        && membarrier(COMMAND_PRIVATE_EXPEDITED);
    let answer = if registered { AVAILABLE } else { MISSING };
    // Relaxed: every thread gets the same answer.
    ANSWER.store(answer, Ordering::Relaxed);
    registered
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn the_answer_does_not_change() {
        let first = available();
        assert_eq!(available(), first);
        register_after_fork();
        heavy();
        assert_eq!(available(), first);
        if cfg!(baton_cas) {
            assert!(!first);
        }
    }

    #[test]
    fn two_threads_never_both_miss_the_others_store() {
        const ROUNDS: usize = 20_000;
        let (a, b) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (saw_a, saw_b) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    start.wait();
                    a.store(round, Ordering::Relaxed);
                    light();
                    saw_b.store(b.load(Ordering::Relaxed), Ordering::Relaxed);
                    start.wait();
                }
            });
            for round in 1..=ROUNDS {
                start.wait();
                b.store(round, Ordering::Relaxed);
                heavy();
                saw_a.store(a.load(Ordering::Relaxed), Ordering::Relaxed);
                start.wait();
                let missed_both = saw_a.load(Ordering::Relaxed) != round
                    && saw_b.load(Ordering::Relaxed) != round;
                assert!(
                    !missed_both,
                    "both sides missed the other's store in round {round}"
                );
            }
        });
    }
}
