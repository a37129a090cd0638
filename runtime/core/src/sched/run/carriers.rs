//! Native threads in the scheduler: processes that may run on one thread only, and occupied
//! threads.
//!
//! A process with foreign frames (*pinned*), or one that the user bound, runs on one carrier only.
//! While another process is out in a foreign call on that carrier, the carrier is *occupied*. The
//! first process is then runnable but cannot be chosen. It is kept aside in the carrier's own ring
//! until the carrier is vacated.
//!
//! Some carriers have names, by which users bind processes to them. The scheduler counts the bound
//! processes, and lists the carriers that have none any more.
//!
//! A pinned process that comes back is in the middle of a foreign function. That function may use
//! thread-local state, such as an error queue, before it returns. So the carrier continues this
//! process before it runs any other.

use super::run_queue;
use crate::sched::process::Phase;
use crate::sched::slab::NIL;
use crate::sched::{CarrierId, ProcessId, Scheduler};

/// What the scheduler knows of a native thread.
#[derive(Clone, Copy, Debug)]
pub(in crate::sched) struct Carrier {
    /// The process that is out on it, or `NIL`.
    pub(in crate::sched) occupant: u32,
    /// The pinned process that has come back from a call here and not continued yet, or `NIL`.
    pub(in crate::sched) returned: u32,
    /// The ring of the processes kept aside.
    pub(in crate::sched) aside: u32,
    /// The first of the processes that run only here, in `carrier_next` and `carrier_prev`.
    pub(super) attached: u32,
    /// How many processes are bound to it, wherever their foreign frames are.
    pub(in crate::sched) bound: u32,
    /// How many processes have foreign frames here.
    pub(in crate::sched) pinned: u32,
    /// It is reserved for its bound processes.
    pub(in crate::sched) is_named: bool,
}

impl Carrier {
    const UNKNOWN: Carrier = Carrier {
        occupant: NIL,
        returned: NIL,
        aside: NIL,
        attached: NIL,
        bound: 0,
        pinned: 0,
        is_named: false,
    };
}

impl<C> Scheduler<C> {
    /// The most carriers. Ids from here on count as no carrier at all.
    pub const MOST_CARRIERS: u32 = 1 << 16;

    /// The only carrier on which a process can run: that of its foreign frames, else the one that
    /// the user bound it to.
    #[inline]
    pub fn effective_carrier(&self, pid: ProcessId) -> Option<CarrierId> {
        let process = &self.processes[self.processes.find(pid)?];
        process.pinned.or(process.pin)
    }

    /// The carrier that the user bound a process to.
    pub fn pin(&self, pid: ProcessId) -> Option<CarrierId> {
        self.processes[self.processes.find(pid)?].pin
    }

    /// The carrier that has foreign frames of a process.
    pub fn pinned(&self, pid: ProcessId) -> Option<CarrierId> {
        self.processes[self.processes.find(pid)?].pinned
    }

    /// Binds a process to a carrier, or frees it. If it is the current process, it continues to
    /// run; the caller must move it.
    pub fn set_pin(&mut self, pid: ProcessId, carrier: Option<CarrierId>) {
        if let Some(index) = self.processes.find_alive(pid) {
            self.change_pin(index, carrier);
            self.attach(index);
        }
    }

    /// Sets the carrier with a process's foreign frames; `None`: it has none.
    pub fn set_pinned(&mut self, pid: ProcessId, carrier: Option<CarrierId>) {
        if let Some(index) = self.processes.find_alive(pid) {
            self.change_pinned(index, carrier);
            self.attach(index);
        }
    }

    /// Reserves a carrier for its bound processes, or ends that.
    pub fn set_named(&mut self, carrier: CarrierId, is_named: bool) {
        if let Some(place) = self.carrier_place(carrier)
            && std::mem::replace(&mut self.carriers[place].is_named, is_named) != is_named
        {
            match is_named {
                true => self.named_carriers += 1,
                false => self.named_carriers -= 1,
            }
        }
    }

    /// Whether a carrier is reserved for its bound processes.
    #[inline]
    pub fn is_named(&self, carrier: CarrierId) -> bool {
        self.known(carrier).is_some_and(|carrier| carrier.is_named)
    }

    /// How many carriers are reserved for their bound processes.
    pub fn named_count(&self) -> usize {
        self.named_carriers
    }

