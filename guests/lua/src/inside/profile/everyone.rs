//! Samples of all processes, whether they run or not.
//!
//! At each tick some processes are chosen at random and looked at. Each stands for as many as were
//! not looked at. So ten thousand processes cost no more than [`AT_ONCE`].

use super::nearby::Nearby;
use super::packed::PackedFrames;
use super::random::Random;
use super::{MOST_FRAMES, Place, Sampler};
use crate::inside::{nanos, objects, stacks};
use baton_core::sched::{Role, State, ThreadNames, WaitObject};
use baton_core::vm::{NoLook, View, Vm};
use std::time::Instant;

/// How many places of the scheduler are looked at in a tick.
const AT_ONCE: u32 = 16;

/// Samples of all processes.
pub(super) struct EveryoneSampler {
    random: Random,
    last: Instant,
    nearby: Nearby,
}

impl EveryoneSampler {
    pub(super) fn new() -> EveryoneSampler {
        EveryoneSampler {
            random: Random::new(),
            last: Instant::now(),
            nearby: Nearby::default(),
        }
    }
}

impl Sampler for EveryoneSampler {
    fn sample(&mut self, vm: &Vm) -> Result<Vec<(Place, u64)>, NoLook> {
        let mut random = std::mem::replace(&mut self.random, Random::new());
        let (random, places, seen) = self.nearby.look(vm, move |view| {
            let places = view.sched().places();
            let seen = look(view, &mut random);
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

fn look(view: &View<'_>, random: &mut Random) -> Vec<Place> {
    let places = view.sched().places();
    let chosen: Vec<u32> = match places <= AT_ONCE {
        true => (0..places).collect(),
        false => (0..AT_ONCE).map(|_| random.below(places)).collect(),
    };
    let names = view.thread_names();
    let seen = chosen.into_iter();
    seen.filter_map(|chosen| place(view, &names, chosen))
        .collect()
}

/// Where the process at a place of the scheduler is, and what it waits for.
fn place(view: &View<'_>, names: &ThreadNames, chosen: u32) -> Option<Place> {
    let sched = view.sched();
    let mut row = sched.census_row(chosen)?;
    if row.state == State::Running && view.running_call_waits() {
        row.object = WaitObject::Call;
    }
    let record = sched.user_data(row.process)?;
    let holder = row.partner.filter(|partner| partner.role == Role::Holder);
    let holder = holder.and_then(|holder| sched.user_data(holder.process));
    Some(Place {
        frames: PackedFrames::of_record(record, MOST_FRAMES),
        object: objects::label(view, names, &row),
        holder: holder.map(stacks::title).unwrap_or_default(),
        ..Place::default()
    })
}
