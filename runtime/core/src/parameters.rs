//! The parameters of a VM, which can be read and set while it runs.

use crate::spin::{PolicyName, Settings};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// A duration that one thread may change while others read it.
#[derive(Debug)]
pub struct DurationParameter(AtomicU64);

impl DurationParameter {
    const fn new(value: Duration) -> Self {
        DurationParameter(AtomicU64::new(value.as_nanos() as u64))
    }

    /// Current value.
    pub fn get(&self) -> Duration {
        // Relaxed: a parameter orders nothing.
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// Current value in nanoseconds.
    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        // Relaxed: a parameter orders nothing.
        self.0.load(Ordering::Relaxed)
    }

    /// Replaces the value; durations above 584 years are cut.
    pub fn set(&self, value: Duration) {
        let nanos = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        // Relaxed: a parameter orders nothing.
        self.0.store(nanos, Ordering::Relaxed);
    }
}

/// Parameters of one VM.
///
/// ```
/// use baton_core::parameters::Parameters;
/// use std::time::Duration;
///
/// let parameters = Parameters::default();
/// parameters.slice.set(Duration::from_millis(1));
/// assert_eq!(parameters.slice.get(), Duration::from_millis(1));
/// parameters.set_preemptive(false); // the whole program is cooperative from now on
/// assert!(!parameters.preemptive());
/// ```
#[derive(Debug)]
pub struct Parameters {
    /// How long a process runs while an equal one is runnable. Default 10 ms.
    pub slice: DurationParameter,
    /// The period of unconditional preempt requests to the running process. Default zero: requests
    /// are sent only when other processes need them.
    pub beat: DurationParameter,
    /// How late a deadline may be met, so that one wake-up serves several. Default zero.
    pub timer_slack: DurationParameter,
    /// Age at which a foreign call may be retaken. Default 100 us. Zero: the first poll that finds
    /// a call may retake it, as in GildaVM.
    pub window: DurationParameter,
    /// How long a native thread without work is kept. Default 10 s.
    pub thread_idle: DurationParameter,
    /// Age at which an exclusive call that keeps others waiting is reported. Default 100 ms.
    pub warn_blocked: DurationParameter,
    /// How long a guest lets a shield hold a kill back. Default 5 s.
    pub shield: DurationParameter,
    /// How long the policy `ema` spins, and its limit for a short wait. Default 2 ms.
    pub busy_loop_for: DurationParameter,
    /// For how long events are kept for a trace (see [`crate::trace`]). Default zero: none are.
    pub flight: DurationParameter,
    /// Whether to spin before parking: a [`PolicyName`].
    spin: AtomicU8,
    /// Share of all time that `learned` may spend on failed spins, as the bits of an `f64`.
    spin_budget: AtomicU64,
    /// Bound on the VM's native threads, home included.
    max_threads: AtomicUsize,
    /// Bytes of C stack of a new process.
    stack_size: AtomicUsize,
    /// Whether slices and more urgent processes preempt.
    preemptive: AtomicBool,
    /// Whether a process that would close a cycle of locks gets an error instead of a warning.
    refuses_deadlock: AtomicBool,
}

/// Default C stack of a process, in bytes: twice what Lua's limit of 200 C levels needs.
pub const DEFAULT_STACK_SIZE: usize = 1 << 20;

/// How many processors the program could use when it made its first VM. To ask again for each VM
/// takes twenty system calls.
fn cpus_at_start() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            slice: DurationParameter::new(Duration::from_millis(10)),
            beat: DurationParameter::new(Duration::ZERO),
            timer_slack: DurationParameter::new(Duration::ZERO),
            window: DurationParameter::new(Duration::from_micros(100)),
            thread_idle: DurationParameter::new(Duration::from_secs(10)),
            warn_blocked: DurationParameter::new(Duration::from_millis(100)),
            shield: DurationParameter::new(Duration::from_secs(5)),
            busy_loop_for: DurationParameter::new(Duration::from_millis(2)),
            flight: DurationParameter::new(Duration::ZERO),
            spin: AtomicU8::new(PolicyName::Learned as u8),
            spin_budget: AtomicU64::new(0.01_f64.to_bits()),
            max_threads: AtomicUsize::new((4 * cpus_at_start()).max(64)),
            stack_size: AtomicUsize::new(DEFAULT_STACK_SIZE),
            preemptive: AtomicBool::new(true),
            refuses_deadlock: AtomicBool::new(false),
        }
    }
}

impl Parameters {
    /// Whether to spin before parking, and how.
    pub fn spin(&self) -> PolicyName {
        // Relaxed: a parameter orders nothing.
        PolicyName::ALL[usize::from(self.spin.load(Ordering::Relaxed))]
    }

    /// Sets the spin policy, from the next wait on.
    pub fn set_spin(&self, policy: PolicyName) {
        // Relaxed: a parameter orders nothing.
        self.spin.store(policy as u8, Ordering::Relaxed);
    }

    /// Share of all time that `learned` may spend on failed spins.
    pub fn spin_budget(&self) -> f64 {
        // Relaxed: a parameter orders nothing.
        f64::from_bits(self.spin_budget.load(Ordering::Relaxed))
    }

    /// Sets that share, from 0 to 1.
    pub fn set_spin_budget(&self, share: f64) {
        // Relaxed: a parameter orders nothing.
        self.spin_budget.store(share.to_bits(), Ordering::Relaxed);
    }

    /// The parameters that the spin policies read.
    pub(crate) fn spinning(&self) -> Settings {
        Settings {
            policy: self.spin(),
            busy_loop_for: self.busy_loop_for.get(),
            budget: self.spin_budget(),
        }
    }

    /// Bound on the VM's native threads, home included.
    pub fn max_threads(&self) -> usize {
        // Relaxed: a parameter orders nothing.
        self.max_threads.load(Ordering::Relaxed)
    }

    /// Sets the bound on native threads (at least 1).
    pub fn set_max_threads(&self, bound: usize) {
        // Relaxed: a parameter orders nothing.
        self.max_threads.store(bound.max(1), Ordering::Relaxed);
    }

    /// Bytes of C stack of a new process.
    pub fn stack_size(&self) -> usize {
        // Relaxed: a parameter orders nothing.
        self.stack_size.load(Ordering::Relaxed)
    }

    /// Sets the C stack of processes made from now on.
    pub fn set_stack_size(&self, bytes: usize) {
        // Relaxed: a parameter orders nothing.
        self.stack_size.store(bytes, Ordering::Relaxed);
    }

    /// Whether slices and more urgent processes preempt.
    pub fn preemptive(&self) -> bool {
        // Relaxed: a parameter orders nothing.
        self.preemptive.load(Ordering::Relaxed)
    }

    /// Makes the whole program preemptive or cooperative.
    pub fn set_preemptive(&self, on: bool) {
        // Relaxed: a parameter orders nothing.
        self.preemptive.store(on, Ordering::Relaxed);
    }

    /// Whether a process that would close a cycle of locks gets an error instead of a warning.
    pub fn refuses_deadlock(&self) -> bool {
        // Relaxed: a parameter orders nothing.
        self.refuses_deadlock.load(Ordering::Relaxed)
    }

    /// Makes guests refuse a lock that would close a cycle (`true`), or only warn of it.
    pub fn set_refuses_deadlock(&self, on: bool) {
        // Relaxed: a parameter orders nothing.
        self.refuses_deadlock.store(on, Ordering::Relaxed);
    }
}
