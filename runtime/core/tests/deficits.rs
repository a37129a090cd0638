//! Slice deficits: the overrun of a slice is charged to the next slices.
//!
//! No assertion here depends on a wall clock. A round is one run of a greedy process and everything
//! that its rivals get until its next run. That is counted in runs and laps, or read from the VM's
//! accounts.
//!
//! - If the machine does not let the test run, a rival's account grows, but no count does.
//! - Nothing is lost by that, as each slice lasts as long as ever on the wall.
//! - The monitor may be delayed as well, so that one slice ends late. So the median of nine rounds
//!   is checked.

mod mock_guest;

use baton_core::sched::{ProcessId, ResumeOutcome, State};
use baton_sys::clock;
use mock_guest::{Killed, Process, run_with};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SLICE: Duration = Duration::from_millis(1);

/// How long a greedy process computes without a safepoint.
const DEAF: Duration = SLICE.saturating_mul(30);

const ROUNDS: usize = 9;

/// What the processes record about their runs. All of them run on one native thread.
#[derive(Default)]
struct Notes {
    /// The number of the process that ran last; 0: a process that counts no laps.
    last: AtomicUsize,
    turns: AtomicU64,
    laps: AtomicU64,
    is_over: AtomicBool,
}

impl Notes {
    /// Records a run of a process that counts no laps.
    fn note_another(&self) {
        // Relaxed: one thread.
        self.last.store(0, Ordering::Relaxed);
    }

    /// Records a lap of process `number`.
    fn lap(&self, number: usize) {
        // Relaxed (all): one thread.
        self.laps.fetch_add(1, Ordering::Relaxed);
        if self.last.swap(number, Ordering::Relaxed) != number {
            self.turns.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }
}

/// What the rivals got between two runs of the greedy process.
#[derive(Debug, Clone)]
struct Round {
    /// Runs of all rivals.
    turns: u64,
    /// Laps of all rivals.
    laps: u64,
    /// The running time of each.
    accounts: Vec<Duration>,
    /// Processor time of all rivals.
    computed: Duration,
}

/// The median of some values.
fn middle<T: Ord + Copy>(values: impl Iterator<Item = T>) -> T {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values[values.len() / 2]
}

fn spawn_rivals<const N: usize>(
    main: &Process,
    notes: &Arc<Notes>,
    rivals: [fn(&Process); N],
) -> [ProcessId; N] {
    let mut number = 0;
    rivals.map(|lap| {
        number += 1;
        let (notes, number) = (Arc::clone(notes), number);
        main.spawn(move |process| {
            process.spin_until(|| {
                notes.lap(number);
                lap(process);
                notes.is_over.load(Ordering::Relaxed)
            })
        })
    })
}

/// Runs `greed` at the beginning of each run of a process with these rivals, which do laps all the
/// time.
fn rounds<const N: usize>(greed: fn(&Process), rivals: [fn(&Process); N]) -> Vec<Round> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&seen);
    run_with(
        |vm| vm.parameters.slice.set(SLICE),
        move |main| {
            let notes = Arc::new(Notes::default());
            let rivals = spawn_rivals(main, &notes, rivals);
            let greedy = main.spawn(move |process| {
                let look = || {
                    let laps = notes.laps.load(Ordering::Relaxed);
                    let accounts = rivals.map(|rival| process.vm.running_time(rival));
                    (notes.turns(), laps, accounts, clock::thread_cpu_time())
                };
                // Begins a run whose start the accounts know exactly.
                process.spin_until(|| {
                    notes.note_another();
                    notes.turns() >= 2 * N as u64
                })?;
                for _ in 0..ROUNDS {
                    greed(process);
                    notes.note_another();
                    let before = look();
                    process.spin_until(|| notes.turns() > before.0)?;
                    let after = look();
                    into.lock().expect("no thread panics").push(Round {
                        turns: after.0 - before.0,
                        laps: after.1 - before.1,
                        accounts: (0..N).map(|i| after.2[i] - before.2[i]).collect(),
                        computed: after.3 - before.3,
                    });
                }
                notes.is_over.store(true, Ordering::Relaxed);
                Ok(())
            });
            main.join(greedy)?;
            main.join_all(rivals)
        },
    );
    std::mem::take(&mut *seen.lock().expect("no thread panics"))
}

