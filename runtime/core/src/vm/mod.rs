//! The executor of one VM. The [scheduler](crate::sched) decides; the executor carries the
//! decisions out with native threads, stacks and system calls.
//!
//! # What a guest calls
//!
//! What a running process calls inside the VM is a method of its token [`Inside`]. What any thread
//! may call is a method of [`Vm`].
//!
//! | for | methods | where |
//! |---|---|---|
//! | a VM's life | [`new`](Vm::new), [`spawn_first`](Vm::spawn_first), [`simulate`](Vm::simulate), [`record`](Vm::record), [`run`](Vm::run) | any thread, in this order |
//! | the same, in a loop that the program owns | [`run_until`](Vm::run_until), [`descriptor`](Vm::descriptor), [`next_stint`](Vm::next_stint), [`end_between_stints`](Vm::end_between_stints) | one thread, again and again |
//! | its life in the simulated run of another VM | [`simulate_beside`](Vm::simulate_beside), [`run_in_turn`](Vm::run_in_turn) | a process of that run |
//! | the end of the VM | [`stop`](Inside::stop) | inside |
//! | its end by others | [`halt`](Vm::halt) | any thread that is none of its carriers |
//! | an end after which the VM can be dropped | [`abandon_calls_at_end`](Vm::abandon_calls_at_end), before the run | any thread |
//! | processes | [`spawn`](Inside::spawn), [`kill`](Inside::kill), [`suspend`](Inside::suspend), [`resume`](Inside::resume), [`forget`](Inside::forget) | inside |
//! | letting others run | [`safepoint`](Inside::safepoint), [`yield_now`](Inside::yield_now), [`yield_to`](Inside::yield_to) | inside |
//! | keeping others out | [`enter_critical`](Inside::enter_critical), [`leave_critical`](Inside::leave_critical) | inside |
//! | waits | [`block_on`](Inside::block_on), [`sleep_until`](Inside::sleep_until), [`select`](Inside::select), [`wait_ready`](Inside::wait_ready) | inside |
//! | objects that several VMs share | [`send_shared`](Inside::send_shared), [`receive_shared`](Inside::receive_shared), [`select_shared`](Inside::select_shared), [`wait_at_word`](Inside::wait_at_word) | inside |
//! | objects without a wait | [`with_sched`](Inside::with_sched), [`sched`](Inside::sched) | inside |
//! | foreign calls | [`foreign`](Inside::foreign), [`leave`](Inside::leave), [`offload`](Inside::offload) | inside; then the process is outside |
//! | the end of a foreign call | [`enter`](ForeignCall::enter), [`enter_cold_pinned`](ForeignCall::enter_cold_pinned) for a callback | outside, by the process that left |
//! | native threads | [`bind_to_thread`](Inside::bind_to_thread), [`set_pinned`](Inside::set_pinned) | inside |
//! | events from other threads | [`wake_from_outside`](Vm::wake_from_outside), [`resume_from_outside`](Vm::resume_from_outside), [`signal_from_outside`](Vm::signal_from_outside) | any thread |
//! | events from signal handlers | [`request_signalled`](Vm::request_signalled), [`Waker::wake`] | any thread, signal handlers |
//! | the state of processes, for another thread | [`look`](Vm::look) | any other thread |
//! | settings, counts | [`parameters`](Vm::parameters), [`counters`](Vm::counters) | any thread |
//!
//! # Files
//!
//! | file or folder | what it does |
//! |---|---|
//! | `mod.rs` | the type [`Vm`]: creation, access, parameters, stop |
//! | `inside.rs` | the tokens of threads inside the VM |
//! | `api/` | operations of running processes |
//! | `switch/` | switches from one process to the next; slices |
//! | `lock/` | the VM lock and the native threads |
//! | `idle/` | the owner's wait; posts and descriptors |
//! | `preempt/` | the monitor and its preempt requests |
//! | `ext/` | hooks, simulation, fork, looks of other threads, wake-ups by signal handlers |
//!
//! A process waits with [`Inside::block_on`], and for one of several objects with
//! [`Inside::block_on_random`]:
//!
//! ```
//! use baton_core::sched::{Case, Deadline};
//! # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
//! closures::run(|main| {
//!     let (left, right) = main.vm.sched(|sched| (sched.channel_new(0), sched.channel_new(0)));
//!     let sender = main.spawn(move |process| {
//!         process.vm.block_on(|sched| sched.channel_send(right, 42, Deadline::Never));
//!     });
//!     let cases = [Case::Receive(left), Case::Receive(right)];
//!     let wake = main
//!         .vm
//!         .block_on_random(|sched, random| sched.select(&cases, Deadline::Never, random));
//!     assert_eq!((wake.case, wake.value), (1, 42));
//!     main.join(sender);
//!     main.vm.forget(sender); // frees its slot for another process
//! });
//! ```
//!
//! It waits for a descriptor with [`Inside::wait_ready`], which tries again whenever the descriptor
//! may be ready:
//!
//! ```
//! use baton_core::sched::{Deadline, Readiness, WakeReason, Watch};
//! use std::io::{Read, Write};
//! use std::os::fd::AsRawFd;
//! use std::os::unix::net::UnixStream;
//! # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
//! closures::run(|main| {
//!     let (mut near, mut far) = UnixStream::pair().expect("a pair of sockets");
//!     near.set_nonblocking(true).expect("a socket may be so");
//!     main.spawn(move |_| far.write_all(b"hello").expect("there is a receiver"));
//!     let watch = Watch { descriptor: near.as_raw_fd() as u32, wants: Readiness::READ };
//!     let mut bytes = [0; 5];
//!     let read = |_| near.read_exact(&mut bytes).is_ok();
//!     let wake = main.vm.wait_ready(&[watch], Deadline::Never, read);
//!     assert_eq!(wake.expect("sockets can be waited for").reason, WakeReason::Done);
//!     assert_eq!(&bytes, b"hello");
//! });
//! ```
//!
//! Queries report the time and stack that a process has used. Deadlines are absolute times:
//!
//! ```
//! use baton_core::sched::Deadline;
//! use baton_core::vm::Vm;
//! use std::time::{Duration, Instant};
//! # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
//! closures::run(|main| {
//!     let begin = Instant::now();
//!     while begin.elapsed() < Duration::from_millis(2) {}
//!     assert!(main.vm.running_time(main.id) >= Duration::from_millis(1));
//!
//!     let used = main.vm.stack_high_water(main.id).expect("it runs");
//!     let (lowest, highest) = main.vm.stack_bounds(main.id).expect("it lives");
//!     assert!(used > 0 && used < highest - lowest);
//!     let guard = main.vm.stack_guard(main.id).expect("it lives");
//!     assert_eq!(guard.end, lowest);
//!     assert_eq!(main.vm.stack_stats().in_use, 1);
//! });
//!
//! assert_eq!(Vm::deadline(None), Deadline::Never);
//! assert_eq!(Vm::deadline(Some(Duration::ZERO)), Deadline::Now);
//! assert!(matches!(Vm::deadline(Some(Duration::from_secs(1))), Deadline::At(_)));
//! ```
//!
//! **Access to the fields.**
//!
//! - `inner`: only the owner.
//! - `inbox`: other threads post to it and kick the owner.
//! - `lock`, the VM's mutex: guards which thread owns the VM, and the list of carriers.
//! - `hints`: written by the owner, read by the monitor. Correctness does not depend on them; they
//!   only decide when the monitor polls.
//!
//! **Lock order.** A VM's watch, then the VM's mutex. The monitor's list of VMs is a leaf. A thread
//! that holds a VM's mutex does not enter, wait or call the guest. The exceptions are
//! [`Guest::retake_policy`], [`Guest::warn_blocked`] and [`Guest::has_delayed`].

