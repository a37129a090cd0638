//! Simulated runs: the same seed gives the same run.
//!
//! Nothing in such a run comes from outside. Time is the program's own ([`clock::simulate`]): it
//! passes with the steps that the guest counts, and when nobody is runnable it goes to the next
//! deadline at once. The monitor is not needed: the guest comes to a safepoint after so many steps
//! as it is told, and no foreign call is retaken. Chance, by the seed, decides when a slice ends,
//! and which of several equals runs next. The mean of the slices is that of the run: the parameter
//! `slice`, or down to a thousandth of it, as faults show at moments that lie close together in
//! some programs, and far apart in others. So a run is one of those that could happen, and happens
//! again with its seed.

use crate::sched::ProcessId;
use crate::spin::PolicyName;
use crate::vm::{Inner, Vm, slow_reason};
use baton_sys::clock::{self, Instant};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The time that a step takes.
const STEP: Duration = Duration::from_micros(1);

/// The most steps from one safepoint to the next.
const MOST_STEPS: u64 = 100;

/// The mean slice of a run is the parameter, divided by 10 to a power from 0 to this.
const MOST_POWER_OF_DIVISOR: f64 = 3.0;

/// What the clock shows at the beginning: not zero, since programs subtract from it.
const BEGINNING: Instant = Instant::from_nanos(1_000_000_000);

impl Vm {
    /// Makes this run a simulated one; the whole program has its time from now on, so there is no
    /// other VM. Before [`Vm::run`].
    ///
    /// ```standalone_crate
    /// use baton_sys::clock::Instant;
    /// use std::time::Duration;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run_with(
    ///     |vm| vm.simulate(17),
    ///     |main| {
    ///         let a_year_later = Instant::now() + Duration::from_secs(31_536_000);
    ///         main.vm.sleep_until(a_year_later); // it takes a moment
    ///         assert!(Instant::now() >= a_year_later);
    ///     },
    /// );
    /// ```
    pub fn simulate(&self, seed: u64) {
        clock::simulate(BEGINNING);
        self.parameters.set_spin(PolicyName::Off);
        self.set_retaking(false);
        // Relaxed: before there are other threads.
        self.slow_reasons
            .fetch_or(slow_reason::SIMULATED, Ordering::Relaxed);
        let _state = self.lock_state();
        self.inner.with_mutex_held(|inner| {
            inner.cpu.turn_off();
            inner.random = first_number(seed);
            inner.slice_divisor = 10_f64.powf(MOST_POWER_OF_DIVISOR * inner.chance());
        });
    }

    /// Whether this run is a simulated one.
    #[inline]
    pub fn is_simulated(&self) -> bool {
        self.slow_reasons() & slow_reason::SIMULATED != 0
    }

    /// The running process has made so many steps: their time passes, and its slice may have ended.
    /// The guest calls [`Vm::safepoint`] next. Answers after how many steps it is to do so again.
    /// Inside the VM.
    ///
    /// ```standalone_crate
    /// use baton_sys::clock::Instant;
    /// use std::time::Duration;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run_with(
    ///     |vm| vm.simulate(17),
    ///     |main| {
    ///         let begin = Instant::now();
    ///         let steps = main.vm.count_steps(1000);
    ///         main.vm.safepoint();
    ///         assert_eq!(Instant::now() - begin, Duration::from_millis(1));
    ///         assert!(steps > 0);
    ///     },
    /// );
    /// ```
    pub fn count_steps(&self, steps: u32) -> u32 {
        clock::advance(STEP.saturating_mul(steps));
        let (ends, next) = self.inner.with(|inner| {
            let slice = inner
                .sched
                .current()
                .map_or(Duration::MAX, |current| self.slice_of(inner, current));
            let mean = slice.as_secs_f64() / inner.slice_divisor / STEP.as_secs_f64();
            let ends = inner.chance() < f64::from(steps) / mean;
            (
                ends,
                1 + inner.next_random() % MOST_STEPS.min((mean as u64).saturating_add(1)),
            )
        });
        if ends {
            // Relaxed: the safepoint follows on this thread.
            self.requests
                .fetch_or(crate::vm::request::SLICE, Ordering::Relaxed);
        }
        next as u32
    }

    /// Before it is decided who runs instead of `me`: in a simulated run equals have no order.
    #[inline]
    pub(in crate::vm) fn shuffle(&self, inner: &mut Inner, me: Option<ProcessId>) {
        if self.is_simulated() {
            inner.shuffle(me);
        }
    }

    /// `me` is about to be interrupted by a more urgent process: it goes on before others of its
    /// level, in a simulated run too.
    #[inline]
    pub(in crate::vm) fn note_interrupted(&self, inner: &mut Inner, me: ProcessId) {
        if self.is_simulated() {
            inner.set_interrupted(me, true);
        }
    }

    /// What is due now. In a simulated run that comes a step later: nobody ever wakes up at the
    /// very moment, and programs compare times after rounding.
    #[inline]
    pub(in crate::vm) fn due_by(&self) -> Instant {
        let now = Instant::now();
        if self.is_simulated() { now - STEP } else { now }
    }

    /// Nobody is runnable: in a simulated run time goes to where the deadline is due, at once. Says
    /// whether it is one.
    pub(in crate::vm) fn pass_time(&self, deadline: Option<Instant>) -> bool {
        let Some(deadline) = deadline.filter(|_| self.is_simulated()) else {
            return false;
        };
        clock::advance(deadline - Instant::now() + STEP);
        true
    }
}

impl Inner {
    #[cold]
    fn shuffle(&mut self, me: Option<ProcessId>) {
        if let Some(me) = me {
            self.set_interrupted(me, false);
        }
        let choices = self.sched.shuffle_count() as u64;
        let is_first = self
            .sched
            .next_in_ring()
            .is_some_and(|next| self.context(next).is_interrupted);
        // Nothing is drawn where there is nothing to choose: how often the loop of a native thread
        // comes here is nobody's choice.
        if choices > 1 && !is_first {
            let before = self.next_random() % choices;
            self.sched.shuffle(before as usize);
        }
    }

    #[cold]
    fn set_interrupted(&mut self, process: ProcessId, is_interrupted: bool) {
        if let Some(context) = self.sched.payload_mut(process) {
            context.is_interrupted = is_interrupted;
        }
    }

    /// A number from 0 up to 1, exclusive.
    fn chance(&mut self) -> f64 {
        (self.next_random() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The first state of the generator, which must not be 0. Seeds that lie side by side give states
/// that do not (splitmix64).
fn first_number(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ (mixed >> 31)).max(1)
}
