//! What must hold after every operation.

use std::collections::HashMap;

use crate::kernel::process::{PHASES, Phase, Process};
use crate::kernel::rwlock::Hold;
use crate::kernel::slab::NIL;
use crate::kernel::waiters::{Kind, WaitQueue};
use crate::kernel::{CarrierId, Kernel};

/// Panics if anything in the kernel contradicts anything else.
pub(super) fn check(kernel: &Kernel<()>) {
    check_census(kernel);
    check_places(kernel);
    check_carriers(kernel);
    check_current(kernel);
    check_waits(kernel);
    check_mutexes(kernel);
    check_rwlocks(kernel);
    check_objects(kernel);
    kernel.deadlines.check();
}

fn processes(kernel: &Kernel<()>) -> impl Iterator<Item = (u32, &Process)> {
    let is_used = |(_, process): &(usize, &Process)| process.phase != Phase::Free;
    let slots = kernel.processes.slots.iter().enumerate().filter(is_used);
    slots.map(|(index, process)| (index as u32, process))
}

fn check_census(kernel: &Kernel<()>) {
    let mut census = [0; PHASES];
    let (mut live, mut non_daemons) = (0, 0);
    for (_, process) in processes(kernel) {
        census[process.phase as usize] += 1;
        if !matches!(process.phase, Phase::Dead | Phase::Prepared) {
            live += 1;
            non_daemons += u32::from(!process.daemon);
        }
    }
    assert_eq!(kernel.census, census);
    let with_due_time = processes(kernel).filter(|(_, process)| process.due != u64::MAX);
    assert_eq!(kernel.with_due_time as usize, with_due_time.count());
    assert_eq!((kernel.live, kernel.live_non_daemons), (live, non_daemons));
    let pending = kernel.timers.iter().filter(|(_, timer)| timer.is_pending).count();
    assert_eq!(kernel.pending_timers, pending);
}

/// The members of a ring, in order.
fn ring(kernel: &Kernel<()>, head: u32) -> Vec<u32> {
    let mut members = Vec::new();
    let mut index = head;
    while index != NIL {
        members.push(index);
        let next = kernel.processes[index].next;
        assert_eq!(kernel.processes[next].prev, index);
        index = if next == head { NIL } else { next };
    }
    members
}

/// Each process is in exactly the ring that its phase names.
fn check_places(kernel: &Kernel<()>) {
    let mut places = HashMap::new();
    for level in 1..=81 {
        let members = ring(kernel, kernel.run_queue.head(level));
        for &index in &members {
            assert_eq!(kernel.processes[index].priority.get(), level);
            assert!(places.insert(index, Phase::Ready).is_none(), "in two rings");
        }
        if !members.is_empty() {
            assert!(kernel.run_queue.top() >= level);
        }
    }
    let top = kernel.run_queue.top();
    assert!(top == 0 || kernel.run_queue.head(top) != NIL);
    for (place, carrier) in kernel.carriers.iter().enumerate() {
        for index in ring(kernel, carrier.aside) {
            assert_eq!(kernel.processes[index].carrier, place as u32);
            assert!(places.insert(index, Phase::Aside).is_none(), "in two rings");
        }
    }
    for (index, process) in processes(kernel) {
        let is_in_ring = matches!(process.phase, Phase::Ready | Phase::Aside);
        assert_eq!(places.get(&index).copied(), is_in_ring.then_some(process.phase));
        match process.phase {
            Phase::Ready => assert!(!kernel.must_stay_aside(index)),
            Phase::Aside => assert!(kernel.must_stay_aside(index)),
            _ => {}
        }
    }
}

/// Each carrier knows how many need it, and who has lost all that were bound to it is noted.
fn check_carriers(kernel: &Kernel<()>) {
    for (place, carrier) in kernel.carriers.iter().enumerate() {
        let is_here = |wanted: Option<CarrierId>| wanted == Some(CarrierId(place as u32));
        let bound = processes(kernel).filter(|(_, process)| is_here(process.pin)).count();
        let pinned = processes(kernel).filter(|(_, process)| is_here(process.pinned)).count();
        assert_eq!((carrier.bound as usize, carrier.pinned as usize), (bound, pinned));
    }
    let named = kernel.carriers.iter().filter(|carrier| carrier.is_named).count();
    assert_eq!(kernel.named_count(), named);
}