    /// How many of the reserved carriers are not occupied.
    pub fn named_and_vacant_count(&self) -> usize {
        match self.named_carriers {
            0 => 0,
            _ => {
                let vacant = |carrier: &&Carrier| carrier.is_named && carrier.occupant == NIL;
                self.carriers.iter().filter(vacant).count()
            }
        }
    }

    /// A reserved carrier to which no process is bound any more, if there is one.
    #[inline]
    pub fn next_unbound(&mut self) -> Option<CarrierId> {
        while let Some(place) = self.unbound.pop() {
            let carrier = CarrierId(place);
            if self.is_named(carrier) && !self.is_bound_to(carrier) {
                return Some(carrier);
            }
        }
        None
    }

    /// Whether some process is bound to this carrier.
    pub fn is_bound_to(&self, carrier: CarrierId) -> bool {
        self.known(carrier).is_some_and(|carrier| carrier.bound > 0)
    }

    /// Whether some process has foreign frames on this carrier.
    pub fn is_pinned_to(&self, carrier: CarrierId) -> bool {
        self.known(carrier)
            .is_some_and(|carrier| carrier.pinned > 0)
    }

    /// Whether a process other than `pid` has foreign frames on this carrier, or is out on it.
    pub fn is_used_by_others(&self, carrier: CarrierId, pid: ProcessId) -> bool {
        let Some(known) = self.known(carrier) else {
            return false;
        };
        let own = u32::from(self.pinned(pid) == Some(carrier));
        let is_occupied = self.occupant(carrier).is_some_and(|other| other != pid);
        is_occupied || known.pinned > own
    }

    /// Whether some process has foreign frames on any carrier.
    #[inline(always)]
    pub fn has_pinned(&self) -> bool {
        self.pinned_processes > 0
    }

    /// Makes a process the occupant of a carrier: other processes that need the carrier are kept
    /// aside. The occupant before it is forgotten.
    pub fn occupy(&mut self, carrier: CarrierId, pid: ProcessId) {
        let Some(index) = self.processes.find_alive(pid) else {
            return;
        };
        if let Some(place) = self.carrier_place(carrier) {
            self.vacate(carrier);
            self.carriers[place].occupant = index;
            self.put_attached_aside(place as u32);
        }
    }

    /// Removes the occupant of a carrier. The processes that were kept aside are runnable again, in
    /// order.
    pub fn vacate(&mut self, carrier: CarrierId) {
        let Some(place) = self.carrier_place(carrier) else {
            return;
        };
        self.carriers[place].occupant = NIL;
        while self.carriers[place].aside != NIL {
            let index = self.carriers[place].aside;
            self.leave_aside(index);
            self.make_ready(index);
        }
    }

    /// The process that is out on a carrier.
    pub fn occupant(&self, carrier: CarrierId) -> Option<ProcessId> {
        let occupant = self.carriers.get(carrier.0 as usize)?.occupant;
        (occupant != NIL).then(|| self.processes.id(occupant))
    }

    /// Removes `pid` as the occupant of a carrier, if it is that.
    pub fn release(&mut self, carrier: CarrierId, pid: ProcessId) {
        if self.occupant(carrier) == Some(pid) {
            self.vacate(carrier);
        }
    }

    /// Whether some process can run on this carrier only.
    pub fn is_needed(&self, carrier: CarrierId) -> bool {
        self.is_bound_to(carrier) || self.is_pinned_to(carrier)
    }

    #[inline]
    fn known(&self, carrier: CarrierId) -> Option<&Carrier> {
        self.carriers.get(carrier.0 as usize)
    }

    /// Marks a runnable process as out in a foreign call on `carrier`. If it was current, no
    /// process is current. Does nothing if it was not runnable. Returns whether it did.
    pub fn begin_foreign(&mut self, pid: ProcessId, carrier: CarrierId) -> bool {
        let Some(index) = self.processes.find_alive(pid) else {
            return false;
        };
        if !matches!(self.processes[index].phase, Phase::Ready | Phase::Aside) {
            return false;
        }
        self.leave_run_queue(index);
        self.set_phase(index, Phase::Foreign);
        self.processes[index].foreign_on = carrier.0;
        if self.processes[index].decay.has_sunk() {
            self.come_back(index);
        }
        if index == self.current {
            self.clear_current();
        }
        self.counters.foreign_calls += 1;
        self.occupy(carrier, pid);
        true
    }

