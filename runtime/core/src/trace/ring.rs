//! The ring of events: chunks, of which the oldest is used again when there are enough.

use super::TraceEvent;
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

/// The last events.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Chunks that are full, the oldest first.
    full: VecDeque<Vec<TraceEvent>>,
    /// The chunk that is being filled.
    open: Vec<TraceEvent>,
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
        let (mut full, mut open) = (VecDeque::new(), Vec::new());
        full.try_reserve_exact(ROOM).ok()?;
        open.try_reserve_exact(CHUNK).ok()?;
        Some(Ring {
            full,
            open,
            first: 0,
            keep,
        })
    }

    /// For how long events are kept.
    pub(crate) fn keep_for(&mut self, keep: Duration) {
        self.keep = keep;
    }

    #[inline]
    pub(crate) fn push(&mut self, event: TraceEvent) {
        if self.open.len() == CHUNK {
            self.begin_chunk(event);
        }
        self.open.push(event);
    }

    #[cold]
    #[inline(never)]
    fn begin_chunk(&mut self, newest: TraceEvent) {
        let mut spare = None;
        while let Some(oldest) = self.full.front() {
            let end = oldest.last().map_or(newest.at, |last| last.at);
            if self.full.len() + 1 < MOST_CHUNKS && newest.at - end <= self.keep {
                break;
            }
            self.first += oldest.len() as u64;
            spare = self.full.pop_front();
        }
        let mut next = spare.unwrap_or_default();
        if next.try_reserve_exact(CHUNK - next.len()).is_err() {
            // Memory is short: the oldest chunk is used again, or this one if there is no other.
            let Some(oldest) = self.full.pop_front() else {
                self.first += self.open.len() as u64;
                self.open.clear();
                return;
            };
            self.first += oldest.len() as u64;
            next = oldest;
        }
        next.clear();
        self.full.push_back(std::mem::replace(&mut self.open, next));
    }

    /// The number of the next event.
    pub(crate) fn end(&self) -> u64 {
        self.first + (self.full.len() * CHUNK + self.open.len()) as u64
    }

    /// Appends the events from number `from` on to `into`, at most `most`.
    pub(crate) fn read(&self, from: u64, most: usize, into: &mut Vec<TraceEvent>) -> Reading {
        let begin = from.max(self.first).min(self.end());
        let mut next = begin;
        let until = self.end().min(begin.saturating_add(most as u64));
        while next < until {
            let place = (next - self.first) as usize;
            let chunk = self.full.get(place / CHUNK).unwrap_or(&self.open);
            let within = place % CHUNK;
            let count = ((until - next) as usize).min(chunk.len() - within);
            into.extend_from_slice(&chunk[within..within + count]);
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
    use super::*;
    use crate::trace::What;
    use baton_sys::clock::Instant;

    fn event(number: u64) -> TraceEvent {
        TraceEvent {
            at: Instant::from_nanos(number),
            what: What::IdleEnds,
        }
    }

    fn ring(count: u64, keep: Duration) -> Ring {
        let mut ring = Ring::new(keep).expect("there is memory");
        for number in 0..count {
            ring.push(event(number));
        }
        ring
    }

    fn numbers(events: &[TraceEvent]) -> Vec<u64> {
        events.iter().map(|event| event.at.as_nanos()).collect()
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
        let ring = ring(10 * chunk, Duration::from_nanos(2 * chunk));
        let mut events = Vec::new();
        let read = ring.read(0, usize::MAX, &mut events);
        assert!(read.lost >= 5 * chunk, "{read:?}");
        assert!(events.len() as u64 >= 2 * chunk, "two chunks are young");
        assert_eq!(read.lost + events.len() as u64, 10 * chunk);
    }

    #[test]
    fn a_number_from_the_future_reads_nothing() {
        let ring = ring(5, Duration::MAX);
        let mut events = Vec::new();
        let read = ring.read(99, usize::MAX, &mut events);
        assert_eq!((read.lost, read.has_more, events.len()), (0, false, 0));
    }
}