fn check_current(kernel: &Kernel<()>) {
    if kernel.current == NIL {
        return;
    }
    let process = &kernel.processes[kernel.current];
    let critical = processes(kernel).filter(|(_, process)| process.critical > 0 && process.phase != Phase::Dead);
    assert!(critical.map(|(index, _)| index).all(|index| index == kernel.current));
    match process.phase {
        Phase::Ready => assert_eq!(kernel.run_queue.head(process.priority.get()), kernel.current),
        phase => assert_eq!(phase, Phase::Aside, "the current process could run"),
    }
}

/// Nodes belong to processes that wait, no wait outlives its kill, no node is lost.
fn check_waits(kernel: &Kernel<()>) {
    let mut nodes = 0;
    for (index, process) in processes(kernel) {
        let mut node = process.waiters;
        while node != NIL {
            assert_eq!(process.phase, Phase::Waiting);
            assert_eq!(kernel.waiters.node(node).process, index);
            nodes += 1;
            node = kernel.waiters.node(node).sibling;
        }
        let is_blocked = matches!(process.phase, Phase::Waiting | Phase::Sleeping | Phase::Halted);
        assert!(!is_blocked || !process.kill_is_due() || kernel.is_relocking(index));
        if process.phase == Phase::Halted {
            assert!(process.suspended);
        }
    }
    let queues = all_queues(kernel);
    let queued: usize = queues.iter().map(|&queue| kernel.waiters.check(queue)).sum();
    assert_eq!(queued, nodes);
    let watching = kernel
        .descriptors
        .iter()
        .flatten()
        .map(|&queue| kernel.waiters.iter(queue).count());
    assert_eq!(kernel.watching as usize, watching.sum::<usize>());
    assert_eq!(kernel.waiters.in_use(), nodes + queues.len());
}

fn all_queues(kernel: &Kernel<()>) -> Vec<WaitQueue> {
    let mut queues = vec![kernel.rest];
    queues.extend(kernel.semaphores.iter().map(|(_, semaphore)| semaphore.waiters));
    queues.extend(kernel.mutexes.iter().map(|(_, mutex)| mutex.waiters));
    queues.extend(kernel.conditions.iter().map(|(_, condition)| condition.waiters));
    queues.extend(kernel.events.iter().map(|(_, event)| event.waiters));
    queues.extend(kernel.rwlocks.iter().map(|(_, lock)| lock.waiters));
    queues.extend(kernel.barriers.iter().map(|(_, barrier)| barrier.waiters));
    queues.extend(kernel.queues.iter().map(|(_, &queue)| queue));
    queues.extend(kernel.descriptors.iter().flatten());
    for (_, channel) in kernel.channels.iter() {
        queues.extend([channel.receivers, channel.senders]);
    }
    let joiners = processes(kernel).map(|(_, process)| process.joiners);
    queues.extend(joiners.filter(|&queue| queue != NIL).map(WaitQueue));
    queues
}

