//! Rings: processes that wait for each other, as far as that can be known.
//!
//! `cycles.rs` finds rings of locks, when a process closes one. This finds them in a census, and
//! follows channels and conditions, too: a full channel is emptied by the process that received
//! from it last, an empty one is filled by the last sender, and a condition is signalled by the
//! process that did it last. That is a guess by the past. A process that has never used the channel
//! may still come.

use super::waits::{Held, write_process, write_thing, write_verb};
use crate::sched::{Blocker, CensusRow, ProcessId, Role, Scheduler, ThreadNames, Wording};
use std::collections::HashMap;

/// Processes of which each waits for the next one, and the last one for the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitRing {
    /// Their places among the rows of the census.
    pub rows: Vec<usize>,
    /// Each has what the one before it waits for. Otherwise the ring is a guess by the past.
    pub is_certain: bool,
}

/// All rings of a census. Only waits that nothing else can end count. A process is in at most one.
///
/// ```
/// use baton_core::sched::*;
///
/// let mut sched: Scheduler<()> = Scheduler::new(10);
/// let mut spawn = || sched.spawn(SpawnOptions::default(), ()).expect("there is room");
/// let [reader, writer] = [spawn(), spawn()];
/// let (mutex, channel) = (sched.mutex_new(), sched.channel_new(1));
/// let _ = sched.switch_to(writer);
/// let _ = sched.channel_send(channel, 1, Deadline::Never);
/// let _ = sched.mutex_lock(mutex, Deadline::Never);
/// let _ = sched.switch_to(reader);
/// let _ = sched.channel_receive(channel, Deadline::Never);
/// let _ = sched.mutex_lock(mutex, Deadline::Never);
/// let _ = sched.switch_to(writer);
/// for value in [2, 3] {
///     let _ = sched.channel_send(channel, value, Deadline::Never);
/// }
/// let rows: Vec<CensusRow> = (0..2).filter_map(|place| sched.census_row(place)).collect();
/// assert_eq!(rings(&rows), [WaitRing { rows: vec![0, 1], is_certain: false }]);
/// ```
#[must_use]
pub fn rings(rows: &[CensusRow]) -> Vec<WaitRing> {
    let places: HashMap<ProcessId, usize> = rows
        .iter()
        .enumerate()
        .map(|(place, row)| (row.process, place))
        .collect();
    let next = |place: usize| {
        let row = &rows[place];
        let partner = row.partner.filter(|_| row.is_endless)?;
        places.get(&partner.process).copied()
    };
    // The number of the walk that has come by each row.
    let mut walks = vec![usize::MAX; rows.len()];
    let mut found = Vec::new();
    for begin in 0..rows.len() {
        let mut at = begin;
        let end = loop {
            if walks[at] != usize::MAX {
                break Some(at);
            }
            walks[at] = begin;
            match next(at) {
                Some(after) => at = after,
                None => break None,
            }
        };
        if let Some(first) = end.filter(|&at| walks[at] == begin) {
            found.push(ring_from(first, rows, &next));
        }
    }
    found
}

/// The ring that a row is in.
fn ring_from(first: usize, rows: &[CensusRow], next: &dyn Fn(usize) -> Option<usize>) -> WaitRing {
    let after = |&at: &usize| next(at).filter(|&after| after != first);
    let ring: Vec<usize> = std::iter::successors(Some(first), after).collect();
    let is_certain = ring.iter().all(|&place| {
        rows[place]
            .partner
            .is_some_and(|partner| partner.role.is_certain())
    });
    WaitRing {
        rows: ring,
        is_certain,
    }
}

/// A line for each process of a ring.
pub fn describe_ring<C>(
    sched: &Scheduler<C>,
    wording: &Wording,
    names: &ThreadNames,
    rows: &[CensusRow],
    ring: &WaitRing,
) -> Vec<String> {
    let describe = |&place: &usize| {
        let mut text = String::new();
        // A string takes any text.
        let _ = write_link(sched, wording, names, &rows[place], &mut text);
        text
    };
    ring.rows.iter().map(describe).collect()
}

/// "process 7 waits to send to the channel 'jobs', from which process 8 received last".
fn write_link<C>(
    sched: &Scheduler<C>,
    wording: &Wording,
    names: &ThreadNames,
    row: &CensusRow,
    text: &mut String,
) -> std::fmt::Result {
    let (Some(blocker), Some(partner)) = (row.waits_for, row.partner) else {
        return Ok(());
    };
    write_process(sched, wording, row.process, text)?;
    *text += " waits ";
    write_verb(names, blocker, text)?;
    write_thing(sched, wording, blocker, &Held::NOBODY, text)?;
    let (before, after) = match (partner.role, blocker) {
        (Role::Target, _) | (_, Blocker::Join(_)) => return Ok(()),
        (Role::Holder, _) => (", held by ", ""),
        (Role::LastReceiver, _) => (", from which ", " received last"),
        (Role::LastSender, _) => (", to which ", " sent last"),
        (Role::LastSignaller, _) => (", which ", " signalled last"),
    };
    *text += before;
    write_process(sched, wording, partner.process, text)?;
    *text += after;
    Ok(())
}
