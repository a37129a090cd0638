//! The executor of one VM: it carries out, with native threads, stacks and waits, what the [`kernel`](crate::kernel) decides.
//!
//! | file | what it does |
//! |---|---|
//! | `mod.rs` | the VM's face: making it, running it, asking it |
//! | `spawning.rs` | new processes, their stacks, and the end of what is kept of them |
//! | `operations.rs` | what a running process may do: yield, wait, suspend, kill |
//! | `at_once.rs` | semaphores and channels where nothing is to be decided |
//! | `switching.rs`, `straight.rs` | from one process to the next; the same where little is to be decided |
//! | `publishing.rs` | what the owner shows the monitor |
//! | `consulting.rs` | a scheduler and switch hooks of the guest's users |
//! | `simulation.rs` | runs that a seed gives again |
//! | `slices.rs`, `debts.rs` | slices of a process's own; the ends of slices, and what is owed for them |
//! | `bell.rs` | what signal handlers may ring |
//! | `carrier.rs` | native threads: the loop on their own stacks, hand-over, retirement |
//! | `affinity.rs` | native threads with names, for processes that are bound to them |
//! | `moving.rs` | calls that are known to be long: the caller goes to another thread |
//! | `turns.rs` | at the bound on threads, calls come to their turn |
//! | `lock.rs` | the slow half of the VM lock: taking, entering cold, leaving |
//! | `descriptors.rs` | waiting for descriptors |
//! | `idle.rs` | posts of other threads; deadlines; when nothing is runnable |
//! | `waiting.rs`, `seats.rs` | the owner's wait: spinning, then parking; how many owners may spin at once |
//! | `watch.rs`, `beat.rs` | what the monitor does for this VM; what it remembers of its questions |
//! | `standstill.rs` | a process that does not give way, of which the user is told |
//! | `calling.rs` | how the owner calls the monitor, and calls it off |
//! | `forking.rs` | what is left of it in a fork's child |
//!
//! Processes wait by [`Vm::attempt`], and here, for one of several things, by [`Vm::attempt_random`]:
//!
//! ```
//! use baton_core::kernel::{Case, Deadline};
//! # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
//! closures::run(|main| {
//!     let (left, right) = main.vm.kernel(|kernel| (kernel.channel_new(0), kernel.channel_new(0)));
//!     let sender = main.spawn(move |process| {
//!         process.vm.attempt(|kernel| kernel.channel_send(right, 42, Deadline::Never));
//!     });
//!     let cases = [Case::Receive(left), Case::Receive(right)];
//!     let wake = main.vm.attempt_random(|kernel, random| kernel.select(&cases, Deadline::Never, random));
//!     assert_eq!((wake.case, wake.value), (1, 42));
//!     main.join(sender);
//!     main.vm.forget(sender); // its place is free for another one
//! });
//! ```
//!
//! And here for a descriptor, by [`Vm::wait_ready`], which tries again each time that it may be ready:
//!
//! ```
//! use baton_core::kernel::{Deadline, Readiness, WakeReason, Watch};
//! use std::io::{Read, Write};
//! use std::os::fd::AsRawFd;
//! use std::os::unix::net::UnixStream;
//! # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
//! closures::run(|main| {
//!     let (mut near, mut far) = UnixStream::pair().expect("a pair of sockets");
//!     near.set_nonblocking(true).expect("a socket may be so");
//!     main.spawn(move |_| far.write_all(b"hello").expect("somebody listens"));
//!     let watch = Watch { descriptor: near.as_raw_fd() as u32, wants: Readiness::READ };
//!     let mut bytes = [0; 5];
//!     let wake = main.vm.wait_ready(&[watch], Deadline::Never, |_| near.read_exact(&mut bytes).is_ok());
//!     assert_eq!(wake.expect("sockets can be waited for").reason, WakeReason::Done);
//!     assert_eq!(&bytes, b"hello");
//! });
//! ```
//!
//! What a process has used can be asked for, and times are absolute within:
//!
//! ```
//! use baton_core::kernel::Deadline;
//! use baton_core::vm::Vm;
//! use std::time::{Duration, Instant};
//! # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
//! closures::run(|main| {
//!     let begin = Instant::now();
//!     while begin.elapsed() < Duration::from_millis(2) {}
//!     assert!(main.vm.cpu_time(main.id) >= Duration::from_millis(1));
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
//! **Who touches what.** `inner` is the owner's; other threads post to `inbox` and kick. `lock` is the VM's
//! mutex: it guards who owns the VM and the list of carriers. `published` is written by the owner and read by the
//! monitor; nothing in it is needed for correctness, only for when the monitor looks.
//!
//! **Lock order.** A VM's watch, then the VM's mutex; the monitor's list of VMs is a leaf. Nobody who holds a VM's mutex enters, waits or calls the guest
//! except for [`Guest::judge`] and [`Guest::warn_blocked`].

