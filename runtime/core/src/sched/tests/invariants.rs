//! Checks of all invariants, after every operation.

use std::collections::HashMap;

use crate::sched::process::{PHASES, Phase, Process};
use crate::sched::slab::NIL;
use crate::sched::sync::rwlock::Hold;
use crate::sched::time::deadlines::Owner;
use crate::sched::wait::waiters::{Kind, WaitQueue};
use crate::sched::{CarrierId, Scheduler};

/// Panics if the data of the scheduler is inconsistent.
pub(super) fn check(sched: &Scheduler<()>) {
    check_census(sched);
    check_places(sched);
    check_carriers(sched);
    check_current(sched);
    check_waits(sched);
    check_mutexes(sched);
    check_decay(sched);
    check_rwlocks(sched);
    check_objects(sched);
    sched.deadlines.check();
}

fn processes(sched: &Scheduler<()>) -> impl Iterator<Item = (u32, &Process)> {
    let is_used = |(_, process): &(usize, &Process)| process.phase != Phase::Free;
    let slots = sched.processes.slots.iter().enumerate().filter(is_used);
    slots.map(|(index, process)| (index as u32, process))
}

fn check_census(sched: &Scheduler<()>) {
    let mut census = [0; PHASES];
    let (mut live, mut non_daemons) = (0, 0);
    for (_, process) in processes(sched) {
        census[process.phase as usize] += 1;
        if !matches!(process.phase, Phase::Dead | Phase::Prepared) {
            live += 1;
            non_daemons += u32::from(!process.daemon);
        }
    }
    assert_eq!(sched.census, census);
    let with_due_time = processes(sched).filter(|(_, process)| process.due != u64::MAX);
    assert_eq!(sched.with_due_time as usize, with_due_time.count());
    assert_eq!((sched.live, sched.live_non_daemons), (live, non_daemons));
    let pending = sched
        .timers
        .iter()
        .filter(|(_, timer)| timer.is_pending)
        .count();
    assert_eq!(sched.pending_timers, pending);
}

/// The members of a ring, in order.
fn ring(sched: &Scheduler<()>, head: u32) -> Vec<u32> {
    let mut members = Vec::new();
    let mut index = head;
    while index != NIL {
        members.push(index);
        let next = sched.processes[index].next;
        assert_eq!(sched.processes[next].prev, index);
        index = if next == head { NIL } else { next };
    }
    members
}

/// Checks that each process is in exactly the ring that its phase names.
fn check_places(sched: &Scheduler<()>) {
    let mut places = HashMap::new();
    for level in 1..=81 {
        let members = ring(sched, sched.run_queue.head(level));
        for &index in &members {
            assert_eq!(sched.processes[index].priority.get(), level);
            assert!(places.insert(index, Phase::Ready).is_none(), "in two rings");
        }
        if !members.is_empty() {
            assert!(sched.run_queue.top() >= level);
        }
    }
    let top = sched.run_queue.top();
    assert!(top == 0 || sched.run_queue.head(top) != NIL);
    for (place, carrier) in sched.carriers.iter().enumerate() {
        for index in ring(sched, carrier.aside) {
            assert_eq!(sched.processes[index].carrier, place as u32);
            assert!(places.insert(index, Phase::Aside).is_none(), "in two rings");
        }
    }
    for (index, process) in processes(sched) {
        let is_in_ring = matches!(process.phase, Phase::Ready | Phase::Aside);
        assert_eq!(
            places.get(&index).copied(),
            is_in_ring.then_some(process.phase)
        );
        match process.phase {
            Phase::Ready => assert!(!sched.must_stay_aside(index)),
            Phase::Aside => assert!(sched.must_stay_aside(index)),
            _ => {}
        }
    }
}

/// Checks that each carrier counts the processes that need it, and that each named carrier without
/// bound processes is listed.
fn check_carriers(sched: &Scheduler<()>) {
    for (place, carrier) in sched.carriers.iter().enumerate() {
        let is_here = |wanted: Option<CarrierId>| wanted == Some(CarrierId(place as u32));
        let bound = processes(sched)
            .filter(|(_, process)| is_here(process.pin))
            .count();
        let pinned = processes(sched)
            .filter(|(_, process)| is_here(process.pinned))
            .count();
        assert_eq!(
            (carrier.bound as usize, carrier.pinned as usize),
            (bound, pinned)
        );
    }
    let named = sched
        .carriers
        .iter()
        .filter(|carrier| carrier.is_named)
        .count();
    assert_eq!(sched.named_count(), named);
}

