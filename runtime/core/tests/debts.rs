//! What was too much of one slice is taken from the next ones.

mod mock_guest;

use baton_core::kernel::{ProcessId, ResumeOutcome, State};
use baton_sys::clock::Instant;
use mock_guest::{Killed, Process, run_with};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What each process computes in `window`, in milliseconds of its own account. What a machine that stands still adds to one of them at the end is not made up for yet: so
/// this is tried until it `is_right`.
fn compute_beside_each_other<const N: usize>(
    each: [fn(&Process); N],
    window: Duration,
    is_right: fn([u128; N]) -> bool,
) {
    run_with(
        |vm| vm.parameters.slice.set(Duration::from_millis(1)),
        move |main| {
            let mut seen = Vec::new();
            for _ in 0..20 {
                let ends = Arc::new(AtomicBool::new(false));
                let all = each.map(|compute| {
                    let ends = Arc::clone(&ends);
                    main.spawn(move |process| {
                        compute(process);
                        process.spin_until(|| {
                            compute(process);
                            ends.load(Ordering::Relaxed)
                        })
                    })
                });
                main.sleep_until(Instant::now() + window)?;
                let had = all.map(|pid| main.vm.cpu_time(pid).as_millis());
                ends.store(true, Ordering::Relaxed);
                main.join_all(all)?;
                if is_right(had) {
                    return Ok(());
                }
                seen.push(had);
            }
            panic!("milliseconds: {seen:?}");
        },
    );
}

/// Does not let itself be interrupted.
fn compute_deafly(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {}
}

fn compute_deafly_at_first(process: &Process) {
    if process.vm.cpu_time(process.id) < Duration::from_millis(1) {
        compute_deafly(Duration::from_millis(30));
    }
}

/// A function that lets nobody in for thirty slices, once.
#[test]
fn who_has_had_too_much_passes_until_the_others_have_had_as_much() {
    compute_beside_each_other(
        [compute_deafly_at_first, |_| (), |_| ()],
        Duration::from_millis(180),
        |[greedy, one, other]| greedy > 40 && greedy.abs_diff(one).max(greedy.abs_diff(other)) < 10,
    );
}

/// The same all the while, and beside it a single one, which goes on while the other passes.
#[test]
fn who_has_one_rival_that_has_had_too_much_goes_on_itself() {
    compute_beside_each_other(
        [|_| compute_deafly(Duration::from_millis(30)), |_| ()],
        Duration::from_millis(400),
        |[greedy, other]| other > 120 && greedy > 120,
    );
}

/// The same beside one that is woken all the while, behind which the greedy one comes to its turn when that waits again.
#[test]
fn who_has_had_too_much_passes_when_another_one_waits() {
    compute_beside_each_other(
        [
            |_| compute_deafly(Duration::from_millis(30)),
            |_| (),
            |process| _ = process.sleep_until(Instant::now() + Duration::from_millis(1)),
        ],
        Duration::from_millis(400),
        |[greedy, other, _]| other > 100 && greedy > 100,
    );
}

/// The same beside one that gives way by itself, and goes on while the other passes.
#[test]
fn who_has_had_too_much_passes_when_another_one_yields() {
    compute_beside_each_other(
        [
            |_| compute_deafly(Duration::from_millis(30)),
            |process| {
                compute_deafly(Duration::from_micros(100));
                _ = process.yield_now();
            },
        ],
        Duration::from_millis(400),
        |[greedy, other]| other > 10 && greedy > 100,
    );
}

