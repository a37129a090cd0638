//! Simulated runs: the same seed gives the same run.
//!
//! Nothing from outside influences such a run:
//!
//! - Time is virtual ([`clock::simulate`]). It advances with the steps that the guest counts. When
//!   no process is runnable, it jumps to the next deadline.
//! - There is no monitor. The guest reaches a safepoint after a given number of steps.
//! - No foreign call is retaken.
//!
//! Random numbers from the seed decide when each slice ends and which of several equals runs next.
//! They also set the mean slice of the run: between the parameter `slice` and a thousandth of it.
//! Some faults need switches close together, others need them far apart. A simulated run is
//! therefore a possible real run, and the seed repeats it.

use super::recorder::{Recorder, StepOutcome};
use super::turnstile::{Seat, first_number};
use crate::recording::{Recording, SwitchCause};
use crate::sched::ProcessId;
use crate::spin::PolicyName;
use crate::vm::{Inner, Inside, Vm, slow_reason};
use baton_sys::clock::{self, Instant};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The virtual time of one step.
const STEP: Duration = Duration::from_micros(1);

/// The most steps from one safepoint to the next.
const MOST_STEPS: u64 = 100;

/// The mean slice of a run is the parameter divided by 10^p, with p from 0 to this.
const MOST_POWER_OF_DIVISOR: f64 = 3.0;

/// The virtual time at the start. Not zero, as programs subtract from it.
const BEGINNING: Instant = Instant::from_nanos(1_000_000_000);

impl Vm {
    /// Makes this run a simulated one. The whole program uses its virtual time, so other VMs are in
    /// the same run ([`Vm::simulate_beside`]). Before [`Vm::run`].
    ///
    /// ```standalone_crate
    /// use baton_sys::clock::Instant;
    /// use std::time::Duration;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run_with(
    ///     |vm| vm.simulate(17),
    ///     |main| {
    ///         let a_year_later = Instant::now() + Duration::from_secs(31_536_000);
    ///         main.vm.sleep_until(a_year_later); // takes only a moment of real time
    ///         assert!(Instant::now() >= a_year_later);
    ///     },
    /// );
    /// ```
    pub fn simulate(&self, seed: u64) {
        clock::simulate(BEGINNING);
        let _ = self.seat.set(Seat::first(seed));
        self.begin_simulation(seed);
    }

    /// Prepares a VM of a simulated run. `seed` is its own.
    pub(super) fn begin_simulation(&self, seed: u64) {
        self.parameters.set_spin(PolicyName::Off);
        // Relaxed: before there are other threads.
        self.retaking.store(false, Ordering::Relaxed);
        // Relaxed: before there are other threads.
        self.slow_reasons
            .fetch_or(slow_reason::SIMULATED, Ordering::Relaxed);
        self.before_run(|inner| {
            inner.cpu.turn_off();
            inner.random = first_number(seed);
            inner.slice_divisor = 10_f64.powf(MOST_POWER_OF_DIVISOR * inner.chance());
        });
    }

    /// Makes this simulated run a recorded one, or a directed one if decisions were given. After
    /// [`Vm::simulate`], before the first process.
    ///
    /// ```standalone_crate
    /// use baton_core::recording::{SwitchCause, Recording};
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// let (_, recording) = Recording::new().expect("there is memory");
    /// recording.prepare(Some(&[]));
    /// closures::run_with(
    ///     move |vm| {
    ///         vm.simulate(17);
    ///         vm.record(recording);
    ///     },
    ///     |main| {
    ///         main.spawn(|_| {});
    ///         main.vm.yield_now();
    ///     },
    /// );
    /// let causes: Vec<_> = recording.last_switches(3).iter().map(|switch| switch.cause).collect();
    /// assert_eq!(causes, [SwitchCause::Yields, SwitchCause::Ended, SwitchCause::Ended]);
    /// ```
    pub fn record(&self, recording: Recording) {
        let recorder = Recorder::new(recording, self.guest.wording());
        if let Some(seat) = self.seat.get() {
            seat.note_recording(recording);
        }
        self.before_run(|inner| inner.recorder = Some(recorder));
    }

    /// Where this run is recorded ([`Vm::record`]), if it is.
    pub fn recording(&self) -> Option<Recording> {
        self.seat.get()?.recording()
    }

    /// Whether it is too late for [`Vm::simulate`]: the VM has a process, runs, or has ended.
    pub fn has_begun(&self) -> bool {
        let mut state = self.lock_state();
        self.has_ended()
            || state.live_threads() > 0
            || self.with_mutex_held(&mut state, |inner, _| inner.sched.live_count() > 0)
    }

    /// Whether this run is simulated.
    #[inline]
    pub fn is_simulated(&self) -> bool {
        self.slow_reasons() & slow_reason::SIMULATED != 0
    }
}

impl Inside<'_> {
    /// Advances time by the steps that the running process has made; its slice may end. If a
    /// safepoint is due, the guest calls [`Inside::safepoint`] next. Inside the VM.
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
    ///         assert!(steps.is_safepoint_due && steps.until_next > 0);
    ///         main.vm.safepoint();
    ///         assert_eq!(Instant::now() - begin, Duration::from_millis(1));
    ///     },
    /// );
    /// ```
    pub fn count_steps(&self, steps: u32) -> Steps {
        let (ends_slice, passed, counted) = self.with_inner(|inner| match inner.recorder {
            None => {
                self.count_for_turn(steps);
                let (ends_slice, until_next) = self.draw_slice(inner, steps);
                (ends_slice, steps, Steps::to_safepoint(until_next))
            }
            Some(_) => self.count_recorded(inner, steps),
        });
        clock::advance(STEP.saturating_mul(passed));
        if ends_slice {
            // Relaxed: the safepoint follows on this thread.
            self.requests
                .fetch_or(crate::vm::request::SLICE, Ordering::Relaxed);
        }
        counted
    }
}

