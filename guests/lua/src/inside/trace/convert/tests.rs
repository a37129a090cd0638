//! Tests of traces that are made of any events.

use super::*;
use baton_core::sched::WakeReason;
use baton_core::trace::Reading;

/// Numbers that look random (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn process(&mut self) -> ProcessId {
        let bits = 1 << 32 | self.below(4);
        ProcessId::from_bits(bits).expect("it has a generation")
    }

    fn what(&mut self) -> What {
        let (process, other) = (self.process(), self.process());
        let by = (self.below(2) == 0).then_some(other);
        let carrier = CarrierId(self.below(3) as u32);
        let causes = [
            Left::Yielded,
            Left::SliceOver,
            Left::Outranked,
            Left::Waits,
            Left::Suspended,
            Left::Calls,
            Left::Ended,
            Left::Moves,
        ];
        let cause = causes[self.below(causes.len() as u64) as usize];
        let blockers = [None, Some(Blocker::Sleep), Some(Blocker::Join(other))];
        let blocker = blockers[self.below(3) as usize];
        let (reason, due) = (WakeReason::Done, Instant::from_nanos(self.below(1 << 20)));
        match self.below(13) {
            0 | 1 => What::Runs { process, carrier },
            2 | 3 => What::Left {
                process,
                cause,
                blocker,
            },
            4 => What::Wakes {
                process,
                by,
                reason,
            },
            5 => What::Due { process, due },
            6 => What::CallBegins { process, carrier },
            7 => What::CallEnds { process },
            8 => What::Spawned { process, by },
            9 => What::Ended {
                process,
                number: self.below(9),
            },
            10 => What::IdleBegins { carrier },
            11 => What::Stalls { process },
            _ => [What::IdleEnds, What::GarbageBegins, What::GarbageEnds][self.below(3) as usize],
        }
    }
}

/// A batch that names nothing.
fn batch(events: Vec<TraceEvent>, lost: u64) -> Batch {
    let (next, has_more) = (0, false);
    Batch {
        events,
        reading: Reading {
            next,
            lost,
            has_more,
        },
        end: 0,
        processes: Vec::new(),
        objects: Vec::new(),
        forgets_objects: false,
    }
}

#[test]
fn any_events_make_a_trace_whose_times_are_those_of_its_events() {
    for seed in 1..300 {
        let mut random = Random(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
        let mut converter = Converter::new(Vec::new(), Instant::from_nanos(500))
            .expect("a vector takes everything");
        let (mut at, mut count) = (1000, 0);
        for _ in 0..5 {
            let events: Vec<TraceEvent> = (0..random.below(60))
                .map(|_| {
                    at += random.below(50);
                    let what = random.what();
                    TraceEvent {
                        at: Instant::from_nanos(at),
                        what,
                    }
                })
                .collect();
            count += events.len() as u64;
            let lost = random.below(5) / 4;
            converter
                .add(batch(events, lost))
                .expect("a vector takes everything");
        }
        let end = Instant::from_nanos(at + 10);
        let (bytes, summary) = converter.finish(end, Vec::new()).expect("as above");
        assert!(!bytes.is_empty());
        assert!(
            summary.seconds <= (at + 10 - 500) as f64 / 1e9,
            "{seed}: {summary:?}"
        );
        assert_eq!(summary.events, count, "{seed}");
    }
}

#[test]
fn what_has_ended_is_forgotten() {
    let mut converter =
        Converter::new(Vec::new(), Instant::from_nanos(0)).expect("a vector takes everything");
    for number in 1..1000 {
        let process = ProcessId::from_bits(number << 32 | 5).expect("it has a generation");
        let at = Instant::from_nanos(number);
        let events = [
            What::Spawned { process, by: None },
            What::Ended { process, number },
        ];
        let events = events.map(|what| TraceEvent { at, what }).to_vec();
        let mut batch = batch(events, 0);
        batch.objects = vec![(Blocker::Join(process), "an object".to_owned())];
        batch.forgets_objects = number % 10 == 0;
        converter.add(batch).expect("a vector takes everything");
        let kept = [
            converter.processes.len(),
            converter.names.len(),
            converter.objects.len(),
        ];
        assert!(kept[0] <= 2 && kept[1] <= 2 && kept[2] <= 10, "{kept:?}");
    }
    let (_, summary) = converter
        .finish(Instant::from_nanos(2000), Vec::new())
        .expect("a vector takes everything");
    assert_eq!(summary.events, 2 * 999);
}

#[test]
fn a_process_that_has_ended_may_wake_others_in_the_next_batch() {
    let process = |index| ProcessId::from_bits(1_u64 << 32 | index).expect("it has a generation");
    let (first, second) = (process(5), process(6));
    let events = [
        What::Runs {
            process: first,
            carrier: CarrierId(0),
        },
        What::Ended {
            process: first,
            number: 1,
        },
        What::Wakes {
            process: second,
            by: Some(first),
            reason: WakeReason::Done,
        },
    ];
    let mut converter =
        Converter::new(Vec::new(), Instant::from_nanos(0)).expect("a vector takes everything");
    for whats in [&events[..2], &events[2..]] {
        let at = Instant::from_nanos(10);
        let events = whats.iter().map(|&what| TraceEvent { at, what });
        let batch = batch(events.collect(), 0);
        converter.add(batch).expect("a vector takes everything");
    }
    let first = &converter.processes[&first];
    assert!(first.has_ended && first.open == 0, "it has no new slice");
}