mod api;
mod ext;
mod idle;
pub(crate) mod inside;
mod lock;
mod preempt;
mod switch;

pub use api::shared::{SharedCase, Sleeper, wake_from_outside};
pub use api::spawn::{LastAccount, SpawnError, Spawned};
pub use ext::halting::HaltOutcome;
pub use ext::look::{BegunLook, NoLook, Times, View};
pub use ext::simulation::Steps;
pub use ext::thread_times::{CallBeside, ThreadTime};
pub use ext::waker::{WakeAction, Waker};
pub use idle::descriptors::{Keep, MOST_DESCRIPTORS, News};
pub use inside::{ForeignCall, Inside};
pub use lock::affinity::{HOME_NAME, ThreadRefusal};
pub use lock::offload::Offloaded;
pub use lock::stint::{StintEnd, StintRefused};
pub use switch::cpu_time::TimeUsed;

use crate::counters::Counters;
use crate::guest::{Guest, GuestCalls};
use crate::parameters::Parameters;
use crate::sched::{
    CarrierId, ProcessId, Scheduler, SemaphoreId, SharedWaitId, WaitQueueId, Wording,
};
use crate::spin::Chooser;
use crate::time_buckets::TimeBuckets;
use baton_sys::asked::Asked;
use baton_sys::clock::Instant;
use baton_sys::fiber::Fiber;
use baton_sys::inbox::Inbox;
use baton_sys::owner_cell::OwnerCell;
use baton_sys::parking::Park;
use baton_sys::poller::{Events, Poller, WakeUpTimer};
use baton_sys::stack::{Stack, StackPool};
use baton_sys::ticks::Ticks;
use ext::{fork, hooks, look, recorder, tracing, waker};
use idle::descriptors;
use idle::others::expect_one_more;
use lock::{affinity, held_threads, stint, thread_queue};
use preempt::monitor::Monitor;
use preempt::{decide, hints, wake_up};
use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;
use switch::cpu_time;

