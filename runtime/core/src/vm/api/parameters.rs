//! Parameters that were changed while the VM runs.

use crate::vm::{Inner, Inside, Vm};

impl Inside<'_> {
    /// Applies changed parameters. To be called inside the VM after parameters were set: threads
    /// that wait by an old value check again.
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     main.vm.parameters.set_max_threads(8);
    ///     main.vm.parameters_changed();
    ///     assert_eq!(main.vm.threads_for_calls(), 8);
    /// });
    /// ```
    pub fn parameters_changed(&self) {
        self.with_inner(|inner| self.apply_parameters(inner));
        self.tell_of_parameters();
    }
}

impl Vm {
    pub(in crate::vm) fn apply_parameters(&self, inner: &mut Inner) {
        self.update_tracing(inner);
        // More native threads may be allowed now, and deadlines may be earlier.
        inner.wake_next_in_queue();
        self.update_hints(inner);
    }

    pub(in crate::vm) fn tell_of_parameters(&self) {
        // Waiting threads may have a shorter time limit now.
        self.lock_state().wake_all();
        self.beat_changed();
    }

    /// Applies a changed parameter `beat`: the monitor reads it again.
    pub fn beat_changed(&self) {
        if self.parameters.beat.get().is_zero() {
            self.monitor.alert_if_started();
        } else {
            self.monitor.alert();
        }
    }
}
