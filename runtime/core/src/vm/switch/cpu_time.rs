//! Processor time of processes: their running time, less the time in which their thread was absent.
//!
//! A switch charges the running time by a clock that costs almost nothing. That includes time when
//! the thread waited for a processor, or was blocked in a call. The thread's own clock of processor
//! time needs a system call. So it is read at the end of a run, once [`WINDOW`] has passed since
//! the last reading. The time between two readings is a *window*. The part of a window that was not
//! computed is absence. It is charged to the process whose run ends the window, up to the length of
//! that run.
//!
//! - A run of a window or more is exact, except for absence of shorter runs in the same window.
//! - Among shorter runs, only one that ends a window is charged with absence. For the others,
//!   processor time equals running time.
//! - The thread can be absent between the end of a run and the reading. What is more than that run
//!   is charged to the next one, which began when the other ended.
//! - Absence never exceeds the run that it is charged to. So the processor time of a process never
//!   decreases. In the VM it is at most its running time.
//! - Time that a hypervisor takes from the machine counts as computed: the thread's clock goes on.
//!
//! The loop of the owner's thread computes, too, and waits. Its time is no part of a window, but
//! its computing hides the same amount of absence. So it begins a new window before it continues a
//! process, unless one has begun in the last [`MOST_HIDDEN`]. Readings on two threads cannot be
//! compared. The first reading on another thread begins a window and charges nothing.
//!
//! When the monitor charges a run, because the process is in a call, the window does not end: it is
//! of another thread. The process's next run begins on some loop. What the call computes from then
//! on is counted by itself (`ext/thread_times.rs`), and is no part of the running time.

use crate::sched::{CarrierId, ProcessId};
use crate::vm::{Context, Inner, Inside};
use baton_sys::clock::{self, Instant};
use std::time::Duration;

/// The shortest window, in nanoseconds. A reading costs less than a thousandth of it.
const WINDOW: u64 = 250_000;

/// The largest age of a window, in nanoseconds, in which the loop may continue a process without a
/// new window.
const MOST_HIDDEN: u64 = 1_000_000;

/// The value of `due` in a simulated run, whose time is virtual: the clock is never read.
const NEVER: u64 = u64::MAX;

/// Time that a process has used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeUsed {
    /// Its running time, by a wall clock.
    pub running: Duration,
    /// Processor time: the running time, less the time in which its thread did not compute, and
    /// what its calls have computed while others ran beside them.
    pub cpu: Duration,
}

impl TimeUsed {
    pub(in crate::vm) fn of(context: &Context) -> TimeUsed {
        TimeUsed {
            running: Duration::from_nanos(context.busy),
            cpu: Duration::from_nanos(
                context.busy.saturating_sub(context.absent) + context.cpu_of_calls,
            ),
        }
    }
}

/// The last reading. All times are in nanoseconds.
#[derive(Debug)]
pub(in crate::vm) struct CpuClock {
    /// A run that ends at this time or later ends the window.
    due: u64,
    /// The thread of the reading; `None` if the owner is on another thread since.
    carrier: Option<CarrierId>,
    /// That thread's processor time.
    cpu: u64,
    /// The time of the reading.
    read_at: u64,
}

impl CpuClock {
    pub(in crate::vm) const fn new() -> CpuClock {
        CpuClock {
            due: 0,
            carrier: None,
            cpu: 0,
            read_at: 0,
        }
    }

    /// Whether a run that ends at `time` ends the window.
    #[inline(always)]
    pub(in crate::vm) fn is_due(&self, time: u64) -> bool {
        time >= self.due
    }

    /// Turns readings off.
    pub(in crate::vm) fn turn_off(&mut self) {
        self.due = NEVER;
        self.carrier = None;
    }

    fn is_off(&self) -> bool {
        self.due == NEVER
    }

    /// Forgets the last reading: the thread is another one, as after a fork.
    pub(in crate::vm) fn forget(&mut self) {
        if !self.is_off() {
            *self = CpuClock::new();
        }
    }

    /// Ends the window on the calling thread, the owner's. `context` is the process that ran last,
    /// for `run`, until `ended`.
    #[cold]
    #[inline(never)]
    pub(in crate::vm) fn read(
        &mut self,
        carrier: CarrierId,
        ended: u64,
        run: u64,
        context: &mut Context,
    ) {
        self.end_window(carrier, read_clocks(), ended, run, context);
    }

