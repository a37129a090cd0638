//! The scheduler: which process runs, what the others wait for, and when they continue.
//!
//! It is a plain, single-threaded state machine. It reads no clock, starts no thread, switches no
//! stack and knows no guest. The executor passes the time in and calls an operation. The
//! result says which process to run ([`Next`]), or whether the caller must switch away
//! ([`Attempt`]). Then the executor carries that out. So the scheduler is tested without threads.
//! Only the VM's owner uses it.
//!
//! ```
//! use baton_core::sched::{Attempt, Deadline, Scheduler, Next, Priority, SpawnOptions, WakeReason};
//!
//! let mut sched: Scheduler<()> = Scheduler::new(100); // room for a hundred processes
//! let low = sched.spawn(SpawnOptions::default(), ())?;
//! assert_eq!(sched.schedule(), Next::Other(low));
//!
//! // `low` locks a mutex; then a more urgent process preempts it.
//! let mutex = sched.mutex_new();
//! assert!(matches!(sched.mutex_lock(mutex, Deadline::Never), Ok(Attempt::Ready(_))));
//! let urgent = Priority::new(60).expect("from 1 to 80");
//! let high = sched.spawn(SpawnOptions { priority: urgent, ..SpawnOptions::default() }, ())?;
//! assert!(sched.current_should_yield());
//! assert_eq!(sched.schedule(), Next::Other(high));
//!
//! // It waits for the mutex. The owner inherits its priority and runs.
//! assert_eq!(sched.mutex_lock(mutex, Deadline::Never), Ok(Attempt::Blocked));
//! assert_eq!(sched.schedule(), Next::Other(low));
//! assert_eq!(sched.effective_priority(low), urgent);
//!
//! // The unlock hands the mutex over, and ends the inheritance.
//! sched.mutex_unlock(mutex).expect("it is the owner");
//! assert_eq!(sched.schedule(), Next::Other(high));
//! assert_eq!(sched.take_wake(high).reason, WakeReason::Done);
//! assert_eq!(sched.effective_priority(low), Priority::DEFAULT);
//! # Ok::<(), baton_core::sched::ProcessLimit>(())
//! ```
//!
//! # What processes wait for
//!
//! A guest calls these methods of [`Scheduler`] through its [`Vm`](crate::vm::Vm). Which method of
//! `Vm` it is decides what may happen to the calling process:
//!
//! | `Vm` | for operations that | the calling process |
//! |---|---|---|
//! | [`block_on`](crate::vm::Inside::block_on) | may wait: they return an [`Attempt`] | waits if it must, and gets a [`Wake`] |
//! | [`with_sched`](crate::vm::Inside::with_sched) | may wake processes | gives way if a more urgent one was woken |
//! | [`sched`](crate::vm::Inside::sched) | ask, make or free something | continues |
//!
//! | object | make | wait | wake | free |
//! |---|---|---|---|---|
//! | process | [`Inside::spawn`](crate::vm::Inside::spawn) | [`join`](Scheduler::join) | by its end | [`Inside::forget`](crate::vm::Inside::forget) |
//! | time | - | [`sleep`](Scheduler::sleep) | by itself | - |
//! | semaphore | [`semaphore_new`](Scheduler::semaphore_new) | [`semaphore_wait`](Scheduler::semaphore_wait) | [`semaphore_signal`](Scheduler::semaphore_signal) | [`semaphore_free`](Scheduler::semaphore_free) |
//! | mutex | [`mutex_new`](Scheduler::mutex_new) | [`mutex_lock`](Scheduler::mutex_lock) | [`mutex_unlock`](Scheduler::mutex_unlock) | [`mutex_free`](Scheduler::mutex_free) |
//! | rwlock | [`rwlock_new`](Scheduler::rwlock_new) | [`rwlock_read`](Scheduler::rwlock_read), [`rwlock_write`](Scheduler::rwlock_write) | [`rwlock_unlock`](Scheduler::rwlock_unlock) | [`rwlock_free`](Scheduler::rwlock_free) |
//! | condition | [`condition_new`](Scheduler::condition_new) | [`condition_wait`](Scheduler::condition_wait) | [`condition_signal`](Scheduler::condition_signal), [`condition_broadcast`](Scheduler::condition_broadcast) | [`condition_free`](Scheduler::condition_free) |
//! | event | [`event_new`](Scheduler::event_new) | [`event_wait`](Scheduler::event_wait) | [`event_set`](Scheduler::event_set) | [`event_free`](Scheduler::event_free) |
//! | barrier | [`barrier_new`](Scheduler::barrier_new) | [`barrier_wait`](Scheduler::barrier_wait) | by the last wait | [`barrier_free`](Scheduler::barrier_free) |
//! | channel | [`channel_new`](Scheduler::channel_new) | [`channel_send`](Scheduler::channel_send), [`channel_receive`](Scheduler::channel_receive) | the other of the two, [`channel_close`](Scheduler::channel_close) | [`channel_free`](Scheduler::channel_free) |
//! | alarm | [`alarm_new`](Scheduler::alarm_new) | [`alarm_wait`](Scheduler::alarm_wait) | by itself | [`alarm_free`](Scheduler::alarm_free) |
//! | wait queue | [`wait_queue_new`](Scheduler::wait_queue_new) | [`wait`](Scheduler::wait) | [`wake_one`](Scheduler::wake_one), [`wake_all`](Scheduler::wake_all) | [`wait_queue_free`](Scheduler::wait_queue_free) |
//! | several objects | - | [`Inside::select`](crate::vm::Inside::select) | by any of them | - |
//! | descriptor | - | [`Inside::wait_ready`](crate::vm::Inside::wait_ready) | by the system | [`Inside::descriptor_closes`](crate::vm::Inside::descriptor_closes) |
//!
//! Every wait has a [`Deadline`], and ends early when its process is killed. To free an object ends
//! the waits for it with [`WakeReason::Closed`].
//!
//! # Map
//!
//! | file or folder | what it holds |
//! |---|---|
//! | `ids.rs`, `answers.rs` | arguments and results of its operations |
//! | `process.rs`, `slab.rs`, `room.rs` | slots, by index and generation; reserved memory |
//! | `run/` | the run queue, and the choice of the next process |
//! | `wait/` | wait queues; the one way into a wait and the one way out |
//! | `life/` | spawn, join, suspend, kill, critical sections, fork |
//! | `sync/` | objects that processes wait for: locks, channels, descriptors and others |
//! | `time/` | deadlines, timers, alarms, due times |
//! | `report/` | states, lock cycles, names, counts |
//!
//! # Invariants
//!
//! 1. A process is in exactly one place, which its phase names. That is the ring of its level, the
//!    ring of its occupied carrier, or nowhere; or it waits: in wait queues and the heap of
//!    deadlines.
//! 2. The current process is the first in the ring of its level. One exception: if its own carrier
//!    was occupied while it ran, it is kept aside until it gives way.
//! 3. Only processes in the phase `Waiting` have waiter nodes. A wait ends once.
//! 4. A process whose kill is due is not blocked. One exception: a process that was killed in a
//!    condition's wait first gets its mutex back; a second kill ends that as well.
//! 5. Within one priority, processes are served first come, first served. Exceptions: the order of
//!    processes with due times, and processes that are skipped for a deficit.
//! 6. A stale process id counts as a dead process, a stale object id as a closed object. Nothing
//!    panics.
//!
//! # Words
//!
//! - *Current*: the process that runs.
//! - *Runnable*: a process that may be chosen.
//! - *Kept aside*: a process that could run, but only on a native thread that is out in a foreign
//!   call of another process.
//! - *Wait*: it ends with a [`Wake`].
//! - *Hold*: a process that holds kills defers its first kill.