mod affinity;
mod at_once;
mod beat;
mod bell;
mod calling;
mod carrier;
mod consulting;
mod debts;
mod descriptors;
mod forking;
mod idle;
mod lock;
mod moving;
mod operations;
mod publishing;
mod seats;
mod simulation;
mod slices;
mod spawning;
mod standstill;
mod straight;
mod switching;
mod turns;
mod waiting;
mod watch;

pub use affinity::{HOME_NAME, ThreadRefusal};
pub use bell::{Bell, Ring};
pub use descriptors::MOST_DESCRIPTORS;
pub use moving::Departure;
pub use spawning::{SpawnError, Spawned};

use crate::counters::Counters;
use crate::guest::Guest;
use crate::kernel::{CarrierId, Edition, Kernel, ProcessId, SemaphoreId, WaitQueueId};
use crate::monitor::Monitor;
use crate::parameters::Parameters;
use crate::spin::Chooser;
use baton_sys::fiber::Fiber;
use baton_sys::inbox::Inbox;
use baton_sys::owner_cell::OwnerCell;
use baton_sys::parking::Park;
use baton_sys::poller::{Alarm, Events, Poller};
use baton_sys::stack::{Stack, StackPool};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};

/// The VM's first native thread.
pub const HOME: CarrierId = CarrierId(0);

/// What the executor keeps for each process.
#[derive(Debug, Default)]
pub struct Context {
    fiber: Option<Fiber>,
    stack: Option<Stack>,
    /// Time on the processor up to the last switch, in nanoseconds.
    busy: u64,
    /// What `busy` was when its slice began. More urgent processes interrupt a slice, they do not begin another one. Earlier, if it has had some of it before; later, if
    /// it has some to its credit (`debts.rs`).
    slice_began: u64,
    /// The length of its slices in microseconds; 0: the parameter.
    slice: u32,
    /// The guest is told when it is left and continued.
    is_hooked: bool,
    /// It gave way to a more urgent one in a simulated run, and has not gone on since.
    is_interrupted: bool,
    /// What `busy` was when its last slice was settled.
    settled_at: u64,
}

/// The owner's data.
pub(crate) struct Inner {
    pub(crate) kernel: Kernel<Context>,
    /// The owner's thread.
    carrier: CarrierId,
    /// The context of the owner's thread itself.
    base: Option<Fiber>,
    stacks: StackPool,
    /// Buffer of the poller.
    /// `None` while the owner waits with it.
    events: Option<Events>,
    /// Whether to spin before parking.
    spin: Chooser,
    /// The stack of the process that ended last: it was still in use while it switched away.
    retired: Option<Stack>,
    /// Where the process goes on that was on its way to the owner's loop.
    departing: Option<CarrierId>,
    /// When the running process was continued (coarse), in nanoseconds.
    run_started: u64,
    turns: turns::Turns,
    /// A process that prefers home, but goes elsewhere while home is out in a call of another process.
    prefers_home: Option<ProcessId>,
    consulting: consulting::Consulting,
    /// What the kernel's changes amounted to when they were published last.
    published: u64,
    names: affinity::Names,
    /// Processes with slices of their own length.
    sliced: usize,
    debts: debts::Debts,
    bells: Vec<Arc<bell::Hung>>,
    /// State of the generator of `select`'s choices, and of a simulated run.
    random: u64,
    /// By how much slices are shorter than the parameter in a simulated run.
    haste: f64,
}