    /// The thread can lose its processor between the end of the run and the reading. The next run
    /// began when this one ended, so that absence is within it. The window that begins has it, too.
    fn end_window(
        &mut self,
        carrier: CarrierId,
        (now, cpu): (u64, u64),
        ended: u64,
        run: u64,
        context: &mut Context,
    ) {
        let absence = self.absence(carrier, now, cpu);
        let charged = absence.min(run);
        context.absent += charged;
        let after = (absence - charged).min(now.saturating_sub(ended));
        self.begin_window(carrier, now, cpu);
        self.due -= after;
    }

    fn begin_window(&mut self, carrier: CarrierId, now: u64, cpu: u64) {
        *self = CpuClock {
            due: now + WINDOW,
            carrier: Some(carrier),
            cpu,
            read_at: now,
        };
    }

    /// The part of the window so far that was not computed.
    fn absence(&self, carrier: CarrierId, now: u64, cpu: u64) -> u64 {
        if self.carrier != Some(carrier) {
            return 0;
        }
        let began = self.due - WINDOW;
        now.saturating_sub(began)
            .saturating_sub(cpu.saturating_sub(self.cpu))
    }

    /// Notes that the loop of `carrier`, the calling thread, continues a process at `now`. The last
    /// run ended at `left_at`.
    #[inline]
    pub(in crate::vm) fn resume(&mut self, carrier: CarrierId, left_at: u64, now: u64) {
        if self.is_off() {
            return;
        }
        if now.saturating_sub(self.read_at) >= MOST_HIDDEN {
            self.begin_window(carrier, now, computed());
        } else {
            self.leave_out(carrier, now.saturating_sub(left_at));
        }
    }

    /// Removes the loop's time from the window.
    fn leave_out(&mut self, carrier: CarrierId, time: u64) {
        self.due += time;
        self.carrier = self.carrier.filter(|&read| read == carrier);
    }
}

/// The time, and the calling thread's processor time, read in this order. A thread often loses its
/// processor when it returns from a system call, and that time belongs to the window that begins.
fn read_clocks() -> (u64, u64) {
    (Instant::now().as_nanos(), computed())
}

/// The calling thread's processor time.
fn computed() -> u64 {
    clock::thread_cpu_time().as_nanos() as u64
}

impl Inside<'_> {
    /// The time that a process has used so far; zero for a forgotten process. Inside the VM.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     std::thread::sleep(Duration::from_millis(20)); // inside the VM: no other process runs
    ///     let slept = main.vm.time_used(main.id);
    ///     assert!(slept.running >= Duration::from_millis(20));
    ///     assert!(slept.cpu <= slept.running / 2, "{slept:?}");
    /// });
    /// ```
    pub fn time_used(&self, process: ProcessId) -> TimeUsed {
        let mut used = self.with_inner(|inner| inner.time_used(process));
        self.add_call_so_far(process, &mut used);
        used
    }

    /// A process's running time so far, by a wall clock.
    pub fn running_time(&self, process: ProcessId) -> Duration {
        let now = Instant::now().as_nanos();
        self.with_inner(|inner| Duration::from_nanos(inner.busy(process, now)))
    }

    /// The processor time of a process so far.
    pub fn cpu_time(&self, process: ProcessId) -> Duration {
        self.time_used(process).cpu
    }
}