    /// Marks a foreign call as returned. Its carrier is free, and the process is runnable at the
    /// back of its level. A suspended process stays suspended. Returns whether it was out.
    pub fn end_foreign(&mut self, pid: ProcessId) -> bool {
        let Some(index) = self.processes.find(pid) else {
            return false;
        };
        if self.processes[index].phase != Phase::Foreign {
            return false;
        }
        let carrier = CarrierId(std::mem::replace(
            &mut self.processes[index].foreign_on,
            NIL,
        ));
        self.release(carrier, pid);
        if self.processes[index].pinned == Some(carrier)
            && let Some(place) = self.carrier_place(carrier)
        {
            self.carriers[place].returned = index;
        }
        if self.processes[index].suspended {
            self.set_phase(index, Phase::Halted);
        } else {
            self.make_ready(index);
        }
        true
    }

    /// Makes current, whatever its priority, the process that a carrier must continue before any
    /// other. `None`: there is none, it is suspended, or the current process is in a critical
    /// section.
    pub fn schedule_returned(&mut self, carrier: CarrierId) -> Option<ProcessId> {
        let index = self.carriers.get(carrier.0 as usize)?.returned;
        if index == NIL || self.is_critical() || self.processes[index].phase != Phase::Ready {
            return None;
        }
        self.carriers[carrier.0 as usize].returned = NIL;
        let pid = self.processes.id(index);
        let _ = self.switch_to(pid);
        Some(pid)
    }

    /// How many processes are out in foreign calls.
    #[inline]
    pub fn foreign_count(&self) -> usize {
        self.count_of(Phase::Foreign)
    }

    /// How many runnable processes are kept aside.
    #[inline]
    pub fn kept_aside_count(&self) -> usize {
        self.count_of(Phase::Aside)
    }