fn check_current(sched: &Scheduler<()>) {
    if sched.current == NIL {
        return;
    }
    let process = &sched.processes[sched.current];
    let critical = processes(sched)
        .filter(|(_, process)| process.critical > 0 && process.phase != Phase::Dead);
    assert!(
        critical
            .map(|(index, _)| index)
            .all(|index| index == sched.current)
    );
    match process.phase {
        Phase::Ready => assert_eq!(sched.run_queue.head(process.priority.get()), sched.current),
        phase => assert_eq!(phase, Phase::Aside, "the current process could run"),
    }
}

/// Checks that nodes belong to waiting processes, that a process with a due kill does not wait, and
/// that no node is lost.
fn check_waits(sched: &Scheduler<()>) {
    let mut nodes = 0;
    for (index, process) in processes(sched) {
        let mut node = process.waiters;
        while node != NIL {
            assert_eq!(process.phase, Phase::Waiting);
            assert_eq!(sched.waiters.node(node).process, index);
            nodes += 1;
            node = sched.waiters.node(node).sibling;
        }
        let is_blocked = matches!(
            process.phase,
            Phase::Waiting | Phase::Sleeping | Phase::Halted
        );
        assert!(!is_blocked || !process.kill_is_due() || sched.is_relocking(index));
        if process.phase == Phase::Halted {
            assert!(process.suspended);
        }
    }
    let queues = all_queues(sched);
    let queued: usize = queues.iter().map(|&queue| sched.waiters.check(queue)).sum();
    assert_eq!(queued, nodes);
    let watching = sched
        .descriptors
        .iter()
        .flatten()
        .map(|&queue| sched.waiters.iter(queue).count());
    assert_eq!(sched.watching as usize, watching.sum::<usize>());
    let shared = sched.shared_waits.iter();
    let shared = shared.map(|(_, wait)| sched.waiters.iter(wait.waiters).count());
    assert_eq!(sched.waiting_for_shared as usize, shared.sum::<usize>());
    assert_eq!(sched.waiters.in_use(), nodes + queues.len());
}

fn all_queues(sched: &Scheduler<()>) -> Vec<WaitQueue> {
    let mut queues = vec![sched.rest];
    queues.extend(
        sched
            .semaphores
            .iter()
            .map(|(_, semaphore)| semaphore.waiters),
    );
    queues.extend(sched.mutexes.iter().map(|(_, mutex)| mutex.waiters));
    queues.extend(
        sched
            .conditions
            .iter()
            .map(|(_, condition)| condition.waiters),
    );
    queues.extend(sched.events.iter().map(|(_, event)| event.waiters));
    queues.extend(sched.shared_waits.iter().map(|(_, wait)| wait.waiters));
    let alarms = sched
        .timers
        .iter()
        .filter_map(|(_, timer)| timer.alarm.as_ref());
    queues.extend(alarms.map(|alarm| alarm.waiters));
    queues.extend(sched.rwlocks.iter().map(|(_, lock)| lock.waiters));
    queues.extend(sched.barriers.iter().map(|(_, barrier)| barrier.waiters));
    queues.extend(sched.queues.iter().map(|(_, &queue)| queue));
    queues.extend(sched.descriptors.iter().flatten());
    for (_, channel) in sched.channels.iter() {
        queues.extend([channel.receivers, channel.senders]);
    }
    let joiners = processes(sched).map(|(_, process)| process.joiners);
    queues.extend(joiners.filter(|&queue| queue != NIL).map(WaitQueue));
    queues
}

/// Checks the links between mutexes and owners, and that each owner inherits the right priority.
fn check_mutexes(sched: &Scheduler<()>) {
    let mut held = HashMap::new();
    for (index, process) in processes(sched) {
        let mut mutex = process.held;
        let mut before = NIL;
        let mut priority = process.own_priority.get();
        while let Some(object) = sched.mutexes.at(mutex) {
            assert_eq!(object.held_prev, before);
            assert!(held.insert(mutex, index).is_none(), "held twice");
            for waiter in sched.waiters.iter(object.waiters) {
                priority = priority.max(sched.processes[waiter.process].priority.get());
            }
            before = mutex;
            mutex = object.held_next;
        }
        for hold in holds_of(sched, process) {
            for waiter in sched
                .waiters
                .iter(sched.rwlocks.at(hold.lock).expect("held").waiters)
            {
                priority = priority.max(sched.processes[waiter.process].priority.get());
            }
        }
        assert!(process.phase != Phase::Dead || (process.held == NIL && process.holds == NIL));
        if process.phase != Phase::Dead {
            let due = if process.critical > 0 { 81 } else { priority };
            assert_eq!(process.priority.get(), due);
        }
    }
    for (index, mutex) in sched.mutexes.iter() {
        assert_eq!(held.get(&index).copied().unwrap_or(NIL), mutex.owner);
        assert!(mutex.owner != NIL || sched.waiters.is_empty(mutex.waiters));
    }
}