impl Inner {
    /// Charges the running process first. Otherwise the coarse clock of its next switch could
    /// charge less than is returned here.
    ///
    /// The run and the window end at the same reading of the time.
    fn time_used(&mut self, process: ProcessId) -> TimeUsed {
        if self.sched.current() == Some(process) {
            if self.cpu.is_off() {
                self.charge(process, Instant::now().as_nanos());
            } else {
                let reading = read_clocks();
                let now = reading.0;
                let run = self.charge(process, now);
                if let Some(context) = self.sched.payload_mut(process) {
                    self.cpu
                        .end_window(self.carrier, reading, now, run, context);
                }
            }
        }
        let context = self.sched.payload(process);
        context.map(TimeUsed::of).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::HOME;

    const OTHER: CarrierId = CarrierId(1);
    const MS: u64 = 1_000_000;

    fn absent(context: &Context) -> u64 {
        context.absent / MS
    }

    #[test]
    fn time_not_computed_is_absence_of_the_run_that_ends_the_window() {
        let (mut clock, mut one) = (CpuClock::new(), Context::default());
        clock.begin_window(HOME, 100 * MS, 50 * MS);
        assert!(!clock.is_due(100 * MS + WINDOW - 1));
        assert!(clock.is_due(100 * MS + WINDOW));
        clock.end_window(HOME, (110 * MS, 56 * MS), 110 * MS, 9 * MS, &mut one);
        assert_eq!(absent(&one), 4);
        clock.end_window(HOME, (112 * MS, 58 * MS), 112 * MS, 2 * MS, &mut one);
        assert_eq!(absent(&one), 4, "it has computed all the time");
    }

    #[test]
    fn readings_of_two_threads_are_not_compared() {
        let (mut clock, mut one) = (CpuClock::new(), Context::default());
        clock.begin_window(HOME, 100 * MS, 50 * MS);
        clock.end_window(OTHER, (105 * MS, 50 * MS), 105 * MS, 5 * MS, &mut one);
        assert_eq!(absent(&one), 0);
        clock.end_window(OTHER, (110 * MS, 54 * MS), 110 * MS, 5 * MS, &mut one);
        assert_eq!(absent(&one), 1);
        clock.resume(HOME, 110 * MS, 110 * MS);
        clock.resume(OTHER, 110 * MS, 110 * MS);
        clock.end_window(OTHER, (115 * MS, 54 * MS), 115 * MS, 5 * MS, &mut one);
        assert_eq!(absent(&one), 1, "another thread has been the owner");
    }

    #[test]
    fn absence_never_exceeds_the_last_run() {
        let (mut clock, mut one) = (CpuClock::new(), Context::default());
        clock.begin_window(HOME, 100 * MS, 50 * MS);
        clock.end_window(HOME, (110 * MS, 50 * MS), 110 * MS, 3 * MS, &mut one);
        assert_eq!(absent(&one), 3);
    }

    /// Guards against absence that nobody is charged with: it was longer than the run that ended
    /// before it.
    #[test]
    fn absence_between_the_end_of_a_run_and_the_reading_is_of_the_next_run() {
        let (mut clock, mut one, mut next) =
            (CpuClock::new(), Context::default(), Context::default());
        clock.begin_window(HOME, 100 * MS, 50 * MS);
        // The run ends at 110, and the thread is absent until 190.
        clock.end_window(HOME, (190 * MS, 60 * MS), 110 * MS, 10 * MS, &mut one);
        // The next run began at 110, and computes since 190.
        clock.end_window(HOME, (195 * MS, 65 * MS), 195 * MS, 85 * MS, &mut next);
        assert_eq!(absent(&one) + absent(&next), 80);
        assert!(absent(&one) <= 10);
        // Absence of shorter runs in the same window is of nobody.
        clock.end_window(HOME, (205 * MS, 65 * MS), 205 * MS, 2 * MS, &mut one);
        clock.end_window(HOME, (215 * MS, 75 * MS), 215 * MS, 10 * MS, &mut next);
        assert_eq!(absent(&one) + absent(&next), 82);
    }

    #[test]
    fn the_time_of_the_loop_is_no_absence() {
        let (mut clock, mut one) = (CpuClock::new(), Context::default());
        clock.begin_window(HOME, 100 * MS, 50 * MS);
        clock.leave_out(HOME, 7 * MS);
        assert!(!clock.is_due(107 * MS));
        clock.end_window(HOME, (110 * MS, 52 * MS), 110 * MS, 3 * MS, &mut one);
        assert_eq!(absent(&one), 1);
    }

    #[test]
    fn the_loop_begins_a_window_where_the_last_one_is_old() {
        let mut clock = CpuClock::new();
        clock.begin_window(OTHER, 1, 1);
        let now = MOST_HIDDEN + 1;
        clock.resume(HOME, now, now);
        assert_eq!(clock.carrier, Some(HOME));
        assert_eq!((clock.read_at, clock.due), (now, now + WINDOW));
    }

    #[test]
    fn in_a_simulated_run_nothing_is_read() {
        let mut clock = CpuClock::new();
        clock.turn_off();
        clock.resume(HOME, 5 * MS, 50 * MS);
        clock.forget();
        assert!(!clock.is_due(NEVER - 1));
        assert_eq!((clock.carrier, clock.absence(HOME, 60 * MS, 0)), (None, 0));
    }
}
