//! The idle owner, posts of other threads, and deadlines.

use crate::sched::WakeReason;
use crate::spin::Source;
use crate::trace::What;
use crate::vm::ext::turnstile::Idled;
use crate::vm::idle::others::Others;
use crate::vm::{HOME, Inner, Inside, Post, Vm};
use baton_sys::clock::Instant;
use baton_sys::parking::Notify;
use baton_sys::{gate, membarrier, signals};
use std::sync::atomic::Ordering;

/// The result of a deadlock report to the guest.
#[must_use]
pub(in crate::vm) enum AfterReport {
    /// The deadlock remains; report it again at this time.
    WaitUntil(Option<Instant>),
    /// Something has happened meanwhile.
    HasEnded,
}

impl Vm {
    /// Hands `post` to the owner from any native thread, and makes the owner notice it.
    pub(crate) fn post(&self, post: Post) {
        // Kicked in any case: the owner may be about to sleep although the inbox was not empty.
        let _ = self.inbox.post(post);
        self.kick();
    }

    /// Makes the owner read its inbox and its requests soon: at once if it waits, at the next
    /// safepoint if it runs. Async-signal-safe while the owner waits or the monitor is awake.
    pub fn kick(&self) {
        match self.park.notify() {
            Notify::MustKick => self.kick_poller(),
            Notify::OwnerSpins => {}
            Notify::OwnerIsRunning => self.monitor.alert(),
            Notify::AlreadyNotified => self.alert_sleeping_monitor(),
        }
    }

    /// Alerts a resting monitor. An earlier notification may have been for a post that the owner
    /// had taken in already, so that the monitor found nothing and rests.
    fn alert_sleeping_monitor(&self) {
        if self.may_poll_late() {
            self.monitor.alert();
        }
    }

    /// Whether the monitor, if it is not alerted, may find a notification only later than a tick.
    fn may_poll_late(&self) -> bool {
        // Pairs with `heavy` in the monitor's rest: either the monitor sees the post, or it is seen
        // resting here.
        membarrier::light();
        self.monitor.may_poll_late()
    }

    /// Wakes one waiter of `queue` with `value`, from any native thread.
    ///
    /// ```
    /// use baton_core::sched::Deadline;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let queue = main.vm.sched(|sched| sched.wait_queue_new());
    ///     let vm = main.vm.to_arc();
    ///     let thread = std::thread::spawn(move || vm.wake_from_outside(queue, 42));
    ///     let wake = main.vm.block_on(|sched| sched.wait(queue, Deadline::Never));
    ///     assert_eq!(wake.value, 42);
    ///     thread.join().expect("it posts, and ends");
    /// });
    /// ```
    pub fn wake_from_outside(&self, queue: crate::sched::WaitQueueId, value: u64) {
        self.post(Post::Wake(queue, value));
    }

    /// Resumes a suspended process, from any native thread.
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let (vm, me) = (main.vm.to_arc(), main.id);
    ///     let thread = std::thread::spawn(move || vm.resume_from_outside(me));
    ///     // The owner takes the post in when it waits or reaches a safepoint, so not before this.
    ///     let _ = main.vm.suspend(main.id);
    ///     thread.join().expect("it posts, and ends");
    /// });
    /// ```
    pub fn resume_from_outside(&self, process: crate::sched::ProcessId) {
        self.post(Post::Resume(process));
    }

    /// Signals a semaphore once, from any native thread.
    ///
    /// ```
    /// use baton_core::sched::Deadline;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let semaphore = main.vm.sched(|sched| sched.semaphore_new(0));
    ///     let vm = main.vm.to_arc();
    ///     let thread = std::thread::spawn(move || vm.signal_from_outside(semaphore));
    ///     main.vm.block_on(|sched| sched.semaphore_wait(semaphore, Deadline::Never));
    ///     thread.join().expect("it posts, and ends");
    /// });
    /// ```
    pub fn signal_from_outside(&self, semaphore: crate::sched::SemaphoreId) {
        self.post(Post::Signal(semaphore));
    }

