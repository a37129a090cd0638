//! The scheduler in a fork's child: one process is left, all others end where they were.
//!
//! No process is woken meanwhile. First all others leave their wait queues. Then they are dead, and
//! their locks are released.

use crate::sched::process::{NO_DUE_TIME, Phase};
use crate::sched::slab::NIL;
use crate::sched::time::deadlines::Owner;
use crate::sched::{CarrierId, ProcessId, Scheduler};
use baton_sys::clock::Instant;

impl<C> Scheduler<C> {
    /// Ends all processes except `survivor`, which is current or out in a foreign call. Forgets all
    /// timers and carriers. Afterwards `survivor` is current, and its carrier is `home`. Returns
    /// the ended processes, so that the executor can take its data. Does nothing if `survivor` is
    /// dead.
    pub fn end_all_but(&mut self, survivor: ProcessId, home: CarrierId) -> Vec<ProcessId> {
        let Some(me) = self.processes.find_alive(survivor) else {
            return Vec::new();
        };
        let others: Vec<u32> = (0..self.processes.slots.len() as u32)
            .filter(|&index| {
                index != me && !matches!(self.processes[index].phase, Phase::Free | Phase::Dead)
            })
            .collect();
        self.forget_timers();
        for &index in &others {
            self.stop_waiting(index);
        }
        for &index in &others {
            self.end_in_place(index);
        }
        self.move_home(me, home);
        others
            .into_iter()
            .map(|index| self.processes.id(index))
            .collect()
    }

    fn forget_timers(&mut self) {
        for index in 0..self.timers.places() {
            let Some(timer) = self.timers.at_mut(index) else {
                continue;
            };
            if timer.alarm.is_some() {
                continue;
            }
            timer.prepared = None;
            timer.running = None;
            timer.is_pending = false;
            let is_detached = timer.is_detached;
            self.deadlines.cancel(Owner::Timer(index));
            if is_detached && let Some(key) = self.timers.key_at(index) {
                self.timers.remove(key);
            }
        }
        self.pending_timers = 0;
    }

    fn stop_waiting(&mut self, index: u32) {
        self.deadlines.cancel(Owner::Process(index));
        self.processes[index].relock = None;
        self.leave_queues(index);
    }

    fn end_in_place(&mut self, index: u32) {
        let phase = self.processes[index].phase;
        if matches!(phase, Phase::Ready | Phase::Aside) {
            self.leave_run_queue(index);
        }
        if phase != Phase::Prepared {
            self.live -= 1;
            self.live_non_daemons -= u32::from(!self.processes[index].daemon);
            self.counters.ended += 1;
        }
        self.set_phase(index, Phase::Dead);
        self.detach(index);
        self.abandon_mutexes(index);
        self.deadlines.cancel(Owner::Safepoint(index));
        self.deadlines.cancel(Owner::Decay(index));
        self.abandon_rwlocks(index);
        self.release_joiners(index);
    }

    /// Makes `home` the only carrier, and that of `me`.
    fn move_home(&mut self, me: u32, home: CarrierId) {
        let pid = self.processes.id(me);
        for carrier in 0..self.carriers.len() as u32 {
            self.vacate(CarrierId(carrier));
        }
        self.processes[me].suspended = false;
        self.end_foreign(pid);
        let process = &self.processes[me];
        let (pin, pinned) = (process.pin.map(|_| home), process.pinned.map(|_| home));
        let due = self.processes[me].due;
        self.detach(me);
        self.set_due_time(pid, (due != NO_DUE_TIME).then(|| Instant::from_nanos(due)));
        self.forget_carriers(me, pin, pinned);
        self.current = NIL;
        self.last = me;
        let _ = self.switch_to(pid);
    }
}