mod answers;
mod ids;
mod life;
mod process;
mod report;
mod room;
mod run;
mod slab;
mod sync;
mod time;
mod wait;

#[cfg(test)]
mod tests;

use crate::time_buckets::TimeBuckets;
use baton_sys::clock::Instant;
use std::collections::HashMap;

pub use answers::{
    Attempt, Deadline, KillOutcome, Next, NotCritical, NotOwner, Preemption, Priority,
    ProcessLimit, Recursive, ResumeOutcome, SharedKind, State, SuspendOutcome, Wake, WakeReason,
};
pub use ids::{
    BarrierId, CarrierId, ChannelId, ConditionId, EventId, MutexId, ProcessId, RwLockId,
    SemaphoreId, SharedWaitId, TimerId, WaitQueueId,
};
pub use life::spawn::SpawnOptions;
pub use report::census::{CensusRow, Partner, Role};
pub use report::counters::SchedCounters;
pub use report::cycles::Link;
pub use report::labels::{describe_object, describe_others};
pub use report::listing::Blocker;
pub use report::objects::{WaitClass, WaitObject};
pub use report::rings::{WaitRing, describe_ring, rings};
pub use report::waits::{ThreadNames, Wording, describe_cycle, describe_row, describe_wait};
pub(crate) use report::waits::{write_process, write_wait};
pub use run::choose::RunQueueSummary;
pub use run::handoff::Handoff;
pub use sync::condition::Signal;
pub use sync::readiness::{Edition, Readiness, Watch};
pub use sync::select::Case;
pub use time::timer::TimerStats;
pub use wait::first_look::{FirstLook, FirstWaiter, WaitPlace};
pub(crate) use wait::noted::NotedWake;