    /// Has [`Guest::signalled`](crate::guest::Guest::signalled) called inside the VM soon. For
    /// signal handlers: it only sets a bit and kicks.
    ///
    /// ```
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     main.vm.request_signalled();
    ///     main.vm.safepoint();
    ///     assert_eq!(main.noted(), ["a signal"]); // by this guest's `signalled`
    /// });
    /// ```
    pub fn request_signalled(&self) {
        let _ = self.request(crate::vm::request::SIGNALLED);
    }

    /// Sets a bit of the requests, and makes the owner read it. Returns what the owner was doing.
    /// Async-signal-safe.
    pub(in crate::vm) fn request(&self, bit: u32) -> Notify {
        // Release: pairs with the swap in `safepoint`, and with `idle` and `serve_wakers`.
        self.requests.fetch_or(bit, Ordering::Release);
        let notified = self.park.notify();
        match notified {
            Notify::MustKick => self.kick_poller(),
            Notify::OwnerSpins => {}
            Notify::OwnerIsRunning | Notify::AlreadyNotified => {
                if !self.preempt_if_inside() || self.may_poll_late() {
                    self.monitor.alert_from_signal_handler();
                }
            }
        }
        notified
    }

    /// Requests a safepoint as the monitor would, if the calling thread is inside this VM: then it
    /// is the owner's, interrupted by a signal. Returns whether it is. Async-signal-safe.
    fn preempt_if_inside(&self) -> bool {
        let here = gate::here();
        let is_owner = here.carrier().is_some() && here.is_inside() && self.is_of_this_thread();
        if is_owner {
            here.set_attention();
            signals::preempt_this_thread();
        }
        is_owner
    }
}

impl Inside<'_> {
    /// Takes in posts, wakers and expired deadlines. Inside the VM.
    pub(in crate::vm) fn harvest(&self) {
        self.park.acknowledge();
        // Relaxed: the forking thread repeats its check.
        if self.fork_waits.load(Ordering::Relaxed) {
            self.stand_aside();
        }
        self.with_inner(|inner| {
            inner.sched.set_from_outside(true);
            if !self.inbox.is_empty() {
                for post in self.inbox.take_all() {
                    match post {
                        Post::Returned {
                            process,
                            pinned,
                            at,
                            cpu,
                        } => {
                            inner.trace_at(at, || What::CallEnds { process });
                            inner.charge_call(process, cpu);
                            if pinned.is_some() {
                                self.pin(inner, process, pinned);
                            }
                            let from_home = inner.sched.occupant(HOME) == Some(process);
                            inner.sched.end_foreign(process);
                            if from_home {
                                inner.settle_homebody();
                            }
                            inner.wake_next_in_queue();
                            self.request_end(inner, process);
                        }
                        Post::Wake(queue, value) => {
                            let _ = inner.sched.wake_one(queue, WakeReason::Done, value);
                        }
                        Post::Resume(process) => {
                            let _ = inner.sched.resume(process);
                        }
                        Post::Signal(semaphore) => {
                            inner.sched.semaphore_signal(semaphore, 1);
                        }
                        Post::Shared(wait) => {
                            inner.sched.shared_wake(wait);
                        }
                    }
                }
            }
            self.serve_wakers(inner);
            inner.sched.set_from_outside(false);
            if inner.sched.next_deadline().is_some() {
                let ask = |user_data| self.guest.request_safepoint(user_data);
                inner.sched.expire_and_ask(self.due_by(), ask);
            }
        });
        if self.with_inner(|inner| !inner.held_threads.is_empty()) {
            self.report_held_threads();
        }
    }
}

impl Vm {
    /// The time for which to set the wait for the earliest deadline, or for the next report on a
    /// held thread.
    pub(in crate::vm) fn next_deadline(&self, inner: &Inner) -> Option<Instant> {
        let earliest = self.deadline_of_scheduler(inner);
        if inner.held_threads.is_empty() {
            return earliest;
        }
        let to_report = inner.held_threads.next(self.parameters.warn_blocked.get());
        [earliest, to_report].into_iter().flatten().min()
    }

