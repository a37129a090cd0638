//! The VMs that are sampled: those that live at each tick.

use super::{Place, Sampler, Seen, send};
use crate::vms::list;
use baton_core::vm::{NoLook, Vm};
use baton_observe::observer::Part;
use std::sync::Arc;

/// Whether there is anything to sample.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramIs {
    Running,
    /// Its first VM has ended.
    Ending,
}

/// A VM with its sampler.
struct SampledVm<S> {
    /// `None` after its end.
    vm: Option<Arc<Vm>>,
    id: u64,
    name: String,
    sampler: S,
    seen: Seen,
}

/// All VMs, the program's first one at the beginning.
pub(super) struct SampledVms<S, M> {
    all: Vec<SampledVm<S>>,
    /// Makes a sampler. The second argument: whether the VM has begun since the profile has.
    make: M,
}

impl<S: Sampler, M: Fn(&Vm, bool) -> S> SampledVms<S, M> {
    pub(super) fn new(make: M) -> SampledVms<S, M> {
        let mut sampled = SampledVms {
            all: Vec::new(),
            make,
        };
        sampled.add_new(false);
        sampled
    }

    /// Adds the VMs that are not here yet.
    fn add_new(&mut self, have_begun: bool) {
        for observed in list::observed() {
            if self.all.iter().any(|sampled| sampled.id == observed.id) {
                continue;
            }
            self.all.push(SampledVm {
                sampler: (self.make)(&observed.vm, have_begun),
                vm: Some(observed.vm),
                id: observed.id,
                name: observed.name,
                seen: Seen::new(),
            });
        }
    }

    /// Takes the samples of one tick.
    pub(super) fn sample(&mut self) -> ProgramIs {
        self.add_new(true);
        for sampled in &mut self.all {
            sampled.sample();
        }
        match self.all.first() {
            Some(SampledVm { vm: Some(_), .. }) => ProgramIs::Running,
            _ => ProgramIs::Ending,
        }
    }

    /// Takes what is left after the last tick.
    pub(super) fn finish(&mut self) {
        for sampled in &mut self.all {
            sampled.finish();
        }
    }

    /// Sends what was seen, and forgets that, and the VMs that have ended.
    pub(super) fn send(&mut self, part: Part<'_>) -> Result<(), String> {
        for sampled in &mut self.all {
            if !sampled.seen.is_empty() {
                send(&sampled.name, &mut sampled.seen, part)?;
            }
        }
        self.all.retain(|sampled| sampled.vm.is_some());
        Ok(())
    }
}

impl<S: Sampler> SampledVm<S> {
    fn sample(&mut self) {
        let Some(vm) = &self.vm else { return };
        match self.sampler.sample(vm) {
            Ok(samples) => self.add(samples),
            Err(NoLook::Ended) => self.finish(),
            Err(NoLook::KeptInside) => {}
        }
    }

    /// Takes the last samples. From then on it is like a VM that has ended.
    fn finish(&mut self) {
        if let Some(vm) = self.vm.take() {
            let rest = self.sampler.finish(&vm);
            self.add(rest);
        }
    }

    fn add(&mut self, samples: Vec<(Place, u64)>) {
        for (place, value) in samples {
            let (sum, count) = self.seen.entry(place).or_default();
            *sum += value;
            *count += 1;
        }
    }
}
