//! Traces: what is noted, in which order, and by which threads.

mod mock_guest;

use baton_core::sched::{Blocker, Deadline, ProcessId, WakeReason};
use baton_core::trace::{Left, MOST_EVENTS, TraceEvent, What};
use baton_core::vm::HOME;
use baton_sys::clock::Instant;
use mock_guest::{Process, run, run_with};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Runs `body` traced. Returns the events, without parts of names.
fn traced(process: &Process, body: impl FnOnce() -> mock_guest::Life) -> Vec<TraceEvent> {
    let vm = &process.vm;
    let begin = vm.view(|view| view.begin_trace());
    let lived = body();
    let mut events = Vec::new();
    let read = vm.view(|view| view.read_trace(begin, usize::MAX, &mut events));
    vm.view(|view| view.end_trace());
    assert!(lived.is_ok(), "nobody kills it");
    assert_eq!((read.lost, read.has_more), (0, false));
    events.retain(|event| !matches!(event.what, What::Name(_)));
    events
}

fn of(events: &[TraceEvent], process: ProcessId) -> Vec<What> {
    let whats = events.iter().map(|event| event.what);
    whats
        .filter(|&what| process_of(what) == Some(process))
        .collect()
}

fn process_of(what: What) -> Option<ProcessId> {
    match what {
        What::Runs { process, .. }
        | What::Left { process, .. }
        | What::Wakes { process, .. }
        | What::Due { process, .. }
        | What::CallBegins { process, .. }
        | What::CallEnds { process }
        | What::Spawned { process, .. }
        | What::Ended { process, .. }
        | What::Stalls { process } => Some(process),
        _ => None,
    }
}

#[test]
fn a_process_is_followed_from_its_spawn_to_its_end() {
    run(|main| {
        let (me, mut child) = (main.id, None);
        let queue = main.vm.sched(|sched| sched.wait_queue_new());
        let events = traced(main, || {
            let spawned = main.spawn(move |process| {
                process.yield_now()?;
                process.wait(|sched| sched.wait(queue, Deadline::Never))?;
                Ok(())
            });
            child = Some(spawned);
            main.yield_now()?;
            main.yield_now()?;
            main.vm
                .with_sched(|sched| sched.wake_one(queue, WakeReason::Done, 0));
            main.join(spawned)
        });
        let process = child.expect("it was spawned");
        let runs = What::Runs {
            process,
            carrier: HOME,
        };
        let left = |cause, blocker| What::Left {
            process,
            cause,
            blocker,
        };
        let seen = of(&events, process);
        assert_eq!(
            seen[..7],
            [
                What::Spawned {
                    process,
                    by: Some(me)
                },
                runs,
                left(Left::Yielded, None),
                runs,
                left(Left::Waits, Some(Blocker::Queue(queue))),
                What::Wakes {
                    process,
                    by: Some(me),
                    reason: WakeReason::Done
                },
                runs,
            ]
        );
        assert!(matches!(seen[7], What::Ended { .. }), "{seen:?}");
        let me_runs = What::Runs {
            process: me,
            carrier: HOME,
        };
        assert_eq!(events[0].what, me_runs, "it is said first who runs");
        // The end wakes the process that joins.
        let joined = What::Wakes {
            process: me,
            by: Some(process),
            reason: WakeReason::Done,
        };
        assert!(of(&events, me).contains(&joined), "{events:?}");
        let times: Vec<Instant> = events.iter().map(|event| event.at).collect();
        assert!(times.is_sorted(), "{times:?}");
        Ok(())
    });
}

