//! Reserves memory in the tables, so that later operations need not grow them.

use super::Scheduler;

/// Whether a table has room for `additional` more elements. It grows if necessary; `false` if it
/// cannot.
#[must_use]
pub(super) fn make_room<T>(table: &mut Vec<T>, count: usize) -> bool {
    table.try_reserve(count).is_ok()
}

impl<C> Scheduler<C> {
    /// Reserves memory for one more object of each kind and one more process, and for waits of all
    /// processes. Afterwards these allocate nothing. Returns `false` if there is not enough memory.
    ///
    /// ```
    /// use baton_core::sched::Scheduler;
    ///
    /// assert!(Scheduler::<()>::new(10).make_room());
    /// ```
    #[must_use]
    pub fn make_room(&mut self) -> bool {
        let timers = self.timers.places_with_one_more();
        let owners = self.processes.slots_with_one_more().max(timers);
        self.semaphores.make_room()
            && self.mutexes.make_room()
            && self.conditions.make_room()
            && self.events.make_room()
            && self.rwlocks.make_room()
            && self.holds.make_room()
            && self.barriers.make_room()
            && self.channels.make_room()
            && self.queues.make_room()
            && self.timers.make_room()
            && self.shared_waits.make_room()
            && self.processes.make_room()
            && make_room(&mut self.payloads, 1)
            && make_room(&mut self.fed_channels, 1)
            && self.names.try_reserve(1).is_ok()
            && self.waiters.make_room()
            && self.deadlines.make_room(owners)
    }
}
