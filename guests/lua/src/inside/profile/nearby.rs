//! Looks from the processor that the owner runs on.
//!
//! To ask a thread on another processor, and to be woken by its answer, takes two interrupts
//! between processors. In a virtual machine each takes some 25 us, more than all the rest of a
//! sample. So the thread that samples moves to where the owner was at the last sample. It needs
//! that processor for some microseconds, a hundred times a second.

use super::PATIENCE;
use baton_core::vm::{NoLook, View, Vm};
use baton_sys::processors;

/// What the calling thread is bound to, for as long as this lives.
#[derive(Default)]
pub(super) struct Nearby {
    processor: Option<usize>,
}

impl Nearby {
    /// As [`Vm::look`]. Then moves to the owner's processor, if the system lets it.
    pub(super) fn look<R: Send + 'static>(
        &mut self,
        vm: &Vm,
        look: impl FnOnce(&mut View<'_>) -> R + Send + 'static,
    ) -> Result<R, NoLook> {
        let seen = vm.look(PATIENCE, |view| SeenFrom::by(look, view))?;
        Ok(self.follow(seen))
    }

    /// Moves to the processor from which this was seen.
    pub(super) fn follow<R>(&mut self, seen: SeenFrom<R>) -> R {
        if seen.processor != self.processor
            && let Some(processor) = seen.processor
            && processors::bind_this_thread(processor).is_ok()
        {
            self.processor = Some(processor);
        }
        seen.what
    }
}

/// The result of a look.
pub(super) struct SeenFrom<R> {
    what: R,
    /// The processor that it ran on.
    processor: Option<usize>,
}

impl<R> SeenFrom<R> {
    pub(super) fn by(look: impl FnOnce(&mut View<'_>) -> R, view: &mut View<'_>) -> SeenFrom<R> {
        SeenFrom {
            what: look(view),
            processor: processors::of_this_thread(),
        }
    }
}

impl Drop for Nearby {
    fn drop(&mut self) {
        if self.processor.is_some() {
            // It was bound, so it can be freed.
            let _ = processors::free_this_thread();
        }
    }
}
