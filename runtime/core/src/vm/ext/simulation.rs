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
    /// Makes this run a simulated one. The whole program uses its virtual time, so there can be no
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
    ///         main.vm.sleep_until(a_year_later); // takes only a moment of real time
    ///         assert!(Instant::now() >= a_year_later);
    ///     },
    /// );
    /// ```
    pub fn simulate(&self, seed: u64) {
        clock::simulate(BEGINNING);
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

    /// Whether this run is simulated.
    #[inline]
    pub fn is_simulated(&self) -> bool {
        self.slow_reasons() & slow_reason::SIMULATED != 0
    }
}

impl Inside<'_> {
    /// Advances time by the steps that the running process has made; its slice may end. The guest
    /// calls [`Inside::safepoint`] next. Returns after how many steps the guest must call this
    /// again. Inside the VM.
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
        let (ends, next) = self.with_inner(|inner| {
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
}

impl Vm {
    /// Shuffles the equals before a scheduling decision about `me`, in a simulated run.
    #[inline]
    pub(in crate::vm) fn shuffle(&self, inner: &mut Inner, me: Option<ProcessId>) {
        if self.is_simulated() {
            inner.shuffle(me);
        }
    }

    /// Notes that a more urgent process is about to interrupt `me`. `me` continues before the
    /// others of its level, in a simulated run as well.
    #[inline]
    pub(in crate::vm) fn note_interrupted(&self, inner: &mut Inner, me: ProcessId) {
        if self.is_simulated() {
            inner.set_interrupted(me, true);
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
    fn shuffle(&mut self, me: Option<ProcessId>) {
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

    /// A random number from 0 up to 1, exclusive.
    fn chance(&mut self) -> f64 {
        (self.next_random() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The first state of the generator, which must not be 0. Adjacent seeds give unrelated states
/// (splitmix64).
fn first_number(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ (mixed >> 31)).max(1)
}
