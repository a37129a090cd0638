//! Samples of processor time, of one VM.
//!
//! At each tick the running process is looked at: beside its foreign call, or at its next
//! instruction. What it is found doing gets the processor time that threads have used outside of
//! calls since the last sample. So a process that waits in a call gets next to nothing, and a look
//! that comes late, as the collector or a library function could not be interrupted, gets the time
//! until then. If the collector worked at the tick, it is a frame of the sample.
//!
//! Others may run beside a call. Such a call has a thread of its own, and gets what calls have used
//! on that thread ([`clocks`](super::clocks)). Nothing changes a call's stack before it comes back,
//! so one look is enough for each, however long it lasts. One that uses no processor needs none.
//!
//! The answer is taken at the next tick, so the owner need not wake the thread that samples.

use super::clocks::Clocks;
use super::nearby::{Nearby, SeenFrom};
use super::{MOST_FRAMES, Place, Sampler};
use crate::inside::{nanos, parent, stacks};
use baton_core::sched::{CarrierId, ProcessId};
use baton_core::vm::{BegunLook, CallBeside, NoLook, ThreadTime, View, Vm};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The longest wait for the last answer.
const AT_END: Duration = Duration::from_millis(50);

/// What is left after the last sample counts if it is more.
const WORTH_A_SAMPLE: Duration = Duration::from_micros(100);

/// A call is looked at when calls have used so much on its thread.
const WORTH_A_LOOK: Duration = Duration::from_micros(20);

/// The processor time of the threads of a VM, and what they were found doing.
pub(super) struct CpuSampler {
    clocks: Clocks,
    /// The calls that threads are in, as far as they were looked at.
    calls: HashMap<CarrierId, (CallBeside, Place)>,
    last: Instant,
    begun: Option<BegunLook<SeenFrom<SeenVm>>>,
    /// Whether the collector worked when the look was begun. It cannot be interrupted, so the look
    /// finds what goes on afterwards.
    collected: bool,
    nearby: Nearby,
    /// Memory for the next look.
    room: SeenVm,
    /// Where the last sample of the running process was, and that of a call.
    last_running: Option<Place>,
    last_call: Option<Place>,
}

/// What a look sees. Takes no memory of the owner's thread, which it would fragment.
#[derive(Default)]
struct SeenVm {
    /// The place of the running process.
    running: Place,
    is_running: bool,
    /// The calls that are wanted, and their places. Only those that go on stay.
    calls: Vec<(CarrierId, CallBeside, Place)>,
    times: Vec<ThreadTime>,
    at: Option<Instant>,
}

impl CpuSampler {
    /// What was used before is of no interest; of a VM that is new, all is.
    pub(super) fn new(vm: &Vm, is_new: bool) -> CpuSampler {
        let times = match is_new {
            true => Vec::new(),
            false => vm.thread_times(),
        };
        CpuSampler {
            clocks: Clocks::since(&times),
            calls: HashMap::new(),
            last: Instant::now(),
            begun: None,
            collected: false,
            nearby: Nearby::default(),
            room: SeenVm::default(),
            last_running: None,
            last_call: None,
        }
    }

    /// Reads clocks. The program's first thread may have waited for this profile before it began.
    fn read(&mut self, times: &[ThreadTime]) {
        let is_first = |time: &&ThreadTime| time.thread == std::process::id().cast_signed();
        if let Some(first) = times.iter().find(is_first) {
            let before = parent::computed_before();
            self.clocks.add(first.carrier, first.thread, before);
        }
        self.clocks.read(times);
    }

    /// The places that were seen, with what they have used. If the system does not tell, all of the
    /// time since the last sample is the running process's.
    fn count(&mut self, seen: SeenFrom<SeenVm>, samples: &mut Vec<(Place, u64)>) {
        let mut seen = self.nearby.follow(seen);
        self.read(&seen.times);
        if seen.is_running {
            let at = seen.at.unwrap_or_else(Instant::now);
            let passed = at.saturating_duration_since(std::mem::replace(&mut self.last, at));
            let used = match self.clocks.are_told() {
                true => self.clocks.take_running(),
                false => passed,
            };
            seen.running.collects = self.collected;
            let place = seen.running.clone(); // which has no more memory than it needs
            self.last_running = Some(place.clone());
            samples.push((place, nanos(used)));
        }
        for (carrier, call, place) in seen.calls.drain(..) {
            let used = self.clocks.take_calls(carrier);
            samples.push((place.clone(), nanos(used)));
            self.last_call = Some(place.clone());
            self.calls.insert(carrier, (call, place));
        }
        self.room = seen;
    }