/// The VM's first native thread.
pub const HOME: CarrierId = CarrierId(0);

/// The executor's data of one process.
#[derive(Debug, Default)]
pub struct Context {
    fiber: Option<Fiber>,
    stack: Option<Stack>,
    /// Its running time up to the last switch, in nanoseconds.
    busy: u64,
    /// The part of `busy` in which its thread did not compute, in nanoseconds
    /// (`switch/cpu_time.rs`).
    absent: u64,
    /// The processor time of its calls beside which others ran and that have ended, in nanoseconds.
    cpu_of_calls: u64,
    /// When its last run ended (coarse), in nanoseconds; 0: never.
    left_at: u64,
    /// `busy` at the start of its slice, corrected by its deficit (`switch/deficit.rs`): earlier if
    /// part of the slice is used up already, later if it has credit. A more urgent process
    /// interrupts a slice, but does not end it.
    slice_began: u64,
    /// The length of its slices in microseconds; 0: the parameter.
    slice: u32,
    /// A switch hook is on for it.
    is_hooked: bool,
    /// In a simulated run: it gave way to a more urgent process, and has not continued since.
    is_interrupted: bool,
    /// `absent` at the last end of a slice by its time.
    absent_before: u64,
    /// The scheduler forgets it when it has ended. Its account is closed already.
    is_forgotten_at_end: bool,
}

/// The owner's data.
pub(crate) struct Inner {
    pub(crate) sched: Scheduler<Context>,
    /// The carrier of the owner's thread.
    carrier: CarrierId,
    /// The context of the owner's thread itself, outside of processes.
    base: Option<Fiber>,
    stacks: StackPool,
    /// The poller's buffer of events. `None` while the owner waits in the poller.
    events: Option<Events>,
    /// Decides whether to spin before parking.
    spin: Chooser,
    /// The stack of the process that ended last. It was still in use while that process switched
    /// away.
    retired: Option<Stack>,
    /// The thread that a call is being offloaded to, until the owner's loop completes the offload.
    offloads_to: Option<CarrierId>,
    /// How many processes have given way in the middle of a foreign function, and not continued
    /// yet.
    in_calls: usize,
    /// When the running process was continued (coarse), in nanoseconds.
    run_started: u64,
    cpu: cpu_time::CpuClock,
    thread_queue: thread_queue::ThreadQueue,
    /// The process that prefers home. It runs elsewhere while home is out in a call of another
    /// process.
    prefers_home: Option<ProcessId>,
    hooks: hooks::Hooks,
    /// The scheduler's count of changes when the hints were updated last.
    hinted_changes: u64,
    /// Its count of changes of deadlines when their hint was updated last.
    hinted_deadlines: u64,
    names: affinity::Names,
    registrations: descriptors::Registrations,
    held_threads: held_threads::HeldThreads,
    /// How many processes have slices of their own length.
    sliced: usize,
    /// The run, by the scheduler's count of switches, in which the running process was last seen
    /// without rivals.
    alone_in_run: u64,
    /// By how much slices were too long while an equal was runnable.
    overruns: TimeBuckets,
    /// For how many decisions switches leave the fast path, to skip processes with a deficit
    /// (`switch/deficit.rs`).
    deficits_expected: u32,
    /// The process that gives way to its equals at its next safepoint (`switch/slices.rs`).
    steps_aside: Option<ProcessId>,
    wakers: Vec<Arc<waker::WakerState>>,
    /// State of the random number generator, for `select` and for simulated runs.
    random: u64,
    /// In a simulated run: the parameter `slice` divided by the mean slice.
    slice_divisor: f64,
    /// In a recorded run: what it records.
    recorder: Option<recorder::Recorder>,
    /// While the VM is traced: what has happened.
    tracer: Option<tracing::Tracer>,
    /// How many read that.
    trace_readers: u32,
    stints: stint::Stints,
}