    /// The carriers that processes are kept aside for: each with its occupant and the first of
    /// those processes.
    pub fn held_carriers(&self) -> impl Iterator<Item = (CarrierId, ProcessId, ProcessId)> + '_ {
        let numbered = self.carriers.iter().enumerate();
        let held = numbered.filter(|(_, carrier)| carrier.aside != NIL && carrier.occupant != NIL);
        held.map(|(place, carrier)| {
            let ids = [carrier.occupant, carrier.aside].map(|index| self.processes.id(index));
            (CarrierId(place as u32), ids[0], ids[1])
        })
    }

    /// Whether another process is out on the carrier that a process needs.
    pub(in crate::sched) fn must_stay_aside(&self, index: u32) -> bool {
        match self.carriers.get(self.processes[index].carrier as usize) {
            Some(carrier) => carrier.occupant != NIL && carrier.occupant != index,
            None => false,
        }
    }

    /// Keeps a runnable process aside for its carrier.
    #[cold]
    pub(super) fn put_aside(&mut self, index: u32) {
        self.set_phase(index, Phase::Aside);
        self.counters.kept_aside += 1;
        let place = self.processes[index].carrier as usize;
        let ring = &mut self.carriers[place].aside;
        run_queue::push_back(&mut self.processes.slots, ring, index);
    }

    /// Takes a process out of its carrier's ring.
    #[cold]
    pub(super) fn leave_aside(&mut self, index: u32) {
        let place = self.processes[index].carrier as usize;
        let ring = &mut self.carriers[place].aside;
        run_queue::remove(&mut self.processes.slots, ring, index);
    }

    /// Removes an ending process from its carrier.
    pub(in crate::sched) fn detach(&mut self, index: u32) {
        self.forget_due_time(index);
        self.change_pin(index, None);
        self.change_pinned(index, None);
        self.move_to_carrier(index, NIL);
    }

    /// Forgets all carriers in a fork's child, and binds and pins `index` to the given ones.
    pub(in crate::sched) fn forget_carriers(
        &mut self,
        index: u32,
        pin: Option<CarrierId>,
        pinned: Option<CarrierId>,
    ) {
        self.carriers.clear();
        self.unbound.clear();
        self.named_carriers = 0;
        self.pinned_processes = 0;
        self.change_pin(index, pin);
        self.change_pinned(index, pinned);
        self.attach(index);
    }

    fn change_pin(&mut self, index: u32, pin: Option<CarrierId>) {
        let old = std::mem::replace(&mut self.processes[index].pin, pin);
        if old == pin {
            return;
        }
        if let Some(place) = old.and_then(|carrier| self.carrier_place(carrier)) {
            let carrier = &mut self.carriers[place];
            carrier.bound -= 1;
            if carrier.bound == 0 && carrier.is_named {
                self.unbound.push(place as u32);
            }
        }
        if let Some(place) = pin.and_then(|carrier| self.carrier_place(carrier)) {
            self.carriers[place].bound += 1;
        }
    }

    fn change_pinned(&mut self, index: u32, pinned: Option<CarrierId>) {
        let old = std::mem::replace(&mut self.processes[index].pinned, pinned);
        if old == pinned {
            return;
        }
        if let Some(place) = old.and_then(|carrier| self.carrier_place(carrier)) {
            let carrier = &mut self.carriers[place];
            carrier.pinned -= 1;
            self.pinned_processes -= 1;
            if carrier.returned == index {
                carrier.returned = NIL;
            }
        }
        if let Some(place) = pinned.and_then(|carrier| self.carrier_place(carrier)) {
            self.carriers[place].pinned += 1;
            self.pinned_processes += 1;
        }
    }

    /// Lists a process with the carrier that it needs now.
    fn attach(&mut self, index: u32) {
        let process = &self.processes[index];
        let place = process
            .pinned
            .or(process.pin)
            .and_then(|carrier| self.carrier_place(carrier));
        let place = place.map_or(NIL, |place| place as u32);
        let phase = self.processes[index].phase;
        if phase == Phase::Aside {
            self.leave_aside(index);
        }
        self.move_to_carrier(index, place);
        match phase {
            Phase::Aside => self.make_ready(index),
            Phase::Ready if self.must_stay_aside(index) => {
                self.leave_run_queue(index);
                self.put_aside(index);
            }
            _ => {}
        }
    }

    fn move_to_carrier(&mut self, index: u32, place: u32) {
        let process = &self.processes[index];
        let (old, next, prev) = (process.carrier, process.carrier_next, process.carrier_prev);
        if old != NIL {
            if next != NIL {
                self.processes[next].carrier_prev = prev;
            }
            match prev {
                NIL => self.carriers[old as usize].attached = next,
                _ => self.processes[prev].carrier_next = next,
            }
        }
        let mut first = NIL;
        if place != NIL {
            first = std::mem::replace(&mut self.carriers[place as usize].attached, index);
        }
        if first != NIL {
            self.processes[first].carrier_prev = index;
        }
        let process = &mut self.processes[index];
        process.carrier = place;
        process.carrier_next = first;
        process.carrier_prev = NIL;
    }

    /// Keeps aside the processes that need a carrier and may not be chosen now. Each level is
    /// walked in order, so that their order is kept.
    fn put_attached_aside(&mut self, place: u32) {
        let mut levels = 0u128;
        let mut index = self.carriers[place as usize].attached;
        while index != NIL {
            let process = &self.processes[index];
            if process.phase == Phase::Ready && self.must_stay_aside(index) {
                levels |= 1 << process.priority.get();
            }
            index = process.carrier_next;
        }
        while levels != 0 {
            let level = levels.trailing_zeros() as u8;
            levels &= levels - 1;
            self.put_level_aside(place, level);
        }
    }

    fn put_level_aside(&mut self, place: u32, level: u8) {
        let last = self.processes[self.run_queue.head(level)].prev;
        let mut index = self.run_queue.head(level);
        loop {
            let next = self.processes[index].next;
            if self.processes[index].carrier == place && self.must_stay_aside(index) {
                self.leave_run_queue(index);
                self.put_aside(index);
            }
            if index == last {
                return;
            }
            index = next;
        }
    }

    /// The place of a carrier in the table, which grows as needed. `None` beyond the limit.
    fn carrier_place(&mut self, carrier: CarrierId) -> Option<usize> {
        if carrier.0 >= Self::MOST_CARRIERS {
            return None;
        }
        let place = carrier.0 as usize;
        if place >= self.carriers.len() {
            self.carriers.resize(place + 1, Carrier::UNKNOWN);
        }
        Some(place)
    }
}
