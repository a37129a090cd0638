//! A census: what all processes wait for at one instant, read in one short step.
//!
//! Stacks and texts of ten thousand processes take too long for one step: everybody waits
//! meanwhile. So these are read later, in slices. The census says what was true at its instant, and
//! which processes have run since.
//!
//! **How it knows who has run**: the census charges the running process for its time so far. So
//! every run that ends later ends at a later time than all runs before the census, although these
//! times are coarse. A process with the same time as in its row has not run since.

use crate::sched::CensusRow;
use crate::vm::View;
use baton_sys::clock::Instant;

impl View<'_> {
    /// Adds the rows of the processes at these places. A row takes some 30 ns.
    ///
    /// ```
    /// use baton_core::sched::State;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let child = main.spawn(|process| process.vm.yield_now());
    ///     main.vm.yield_now();
    ///     let rows = main.vm.view(|view| {
    ///         let mut rows = Vec::new();
    ///         view.census(0..view.sched().places(), &mut rows);
    ///         rows
    ///     });
    ///     assert_eq!((rows[1].process, rows[1].state), (child, State::Runnable));
    ///     assert!(!main.vm.view(|view| view.has_run_since(&rows[1])));
    ///     main.vm.yield_now();
    ///     assert!(main.vm.view(|view| view.has_run_since(&rows[1])));
    /// });
    /// ```
    pub fn census(&mut self, places: impl Iterator<Item = u32>, rows: &mut Vec<CensusRow>) {
        // A simulated run has a time of its own, and counts its runs by instructions.
        if let Some(current) = self.inner.sched.current()
            && !self.vm.is_simulated()
        {
            self.inner.charge(current, Instant::now().as_nanos());
        }
        let sched = &self.inner.sched;
        rows.extend(places.filter_map(|place| {
            let mut row = sched.census_row(place)?;
            row.stamp = sched
                .payload(row.process)
                .map_or(0, |context| context.left_at);
            Some(row)
        }));
    }

    /// Whether the process of a row has run since the census, runs now, or is forgotten.
    #[must_use]
    pub fn has_run_since(&self, row: &CensusRow) -> bool {
        let context = self.inner.sched.payload(row.process);
        let same = context.is_some_and(|context| context.left_at == row.stamp);
        !same || self.inner.sched.current() == Some(row.process)
    }
}
