//! Samples of all processes, whether they run or not: of all their time, or of their waits.
//!
//! At each tick some processes are chosen at random and looked at. Each stands for as many as were
//! not looked at. So ten thousand processes cost no more than [`AT_ONCE`].

use super::nearby::Nearby;
use super::packed::PackedFrames;
use super::random::Random;
use super::{MOST_FRAMES, Place, Sampler};
use crate::inside::nanos;
use crate::wording::WORDING;
use baton_core::sched::{ProcessId, State, ThreadNames, describe_wait_and_holder};
use baton_core::vm::{NoLook, View, Vm};
use std::time::Instant;

/// How many places of the scheduler are looked at in a tick.
const AT_ONCE: u32 = 16;

/// Samples of all processes.
pub(super) struct EveryoneSampler {
    /// Only of those that wait.
    waits_only: bool,
    random: Random,
    last: Instant,
    nearby: Nearby,
}

impl EveryoneSampler {
    pub(super) fn new(waits_only: bool) -> EveryoneSampler {
        EveryoneSampler {
            waits_only,
            random: Random::new(),
            last: Instant::now(),
            nearby: Nearby::default(),
        }
    }
}

impl Sampler for EveryoneSampler {
    fn sample(&mut self, vm: &Vm) -> Result<Vec<(Place, u64)>, NoLook> {
        let waits_only = self.waits_only;
        let mut random = std::mem::replace(&mut self.random, Random::new());
        let (random, places, seen) = self.nearby.look(vm, move |view| {
            let places = view.sched().places();
            let seen = look(view, &mut random, waits_only);
            (random, places, seen)
        })?;
        self.random = random;
        let now = Instant::now();
        let passed = nanos(now - std::mem::replace(&mut self.last, now));
        // Each that was seen stands for its share of all places.
        let each = passed * u64::from(places) / u64::from(places.clamp(1, AT_ONCE));
        Ok(seen.into_iter().map(|place| (place, each)).collect())
    }
}

fn look(view: &View<'_>, random: &mut Random, waits_only: bool) -> Vec<Place> {
    let places = view.sched().places();
    let chosen: Vec<u32> = match places <= AT_ONCE {
        true => (0..places).collect(),
        false => (0..AT_ONCE).map(|_| random.below(places)).collect(),
    };
    let names = view.thread_names();
    let processes = chosen
        .into_iter()
        .filter_map(|place| view.sched().process_at(place));
    processes
        .filter_map(|process| place(view, &names, process, waits_only))
        .collect()
}

/// Where a process is, and what it waits for. `None` if only waits are wanted, and it does not
/// wait.
fn place(
    view: &View<'_>,
    names: &ThreadNames,
    process: ProcessId,
    waits_only: bool,
) -> Option<Place> {
    let sched = view.sched();
    let state = match sched.state(process) {
        State::Running if view.running_call_waits() => State::Foreign,
        other => other,
    };
    if waits_only && matches!(state, State::Running | State::Dead) {
        return None;
    }
    let record = sched.user_data(process)?;
    let frames = PackedFrames::of_record(record, MOST_FRAMES);
    let (object, holder) = match state {
        State::Runnable => ("its turn".to_owned(), String::new()),
        State::Suspended => ("a resume".to_owned(), String::new()),
        State::Foreign => {
            let name = frames.innermost_name();
            (format!("the end of a call of '{name}'"), String::new())
        }
        _ => describe_wait_and_holder(sched, &WORDING, names, process),
    };
    Some(Place {
        frames,
        object,
        holder,
        ..Place::default()
    })
}
