//! Samples of processor time.
//!
//! At each tick the running process is looked at: beside its foreign call, or at its next
//! instruction. What it is found doing gets the processor time that its thread has used since the
//! last sample. So a process that waits in a call gets next to nothing, and a look that comes late,
//! as the collector or a library function could not be interrupted, gets the time until then.

use super::{MOST_FRAMES, PATIENCE, Place, Sampler};
use crate::inside::{nanos, stacks};
use baton_core::vm::{NoLook, View, Vm};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The processor time of the threads that have had the VM.
pub(super) struct CpuSampler {
    /// For each thread, its time at the last sample that it got.
    counted: HashMap<i32, Duration>,
    last: Instant,
}

impl CpuSampler {
    pub(super) fn new(vm: &Vm) -> CpuSampler {
        CpuSampler {
            counted: vm.owner_cpu_time().into_iter().collect(),
            last: Instant::now(),
        }
    }

    /// The nanoseconds that the owner's thread has used and that no sample has got. If the system
    /// does not tell, all of the time since the last sample counts.
    fn read(&mut self, vm: &Vm) -> u64 {
        let now = Instant::now();
        let passed = now - std::mem::replace(&mut self.last, now);
        let Some((thread, cpu)) = vm.owner_cpu_time() else {
            return nanos(passed);
        };
        nanos(match self.counted.insert(thread, cpu) {
            Some(before) => cpu.saturating_sub(before),
            // It has begun since: as an offloaded call, say.
            None => cpu.min(passed),
        })
    }
}

impl Sampler for CpuSampler {
    fn sample(&mut self, vm: &Vm) -> Result<Vec<(Place, u64)>, NoLook> {
        if vm.is_idle() {
            return Ok(Vec::new());
        }
        let Some(place) = vm.look(PATIENCE, running)? else {
            return Ok(Vec::new());
        };
        Ok(vec![(place, self.read(vm))])
    }
}

/// The place of the running process; `None` if none runs.
fn running(view: &mut View<'_>) -> Option<Place> {
    let process = view.sched().current()?;
    let record = view.sched().user_data(process);
    Some(Place {
        id: stacks::number(record),
        process: stacks::title(record),
        frames: stacks::of_record(record, MOST_FRAMES).concat(),
        ..Place::default()
    })
}