/// Checks that only a process that may run has sunk, and that each has a time to come back.
fn check_decay(sched: &Scheduler<()>) {
    for (index, process) in processes(sched) {
        let has_sunk = process.decay.has_sunk();
        let due = sched.deadlines.of(Owner::Decay(index));
        assert_eq!(due.is_some(), has_sunk && process.phase != Phase::Dead);
        assert!(!has_sunk || matches!(process.phase, Phase::Ready | Phase::Aside | Phase::Dead));
    }
}

fn holds_of<'a>(sched: &'a Scheduler<()>, process: &Process) -> impl Iterator<Item = &'a Hold> {
    let follow = |hold: &&'a Hold| sched.holds.at(hold.next_of_process);
    std::iter::successors(sched.holds.at(process.holds), follow)
}

/// Checks that each hold is in the list of its process and in that of its lock, and that the first
/// waiter could not be let in.
fn check_rwlocks(sched: &Scheduler<()>) {
    let mut of_processes = HashMap::new();
    for (index, process) in processes(sched) {
        for hold in holds_of(sched, process) {
            assert_eq!(hold.process, index);
            let first_time = of_processes.insert((index, hold.lock), ()).is_none();
            assert!(first_time, "inside twice");
        }
    }
    for (index, lock) in sched.rwlocks.iter() {
        let mut inside = 0;
        let mut hold = sched.holds.at(lock.holds);
        while let Some(found) = hold {
            assert_eq!(found.lock, index);
            assert!(of_processes.remove(&(found.process, index)).is_some());
            inside += 1;
            hold = sched.holds.at(found.next_of_lock);
        }
        assert!(!lock.is_written || inside == 1);
        let first = sched.waiters.iter(lock.waiters).next();
        let lent = first.map_or(0, |first| sched.processes[first.process].priority.get());
        assert_eq!(lock.lent, lent);
        if let Some(first) = first {
            assert!(inside > 0 && (lock.is_written || first.ticket.kind == Kind::Write));
        }
    }
    assert!(of_processes.is_empty());
    let holds = processes(sched).map(|(_, process)| holds_of(sched, process).count());
    assert_eq!(sched.holds.in_use(), holds.sum::<usize>());
}

/// Checks that no process waits for an object that is available.
fn check_objects(sched: &Scheduler<()>) {
    for (_, semaphore) in sched.semaphores.iter() {
        assert!(semaphore.count == 0 || sched.waiters.is_empty(semaphore.waiters));
    }
    for (_, event) in sched.events.iter() {
        assert!(!event.is_set || sched.waiters.is_empty(event.waiters));
    }
    for (_, barrier) in sched.barriers.iter() {
        assert_eq!(
            barrier.waiting,
            sched.waiters.iter(barrier.waiters).count() as u64
        );
        assert!(barrier.waiting < barrier.size);
    }
    for (_, channel) in sched.channels.iter() {
        let waiting = |queue| {
            sched
                .waiters
                .iter(queue)
                .map(|node| node.process)
                .collect::<Vec<_>>()
        };
        let (receivers, senders) = (waiting(channel.receivers), waiting(channel.senders));
        assert!(receivers.is_empty() || channel.buffer.is_empty());
        assert!(senders.is_empty() || channel.buffer.len() >= channel.capacity);
        assert!(!channel.is_closed || (receivers.is_empty() && senders.is_empty()));
        let is_one = |process: &u32| {
            receivers
                .iter()
                .chain(&senders)
                .all(|other| other == process)
        };
        if let (Some(first), false) = (receivers.first(), senders.is_empty()) {
            assert!(
                is_one(first),
                "only a select can wait on both sides, and alone"
            );
        }
        for node in sched.waiters.iter(channel.senders) {
            assert_eq!(node.ticket.kind, Kind::Send);
        }
    }
}