/// Computes without a safepoint.
fn compute_without_safepoints(time: Duration) {
    let begin = clock::thread_cpu_time();
    while clock::thread_cpu_time() - begin < time {}
}

/// Asserts that each run of the greedy process costs it the next 29 slices, which `N` rivals get.
fn assert_made_up_for<const N: usize>(rivals: [fn(&Process); N]) {
    let rounds = rounds(|_| compute_without_safepoints(DEAF), rivals);
    let first = middle(rounds.iter().map(|round| round.accounts[0]));
    let computed = middle(rounds.iter().map(|round| round.computed));
    assert!(first >= SLICE * 20, "{first:?} for a rival: {rounds:#?}");
    let most = SLICE * 45 * N as u32;
    assert!(computed <= most, "{computed:?} for rivals: {rounds:#?}");
}

#[test]
fn a_process_that_overran_its_slice_is_skipped_until_the_others_have_had_as_much() {
    assert_made_up_for([|_| (), |_| ()]);
}

/// The single rival continues while the other process is skipped.
#[test]
fn a_single_rival_goes_on_itself_while_the_other_process_is_skipped() {
    assert_made_up_for([|_| ()]);
}

/// The second rival is woken all the time. When it waits again, the greedy process is next.
#[test]
fn a_process_that_overran_is_skipped_when_another_one_waits() {
    assert_made_up_for([
        |_| (),
        |process| _ = process.sleep_until(clock::Instant::now() + SLICE),
    ]);
}

/// The rival yields, and continues while the other process is skipped. Each skip costs the other
/// process a slice: the laps count them.
#[test]
fn a_process_that_overran_is_skipped_when_another_one_yields() {
    let rounds = rounds(
        |_| compute_without_safepoints(DEAF),
        [|process| {
            compute_without_safepoints(SLICE / 10);
            _ = process.yield_now();
        }],
    );
    let laps = middle(rounds.iter().map(|round| round.laps));
    assert!((15..=45).contains(&laps), "{laps} laps: {rounds:#?}");
}

/// Like a machine that stands still during a run. The accounts go on, but thirty runs of the others
/// do not pay for a run that only waited.
#[test]
fn a_process_is_not_skipped_for_a_slice_in_which_it_did_not_compute() {
    let rounds = rounds(|_| std::thread::sleep(DEAF), [|_| (), |_| ()]);
    let turns = middle(rounds.iter().map(|round| round.turns));
    assert!(turns <= 6, "{turns} turns of two rivals: {rounds:#?}");
}

/// Fifty slices alone, then two rivals: the rivals do not get these slices back.
#[test]
fn a_process_that_had_no_rivals_is_not_skipped_for_the_time_alone() {
    const ALONE: Duration = SLICE.saturating_mul(50);
    run_with(
        |vm| vm.parameters.slice.set(SLICE),
        |main| {
            let mut turns = Vec::new();
            for _ in 0..ROUNDS {
                let notes = Arc::new(Notes::default());
                let of_first = Arc::clone(&notes);
                let first = main.spawn(move |process| {
                    process.spin_until(|| of_first.is_over.load(Ordering::Relaxed))
                });
                // Not by short sleeps: main is a rival, too, when it is awake.
                while main.vm.cpu_time(first) < ALONE {
                    main.sleep_until(clock::Instant::now() + ALONE)?;
                }
                let had = main.vm.running_time(first);
                let rivals = spawn_rivals(main, &notes, [|_| (), |_| ()]);
                while main.vm.running_time(first) == had {
                    main.yield_now()?;
                }
                turns.push(notes.turns());
                notes.is_over.store(true, Ordering::Relaxed);
                main.join(first)?;
                main.join_all(rivals)?;
            }
            let usual = middle(turns.iter().copied());
            assert!(usual <= 6, "{usual} turns of two rivals: {turns:?}");
            Ok(())
        },
    );
}

