//! Samples of waits, by object.
//!
//! At each tick all processes are counted by what they wait for, so the time of an object is exact
//! to a tick: each of its waiters gets the time since the last tick. Some of them are chosen at
//! random, and stand for all of their object with their stacks. The holder is of the same instant.
//! The [`MOST_OBJECTS`] objects that most wait for are told one by one, and the rest by kind.
//!
//! | processes | counted | stacks |
//! |---|---|---|
//! | up to [`MOST_COUNTED`] | all | at least one of each object or kind that is told |
//! | more | each second or third one and so on, from a random one on | the same |
//!
//! A tick takes all processes some 50 ns for each one that is counted, and some microseconds for
//! each stack.

use super::nearby::Nearby;
use super::packed::PackedFrames;
use super::random::Random;
use super::{MOST_FRAMES, Place, SampleKind, Sampler};
use crate::inside::{nanos, objects, stacks};
use baton_core::sched::{
    CensusRow, Partner, ProcessId, Role, State, ThreadNames, WaitObject, describe_others,
};
use baton_core::vm::{NoLook, View, Vm};
use baton_sys::clock;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Instant;

/// How many processes are counted in a tick.
const MOST_COUNTED: u32 = 4096;

/// How many objects are told one by one in a tick. The others share [`OF_THE_REST`] stacks, beside
/// one for each kind.
const MOST_OBJECTS: usize = 24;
const OF_THE_REST: usize = 8;

/// How many stacks the objects share by how many wait for them, beside one for each.
const SHARED_STACKS: usize = 16;

/// Samples of processes that wait.
pub(super) struct WaitSampler {
    random: Random,
    last: Instant,
    nearby: Nearby,
    /// Memory for the rows of the next tick.
    rows: Vec<CensusRow>,
    /// The longest wait for each object so far, in nanoseconds.
    longest: HashMap<String, u64>,
}

/// What a tick has found at a place.
struct Found {
    place: Place,
    /// How many processes it stands for.
    weight: f64,
    /// The longest wait among them so far, in nanoseconds.
    longest: u64,
}

impl WaitSampler {
    pub(super) fn new() -> WaitSampler {
        WaitSampler {
            random: Random::new(),
            last: Instant::now(),
            nearby: Nearby::default(),
            rows: Vec::new(),
            longest: HashMap::new(),
        }
    }

    /// By how much the longest wait for an object has grown.
    fn growth(&mut self, found: &Found) -> u64 {
        let object = &found.place.object;
        let before = match self.longest.get_mut(object) {
            Some(before) => before,
            None => self.longest.entry(object.clone()).or_default(),
        };
        let growth = found.longest.saturating_sub(*before);
        *before += growth;
        growth
    }
}

impl Sampler for WaitSampler {
    fn sample(&mut self, vm: &Vm) -> Result<Vec<(Place, u64)>, NoLook> {
        let mut random = std::mem::replace(&mut self.random, Random::new());
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        let (random, rows, found) = self.nearby.look(vm, move |view| {
            let found = Tick::of(view, &mut rows, &mut random).look();
            (random, rows, found)
        })?;
        (self.random, self.rows) = (random, rows);
        let now = Instant::now();
        let passed = nanos(now - std::mem::replace(&mut self.last, now)) as f64;
        let mut samples = Vec::with_capacity(2 * found.len());
        for one in found {
            let growth = self.growth(&one);
            if growth > 0 {
                let place = Place {
                    kind: SampleKind::Longest,
                    object: one.place.object.clone(),
                    class: one.place.class,
                    ..Place::default()
                };
                samples.push((place, growth));
            }
            samples.push((one.place, (passed * one.weight).round() as u64));
        }
        Ok(samples)
    }

    /// The time since the last tick.
    fn finish(&mut self, vm: &Vm) -> Vec<(Place, u64)> {
        self.sample(vm).unwrap_or_default()
    }
}

/// A tick's look at the processes.
struct Tick<'a, 'v> {
    view: &'a mut View<'v>,
    rows: &'a [CensusRow],
    random: &'a mut Random,
    names: ThreadNames,
    at: clock::Instant,
    /// How many processes each row stands for.
    scale: f64,
    found: Vec<Found>,
}

/// An object, and the rows of its waiters.
type Waiters = (WaitObject, Vec<u32>);

impl<'a, 'v> Tick<'a, 'v> {
    /// Counts the processes.
    fn of(
        view: &'a mut View<'v>,
        rows: &'a mut Vec<CensusRow>,
        random: &'a mut Random,
    ) -> Tick<'a, 'v> {
        let places = view.sched().places();
        let step = places.div_ceil(MOST_COUNTED).max(1);
        let counted = (random.below(step)..places).step_by(step as usize);
        let scale = f64::from(places) / (counted.len().max(1) as f64);
        view.census(counted, rows);
        let running = rows.iter_mut().find(|row| row.state == State::Running);
        if let Some(row) = running.filter(|_| view.running_call_waits()) {
            row.object = WaitObject::Call;
        }
        Tick {
            names: view.thread_names(),
            view,
            rows,
            random,
            at: clock::Instant::now(),
            scale,
            found: Vec::new(),
        }
    }