/// Owners know their mutexes, mutexes their owners, and each owner inherits what it is due.
fn check_mutexes(kernel: &Kernel<()>) {
    let mut held = HashMap::new();
    for (index, process) in processes(kernel) {
        let mut mutex = process.held;
        let mut before = NIL;
        let mut priority = process.own_priority.get();
        while let Some(object) = kernel.mutexes.at(mutex) {
            assert_eq!(object.held_prev, before);
            assert!(held.insert(mutex, index).is_none(), "held twice");
            for waiter in kernel.waiters.iter(object.waiters) {
                priority = priority.max(kernel.processes[waiter.process].priority.get());
            }
            before = mutex;
            mutex = object.held_next;
        }
        for hold in holds_of(kernel, process) {
            for waiter in kernel.waiters.iter(kernel.rwlocks.at(hold.lock).expect("held").waiters) {
                priority = priority.max(kernel.processes[waiter.process].priority.get());
            }
        }
        assert!(process.phase != Phase::Dead || (process.held == NIL && process.holds == NIL));
        if process.phase != Phase::Dead {
            let due = if process.critical > 0 { 81 } else { priority };
            assert_eq!(process.priority.get(), due);
        }
    }
    for (index, mutex) in kernel.mutexes.iter() {
        assert_eq!(held.get(&index).copied().unwrap_or(NIL), mutex.owner);
        assert!(mutex.owner != NIL || kernel.waiters.is_empty(mutex.waiters));
    }
}

fn holds_of<'a>(kernel: &'a Kernel<()>, process: &Process) -> impl Iterator<Item = &'a Hold> {
    let follow = |hold: &&'a Hold| kernel.holds.at(hold.next_of_process);
    std::iter::successors(kernel.holds.at(process.holds), follow)
}

/// Each hold is in the list of its process and in that of its lock; who waits first could not go in.
fn check_rwlocks(kernel: &Kernel<()>) {
    let mut of_processes = HashMap::new();
    for (index, process) in processes(kernel) {
        for hold in holds_of(kernel, process) {
            assert_eq!(hold.process, index);
            let first_time = of_processes.insert((index, hold.lock), ()).is_none();
            assert!(first_time, "inside twice");
        }
    }
    for (index, lock) in kernel.rwlocks.iter() {
        let mut inside = 0;
        let mut hold = kernel.holds.at(lock.holds);
        while let Some(found) = hold {
            assert_eq!(found.lock, index);
            assert!(of_processes.remove(&(found.process, index)).is_some());
            inside += 1;
            hold = kernel.holds.at(found.next_of_lock);
        }
        assert!(!lock.is_written || inside == 1);
        let first = kernel.waiters.iter(lock.waiters).next();
        let lent = first.map_or(0, |first| kernel.processes[first.process].priority.get());
        assert_eq!(lock.lent, lent);
        if let Some(first) = first {
            assert!(inside > 0 && (lock.is_written || first.ticket.kind == Kind::Write));
        }
    }
    assert!(of_processes.is_empty());
    let holds = processes(kernel).map(|(_, process)| holds_of(kernel, process).count());
    assert_eq!(kernel.holds.in_use(), holds.sum::<usize>());
}

/// Nobody waits for what is there.
fn check_objects(kernel: &Kernel<()>) {
    for (_, semaphore) in kernel.semaphores.iter() {
        assert!(semaphore.count == 0 || kernel.waiters.is_empty(semaphore.waiters));
    }
    for (_, event) in kernel.events.iter() {
        assert!(!event.is_set || kernel.waiters.is_empty(event.waiters));
    }
    for (_, barrier) in kernel.barriers.iter() {
        assert_eq!(barrier.waiting, kernel.waiters.iter(barrier.waiters).count() as u64);
        assert!(barrier.waiting < barrier.size);
    }
    for (_, channel) in kernel.channels.iter() {
        let who = |queue| kernel.waiters.iter(queue).map(|node| node.process).collect::<Vec<_>>();
        let (receivers, senders) = (who(channel.receivers), who(channel.senders));
        assert!(receivers.is_empty() || channel.buffer.is_empty());
        assert!(senders.is_empty() || channel.buffer.len() >= channel.capacity);
        assert!(!channel.is_closed || (receivers.is_empty() && senders.is_empty()));
        let is_one = |process: &u32| receivers.iter().chain(&senders).all(|other| other == process);
        if let (Some(first), false) = (receivers.first(), senders.is_empty()) {
            assert!(is_one(first), "only a select can wait on both sides, and alone");
        }
        for node in kernel.waiters.iter(channel.senders) {
            assert_eq!(node.ticket.kind, Kind::Send);
        }
    }
}
