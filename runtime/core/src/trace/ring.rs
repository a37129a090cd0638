//! The ring of events: chunks, of which the oldest is used again when there are enough.

use super::{TraceEvent, What};
use baton_sys::ticks::{Anchor, Ticks};
use std::collections::VecDeque;
use std::time::Duration;

/// The number of events of a chunk.
const CHUNK: usize = 8192;

/// The maximal number of chunks. A chunk is made when it is needed.
const MOST_CHUNKS: usize = 128;

/// The maximal number of events that are kept: 32 MiB of them.
pub const MOST_EVENTS: usize = CHUNK * MOST_CHUNKS;

/// What a reader has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Reading {
    /// The number of the event that is read next. All events are numbered from 0.
    pub next: u64,
    /// How many events were overwritten before they could be read.
    pub lost: u64,
    /// Whether there are more.
    pub has_more: bool,
}

/// An event in the ring.
#[derive(Debug, Clone, Copy)]
struct Kept {
    at: Ticks,
    what: What,
}

/// Events of some time.
#[derive(Debug)]
struct Chunk {
    /// Its beginning.
    begin: Anchor,
    events: Vec<Kept>,
}

impl Chunk {
    /// `None` if memory is short.
    fn new() -> Option<Chunk> {
        let mut events = Vec::new();
        events.try_reserve_exact(CHUNK).ok()?;
        let begin = Anchor::now();
        Some(Chunk { begin, events })
    }
}

/// The last events.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Chunks that are full, the oldest first.
    full: VecDeque<Chunk>,
    /// The chunk that is being filled.
    open: Chunk,
    /// The number of the oldest event that is kept.
    first: u64,
    /// Events that are older than this are no longer needed.
    keep: Duration,
}

/// Room for so many chunks is asked for: more than there can be. Memory of this size comes right
/// from the system, so a simulated run finds its objects at the same addresses if it is traced. It
/// does not exist before it is used.
const ROOM: usize = 1 << 14;

impl Ring {
    /// Makes an empty ring, which keeps events for `keep`, and no longer than there is room. `None`
    /// if memory is short.
    pub(crate) fn new(keep: Duration) -> Option<Ring> {
        let mut full = VecDeque::new();
        full.try_reserve_exact(ROOM).ok()?;
        Some(Ring {
            full,
            open: Chunk::new()?,
            first: 0,
            keep,
        })
    }

    /// For how long events are kept.
    pub(crate) fn keep_for(&mut self, keep: Duration) {
        self.keep = keep;
    }

    #[inline]
    pub(crate) fn push(&mut self, at: Ticks, what: What) {
        if self.open.events.len() == CHUNK {
            self.begin_chunk();
        }
        self.open.events.push(Kept { at, what });
    }

    #[cold]
    #[inline(never)]
    fn begin_chunk(&mut self) {
        let now = Anchor::now();
        let mut spare = None;
        while let Some(oldest) = self.full.pop_front() {
            let next = self.full.front().unwrap_or(&self.open);
            if self.full.len() + 2 < MOST_CHUNKS && now.at() - next.begin.at() <= self.keep {
                self.full.push_front(oldest);
                break;
            }
            self.first += oldest.events.len() as u64;
            spare = Some(oldest);
        }
        // If memory is short, the oldest chunk is used again, or this one if there is no other.
        if spare.is_none() {
            spare = Chunk::new();
        }
        if spare.is_none() {
            spare = self.full.pop_front();
            self.first += spare
                .as_ref()
                .map_or(0, |oldest| oldest.events.len() as u64);
        }
        let Some(mut next) = spare else {
            self.first += self.open.events.len() as u64;
            self.open.begin = now;
            self.open.events.clear();
            return;
        };
        next.begin = now;
        next.events.clear();
        self.full.push_back(std::mem::replace(&mut self.open, next));
    }

    /// When the latest event happened; `None` if there is none in the newest chunk.
    pub(crate) fn last_time(&self) -> Option<Ticks> {
        Some(self.open.events.last()?.at)
    }

    /// The number of the next event.
    pub(crate) fn end(&self) -> u64 {
        self.first + (self.full.len() * CHUNK + self.open.events.len()) as u64
    }

    /// The event with this number, which is kept.
    fn at(&self, number: u64) -> Option<What> {
        let place = (number - self.first) as usize;
        let chunk = self.full.get(place / CHUNK).unwrap_or(&self.open);
        Some(chunk.events.get(place % CHUNK)?.what)
    }