/// Why the running process is asked for a safepoint.
mod request {
    /// Its slice is over.
    pub(super) const SLICE: u32 = 1;
    /// A signal handler left work for the guest.
    pub(super) const SIGNALLED: u32 = 2;
    /// Somebody has rung a bell (see `bell.rs`).
    pub(super) const RUNG: u32 = 4;
}

/// Why switches do not go their straight way from process to process.
mod exception {
    /// Scheduling has stopped for good.
    pub(super) const ENDED: u8 = 1;
    /// The guest wants to be asked or told (see `consulting.rs`).
    pub(super) const CONSULTED: u8 = 2;
    /// A process has slices of its own length (see `slices.rs`).
    pub(super) const SLICED: u8 = 4;
    /// The run is a simulated one (see `simulation.rs`).
    pub(super) const SIMULATED: u8 = 8;
    /// A process has had its next slice before (see `debts.rs`).
    pub(super) const OWING: u8 = 16;
}

/// What other threads ask of the owner.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Post {
    /// The foreign call of this process returned, or called back: then the process has foreign frames on the carrier.
    Returned(ProcessId, Option<CarrierId>),
    /// Make this waiting process runnable with the given value (from foreign threads and signal forwarders).
    Wake(WaitQueueId, u64),
    /// Let this suspended process go on.
    Resume(ProcessId),
    /// Signal this semaphore, once.
    Signal(SemaphoreId),
    /// This edition of a descriptor was closed, and somebody waits for it.
    Closed(u32, Edition),
    /// Whoever waits for this descriptor tries again.
    TryAgain(u32),
}

/// One VM: a guest heap with its processes.
pub struct Vm {
    guest: Arc<dyn Guest>,
    inner: OwnerCell<Inner>,
    lock: Mutex<lock::LockState>,
    published: publishing::Published,
    inbox: Inbox<Post>,
    park: Park,
    poller: Poller,
    descriptors: descriptors::Descriptors,
    /// When the owner's poller was kicked last, in nanoseconds: what a park costs is learned from it.
    kicked_at: AtomicU64,
    requests: AtomicU32,
    /// Whether home waits for the VM while another thread has it.
    home_waits: AtomicBool,
    /// What takes switches off their straight way; see [`exception`].
    exceptions: AtomicU8,
    /// Whether foreign calls may be retaken now.
    retaking: AtomicBool,
    /// A thread is about to fork and waits for the owner to stand aside; guarded by the VM's mutex, also read as a hint.
    fork_waits: AtomicBool,
    /// Notified when `fork_waits` was cleared.
    thawed: Condvar,
    /// This VM, once one of its processes has forked.
    kept: OnceLock<&'static Arc<Vm>>,
    monitor: Arc<Monitor>,
    /// Wakes the monitor at `alarm_at`; none where systems have no such timers.
    alarm: Option<Alarm>,
    /// In nanoseconds, or [`calling::NOT_SET`]; see `calling.rs`.
    alarm_at: AtomicU64,
    watch: Mutex<watch::Watch>,
    /// Parameters, settable while running.
    pub parameters: Parameters,
    /// Counts, always on.
    pub counters: Counters,
}

impl std::fmt::Debug for Vm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vm")
            .field("published", &self.published)
            .finish_non_exhaustive()
    }
}