fn wait_natively(process: &Process) {
    let had = process.vm.cpu_time(process.id);
    if had > Duration::from_millis(3) && had < Duration::from_millis(5) {
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// As a machine that stands still in somebody's turn. The accounts go on, but a turn that has been waited away is not paid for by thirty others.
#[test]
fn who_has_not_computed_in_its_turn_owes_nothing_for_it() {
    compute_beside_each_other(
        [wait_natively, |_| (), |_| ()],
        Duration::from_millis(100),
        |[waited, one, other]| waited > 40 && waited.abs_diff(one).min(waited.abs_diff(other)) > 20,
    );
}

/// Each of its slices has a new length before it ends.
#[test]
fn who_changes_the_length_of_its_slices_again_and_again_is_interrupted_as_ever() {
    compute_beside_each_other(
        [
            |process| {
                compute_deafly(Duration::from_micros(200));
                process.vm.set_slice(process.id, Some(Duration::from_millis(1)));
            },
            |_| (),
        ],
        Duration::from_millis(60),
        |[changing, other]| other > 20 && changing > 20,
    );
}

/// How long it takes a process that has had thirty slices too much, beside one that computes, to run again after it was told something. Tried until it was soon three times, and
/// not where it was told nothing.
fn obeys_at_once(tell: fn(&Process, ProcessId), has_obeyed: fn(&Process, ProcessId, Duration) -> bool) {
    run_with(
        |vm| vm.parameters.slice.set(Duration::from_millis(1)),
        move |main| {
            let (mut seen, mut good) = (Vec::new(), 0);
            for _ in 0..30 {
                let ignored = time_to_obey(main, |_, _| (), has_run)?;
                let took = time_to_obey(main, tell, has_obeyed)?;
                good += u32::from(took < ignored / 2 && ignored > Duration::from_millis(10));
                if good == 3 {
                    return Ok(());
                }
                seen.push((ignored, took));
            }
            panic!("{seen:?}");
        },
    );
}

fn has_run(main: &Process, greedy: ProcessId, had: Duration) -> bool {
    main.vm.cpu_time(greedy) > had + Duration::from_micros(500)
}

fn time_to_obey(
    main: &Process,
    tell: fn(&Process, ProcessId),
    has_obeyed: fn(&Process, ProcessId, Duration) -> bool,
) -> Result<Duration, Killed> {
    let ends = Arc::new(AtomicBool::new(false));
    let until_the_end = |process: &Process, ends: &AtomicBool| process.spin_until(|| ends.load(Ordering::Relaxed));
    let [ends_greedy, ends_other] = [Arc::clone(&ends), Arc::clone(&ends)];
    let greedy = main.spawn(move |process| {
        compute_deafly(Duration::from_millis(30));
        until_the_end(process, &ends_greedy)
    });
    let other = main.spawn(move |process| until_the_end(process, &ends_other));
    main.sleep_until(Instant::now() + Duration::from_millis(1))?;
    let had = main.vm.cpu_time(greedy);
    let begin = Instant::now();
    tell(main, greedy);
    while !has_obeyed(main, greedy, had) {
        main.yield_now()?;
    }
    let took = Instant::now().saturating_duration_since(begin);
    ends.store(true, Ordering::Relaxed);
    main.join_all([greedy, other])?;
    Ok(took)
}

#[test]
fn who_is_killed_owes_nothing_any_more() {
    obeys_at_once(
        |main, greedy| _ = main.vm.kill(greedy),
        |main, greedy, _| main.vm.kernel(|kernel| kernel.state(greedy)) == State::Dead,
    );
}

#[test]
fn who_is_suspended_by_another_owes_nothing_any_more() {
    obeys_at_once(
        |main, greedy| {
            let _ = main.vm.suspend(greedy);
            assert_eq!(main.vm.operate(|kernel| kernel.resume(greedy)), ResumeOutcome::Resumed);
        },
        has_run,
    );
}

/// Fifty slices alone, then two rivals: they do not have as much before it runs again.
#[test]
fn who_had_no_rivals_owes_them_nothing() {
    const ALONE: Duration = Duration::from_millis(50);
    const TOGETHER: Duration = Duration::from_millis(36);
    run_with(
        |vm| vm.parameters.slice.set(Duration::from_millis(1)),
        |main| {
            let mut seen = Vec::new();
            for _ in 0..20 {
                let ends = Arc::new(AtomicBool::new(false));
                let spawn = || {
                    let ends = Arc::clone(&ends);
                    main.spawn(move |process| process.spin_until(|| ends.load(Ordering::Relaxed)))
                };
                let first = spawn();
                main.sleep_until(Instant::now() + ALONE)?;
                let alone = main.vm.cpu_time(first);
                let rivals = [spawn(), spawn()];
                main.sleep_until(Instant::now() + TOGETHER)?;
                let together = main.vm.cpu_time(first) - alone;
                ends.store(true, Ordering::Relaxed);
                main.join(first)?;
                main.join_all(rivals)?;
                if alone > ALONE / 2 && together > TOGETHER / 6 {
                    return Ok(());
                }
                seen.push((alone, together));
            }
            panic!("{seen:?}");
        },
    );
}