    /// Appends the events from number `from` on to `into`, at most `most`, and the rest of a name
    /// that follows.
    pub(crate) fn read(&self, from: u64, most: usize, into: &mut Vec<TraceEvent>) -> Reading {
        let begin = from.max(self.first).min(self.end());
        let mut next = begin;
        let mut until = self.end().min(begin.saturating_add(most as u64));
        while let Some(What::Name(_)) = self.at(until) {
            until += 1;
        }
        let now = Anchor::now();
        while next < until {
            let place = (next - self.first) as usize;
            let chunk = self.full.get(place / CHUNK).unwrap_or(&self.open);
            let after = match self.full.get(place / CHUNK + 1) {
                Some(after) => after.begin,
                None if place / CHUNK < self.full.len() => self.open.begin,
                None => now,
            };
            let conversion = chunk.begin.until(after);
            let within = place % CHUNK;
            let count = ((until - next) as usize).min(chunk.events.len() - within);
            let events = &chunk.events[within..within + count];
            into.extend(events.iter().map(|kept| TraceEvent {
                at: conversion.time_of(kept.at),
                what: kept.what,
            }));
            next += count as u64;
        }
        Reading {
            next,
            lost: begin.saturating_sub(from),
            has_more: next < self.end(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Letters;
    use super::*;
    use crate::sched::CarrierId;
    use std::time::Instant;

    /// An event that can be told from others.
    fn event(number: u64) -> What {
        What::IdleBegins {
            carrier: CarrierId(number as u32),
        }
    }

    fn ring(count: u64, keep: Duration) -> Ring {
        let mut ring = Ring::new(keep).expect("there is memory");
        for number in 0..count {
            ring.push(Ticks::now(), event(number));
        }
        ring
    }

    fn numbers(events: &[TraceEvent]) -> Vec<u64> {
        let number = |event: &TraceEvent| match event.what {
            What::IdleBegins { carrier } => carrier.0.into(),
            other => panic!("nobody has pushed {other:?}"),
        };
        events.iter().map(number).collect()
    }

    #[test]
    fn a_reader_gets_each_event_once_and_in_order() {
        let ring = ring(20_000, Duration::MAX);
        let (mut events, mut from, mut batches) = (Vec::new(), 0, 0);
        loop {
            let read = ring.read(from, 3000, &mut events);
            assert_eq!(read.lost, 0);
            (from, batches) = (read.next, batches + 1);
            if !read.has_more {
                break;
            }
        }
        assert_eq!(numbers(&events), (0..20_000).collect::<Vec<_>>());
        assert_eq!((from, batches), (20_000, 7));
    }

    #[test]
    fn a_name_is_read_with_its_event() {
        let mut ring = ring(CHUNK as u64 - 2, Duration::MAX);
        for _ in 0..2 {
            ring.push(Ticks::now(), event(7));
            for letters in Letters::parts(&[b'x'; 30]) {
                ring.push(Ticks::now(), What::Name(letters));
            }
        }
        let (from, mut events) = (CHUNK as u64 - 2, Vec::new());
        let read = ring.read(from, 1, &mut events);
        let names = Letters::parts(&[b'x'; 30]).count();
        assert!(names > 1, "the name goes over the end of the chunk");
        assert_eq!((events.len(), read.has_more), (1 + names, true));
        let read = ring.read(read.next, 1, &mut events);
        assert_eq!((events.len(), read.has_more), (2 + 2 * names, false));
        assert_eq!(read.next, ring.end());
    }

    #[test]
    fn what_is_overwritten_is_counted_as_lost() {
        let count = MOST_EVENTS as u64 + 1;
        let ring = ring(count, Duration::MAX);
        let mut events = Vec::new();
        let read = ring.read(10, 5, &mut events);
        assert_eq!(read.lost, CHUNK as u64 - 10, "the oldest chunk is gone");
        let first = CHUNK as u64;
        assert_eq!(numbers(&events), (first..first + 5).collect::<Vec<_>>());
        assert_eq!(ring.end(), count);
    }

    #[test]
    fn old_events_make_room_before_the_ring_is_full() {
        let chunk = CHUNK as u64;
        let mut ring = ring(4 * chunk, Duration::from_millis(20));
        let young = Instant::now();
        while young.elapsed() < Duration::from_millis(30) {}
        for number in 4 * chunk..6 * chunk {
            ring.push(Ticks::now(), event(number));
        }
        let mut events = Vec::new();
        let read = ring.read(0, usize::MAX, &mut events);
        assert!(read.lost >= 3 * chunk, "{read:?}");
        assert_eq!(read.lost + events.len() as u64, 6 * chunk);
        assert!(ring.full.len() < 4, "old chunks are freed");
    }

    #[test]
    fn times_are_in_order_and_those_of_the_clock() {
        let before = baton_sys::clock::Instant::now();
        let ring = ring(20_000, Duration::MAX);
        let mut events = Vec::new();
        let _ = ring.read(0, usize::MAX, &mut events);
        let after = baton_sys::clock::Instant::now();
        assert!(events.is_sorted_by_key(|event| event.at));
        let slack = Duration::from_millis(1);
        assert!(events[0].at + slack >= before && events[19_999].at <= after + slack);
    }

    #[test]
    fn a_number_from_the_future_reads_nothing() {
        let ring = ring(5, Duration::MAX);
        let mut events = Vec::new();
        let read = ring.read(99, usize::MAX, &mut events);
        assert_eq!((read.lost, read.has_more, events.len()), (0, false, 0));
    }
}
