//! All processes at one instant.
//!
//! | step | what is read | how long all processes wait for it |
//! |---|---|---|
//! | the first look | what each process waits for, and who may end that; the stacks of the running process and of holders | some 40 ns for each process, and [`LOOK`] |
//! | more looks | the stacks of the others | [`LOOK`] each |
//!
//! So what is said of waits and holders is of one instant, and fits together. A process that has
//! run before its stack was read is marked. With more than [`AT_ONCE`] processes, the first look is
//! several: then the overview says so.

use super::objects::ObjectList;
use super::processes::{place_of, process, process_of};
use super::{PATIENCE, stacks, symbols, why_kept};
use crate::vms::list::{self, ObservedVm};
use crate::wording::WORDING;
use baton_core::sched::{CensusRow, Role, State, ThreadNames, WaitRing};
use baton_core::sched::{describe_ring, rings};
use baton_core::vm::{NoLook, View};
use baton_observe::observer::{Part, send_part};
use baton_observe::report::{FIRST_VM, Overview, Process, WaitRing as RingReport};
use baton_sys::clock;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::ffi::c_int;
use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant};

/// How many processes are counted in one step: for some hundred microseconds.
const AT_ONCE: u32 = 16_384;

/// How many stacks of holders are read in the first look.
const MOST_HOLDERS: usize = 32;

/// How long one look may last: all processes wait meanwhile.
pub(super) const LOOK: Duration = Duration::from_micros(500);

/// How long later looks wait for a safepoint.
const LATER_PATIENCE: Duration = Duration::from_secs(5);

/// The time between two looks, for the processes.
pub(super) const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// The maximal number of frames of one stack that are sent.
const MOST_FRAMES: c_int = 200;

/// The maximal number of frames of each stack that a report reads: one more than it shows.
const MOST_REPORTED: c_int = 23;

/// The details of the question.
#[derive(Default, Deserialize)]
struct WantedStacks {
    /// The processes ([`ObservedVm::key_of`]); without them, all are sent.
    ids: Option<Vec<u64>>,
}

/// A VM whose processes cannot be read, and why.
#[derive(Serialize)]
struct KeptVm {
    vm: String,
    why: String,
}

/// Sends the processes of all VMs in parts, and an overview at the end. What ends meanwhile is left
/// out. If some VM can be read and others cannot, the latter are listed at the end, too. Each VM
/// has an instant of its own.
pub(super) fn answer(with: &Value, part: Part<'_>) -> Result<Value, String> {
    let wanted = match with {
        Value::Null => WantedStacks::default(),
        with => WantedStacks::deserialize(with)
            .map_err(|error| format!("a list of numbers expected in 'ids': {error}"))?,
    };
    let (mut kept, mut count) = (Vec::new(), 0);
    let mut overview = Overview::default();
    for observed in list::observed() {
        let of_this = |keys: &Vec<u64>| -> Vec<u64> {
            let numbers = keys.iter().filter_map(|&key| observed.number_of(key));
            numbers.collect()
        };
        let ids = wanted.ids.as_ref().map(of_this);
        if ids.as_ref().is_some_and(Vec::is_empty) {
            continue;
        }
        count += 1;
        match send_all(&observed, ids, part)? {
            Looked::All(of_vm) => overview.add(of_vm),
            Looked::Kept(why) => kept.push(KeptVm {
                vm: observed.name,
                why,
            }),
            Looked::Ended => {}
        }
    }
    if kept.len() == count
        && let Some(first) = kept.first()
    {
        return Ok(json!({ "kept_inside": true, "why": &first.why }));
    }
    overview.sort();
    let mut end = json!({ "kept_inside": false, "overview": overview });
    if !kept.is_empty() {
        end["kept"] = json!(kept);
    }
    Ok(end)
}

/// What came of a look at a VM.
enum Looked {
    All(Overview),
    /// It cannot be read, for this reason.
    Kept(String),
    /// It is another VM than the first one, and has ended.
    Ended,
}