use process::{PHASES, Phase, ProcessTable};
use run::carriers;
use run::run_queue::RunQueue;
use slab::{NIL, Slab};
use sync::{barrier, channel, condition, event, mutex, rwlock, semaphore, shared};
use time::deadlines::Deadlines;
use time::timer;
use wait::noted::NotedWakes;
use wait::waiters::{WaitQueue, Waiters};

/// All processes of one VM, and the objects that they wait for. `C` is the executor's data of each
/// process; the scheduler only stores it. Guarded by the VM lock: only the VM's owner uses it.
#[derive(Debug)]
pub struct Scheduler<C> {
    /// The process that runs, or `NIL`.
    current: u32,
    /// The process that ran last, while none is current.
    last: u32,
    run_queue: RunQueue,
    /// How many living processes have a due time.
    with_due_time: u32,
    processes: ProcessTable,
    counters: SchedCounters,
    /// How late waits and sleeps ended and timers fired.
    lateness: TimeBuckets,
    /// How many processes are in each phase.
    census: [u32; PHASES],
    deadlines: Deadlines,
    waiters: Waiters,
    carriers: Vec<carriers::Carrier>,
    /// How many processes are pinned, to any carrier.
    pinned_processes: u32,
    /// How many carriers have names.
    named_carriers: usize,
    /// Places of named carriers to which no process is bound any more. The executor takes them.
    unbound: Vec<u32>,
    /// The executor's data of each process, at the place of its slot.
    payloads: Vec<C>,
    limit: u32,
    /// How many processes were spawned or fired, and have not ended.
    live: u32,
    /// How many of them are no daemons: the end of the program waits for these.
    live_non_daemons: u32,
    /// The latest time passed to the scheduler.
    now: Instant,
    /// The processes that wait until all others have ended.
    rest: WaitQueue,
    /// How many timers are pending.
    pending_timers: usize,
    semaphores: Slab<semaphore::Semaphore>,
    mutexes: Slab<mutex::Mutex>,
    conditions: Slab<condition::Condition>,
    events: Slab<event::Event>,
    rwlocks: Slab<rwlock::RwLock>,
    holds: rwlock::Holds,
    barriers: Slab<barrier::Barrier>,
    channels: Slab<channel::Channel>,
    /// The channels that get values from outside.
    fed_channels: Vec<ChannelId>,
    queues: Slab<WaitQueue>,
    /// The wait queues of descriptors, by number.
    descriptors: Vec<Option<WaitQueue>>,
    /// How many waits for descriptors are in progress.
    watching: u32,
    shared_waits: Slab<shared::SharedWait>,
    /// How many waits for objects that several VMs share are in progress.
    waiting_for_shared: u32,
    timers: Slab<timer::Timer>,
    /// Names of objects, for reports.
    names: HashMap<Blocker, Box<str>>,
    /// Names of processes, for reports.
    process_names: HashMap<ProcessId, Box<str>>,
    /// Waits that have ended, while these are noted.
    wakes: NotedWakes,
}

