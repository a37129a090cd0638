//! Named native threads, and processes that are bound to them.
//!
//! A name has one thread, from the first process that is bound to it until no process is bound to
//! it. Such a thread is reserved for its bound processes:
//!
//! - No call is offloaded to it, and it is not retired.
//! - Other processes run on it only when there is no other thread. Otherwise a long call of such a
//!   process would hold the thread, and the bound processes can run nowhere else.
//!
//! **Other processes do not wait for it.** While a process is out on the thread, the other
//! processes bound to it are kept aside ([`Scheduler::occupy`](crate::sched::Scheduler::occupy)).
//! The VM continues without them.
//!
//! **The bound on threads.** Home and one thread for calls stay without a name, so that calls of
//! unbound processes always get a thread. A name within that limit is never refused just because
//! calls are out: if necessary its thread is started above the bound. While there are too many
//! threads, no other one is started.

use crate::sched::{CarrierId, Next, ProcessId};
use crate::vm::{HOME, Inner, Inside, Vm};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The name of [`HOME`].
pub const HOME_NAME: &str = "main";

/// The least number of threads without a name: home, and one for calls.
const NAMELESS: usize = 2;

/// Why there is no native thread for another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadRefusal {
    /// The largest number of threads already have names.
    Bound {
        /// Threads with names, home not counted.
        named: usize,
        /// The parameter `max_threads`.
        bound: usize,
    },
    /// The system refused to start another thread.
    System,
}

impl fmt::Display for ThreadRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ThreadRefusal::Bound { named, bound } => write!(
                f,
                "no native thread for another name: of {bound} (max_threads), {named} have names, \
                 and {NAMELESS} are home and one for calls"
            ),
            ThreadRefusal::System => {
                f.write_str("no native thread for another name: the system starts no more")
            }
        }
    }
}

impl std::error::Error for ThreadRefusal {}

/// The named threads. The owner's.
#[derive(Debug, Default)]
pub(in crate::vm) struct Names(HashMap<Box<str>, CarrierId>);

impl Names {
    fn of(&self, carrier: CarrierId) -> Option<&str> {
        if carrier == HOME {
            return Some(HOME_NAME);
        }
        let found = self.0.iter().find(|&(_, &named)| named == carrier);
        found.map(|(name, _)| name.as_ref())
    }

    /// All names, by thread.
    pub(in crate::vm) fn by_thread(&self) -> HashMap<CarrierId, String> {
        let named = self
            .0
            .iter()
            .map(|(name, &carrier)| (carrier, name.to_string()));
        named.chain([(HOME, HOME_NAME.to_owned())]).collect()
    }
}

impl Vm {
    /// Makes a process prefer home: it runs on home unless home is out in a retaken call of another
    /// process; then it runs elsewhere. To keep a process on a thread in any case, use
    /// [`Inside::bind_to_thread`]. Before [`Vm::run`]. Returns whether the process is alive.
    ///
    /// # Panics
    /// While the VM runs.
    pub fn prefer_home(&self, process: ProcessId) -> bool {
        self.before_run(|inner| {
            if !inner.sched.is_alive(process) {
                return false;
            }
            inner.sched.set_pin(process, Some(HOME));
            inner.prefers_home = Some(process);
            true
        })
    }
}

