//! Processes that wait for each other, over locks, channels, conditions and joins.

use super::*;
use crate::sched::{Case, CensusRow, Role, WaitObject, WaitRing, rings};

fn census(sched: &Scheduler<()>) -> Vec<CensusRow> {
    let places = 0..sched.places();
    places.filter_map(|place| sched.census_row(place)).collect()
}

fn spawned(sched: &mut Scheduler<()>) -> ProcessId {
    sched
        .spawn(SpawnOptions::default(), ())
        .expect("there is room")
}

#[test]
fn a_receiver_waits_for_the_last_sender_whichever_way_it_sent() {
    let mut sched: Scheduler<()> = Scheduler::new(10);
    let [sender, receiver] = [spawned(&mut sched), spawned(&mut sched)];
    let channel = sched.channel_new(1);
    for by_select in [false, true] {
        let _ = sched.switch_to(sender);
        if by_select {
            let cases = [Case::Send(channel, 1)];
            let _ = sched.select(&cases, Deadline::Never, 0);
        } else {
            let _ = sched.channel_send(channel, 1, Deadline::Never);
        }
        let _ = sched.switch_to(receiver);
        let _ = sched.channel_receive(channel, Deadline::Never);
    }
    let _ = sched.channel_receive(channel, Deadline::Never);
    let row = census(&sched)[1];
    let partner = row.partner.expect("somebody sent");
    assert_eq!((partner.process, partner.role), (sender, Role::LastSender));
    assert!(row.is_endless);
}

#[test]
fn a_wait_with_a_timeout_closes_no_ring() {
    for (deadline, found) in [(Deadline::Never, 1), (Deadline::At(at(5)), 0)] {
        let mut sched: Scheduler<()> = Scheduler::new(10);
        let [one, other] = [spawned(&mut sched), spawned(&mut sched)];
        let mutexes = [sched.mutex_new(), sched.mutex_new()];
        for (process, mutex) in [one, other].into_iter().zip(mutexes) {
            let _ = sched.switch_to(process);
            let _ = sched.mutex_lock(mutex, Deadline::Never);
        }
        let _ = sched.mutex_lock(mutexes[0], deadline);
        let _ = sched.switch_to(one);
        let _ = sched.mutex_lock(mutexes[1], Deadline::Never);
        let rings = rings(&census(&sched));
        assert_eq!(rings.len(), found);
        assert!(rings.iter().all(|ring| ring.is_certain));
    }
}

#[test]
fn a_chain_into_a_ring_is_no_part_of_it() {
    let mut sched: Scheduler<()> = Scheduler::new(10);
    let [one, other, third] = [0; 3].map(|_| spawned(&mut sched));
    let (mutex, condition) = (sched.mutex_new(), sched.condition_new());
    let _ = sched.switch_to(other);
    sched.condition_note(condition, 0, at(0));
    let _ = sched.switch_to(third);
    let _ = sched.join(one, Deadline::Never);
    let _ = sched.switch_to(one);
    let _ = sched.mutex_lock(mutex, Deadline::Never);
    let _ = sched.condition_wait(condition, mutex, Deadline::Never);
    let _ = sched.switch_to(other);
    let _ = sched.join(one, Deadline::Never);
    let rows = census(&sched);
    assert_eq!(rows[2].object, WaitObject::Join);
    let expected = WaitRing {
        rows: vec![0, 1],
        is_certain: false,
    };
    assert_eq!(rings(&rows), [expected]);
}