impl<C> Scheduler<C> {
    /// The most processes that a VM can have, whatever its limit.
    pub const MOST_PROCESSES: u32 = (1 << 31) - 1;

    /// Creates a scheduler without processes. It allows `limit` of them at a time, including dead
    /// ones that were not forgotten.
    pub fn new(limit: u32) -> Scheduler<C> {
        let mut waiters = Waiters::new();
        let rest = waiters.make_queue();
        Scheduler {
            current: NIL,
            last: NIL,
            run_queue: RunQueue::new(),
            with_due_time: 0,
            processes: ProcessTable::new(),
            counters: SchedCounters::default(),
            lateness: TimeBuckets::new(),
            census: [0; PHASES],
            deadlines: Deadlines::new(),
            waiters,
            carriers: Vec::new(),
            pinned_processes: 0,
            named_carriers: 0,
            unbound: Vec::new(),
            payloads: Vec::new(),
            limit: limit.min(Self::MOST_PROCESSES),
            live: 0,
            live_non_daemons: 0,
            now: Instant::from_nanos(0),
            rest,
            pending_timers: 0,
            semaphores: Slab::new(),
            mutexes: Slab::new(),
            conditions: Slab::new(),
            events: Slab::new(),
            rwlocks: Slab::new(),
            holds: rwlock::Holds::new(),
            barriers: Slab::new(),
            channels: Slab::new(),
            fed_channels: Vec::new(),
            queues: Slab::new(),
            descriptors: Vec::new(),
            watching: 0,
            shared_waits: Slab::new(),
            waiting_for_shared: 0,
            timers: Slab::new(),
            names: HashMap::new(),
            process_names: HashMap::new(),
            wakes: NotedWakes::default(),
        }
    }

    /// The limit on the number of processes.
    pub fn process_limit(&self) -> u32 {
        self.limit
    }

    /// Sets the limit on the number of processes. Existing processes stay.
    pub fn set_process_limit(&mut self, limit: u32) {
        self.limit = limit.min(Self::MOST_PROCESSES);
    }

    /// The current process.
    #[inline]
    pub fn current(&self) -> Option<ProcessId> {
        (self.current != NIL).then(|| self.processes.id(self.current))
    }

    /// Whether `pid` is the current process.
    #[inline]
    pub fn is_current(&self, pid: ProcessId) -> bool {
        let slot = self.processes.slots.get(pid.index as usize);
        pid.index == self.current && slot.is_some_and(|it| it.generation == pid.generation)
    }

    /// Moves a process to another phase, and updates the census.
    #[inline]
    fn set_phase(&mut self, index: u32, phase: Phase) {
        let process = &mut self.processes[index];
        self.census[process.phase as usize] -= 1;
        self.census[phase as usize] += 1;
        process.phase = phase;
    }

    #[inline]
    fn count_of(&self, phase: Phase) -> usize {
        self.census[phase as usize] as usize
    }
}

impl<C> Default for Scheduler<C> {
    /// A scheduler with the highest limit.
    fn default() -> Self {
        Scheduler::new(Self::MOST_PROCESSES)
    }
}