/// Sends the processes of a VM.
fn send_all(
    observed: &ObservedVm,
    ids: Option<Vec<u64>>,
    part: Part<'_>,
) -> Result<Looked, String> {
    let mut instant = InstantLook::new(ids);
    let mut patience = PATIENCE;
    loop {
        let stepped = observed.vm.look(patience, move |view| {
            instant.step(view);
            instant
        });
        instant = match stepped {
            Ok(instant) => instant,
            Err(NoLook::Ended) if observed.name != FIRST_VM => return Ok(Looked::Ended),
            Err(NoLook::Ended) => return Err("the program is ending".to_owned()),
            Err(NoLook::KeptInside) if patience == PATIENCE => {
                return Ok(Looked::Kept(why_kept(&observed.vm)));
            }
            Err(NoLook::KeptInside) => {
                return Err("a process keeps the VM; the list is not complete".to_owned());
            }
        };
        let found = instant.take_found(&observed.name);
        send_part(part, &found).map_err(|error| error.to_string())?;
        if instant.is_done() {
            return Ok(Looked::All(instant.overview(&observed.name)));
        }
        patience = LATER_PATIENCE;
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// What all processes are doing, as text for a report; and who waits for each other.
pub(crate) fn of_all(view: &mut View<'_>) -> String {
    let names = view.thread_names();
    let all = view.sched().iter();
    let processes = all.filter_map(|next| process(view, &names, next, MOST_REPORTED));
    let text = processes.fold(String::new(), |mut text, process| {
        // A string takes all that is written to it.
        let _ = write!(text, "{process}");
        text
    });
    text + &rings_of(view)
}

/// A look that goes on in steps. It travels into each step and comes back.
struct InstantLook {
    /// Only processes with these numbers are wanted; `None`: all.
    ids: Option<Vec<u64>>,
    rows: Vec<CensusRow>,
    /// When the first step and the last one were.
    began_at: Option<clock::Instant>,
    ended_at: Option<clock::Instant>,
    steps: u32,
    /// The place at which the next step of the census begins; `None` once all are counted.
    next_place: Option<u32>,
    /// The rows that come first, and how many of all are done.
    first: Vec<usize>,
    is_first: HashSet<usize>,
    done: usize,
    /// What this step has found.
    found: Vec<Process>,
    objects: ObjectList,
    rings: Vec<WaitRing>,
    ring_texts: Vec<RingReport>,
    moved_on: usize,
    has_read_all: bool,
    has_searched: bool,
}

impl InstantLook {
    fn new(ids: Option<Vec<u64>>) -> InstantLook {
        InstantLook {
            ids,
            rows: Vec::new(),
            began_at: None,
            ended_at: None,
            steps: 0,
            next_place: Some(0),
            first: Vec::new(),
            is_first: HashSet::new(),
            done: 0,
            found: Vec::new(),
            objects: ObjectList::default(),
            rings: Vec::new(),
            ring_texts: Vec::new(),
            moved_on: 0,
            has_read_all: false,
            has_searched: false,
        }
    }

    /// Goes on for at most about [`LOOK`].
    fn step(&mut self, view: &mut View<'_>) {
        if let Some(from) = self.next_place {
            self.count(view, from);
            if self.next_place.is_some() {
                return;
            }
            self.choose_first();
        }
        let began = Instant::now();
        let names = view.thread_names();
        let all = self.first.len() + self.rows.len();
        let first = self.done;
        while self.done < all && (self.done == first || began.elapsed() < LOOK) {
            let row = match self.first.get(self.done) {
                Some(&row) => row,
                None => self.done - self.first.len(),
            };
            let is_again = self.done >= self.first.len() && self.is_first.contains(&row);
            self.done += 1;
            if !is_again {
                self.read(view, &names, row);
            }
        }
        if self.done == all {
            let describe = |ring| describe(view, &names, &self.rows, ring);
            self.ring_texts = self.rings.iter().map(describe).collect();
            self.has_read_all = true;
        }
    }

    /// Counts the processes at the next places.
    fn count(&mut self, view: &mut View<'_>, from: u32) {
        let places = view.sched().places();
        let until = places.min(from.saturating_add(AT_ONCE));
        self.rows.reserve((until - from.min(until)) as usize);
        let now = clock::Instant::now();
        self.began_at.get_or_insert(now);
        self.ended_at = Some(now);
        self.steps += 1;
        view.census(from..until, &mut self.rows);
        self.next_place = (until < places).then_some(until);
    }

    /// The running process comes first, as it goes on; then the holders of what others wait for.
    fn choose_first(&mut self) {
        let running = self.rows.iter().position(is_running);
        self.first.extend(running);
        self.is_first.extend(running);
        let mut last = None;
        for row in &self.rows {
            let partner = row.partner.filter(|partner| partner.role == Role::Holder);
            let Some(holder) = partner.map(|partner| partner.process) else {
                continue;
            };
            if last.replace(holder) == Some(holder) {
                continue;
            }
            let key = |row: &CensusRow| place_of(row.process);
            if let Ok(found) = self.rows.binary_search_by_key(&place_of(holder), key)
                && self.is_first.insert(found)
            {
                self.first.push(found);
                if self.first.len() > MOST_HOLDERS {
                    return;
                }
            }
        }
    }

    /// Reads the process of a row, if it is wanted, and lives.
    fn read(&mut self, view: &View<'_>, names: &ThreadNames, place: usize) {
        let row = self.rows[place];
        let Some(record) = view.sched().user_data(row.process) else {
            return;
        };
        let ids = self.ids.as_ref();
        if ids.is_some_and(|ids| !ids.contains(&stacks::number(record))) {
            return;
        }
        let now = self.began_at.unwrap_or_else(clock::Instant::now);
        let idle = row.idle_at(now);
        let Some(mut process) = process_of(view, names, &row, idle, MOST_FRAMES) else {
            return;
        };
        let is_of_this_step = self.steps == 1 && self.found.len() == self.done - 1;
        process.has_moved_on = match is_running(&row) {
            true => !is_of_this_step,
            false => view.has_run_since(&row),
        };
        self.moved_on += usize::from(process.has_moved_on && !is_running(&row));
        self.objects.add(
            view,
            &row,
            &process.object,
            idle.map(|idle| idle.as_secs_f64()),
        );
        self.found.push(process);
    }

    /// What the step has found. It is looked at outside of the VM.
    fn take_found(&mut self, vm: &str) -> Vec<Process> {
        let mut found = std::mem::take(&mut self.found);
        for process in &mut found {
            vm.clone_into(&mut process.vm);
        }
        let stacks = found.iter_mut().flat_map(|one| &mut one.stacks);
        symbols::resolve(&mut stacks.flatten().collect::<Vec<_>>());
        found
    }

    /// Finds rings, outside of the VM. Returns whether nothing is left to do: the texts of rings
    /// take one more step.
    fn is_done(&mut self) -> bool {
        if self.next_place.is_none() && !self.has_searched {
            self.rings = rings(&self.rows);
            self.has_searched = true;
        }
        self.has_read_all && self.ring_texts.len() == self.rings.len()
    }

    /// What is waited for in the VM with this name.
    fn overview(self, vm: &str) -> Overview {
        let nanos = |at: Option<clock::Instant>| at.map_or(0, clock::Instant::as_nanos);
        let span = nanos(self.ended_at) - nanos(self.began_at);
        let in_vm = |ring| RingReport {
            vm: vm.to_owned(),
            ..ring
        };
        Overview {
            objects: self.objects.into_objects(vm),
            rings: self.ring_texts.into_iter().map(in_vm).collect(),
            moved_on: self.moved_on,
            steps: self.steps,
            span: Duration::from_nanos(span).as_secs_f64(),
        }
    }
}

fn is_running(row: &CensusRow) -> bool {
    row.state == State::Running
}

fn describe(
    view: &View<'_>,
    names: &ThreadNames,
    rows: &[CensusRow],
    ring: &WaitRing,
) -> RingReport {
    let number = |&row: &usize| {
        view.sched()
            .user_data(rows[row].process)
            .map(stacks::number)
    };
    RingReport {
        vm: String::new(), // as of processes
        is_certain: ring.is_certain,
        ids: ring.rows.iter().filter_map(number).collect(),
        lines: describe_ring(view.sched(), &WORDING, names, rows, ring),
    }
}

/// The rings of the present, as text for a report; empty if there is none.
fn rings_of(view: &mut View<'_>) -> String {
    let places = view.sched().places();
    let mut rows = Vec::new();
    view.census(0..places, &mut rows);
    let names = view.thread_names();
    rings(&rows)
        .iter()
        .map(|ring| describe(view, &names, &rows, ring).to_string())
        .collect()
}
