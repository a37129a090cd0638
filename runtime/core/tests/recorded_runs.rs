//! A recorded run is the run of its seed, and a run that is given all its decisions is the same run
//! again. The virtual clock is the whole program's, so this is the only test of its program.

mod mock_guest;

use baton_core::recording::{DecisionKind, Recording, RunDecision};
use baton_core::sched::{Case, ChannelId, Deadline, Priority, SemaphoreId, SpawnOptions};
use baton_sys::clock::Instant;
use mock_guest::{Life, Process, run_with};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the processes of a run did, in order.
type Log = Vec<(u32, u32)>;

/// Counts instructions, as an interpreter does. One thread at a time uses it.
#[derive(Default)]
struct Machine {
    made: AtomicU32,
    left: AtomicU32,
    log: Mutex<Log>,
}

impl Machine {
    fn step(&self, process: &Process) {
        // Relaxed (all): inside the VM.
        let left = self.left.load(Ordering::Relaxed);
        if left > 1 {
            self.left.store(left - 1, Ordering::Relaxed);
            return;
        }
        let counted = process.vm.count_steps(self.made.load(Ordering::Relaxed));
        self.made.store(counted.until_next, Ordering::Relaxed);
        self.left.store(counted.until_next, Ordering::Relaxed);
        if counted.is_safepoint_due {
            process.vm.safepoint();
        }
    }

    fn steps(&self, process: &Process, count: u32) {
        (0..count).for_each(|_| self.step(process));
    }

    fn note(&self, worker: u32, what: u32) {
        self.log
            .lock()
            .expect("no process panics")
            .push((worker, what));
    }
}

fn work(
    process: &Process,
    machine: &Machine,
    worker: u32,
    semaphore: SemaphoreId,
    channels: [ChannelId; 2],
) -> Life {
    for round in 0..20 {
        machine.note(worker, round);
        machine.steps(process, 7 + worker);
        match (worker + round) % 4 {
            0 => process.vm.yield_now(),
            1 => process.sleep_until(Instant::now() + Duration::from_micros(50))?,
            2 => {
                process.wait(|sched| sched.semaphore_wait(semaphore, Deadline::Never))?;
                machine.steps(process, 20);
                process
                    .vm
                    .with_sched(|sched| sched.semaphore_signal(semaphore, 1));
            }
            _ => {
                let mut cases = channels.map(Case::Receive);
                let wake = process.vm.select(&mut cases, &[], Deadline::Now);
                machine.note(worker, 1000 + wake.expect("no descriptor is there").case);
            }
        }
        machine.step(process);
    }
    Ok(())
}

fn run(seed: u64, recording: Option<Recording>) -> Log {
    let machine = Arc::new(Machine::default());
    let of_main = Arc::clone(&machine);
    let configure = |vm: &baton_core::vm::Vm| {
        vm.simulate(seed);
        if let Some(recording) = recording {
            vm.record(recording);
        }
    };
    run_with(configure, move |main| {
        let semaphore = main.vm.sched(|sched| sched.semaphore_new(1));
        let channels = main
            .vm
            .sched(|sched| [(); 2].map(|()| sched.channel_new(100)));
        for value in 0..100 {
            for channel in channels {
                main.vm.channel_send(channel, value, Deadline::Never);
            }
        }
        let spawn = |worker| {
            let machine = Arc::clone(&of_main);
            let priority = if worker == 5 { 60 } else { 40 };
            let options = SpawnOptions {
                priority: Priority::new(priority).expect("a level"),
                ..SpawnOptions::default()
            };
            main.spawn_with(options, move |process| {
                work(process, &machine, worker, semaphore, channels)
            })
        };
        main.join_all((0..6).map(spawn).collect::<Vec<_>>())
    });
    let log = machine.log.lock().expect("no process panics");
    log.clone()
}

#[test]
fn recorded_and_directed_runs_are_the_run_of_the_seed() {
    let (_, recording) = Recording::new().expect("there is memory");
    let mut kinds = std::collections::HashSet::new();
    let mut differ = 0;
    for seed in 1..=50 {
        let plain = run(seed, None);
        recording.prepare(None);
        assert_eq!(
            run(seed, Some(recording)),
            plain,
            "recorded, the seed {seed}"
        );
        let decisions = recording.decisions().expect("they are few");
        let switches = recording.switch_count();
        kinds.extend(decisions.iter().map(|decision| decision.kind));

        recording.prepare(Some(&decisions));
        assert_eq!(
            run(seed, Some(recording)),
            plain,
            "directed, the seed {seed}"
        );
        assert_eq!(recording.switch_count(), switches);
        let effective = recording.decisions().expect("they are few");
        assert!(
            is_part_of(&effective, &decisions),
            "{effective:?} of {decisions:?}"
        );

        recording.prepare(Some(&effective));
        assert_eq!(
            run(seed, Some(recording)),
            plain,
            "by effect, the seed {seed}"
        );

        recording.prepare(Some(&[]));
        differ += usize::from(run(seed, Some(recording)) != plain);
        let in_plain_order = recording.decisions().expect("they are few");
        assert_eq!(in_plain_order, [], "the seed {seed}");
    }
    let all = [
        DecisionKind::Preempt,
        DecisionKind::Order,
        DecisionKind::Select,
    ];
    assert!(all.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
    assert!(differ > 40, "{differ}");
}

fn is_part_of(some: &[RunDecision], all: &[RunDecision]) -> bool {
    some.iter().all(|decision| all.contains(decision))
}