impl Drop for Inner {
    /// Gives the stacks of all processes back, so that the pool unmaps them. The VM's threads are
    /// gone: a thread that sleeps for ever on such a stack keeps the VM.
    fn drop(&mut self) {
        let all: Vec<ProcessId> = self.sched.iter().collect();
        let of_processes = all
            .into_iter()
            .filter_map(|process| self.sched.payload_mut(process)?.stack.take());
        for stack in of_processes.chain(self.retired.take()) {
            self.stacks.recycle(stack);
        }
    }
}

/// Bits: why the running process is asked for a safepoint.
mod request {
    /// Its slice is over.
    pub(super) const SLICE: u32 = 1;
    /// A signal handler has requested work from the guest.
    pub(super) const SIGNALLED: u32 = 2;
    /// A waker was called (see `ext/waker.rs`).
    pub(super) const WOKEN: u32 = 4;
    /// Another thread wants to look at the state of the VM (see `ext/look.rs`).
    pub(super) const LOOK: u32 = 8;
}

/// Bits: why switches do not take the fast path. At present any bit sends them to the slow path.
mod slow_reason {
    /// Scheduling has stopped for good.
    pub(super) const ENDED: u8 = 1;
    /// The guest has scheduler hooks or switch hooks (see `ext/hooks.rs`).
    pub(super) const HOOKED: u8 = 2;
    /// A process has slices of its own length (see `switch/slices.rs`).
    pub(super) const SLICED: u8 = 4;
    /// The run is simulated (see `ext/simulation.rs`).
    pub(super) const SIMULATED: u8 = 8;
    /// A process may have a slice deficit (see `switch/deficit.rs`).
    pub(super) const DEFICIT: u8 = 16;
    /// The VM is traced (see `ext/tracing.rs`).
    pub(super) const TRACED: u8 = 64;
    /// The time that a host gave may be used up (see `lock/stint.rs`). The monitor sets it.
    pub(super) const STINT_OVER: u8 = 128;
}

/// A message from another thread to the owner.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Post {
    /// The foreign call of this process returned, or called back, at that time. It has used `cpu`
    /// while others ran beside it. After a callback, the process has foreign frames on the carrier.
    Returned {
        process: ProcessId,
        pinned: Option<CarrierId>,
        at: Ticks,
        cpu: Duration,
    },
    /// Make this waiting process runnable with the given value (from foreign threads and signal
    /// forwarders).
    Wake(WaitQueueId, u64),
    /// Resume this suspended process.
    Resume(ProcessId),
    /// Signal this semaphore once.
    Signal(SemaphoreId),
    /// End this wait for an object that several VMs share.
    Shared(SharedWaitId),
}

