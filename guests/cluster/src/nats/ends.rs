//! How many ends of jobs the server has not handled yet.
//!
//! A server that writes each end to its disk needs more time for it than a program needs for a
//! small job. The ends that it has not handled wait in its memory. There they are lost when the
//! server is killed. And a job whose end waits for longer than the job's time to acknowledge is
//! delivered again, though it is done. So a program receives no jobs while too many of its ends
//! wait.
//!
//! The server handles the ends of a connection in their order. So only one of [`EACH`] ends asks
//! for an answer, which stands for all before it.
//!
//! **How many may wait:** as many as the server has handled in the last `SPAN`, and at least
//! [`LEAST`]. So ends wait for about that time, however fast the server and its disk are, and
//! however many programs they serve.
//!
//! **No program waits for ever.** When more than [`LEAST`] ends wait, one of them has asked. Its
//! question ends by the server's answer, by its deadline, or by a change of the connection
//! (`storing`). Each of these counts as the answer.

use super::recent::Recent;
use std::time::Instant;

/// One end of so many asks for an answer.
const EACH: u64 = 16;

/// So many ends may always wait. At least [`EACH`], or none may ask.
const LEAST: u64 = 32;

/// The ends of a queue's jobs, in the order in which they were sent.
#[derive(Debug)]
pub(super) struct Ends {
    sent: u64,
    handled: u64,
    recent: Recent,
}

impl Ends {
    pub(super) fn new(now: Instant) -> Ends {
        Ends {
            sent: 0,
            handled: 0,
            recent: Recent::new(now),
        }
    }

    /// Notes that an end is sent. If it is to ask for an answer, returns its number.
    #[must_use]
    pub(super) fn note_sent(&mut self) -> Option<u64> {
        self.sent += 1;
        self.sent.is_multiple_of(EACH).then_some(self.sent)
    }

    /// The server has handled all ends up to this number.
    pub(super) fn note_handled(&mut self, number: u64, now: Instant) {
        let count = number.saturating_sub(self.handled);
        self.handled += count;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.recent.note(count, 0, now);
    }

    /// Whether too many wait.
    pub(super) fn are_late(&mut self, now: Instant) -> bool {
        let most = u64::try_from(self.recent.count(now).jobs).unwrap_or(u64::MAX);
        self.sent - self.handled > most.max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::super::recent::SPAN;
    use super::{EACH, Ends, LEAST};
    use std::time::Instant;

    /// Sends so many ends. Returns the numbers of those that ask.
    fn send(ends: &mut Ends, count: u64) -> Vec<u64> {
        (0..count).filter_map(|_| ends.note_sent()).collect()
    }

    #[test]
    fn some_ends_may_wait_and_no_more() {
        let now = Instant::now();
        let mut ends = Ends::new(now);
        assert_eq!(send(&mut ends, LEAST), [EACH, 2 * EACH]);
        assert!(!ends.are_late(now));
        send(&mut ends, 1);
        assert!(ends.are_late(now) && ends.are_late(now + SPAN * 10));
        ends.note_handled(EACH, now);
        assert!(!ends.are_late(now));
    }

    #[test]
    fn as_many_may_wait_as_were_handled_a_short_time_ago() {
        let now = Instant::now();
        let mut ends = Ends::new(now);
        send(&mut ends, 1000);
        ends.note_handled(1000, now);
        send(&mut ends, 1000);
        assert!(!ends.are_late(now));
        assert!(ends.are_late(now + SPAN * 2), "the server is slow now");
        send(&mut ends, 1);
        assert!(ends.are_late(now));
    }

    #[test]
    fn answers_may_come_in_another_order_or_twice() {
        let now = Instant::now();
        let mut ends = Ends::new(now);
        send(&mut ends, LEAST + 1);
        for number in [2 * EACH, EACH, 2 * EACH] {
            ends.note_handled(number, now);
        }
        send(&mut ends, 2 * EACH - 1);
        assert!(!ends.are_late(now));
        send(&mut ends, 1);
        assert!(ends.are_late(now));
    }

    #[test]
    fn one_of_those_that_wait_has_always_asked() {
        let mut now = Instant::now();
        let mut ends = Ends::new(now);
        for _ in 0..100 {
            now += SPAN; // The server has handled none a short time ago.
            let mut asked = Vec::new();
            while !ends.are_late(now) {
                asked.extend(ends.note_sent());
            }
            let last = *asked.last().expect("one has asked");
            ends.note_handled(last, now);
        }
    }
}