impl Inside<'_> {
    /// A random number below `count`, which is at least 1: for what the guest itself decides. In a
    /// simulated run the seed gives it, and a recorded run records it as a decision.
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| assert!(main.vm.choose(6) < 6));
    /// ```
    pub fn choose(&self, count: u32) -> u32 {
        self.with_inner(|inner| {
            let drawn = (inner.next_random() % u64::from(count.max(1))) as u32;
            match inner.recorder {
                None => drawn,
                Some(_) => inner.record_chosen(drawn, count),
            }
        })
    }
}

/// What [`Inside::count_steps`] asks of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// The guest calls [`Inside::safepoint`] now.
    pub is_safepoint_due: bool,
    /// After how many steps the guest counts again.
    pub until_next: u32,
}

impl Steps {
    fn to_safepoint(until_next: u32) -> Steps {
        Steps {
            is_safepoint_due: true,
            until_next,
        }
    }
}

impl Vm {
    /// Draws whether the slice ends after so many steps, and the steps until the next safepoint.
    fn draw_slice(&self, inner: &mut Inner, steps: u32) -> (bool, u32) {
        let slice = inner
            .sched
            .current()
            .map_or(Duration::MAX, |current| self.slice_of(inner, current));
        let mean = slice.as_secs_f64() / inner.slice_divisor / STEP.as_secs_f64();
        let ends = inner.chance() < f64::from(steps) / mean;
        let most = MOST_STEPS.min((mean as u64).saturating_add(1));
        let until_next = 1 + (inner.next_random() % most) as u32;
        (ends, until_next.min(self.steps_of_turn()))
    }

    /// As `count_steps`. Also returns whether the slice ends, and by how many steps the clock
    /// advances.
    #[cold]
    fn count_recorded(&self, inner: &mut Inner, steps: u32) -> (bool, u32, Steps) {
        let current = inner.sched.current();
        let step = inner
            .recorder
            .as_mut()
            .map(|recorder| recorder.count(current, steps));
        let Some(StepOutcome::Safepoint {
            passed,
            drawn_after,
        }) = step
        else {
            let counted = Steps {
                is_safepoint_due: false,
                until_next: 1,
            };
            return (false, 0, counted);
        };
        self.count_for_turn(passed);
        if let Some(steps) = drawn_after {
            let (ends_slice, due) = self.draw_slice(inner, steps);
            if let Some(recorder) = &mut inner.recorder {
                recorder.set_drawn(ends_slice, due);
            }
        }
        let ends_slice = inner.recorder.as_ref().is_some_and(Recorder::ends_slice);
        (ends_slice, passed, Steps::to_safepoint(1))
    }
}

impl Vm {
    /// Shuffles the equals before a scheduling decision about `me`, which may be left for `cause`,
    /// in a simulated run.
    #[inline]
    pub(in crate::vm) fn shuffle(&self, inner: &mut Inner, me: ProcessId, cause: SwitchCause) {
        if self.is_simulated() {
            inner.shuffle(Some(me), Some(cause));
        }
    }

    /// The same when no process is running.
    #[inline]
    pub(in crate::vm) fn shuffle_for_loop(&self, inner: &mut Inner) {
        if self.is_simulated() {
            inner.shuffle(None, None);
        }
    }

    /// Notes that a more urgent process is about to interrupt `me`. `me` continues before the
    /// others of its level, in a simulated run as well.
    #[inline]
    pub(in crate::vm) fn note_interrupted(&self, inner: &mut Inner, me: ProcessId) {
        if self.is_simulated() {
            inner.set_interrupted(me, true);
            inner.note_cause(SwitchCause::Outranked);
        }
    }

    /// The time up to which deadlines expire. In a simulated run this is a step earlier than the
    /// clock. A real process never wakes up exactly at its deadline, and programs compare times
    /// after rounding.
    #[inline]
    pub(in crate::vm) fn due_by(&self) -> Instant {
        let now = Instant::now();
        if self.is_simulated() { now - STEP } else { now }
    }

    /// When a deadline takes effect in a simulated run.
    pub(in crate::vm) fn effect_of(deadline: Instant) -> Instant {
        deadline + STEP
    }

    /// In a simulated run without a runnable process, lets the time jump to `deadline`. Returns
    /// whether it did.
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
    fn shuffle(&mut self, me: Option<ProcessId>, cause: Option<SwitchCause>) {
        if let Some(me) = me {
            self.set_interrupted(me, false);
        }
        let choices = self.sched.shuffle_count() as u64;
        let is_first = self
            .sched
            .next_in_ring()
            .is_some_and(|next| self.context(next).is_interrupted);
        // Draw only if there is a choice. How often a native thread's loop gets here does not
        // depend on the seed.
        let drawn = (choices > 1 && !is_first).then(|| (self.next_random() % choices) as usize);
        if let Some(before) = self.record_choice(me, cause, drawn) {
            self.sched.shuffle(before);
        }
    }

    /// A random number for a select.
    pub(in crate::vm) fn number_for_select(&mut self) -> u64 {
        let drawn = self.next_random();
        match self.recorder {
            None => drawn,
            Some(_) => self.record_select(drawn),
        }
    }

    #[cold]
    fn set_interrupted(&mut self, process: ProcessId, is_interrupted: bool) {
        if let Some(context) = self.sched.payload_mut(process) {
            context.is_interrupted = is_interrupted;
        }
    }

    /// A random number from 0 up to 1, exclusive.
    fn chance(&mut self) -> f64 {
        (self.next_random() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