/// One VM: a guest heap with its processes.
pub struct Vm {
    guest: GuestCalls,
    inner: OwnerCell<Inner>,
    lock: Mutex<lock::state::LockState>,
    hints: hints::Hints,
    inbox: Inbox<Post>,
    park: Park,
    poller: Poller,
    descriptors: descriptors::Descriptors,
    /// When the owner's poller was kicked last, in nanoseconds. The cost of a park is learned from
    /// it.
    kicked_at: AtomicU64,
    requests: AtomicU32,
    /// Whether home waits for the VM while another thread owns it.
    home_waits: AtomicBool,
    /// Why switches leave the fast path; see [`slow_reason`].
    slow_reasons: AtomicU8,
    /// Whether the guest's collector works.
    collecting: ext::collecting::Collecting,
    /// Whether some process may have foreign frames on a thread (`lock/kept.rs`). The owner's.
    may_be_pinned: AtomicBool,
    /// Whether foreign calls may be retaken now.
    retaking: AtomicBool,
    /// A thread is about to fork, and waits until the owner has stopped at a safepoint. Guarded by
    /// the VM's mutex, and also read as a hint.
    fork_waits: AtomicBool,
    /// Notified when `fork_waits` was cleared.
    thawed: Condvar,
    /// In a simulated run: its place among the VMs of the run (see `ext/turnstile.rs`).
    seat: OnceLock<ext::turnstile::Seat>,
    /// What the objects that several VMs share know of this VM. Made with its first wait for one.
    life: OnceLock<Arc<api::shared::Life>>,
    /// Odd while the VM waits until another one acts (`idle/others.rs`).
    turns_of_others: AtomicU64,
    /// Whether it has not run yet. Guarded by the list of `idle/others.rs`.
    is_expected: AtomicBool,
    endings: ext::halting::Endings,
    /// A reference to this VM that is never dropped, once one of its processes has forked.
    kept: OnceLock<&'static Arc<Vm>>,
    looks: Asked<look::Look>,
    host: stint::HostLoop,
    monitor: Arc<Monitor>,
    /// Wakes the monitor at `wake_up_at`. `None` on systems without such timers.
    wake_up_timer: Option<WakeUpTimer>,
    /// When the timer wakes the monitor, in nanoseconds, or [`wake_up::NOT_SET`]; see
    /// `preempt/wake_up.rs`.
    wake_up_at: AtomicU64,
    watch: Mutex<decide::PollState>,
    /// Parameters, settable while running.
    pub parameters: Parameters,
    /// Counts, always on.
    pub counters: Counters,
}

impl std::fmt::Debug for Vm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vm")
            .field("hints", &self.hints)
            .finish_non_exhaustive()
    }
}

impl Vm {
    /// Creates a VM for `guest`, without processes; [`Vm::run`] starts it. Other VMs that wait for
    /// objects which VMs share expect it to act, as long as it exists or runs.
    ///
    /// # Errors
    /// When the system refuses a poller or address space for stacks.
    pub fn new(guest: Arc<dyn Guest>) -> io::Result<Arc<Vm>> {
        baton_sys::forking::at_fork(fork::AT_FORK)?;
        let parameters = Parameters::default();
        let mut sched = Scheduler::default();
        let thread_queue = thread_queue::ThreadQueue::new(sched.wait_queue_new());
        let monitor = Monitor::of_this_program()?;
        let vm = Arc::new(Vm {
            guest: GuestCalls(guest),
            inner: OwnerCell::new(Inner {
                sched,
                thread_queue,
                carrier: HOME,
                base: None,
                stacks: StackPool::new(parameters.stack_size())?,
                events: Some(Events::new()),
                spin: Chooser::new(parameters.spinning()),
                retired: None,
                offloads_to: None,
                in_calls: 0,
                run_started: 0,
                cpu: cpu_time::CpuClock::new(),
                prefers_home: None,
                hooks: hooks::Hooks::default(),
                names: affinity::Names::default(),
                registrations: descriptors::Registrations::default(),
                held_threads: held_threads::HeldThreads::default(),
                sliced: 0,
                alone_in_run: u64::MAX,
                overruns: TimeBuckets::new(),
                deficits_expected: 0,
                steps_aside: None,
                hinted_changes: u64::MAX,
                hinted_deadlines: u64::MAX,
                wakers: Vec::new(),
                random: Instant::now().as_nanos() | 1,
                slice_divisor: 1.0,
                recorder: None,
                tracer: None,
                trace_readers: 0,
                stints: stint::Stints::default(),
            }),
            lock: Mutex::new(lock::state::LockState::default()),
            hints: hints::Hints::new(),
            inbox: Inbox::new(),
            park: Park::new(),
            poller: Poller::new()?,
            descriptors: descriptors::Descriptors::new(),
            kicked_at: AtomicU64::new(0),
            requests: AtomicU32::new(0),
            home_waits: AtomicBool::new(false),
            slow_reasons: AtomicU8::new(0),
            collecting: ext::collecting::Collecting::default(),
            may_be_pinned: AtomicBool::new(false),
            retaking: AtomicBool::new(true),
            fork_waits: AtomicBool::new(false),
            thawed: Condvar::new(),
            seat: OnceLock::new(),
            life: OnceLock::new(),
            turns_of_others: AtomicU64::new(0),
            is_expected: AtomicBool::new(true),
            kept: OnceLock::new(),
            endings: ext::halting::Endings::default(),
            wake_up_timer: WakeUpTimer::new()
                .ok()
                .filter(|timer| monitor.listen_for(timer).is_ok()),
            wake_up_at: AtomicU64::new(wake_up::NOT_SET),
            looks: Asked::default(),
            host: stint::HostLoop::new(),
            monitor,
            watch: Mutex::new(decide::PollState::default()),
            parameters,
            counters: Counters::default(),
        });
        expect_one_more();
        Ok(vm)
    }
}