    fn look(mut self) -> Vec<Found> {
        let mut by_object: HashMap<WaitObject, Vec<u32>> = HashMap::new();
        for (number, row) in self.rows.iter().enumerate() {
            if row.object != WaitObject::Nothing {
                by_object.entry(row.object).or_default().push(number as u32);
            }
        }
        let mut objects: Vec<Waiters> = by_object.into_iter().collect();
        // Of equals always the same ones: otherwise all would get rows in the course of time.
        objects.sort_by_key(|(_, waiters)| (Reverse(waiters.len()), waiters.first().copied()));
        let all: usize = objects.iter().map(|(_, waiters)| waiters.len()).sum();
        let rest = objects.split_off(objects.len().min(MOST_OBJECTS));
        for (object, waiters) in objects {
            let share = match objects::is_told_by_the_process(object) {
                true => SHARED_STACKS,
                false => 1 + SHARED_STACKS * waiters.len() / all,
            };
            self.choose(waiters, share, None);
        }
        let mut by_kind: HashMap<String, Vec<u32>> = HashMap::new();
        for (_, waiters) in &rest {
            let kind = waiters.first().map(|&row| self.kind(row));
            by_kind
                .entry(kind.unwrap_or_default())
                .or_default()
                .extend(waiters);
        }
        for (kind, waiters) in by_kind {
            let share = 1 + OF_THE_REST * waiters.len() / all;
            self.choose(waiters, share, Some(&kind));
        }
        self.found
    }

    fn kind(&self, row: u32) -> String {
        describe_others(&self.rows[row as usize])
    }

    /// Reads the stacks of some of these waiters, who stand for all of them. `label` is theirs, if
    /// they are not told by their object.
    fn choose(&mut self, mut waiters: Vec<u32>, most: usize, label: Option<&str>) {
        let count = waiters.len().min(most);
        let weight = self.scale * waiters.len() as f64 / count.max(1) as f64;
        let oldest = waiters.iter().map(|&row| self.idle(row)).max();
        for chosen in 0..count {
            let other = chosen + self.random.below((waiters.len() - chosen) as u32) as usize;
            waiters.swap(chosen, other);
            let number = waiters[chosen];
            let row = self.rows[number as usize];
            let is_told = label.is_none() && objects::is_told_by_the_process(row.object);
            let longest = match (row.object, oldest) {
                // It has waited for something else before.
                (WaitObject::Turn, _) => 0,
                (_, Some(oldest)) if !is_told => oldest,
                _ => self.idle(number),
            };
            self.read(&row, weight, longest, label);
        }
    }

    fn idle(&self, row: u32) -> u64 {
        let idle = self.rows[row as usize].idle_at(self.at);
        idle.map_or(0, nanos)
    }

    fn read(&mut self, row: &CensusRow, weight: f64, longest: u64, label: Option<&str>) {
        let Some(record) = self.view.sched().user_data(row.process) else {
            return;
        };
        let frames = PackedFrames::of_record(record, MOST_FRAMES);
        let object = match label {
            Some(label) => label.to_owned(),
            None => self.label(row, &frames),
        };
        let class = objects::class_name(objects::class_of(row.object, &object));
        let partner = row.partner.map(|partner| self.one_of_holders(row, partner));
        let mut place = Place {
            frames,
            object,
            class,
            ..Place::default()
        };
        if let Some(partner) = partner {
            let held = self.partner(partner, &place, weight);
            place.holder.clone_from(&held.place.holder);
            place.role = held.place.role;
            self.found.push(held);
        }
        self.found.push(Found {
            place,
            weight,
            longest,
        });
    }

    fn label(&self, row: &CensusRow, frames: &PackedFrames) -> String {
        match row.object {
            WaitObject::Call => {
                let text = "the end of a call".to_owned();
                objects::with_function(text, row.object, frames.innermost_name())
            }
            _ => objects::label(self.view, &self.names, row),
        }
    }

    /// Each of several holders gets its share in the course of time.
    fn one_of_holders(&mut self, row: &CensusRow, partner: Partner) -> Partner {
        let Some(blocker) = row.waits_for.filter(|_| partner.role == Role::Holder) else {
            return partner;
        };
        let number = self.random.below(row.holders.max(1));
        let mut holders = self.view.sched().holders(blocker);
        let process = holders.nth(number as usize).unwrap_or(partner.process);
        Partner { process, ..partner }
    }

    /// Names the partner, and says if it could run and others do: its stack does not show that.
    fn title_of_partner(&self, record: usize, process: ProcessId) -> String {
        let title = stacks::title(record);
        let sched = self.view.sched();
        match sched.state(process) {
            State::Runnable => format!(
                "{title} (waits for its turn, priority {})",
                sched.priority(process).get()
            ),
            _ => title,
        }
    }

    /// What the partner of waits does meanwhile.
    fn partner(&self, partner: Partner, waiter: &Place, weight: f64) -> Found {
        let record = self.view.sched().user_data(partner.process);
        let place = Place {
            kind: SampleKind::Holder,
            id: record.map_or(0, stacks::number),
            frames: record
                .map(|record| PackedFrames::of_record(record, MOST_FRAMES))
                .unwrap_or_default(),
            object: waiter.object.clone(),
            class: waiter.class,
            holder: match record {
                Some(record) => self.title_of_partner(record, partner.process),
                None => "a process that has ended".to_owned(),
            },
            role: partner.role.before_name(),
            ..Place::default()
        };
        Found {
            place,
            weight,
            longest: 0,
        }
    }
}