impl Vm {
    /// A VM for `guest`, without processes yet; [`Vm::run`] starts it.
    ///
    /// # Errors
    /// When the system refuses a poller or address space for stacks.
    pub fn new(guest: Arc<dyn Guest>) -> io::Result<Arc<Vm>> {
        baton_sys::forking::at_fork(forking::AT_FORK)?;
        let parameters = Parameters::default();
        let mut kernel = Kernel::default();
        let turns = turns::Turns::new(kernel.wait_queue_new());
        let monitor = Monitor::of_this_program()?;
        let vm = Arc::new(Vm {
            guest,
            inner: OwnerCell::new(Inner {
                kernel,
                turns,
                carrier: HOME,
                base: None,
                stacks: StackPool::new(parameters.stack_size())?,
                events: Some(Events::new()),
                spin: Chooser::new(parameters.spinning()),
                retired: None,
                departing: None,
                run_started: 0,
                prefers_home: None,
                consulting: consulting::Consulting::default(),
                names: affinity::Names::default(),
                sliced: 0,
                debts: debts::Debts::new(),
                published: u64::MAX,
                bells: Vec::new(),
                random: baton_sys::clock::Instant::now().as_nanos() | 1,
                haste: 1.0,
            }),
            lock: Mutex::new(lock::LockState::default()),
            published: publishing::Published::new(),
            inbox: Inbox::new(),
            park: Park::new(),
            poller: Poller::new()?,
            descriptors: descriptors::Descriptors::new(),
            kicked_at: AtomicU64::new(0),
            requests: AtomicU32::new(0),
            home_waits: AtomicBool::new(false),
            exceptions: AtomicU8::new(0),
            retaking: AtomicBool::new(true),
            fork_waits: AtomicBool::new(false),
            thawed: Condvar::new(),
            kept: OnceLock::new(),
            alarm: Alarm::new().ok().filter(|alarm| monitor.listen_for(alarm).is_ok()),
            alarm_at: AtomicU64::new(calling::NOT_SET),
            monitor,
            watch: Mutex::new(watch::Watch::default()),
            parameters,
            counters: Counters::default(),
        });
        Ok(vm)
    }

    /// Reads or changes the scheduler's state; the calling process is inside the VM.
    /// Operations that may block go through [`Vm::attempt`].
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let me = main.vm.kernel(|kernel| kernel.current());
    ///     assert_eq!(me, Some(main.id));
    /// });
    /// ```
    pub fn kernel<R>(&self, f: impl FnOnce(&mut Kernel<Context>) -> R) -> R {
        self.inner.with(|inner| {
            let result = f(&mut inner.kernel);
            if inner.has_changed() {
                self.publish(inner);
            }
            result
        })
    }

    /// The native thread that the calling process is on; inside the VM.
    pub fn current_carrier(&self) -> CarrierId {
        self.inner.with(|inner| inner.carrier)
    }

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

    /// Native threads of the program that it did not make itself: the VM's, and the monitor's. At most as many as there are.
    pub fn own_threads(&self) -> usize {
        self.threads() + usize::from(self.monitor.runs())
    }

    /// To be called inside the VM after parameters were set: whoever waits by what they were before looks again, or is woken.
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     main.vm.parameters.set_max_threads(8);
    ///     main.vm.parameters_changed();
    ///     assert_eq!(main.vm.threads_for_calls(), 8);
    /// });
    /// ```
    pub fn parameters_changed(&self) {
        self.inner.with(|inner| {
            // There may be more native threads now, and deadlines may be met sooner.
            inner.call_next();
            self.publish(inner);
        });
        // Threads that wait may have less patience.
        self.lock_state().wake_all();
        self.heed_beat();
    }

    /// To be called when the parameter `beat` may have another value: the monitor looks at it.
    pub fn heed_beat(&self) {
        if self.parameters.beat.get().is_zero() {
            self.monitor.alert_if_started();
        } else {
            self.monitor.alert();
        }
    }

    /// Stops scheduling for good: no other process runs again, no call is retaken, threads that return sleep for ever.
    /// Inside the VM; the caller goes on alone.
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
        // Release: pairs with the acquire loads in the carriers' loops.
        self.exceptions.fetch_or(exception::ENDED, Ordering::Release);
        let state = self.lock_state();
        state.wake_all();
    }

    /// Whether [`Vm::stop`] has been called.
    pub fn is_stopped(&self) -> bool {
        self.has_ended()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.exceptions() & exception::ENDED != 0
    }

    /// What takes switches off their straight way now.
    #[inline]
    fn exceptions(&self) -> u8 {
        // Acquire: pairs with the release in `stop`.
        self.exceptions.load(Ordering::Acquire)
    }
}