#[test]
fn a_sleep_is_an_idle_wait_and_a_deadline_with_its_lateness() {
    run(|main| {
        let process = main.id;
        let events = traced(main, || {
            main.sleep_until(Instant::now() + Duration::from_millis(20))
        });
        let whats: Vec<What> = events.iter().map(|event| event.what).collect();
        let place = |wanted: &dyn Fn(&What) -> bool| {
            whats
                .iter()
                .position(wanted)
                .unwrap_or_else(|| panic!("{whats:?}"))
        };
        let sleeps = place(&|what| {
            let (cause, blocker) = (Left::Waits, Some(Blocker::Sleep));
            *what
                == What::Left {
                    process,
                    cause,
                    blocker,
                }
        });
        let idles = place(&|what| matches!(what, What::IdleBegins { carrier: HOME }));
        let woken = place(&|what| matches!(what, What::IdleEnds));
        let due = place(&|what| matches!(what, What::Due { process: it, .. } if *it == process));
        assert!(sleeps < idles && idles < woken && woken < due, "{whats:?}");
        let What::Due { due: wanted, .. } = whats[due] else {
            unreachable!("found above");
        };
        let lateness = events[due].at - wanted;
        let slept = events[due].at - events[sleeps].at;
        assert!(
            lateness > Duration::ZERO && lateness < slept,
            "{lateness:?}"
        );
        Ok(())
    });
}

#[test]
fn a_retaken_call_is_noted_by_the_monitor_and_its_return_by_the_next_owner() {
    run(|main| {
        let me = main.id;
        let events = traced(main, || {
            let (give, take) = channel();
            main.spawn(move |process| {
                process.yield_now()?;
                give.send(()).expect("there is a receiver");
                Ok(())
            });
            let heard = main.foreign(|| take.recv());
            heard.map(|heard| heard.expect("there is a sender"))
        });
        let begins = What::CallBegins {
            process: me,
            carrier: HOME,
        };
        let seen = of(&events, me);
        let begin = seen.iter().position(|&what| what == begins);
        let begin = begin.unwrap_or_else(|| panic!("it was not retaken: {events:?}"));
        let cause = Left::Calls;
        assert_eq!(
            seen[begin - 1],
            What::Left {
                process: me,
                cause,
                blocker: None
            }
        );
        assert_eq!(seen[begin + 1], What::CallEnds { process: me });
        assert!(matches!(seen[begin + 2], What::Runs { .. }), "{seen:?}");
        Ok(())
    });
}

#[test]
fn a_preempted_process_was_left_as_its_slice_was_over() {
    run_with(
        |vm| vm.parameters.slice.set(Duration::from_millis(1)),
        |main| {
            let me = main.id;
            let events = traced(main, || {
                let child = main.spawn(|process| process.yield_now());
                main.spin_until(|| !main.vm.sched(|sched| sched.is_alive(child)))
            });
            let cause = Left::SliceOver;
            let left = What::Left {
                process: me,
                cause,
                blocker: None,
            };
            assert!(of(&events, me).contains(&left), "{events:?}");
            Ok(())
        },
    );
}

#[test]
fn what_is_overwritten_is_lost_and_the_rest_can_be_read() {
    run(|main| {
        let view = |most| {
            let mut events = Vec::new();
            let read = main.vm.view(|view| view.read_trace(0, most, &mut events));
            (read, events)
        };
        main.vm.view(|view| view.begin_trace());
        main.spawn(|process| {
            for _ in 0..MOST_EVENTS / 4 {
                process.yield_now()?;
            }
            Ok(())
        });
        for _ in 0..MOST_EVENTS / 4 + 1000 {
            main.yield_now()?;
        }
        let (read, events) = view(100);
        assert!(read.lost > 0 && read.has_more, "{read:?}");
        assert_eq!((read.next, events.len()), (read.lost + 100, 100));
        main.vm.view(|view| view.end_trace());
        assert!(!main.vm.view(|view| view.is_traced()));
        Ok(())
    });
}

#[test]
fn the_parameter_flight_begins_and_ends_a_trace() {
    run(|main| {
        let is_traced = || main.vm.view(|view| view.is_traced());
        assert!(!is_traced());
        main.vm.parameters.flight.set(Duration::from_secs(5));
        main.vm.parameters_changed();
        assert!(is_traced());
        // A reader that comes and goes changes nothing.
        main.vm.view(|view| view.begin_trace());
        main.vm.view(|view| view.end_trace());
        assert!(is_traced());
        main.vm.parameters.flight.set(Duration::ZERO);
        main.vm.parameters_changed();
        assert!(!is_traced());
        Ok(())
    });
}