    /// The earliest deadline. With slack it is later, so that one wake-up serves all deadlines that
    /// are due by then.
    #[inline]
    pub(in crate::vm) fn deadline_of_scheduler(&self, inner: &Inner) -> Option<Instant> {
        let earliest = inner.sched.next_deadline()?.as_nanos();
        let slack = self.parameters.timer_slack.nanos();
        Some(Instant::from_nanos(earliest.saturating_add(slack)))
    }
}

impl Inside<'_> {
    /// Waits for the next deadline, a descriptor or a kick, as no process is runnable.
    pub(in crate::vm) fn idle(&self) {
        let (deadline, source, dead) = self.with_inner(|inner| {
            self.update_hints(inner);
            let calls_are_out = inner.sched.foreign_count() > 0;
            let source = if calls_are_out {
                Source::Calls
            } else {
                Source::Outside
            };
            let dead = inner.sched.all_blocked() && !calls_are_out && !inner.has_wakers();
            (self.next_deadline(inner), source, dead)
        });
        match if dead {
            self.report_deadlock()
        } else {
            AfterReport::WaitUntil(deadline)
        } {
            AfterReport::WaitUntil(deadline) => {
                match self.idle_among_vms(deadline.map(Vm::effect_of), dead) {
                    Idled::Over => {}
                    Idled::Outside(until) => self.wait(source, Some(until)),
                    Idled::Alone if self.pass_time(deadline) => {}
                    Idled::Alone => {
                        self.trace_idle(true);
                        self.wait(source, deadline);
                        self.trace_idle(false);
                    }
                }
            }
            AfterReport::HasEnded => {}
        }
        self.end_wait_for_others();
        self.park.finish();
        self.serve_requests();
    }

    /// Does what signal handlers and threads that look have requested, in the owner's loop.
    pub(in crate::vm) fn serve_requests(&self) {
        // AcqRel: pairs with `request`.
        let requests = self.requests.fetch_and(
            !(crate::vm::request::SIGNALLED | crate::vm::request::LOOK),
            Ordering::AcqRel,
        );
        if requests & crate::vm::request::SIGNALLED != 0 {
            self.guest.signalled(self);
        }
        self.serve_looks_if_asked(requests);
    }

    /// Reports a deadlock to the guest, unless something has happened meanwhile. As far as the
    /// owner knows, no process can ever run.
    pub(in crate::vm) fn report_deadlock(&self) -> AfterReport {
        if !self.may_park() {
            return AfterReport::HasEnded;
        }
        self.park.finish();
        if let Some(later) = self.guest.may_be_woken(self) {
            return AfterReport::WaitUntil(Some(Instant::now() + later));
        }
        let waits_for_others = self.with_inner(|inner| inner.sched.shared_waits() > 0);
        // Between two stints a host may act for its VM as well as other VMs may.
        if waits_for_others && (self.is_in_stint() || self.wait_for_others() == Others::MayAct) {
            return AfterReport::WaitUntil(None);
        }
        if self.has_reported_deadlock() {
            return AfterReport::WaitUntil(None);
        }
        let report_again = self.guest.deadlocked(self);
        // The report may have changed anything. A post before `finish` has only kicked the poller.
        let still_dead = self.with_inner(|inner| inner.sched.all_blocked());
        if !still_dead || self.has_ended() || !self.inbox.is_empty() || self.signal_is_due() {
            return AfterReport::HasEnded;
        }
        AfterReport::WaitUntil(report_again.map(|later| Instant::now() + later))
    }
}

impl Vm {
    /// Whether a signal handler has made a request or used a waker, or another thread wants to
    /// look.
    pub(in crate::vm) fn signal_is_due(&self) -> bool {
        // Acquire: pairs with `request`.
        self.requests.load(Ordering::Acquire)
            & (crate::vm::request::SIGNALLED | crate::vm::request::WOKEN | crate::vm::request::LOOK)
            != 0
    }

    /// Whether a signal handler has made a request or used a waker. A look is no work for which a
    /// call should be retaken: the thread that looks asks the owner itself.
    pub(in crate::vm) fn handler_waits(&self) -> bool {
        // Acquire: pairs with `request`.
        self.requests.load(Ordering::Acquire)
            & (crate::vm::request::SIGNALLED | crate::vm::request::WOKEN)
            != 0
    }
}