/// Each of its slices has a new length before it ends. Its computing in a run is measured by its
/// thread's own clock.
#[test]
fn a_process_that_keeps_changing_its_slice_length_is_still_interrupted() {
    const MOST: Duration = SLICE.saturating_mul(5);
    run_with(
        |vm| vm.parameters.slice.set(SLICE),
        |main| {
            let notes = Arc::new(Notes::default());
            let rivals = spawn_rivals(main, &notes, [|_| ()]);
            let changing = main.spawn(move |process| {
                let mut turns = Vec::new();
                while turns.len() < 30 {
                    let (turn, begin) = (notes.turns(), clock::thread_cpu_time());
                    let mut computed = Duration::ZERO;
                    notes.note_another();
                    process.spin_until(|| {
                        // Before the next check, or the rival's run would be counted in.
                        if notes.turns() == turn {
                            computed = clock::thread_cpu_time() - begin;
                            compute_without_safepoints(SLICE / 5);
                            process.vm.set_slice(process.id, Some(SLICE));
                        }
                        notes.turns() != turn
                    })?;
                    turns.push(computed);
                }
                notes.is_over.store(true, Ordering::Relaxed);
                let usual = middle(turns.iter().copied());
                assert!(usual <= MOST, "{usual:?} in a turn: {turns:?}");
                Ok(())
            });
            main.join(changing)?;
            main.join_all(rivals)
        },
    );
}

/// How many runs another process has until a process with a deficit of 89 slices reacts. On a busy
/// machine the other one overruns its slices as well, so it has fewer runs for them.
fn runs_until_it_obeys(
    main: &Process,
    tell: fn(&Process, ProcessId),
    has_obeyed: fn(&Process, ProcessId, Duration) -> bool,
) -> Result<u64, Killed> {
    let notes = Arc::new(Notes::default());
    let was_deaf = Arc::new(AtomicBool::new(false));
    let [other] = spawn_rivals(main, &notes, [|_| ()]);
    let (flag, of_greedy) = (Arc::clone(&was_deaf), Arc::clone(&notes));
    let greedy = main.spawn(move |process| {
        compute_without_safepoints(DEAF * 3);
        flag.store(true, Ordering::Relaxed);
        process.spin_until(|| of_greedy.is_over.load(Ordering::Relaxed))
    });
    main.yield_until(|| was_deaf.load(Ordering::Relaxed))?;
    let had = main.vm.running_time(greedy);
    let before = notes.turns();
    tell(main, greedy);
    main.yield_until(|| {
        notes.note_another();
        has_obeyed(main, greedy, had)
    })?;
    let turns = notes.turns() - before;
    notes.is_over.store(true, Ordering::Relaxed);
    main.join_all([greedy, other])?;
    Ok(turns)
}

fn has_run(main: &Process, greedy: ProcessId, had: Duration) -> bool {
    main.vm.running_time(greedy) > had
}

/// Asserts that it reacts in its next run. Without a kill or suspension it would be skipped for
/// many.
fn assert_obeys_at_once(
    tell: fn(&Process, ProcessId),
    has_obeyed: fn(&Process, ProcessId, Duration) -> bool,
) {
    run_with(
        |vm| vm.parameters.slice.set(SLICE),
        move |main| {
            let (mut untold, mut told) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                untold.push(runs_until_it_obeys(main, |_, _| (), has_run)?);
                told.push(runs_until_it_obeys(main, tell, has_obeyed)?);
            }
            let middles = (middle(untold.iter().copied()), middle(told.iter().copied()));
            assert!(
                middles.0 >= 10 && middles.1 <= 3,
                "{middles:?} turns: {untold:?}, {told:?}"
            );
            Ok(())
        },
    );
}

#[test]
fn a_process_that_is_killed_is_not_skipped_any_more() {
    assert_obeys_at_once(
        |main, greedy| _ = main.vm.kill(greedy),
        |main, greedy, _| main.vm.sched(|sched| sched.state(greedy)) == State::Dead,
    );
}

#[test]
fn a_process_that_another_one_suspends_is_not_skipped_any_more() {
    assert_obeys_at_once(
        |main, greedy| {
            let _ = main.vm.suspend(greedy);
            assert_eq!(
                main.vm.with_sched(|sched| sched.resume(greedy)),
                ResumeOutcome::Resumed
            );
        },
        has_run,
    );
}