impl Inside<'_> {
    /// Reads or changes the scheduler's state; the calling process is inside the VM.
    /// Operations that may block go through [`Inside::block_on`].
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let me = main.vm.sched(|sched| sched.current());
    ///     assert_eq!(me, Some(main.id));
    /// });
    /// ```
    pub fn sched<R>(&self, f: impl FnOnce(&mut Scheduler<Context>) -> R) -> R {
        self.with_inner(|inner| {
            let result = f(&mut inner.sched);
            if inner.has_changed() {
                self.update_hints(inner);
            }
            result
        })
    }

    /// The native thread of the calling process. Inside the VM.
    pub fn current_carrier(&self) -> CarrierId {
        self.with_inner(|inner| inner.carrier)
    }
}

impl Vm {
    /// How many native threads the VM has, home included.
    ///
    /// ```
    /// use baton_core::vm::HOME;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     assert_eq!(main.vm.current_carrier(), HOME);
    ///     assert_eq!(main.vm.threads(), 1);
    /// });
    /// ```
    pub fn threads(&self) -> usize {
        self.lock_state().live_threads()
    }

    /// How reports name what is the guest's.
    pub fn wording(&self) -> &'static Wording {
        self.guest.wording()
    }

    /// How many native threads belong to the runtime: the VM's, home included, and the monitor's.
    /// Never more than really exist.
    pub fn own_threads(&self) -> usize {
        self.threads() + usize::from(self.monitor.runs())
    }

    /// Starts the monitor, which otherwise starts with the second process.
    pub fn start_monitor(&self) {
        self.monitor.alert();
    }

    /// Has a signal to the program be received by the monitor, if its sender prefers that thread.
    /// All other signals are left to other threads. To be called before the monitor starts.
    pub fn have_monitor_receive(&self, signal: c_int) {
        self.monitor.receive(signal);
    }
}

impl Inside<'_> {
    /// Stops scheduling for good. No other process runs again and no call is retaken. A thread that
    /// returns from a call sleeps for ever. Inside the VM; the caller continues alone.
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     main.spawn(|process| process.note("never"));
    ///     main.vm.stop();
    ///     main.vm.yield_now();
    ///     assert!(main.vm.is_stopped() && main.noted().is_empty());
    /// });
    /// ```
    pub fn stop(&self) {
        self.note_end();
        let state = self.lock_state();
        state.wake_all();
    }
}

impl Vm {
    /// From now on nothing is scheduled, and no object that several VMs share waits for this one.
    fn note_end(&self) {
        // Release: pairs with the acquire loads in the carriers' loops.
        self.slow_reasons
            .fetch_or(slow_reason::ENDED, Ordering::Release);
        if let Some(life) = self.life.get() {
            life.end();
        }
    }

    /// Whether [`Inside::stop`] has been called.
    pub fn is_stopped(&self) -> bool {
        self.has_ended()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.slow_reasons() & slow_reason::ENDED != 0
    }

    /// The present [`slow_reason`] bits.
    #[inline]
    fn slow_reasons(&self) -> u8 {
        // Acquire: pairs with the release in `stop`.
        self.slow_reasons.load(Ordering::Acquire)
    }
}
