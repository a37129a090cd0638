//! Bells: what a signal handler, or a thread that the VM has never seen, may ring to have a process go on.
//!
//! A post needs memory, and a signal handler can ask for none. So a bell is hung beforehand; to ring it is to count, to set a bit and to
//! kick. The owner answers when it takes in what others posted. Whoever rings may take the bell down at once: it is kept until it has been answered.
//!
//! **No ring is lost.** A ring counts first, then sets [`request::RUNG`], and then notifies by the protocol of
//! [`baton_sys::parking`], as a post does. The owner clears the bit before it takes the counts: whoever counts after that sets the bit again.

use super::{Inner, Vm, request};
use crate::kernel::{ProcessId, SemaphoreId};
use baton_sys::gate;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// What a ring does. What is gone by then is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ring {
    /// Lets a suspended process go on.
    Resume(ProcessId),
    /// Signals a semaphore, once for each ring.
    Signal(SemaphoreId),
}

/// A bell of a VM. It is taken down when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Bell {
    hung: Arc<Hung>,
    vm: Arc<Vm>,
}

#[derive(Debug)]
pub(super) struct Hung {
    does: Ring,
    /// Rings that were not answered.
    rung: AtomicU64,
}

impl Bell {
    /// Rings the bell: on any thread, in a signal handler too, inside the VM or outside of it. Allocates nothing, takes no lock and leaves
    /// errno to its caller. A more urgent process that it wakes preempts as after any other event from outside.
    ///
    /// In a signal handler, ring a bell that lives as long as the handler is installed: dropping one frees memory.
    pub fn ring(&self) {
        // Release: pairs with the swap in `answer_bells`.
        self.hung.rung.fetch_add(1, Ordering::Release);
        self.vm.request(request::RUNG);
        let here = gate::here();
        if here.carrier().is_some() {
            // Perhaps the owner's own thread, interrupted by a signal: it need not wait for the monitor.
            here.request_attention();
        }
    }
}

impl Vm {
    /// Hangs a bell. Inside the VM. The monitor is there from now on, as nobody who rings can start it.
    ///
    /// ```
    /// use baton_core::kernel::Deadline;
    /// use baton_core::vm::Ring;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let semaphore = main.vm.kernel(|kernel| kernel.semaphore_new(0));
    ///     let bell = main.vm.hang_bell(Ring::Signal(semaphore));
    ///     let thread = std::thread::spawn(move || bell.ring()); // or a signal handler
    ///     main.vm.attempt(|kernel| kernel.semaphore_wait(semaphore, Deadline::Never));
    ///     thread.join().expect("it rings, and ends");
    /// });
    /// ```
    pub fn hang_bell(self: &Arc<Vm>, does: Ring) -> Bell {
        let hung = Arc::new(Hung {
            does,
            rung: AtomicU64::new(0),
        });
        self.inner.with(|inner| inner.bells.push(Arc::clone(&hung)));
        self.monitor.alert();
        Bell {
            hung,
            vm: Arc::clone(self),
        }
    }

    /// Takes in what was rung, and forgets bells that were taken down.
    pub(super) fn answer_bells(&self, inner: &mut Inner) {
        // AcqRel: pairs with the release in `request`; those who count after this set the bit again.
        if self.requests.fetch_and(!request::RUNG, Ordering::AcqRel) & request::RUNG != 0 {
            inner.answer_bells();
        }
    }
}

impl Hung {
    /// Whether it is still to be answered, now or after a ring to come.
    fn matters(bell: &Arc<Hung>) -> bool {
        let is_hung = Arc::strong_count(bell) > 1;
        // Acquire: pairs with the release by which the last other clone was dropped. Whoever has rung and dropped the bell is heard below.
        fence(Ordering::Acquire);
        // Relaxed: after the fence.
        is_hung || bell.rung.load(Ordering::Relaxed) != 0
    }
}

impl Inner {
    /// Whether somebody outside might ring, or has rung and was not answered.
    pub(super) fn has_bells(&mut self) -> bool {
        self.bells.retain(Hung::matters);
        !self.bells.is_empty()
    }

    #[cold]
    pub(super) fn answer_bells(&mut self) {
        let Inner { bells, kernel, .. } = self;
        for bell in &*bells {
            // Acquire: pairs with the release in `ring`.
            match (bell.rung.swap(0, Ordering::Acquire), bell.does) {
                (0, _) => {}
                (_, Ring::Resume(process)) => {
                    let _ = kernel.resume(process);
                }
                (times, Ring::Signal(semaphore)) => {
                    kernel.semaphore_signal(semaphore, times);
                }
            }
        }
        bells.retain(Hung::matters);
    }
}