    /// Charges the calls that were looked at before. Returns those that were not.
    fn charge_known_calls(
        &mut self,
        times: &[ThreadTime],
        samples: &mut Vec<(Place, u64)>,
    ) -> Vec<(CarrierId, CallBeside)> {
        let mut unknown = Vec::new();
        for time in times {
            let Some(call) = time.call else { continue };
            if self.clocks.of_calls(time.carrier) < WORTH_A_LOOK {
                continue;
            }
            match self.calls.get(&time.carrier) {
                Some((known, place)) if *known == call => {
                    let used = self.clocks.take_calls(time.carrier);
                    samples.push((place.clone(), nanos(used)));
                }
                _ => unknown.push((time.carrier, call)),
            }
        }
        unknown
    }
}

impl Sampler for CpuSampler {
    fn sample(&mut self, vm: &Vm) -> Result<Vec<(Place, u64)>, NoLook> {
        let mut samples = Vec::new();
        if let Some(begun) = self.begun.take() {
            match vm.poll_look(&begun)? {
                Some(seen) => self.count(seen, &mut samples),
                None => self.begun = Some(begun),
            }
        }
        let times = vm.thread_times();
        self.read(&times);
        let unknown = self.charge_known_calls(&times, &mut samples);
        if self.begun.is_none() && (!vm.is_idle() || !unknown.is_empty()) {
            self.collected = vm.is_collecting();
            let mut room = std::mem::take(&mut self.room);
            room.make_room(unknown, times);
            let look = |view: &mut View<'_>| room.look(view);
            self.begun = Some(vm.begin_look(|view| SeenFrom::by(look, view)));
        }
        Ok(samples)
    }

    /// What is left goes to what was seen last; if nothing was seen, to nothing that is known.
    fn finish(&mut self, vm: &Vm) -> Vec<(Place, u64)> {
        let mut samples = Vec::new();
        let begun = self.begun.take();
        if let Some(seen) = begun.and_then(|begun| vm.end_look(begun, AT_END).ok()) {
            self.count(seen, &mut samples);
        }
        self.read(&vm.thread_times());
        let rest = [
            (self.last_running.take(), self.clocks.take_running()),
            (self.last_call.take(), self.clocks.take_all_calls()),
        ];
        for (place, used) in rest {
            if used > WORTH_A_SAMPLE {
                samples.push((place.unwrap_or_default(), nanos(used)));
            }
        }
        samples
    }
}

impl SeenVm {
    /// Forgets what was seen, and has memory for another look, which wants these calls.
    fn make_room(&mut self, calls: Vec<(CarrierId, CallBeside)>, times: Vec<ThreadTime>) {
        /// How many threads may start until the look.
        const MORE: usize = 8;
        self.running.make_room();
        self.calls.clear();
        self.calls.extend(calls.into_iter().map(|(carrier, call)| {
            let mut place = Place::default();
            place.make_room();
            (carrier, call, place)
        }));
        self.times = times;
        self.times.clear();
        self.times.reserve(MORE);
    }

    fn look(mut self, view: &mut View<'_>) -> SeenVm {
        let running = view.sched().current();
        self.is_running = running.is_some_and(|process| fill(&mut self.running, view, process));
        view.add_thread_times(&mut self.times);
        let times = &self.times;
        self.calls.retain_mut(|(carrier, call, place)| {
            let goes_on = times
                .iter()
                .any(|time| time.carrier == *carrier && time.call == Some(*call));
            goes_on && fill(place, view, call.process)
        });
        self.at = Some(Instant::now());
        self
    }
}

/// Notes where a process is. Returns whether it is there.
fn fill(place: &mut Place, view: &View<'_>, process: ProcessId) -> bool {
    let Some(record) = view.sched().user_data(process) else {
        return false;
    };
    place.id = stacks::number(record);
    stacks::write_title(record, &mut place.process);
    place.context = stacks::context(record);
    place.frames.add(record, MOST_FRAMES);
    true
}
