//! Samples of processor time.
//!
//! At each tick the running process is looked at: beside its foreign call, or at its next
//! instruction. What it is found doing gets the processor time that its thread has used since the
//! last sample. So a process that waits in a call gets next to nothing, and a look that comes late,
//! as the collector or a library function could not be interrupted, gets the time until then. If
//! the collector worked at the tick, it is a frame of the sample.
//!
//! The answer is taken at the next tick, so the owner need not wake the thread that samples.

use super::nearby::{Nearby, SeenFrom};
use super::{MOST_FRAMES, Place, Sampler};
use crate::inside::{nanos, stacks};
use baton_core::vm::{BegunLook, NoLook, View, Vm};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The longest wait for the last answer.
const AT_END: Duration = Duration::from_millis(50);

/// The processor time of the threads that have had the VM.
pub(super) struct CpuSampler {
    /// For each thread, its time at the last sample that it got.
    counted: HashMap<i32, Duration>,
    last: Instant,
    begun: Option<BegunLook<SeenFrom<Option<Running>>>>,
    /// Whether the collector worked when the look was begun. It cannot be interrupted, so the look
    /// finds what goes on afterwards.
    collected: bool,
    nearby: Nearby,
    /// Memory for the next place.
    room: Place,
}

/// The running process.
struct Running {
    place: Place,
    /// Its thread, with its processor time so far.
    thread: Option<(i32, Duration)>,
    at: Instant,
}

impl CpuSampler {
    pub(super) fn new(vm: &Vm) -> CpuSampler {
        CpuSampler {
            counted: vm.owner_cpu_time().into_iter().collect(),
            last: Instant::now(),
            begun: None,
            collected: false,
            nearby: Nearby::default(),
            room: Place::default(),
        }
    }

    /// The place, and the nanoseconds that its thread has used and that no sample has got. If the
    /// system does not tell, all of the time since the last sample counts.
    fn count(&mut self, seen: SeenFrom<Option<Running>>) -> Option<(Place, u64)> {
        let Running {
            mut place,
            thread,
            at,
        } = self.nearby.follow(seen)?;
        place.collects = self.collected;
        let found = place.clone(); // which has no more memory than it needs
        self.room = place;
        let passed = at - std::mem::replace(&mut self.last, at);
        let used = match thread {
            None => passed,
            Some((thread, cpu)) => match self.counted.insert(thread, cpu) {
                Some(before) => cpu.saturating_sub(before),
                // It has begun since: as an offloaded call, say.
                None => cpu.min(passed),
            },
        };
        Some((found, nanos(used)))
    }
}

impl Sampler for CpuSampler {
    fn sample(&mut self, vm: &Vm) -> Result<Vec<(Place, u64)>, NoLook> {
        let mut samples = Vec::new();
        if let Some(begun) = &self.begun {
            let Some(seen) = vm.poll_look(begun)? else {
                return Ok(samples);
            };
            self.begun = None;
            samples.extend(self.count(seen));
        }
        if !vm.is_idle() {
            self.collected = vm.is_collecting();
            let mut room = std::mem::take(&mut self.room);
            room.make_room();
            let look = |view: &mut View<'_>| running(view, room);
            self.begun = Some(vm.begin_look(|view| SeenFrom::by(look, view)));
        }
        Ok(samples)
    }

    fn finish(&mut self, vm: &Vm) -> Vec<(Place, u64)> {
        let seen = self
            .begun
            .take()
            .and_then(|begun| vm.end_look(begun, AT_END).ok());
        seen.and_then(|seen| self.count(seen)).into_iter().collect()
    }
}

/// The place of the running process, in the memory of `place`; `None` if none runs. Takes no memory
/// of the owner's thread, which it would fragment.
fn running(view: &mut View<'_>, mut place: Place) -> Option<Running> {
    let process = view.sched().current()?;
    let record = view.sched().user_data(process)?;
    place.id = stacks::number(record);
    stacks::write_title(record, &mut place.process);
    place.frames.add(record, MOST_FRAMES);
    Some(Running {
        place,
        thread: view.cpu_time_of_running(),
        at: Instant::now(),
    })
}