impl Inside<'_> {
    /// Binds a process to a native thread, or (`None`) frees it. If it is the calling process, it
    /// moves at once.
    fn bind(&self, process: ProcessId, carrier: Option<CarrierId>) {
        let jump = self.with_inner(|inner| {
            inner.sched.set_pin(process, carrier);
            if inner.prefers_home == Some(process) {
                inner.prefers_home = None;
            }
            self.let_go_of_threads(inner);
            if let Some(carrier) = carrier {
                self.let_go_unless_bound(inner, carrier);
            }
            let me = inner.sched.current()?;
            let leaves = carrier.is_some_and(|carrier| carrier != inner.carrier)
                || self.should_go_home(inner, me);
            if me != process || !leaves {
                return self.plan(inner, me, Next::Same);
            }
            let next = match inner.sched.schedule() {
                // It continues on the thread that it is bound to: the loop hands the VM over.
                Next::Same => Next::Nothing,
                next => next,
            };
            self.plan(inner, me, next)
        });
        self.take(jump);
    }

    /// Binds a process to the native thread of a name; `None` frees it. The thread is created if
    /// there is none. If it is the calling process, it moves at once.
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let child = main.spawn(|process| {
    ///         let bound = process.vm.bind_to_thread(process.id, Some("drawing"));
    ///         bound.expect("there is room for a thread");
    ///         let name = process.vm.thread_name(process.vm.current_carrier());
    ///         assert_eq!(name.as_deref(), Some("drawing"));
    ///     });
    ///     main.join(child);
    /// });
    /// ```
    ///
    /// # Errors
    /// When there can be no thread for another name; then nothing has changed.
    pub fn bind_to_thread(
        &self,
        process: ProcessId,
        name: Option<&str>,
    ) -> Result<(), ThreadRefusal> {
        let carrier = match name {
            Some(name) => Some(self.thread_named(name)?),
            None => None,
        };
        self.bind(process, carrier);
        Ok(())
    }

    /// The names of the named native threads, home included.
    pub fn thread_names(&self) -> HashMap<CarrierId, String> {
        self.with_inner(|inner| inner.names.by_thread())
    }

    /// The name of a native thread, if it has one.
    pub fn thread_name(&self, carrier: CarrierId) -> Option<String> {
        self.with_inner(|inner| inner.names.of(carrier).map(str::to_owned))
    }
}

impl Vm {
    /// The bound on native threads, without the named threads. A hint. On any thread.
    pub fn threads_for_calls(&self) -> usize {
        // Relaxed: a hint; `wait_for_thread` checks the scheduler itself.
        let named = self.hints.named_threads.load(Ordering::Relaxed);
        self.parameters.max_threads().saturating_sub(named)
    }

    fn set_named(&self, inner: &mut Inner, carrier: CarrierId, is_named: bool) {
        inner.sched.set_named(carrier, is_named);
        self.hint_named_threads(inner);
    }

    pub(in crate::vm) fn hint_named_threads(&self, inner: &Inner) {
        // Relaxed: a hint, as above.
        self.hints
            .named_threads
            .store(inner.sched.named_count(), Ordering::Relaxed);
    }
}

impl Inside<'_> {
    /// The thread of a name. A new one is kept only if a process is bound to it before the caller
    /// gives way.
    pub(in crate::vm) fn thread_named(&self, name: &str) -> Result<CarrierId, ThreadRefusal> {
        if name == HOME_NAME {
            return Ok(HOME);
        }
        let vm = super::this_thread::vm_of_this_thread();
        self.with_inner(|inner| match inner.names.0.get(name) {
            Some(&carrier) => Ok(carrier),
            None => vm.name_a_thread(inner, name),
        })
    }
}

impl Vm {
    fn name_a_thread(
        self: &Arc<Vm>,
        inner: &mut Inner,
        name: &str,
    ) -> Result<CarrierId, ThreadRefusal> {
        let (named, bound) = (inner.sched.named_count(), self.parameters.max_threads());
        if named + 1 + NAMELESS > bound {
            return Err(ThreadRefusal::Bound { named, bound });
        }
        let mut state = self.lock_state();
        let carrier = state
            .find_waiting(|carrier, entry| inner.may_take(carrier, entry))
            .or_else(|| self.start_carrier(&mut state, usize::MAX))
            .ok_or(ThreadRefusal::System)?;
        if let Some(entry) = state.entry(carrier) {
            entry.is_named = true;
        }
        drop(state);
        inner.names.0.insert(name.into(), carrier);
        self.set_named(inner, carrier, true);
        // The first thread gets the signals, while the VM may now run on this thread. The monitor
        // brings over the requests of signal handlers.
        self.monitor.alert();
        Ok(carrier)
    }

    /// Removes the names of threads to which no process is bound any more.
    #[inline]
    pub(in crate::vm) fn let_go_of_threads(&self, inner: &mut Inner) {
        while let Some(carrier) = inner.sched.next_unbound() {
            self.let_go(inner, carrier);
        }
    }

    pub(in crate::vm) fn let_go_unless_bound(&self, inner: &mut Inner, carrier: CarrierId) {
        if inner.sched.is_named(carrier) && !inner.sched.is_bound_to(carrier) {
            self.let_go(inner, carrier);
        }
    }

    #[cold]
    fn let_go(&self, inner: &mut Inner, carrier: CarrierId) {
        inner.names.0.retain(|_, named| *named != carrier);
        self.set_named(inner, carrier, false);
        if let Some(entry) = self.lock_state().entry(carrier) {
            entry.is_named = false;
            // The thread waits without a time limit, and may be retired from now on.
            entry.granted.notify_one();
        }
        // Any call may use the thread again.
        inner.wake_next_in_queue();
    }
}

impl Inner {
    /// Makes the process that prefers home run there again, or elsewhere while another process is
    /// out on home or has foreign frames there. To be called when that may have changed.
    pub(in crate::vm) fn settle_homebody(&mut self) {
        if let Some(homebody) = self.prefers_home {
            let wanted = (!self.sched.is_used_by_others(HOME, homebody)).then_some(HOME);
            if self.sched.pin(homebody) != wanted {
                self.sched.set_pin(homebody, wanted);
            }
        }
    }
}
