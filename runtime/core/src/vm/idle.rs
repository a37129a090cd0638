//! The owner's wait, what other threads post, and what is due.

use super::{HOME, Inner, Post, Vm};
use crate::kernel::{Readiness, WakeReason};
use crate::spin::Source;
use baton_sys::clock::Instant;
use baton_sys::membarrier;
use baton_sys::parking::Notify;

/// What came of telling the guest that no process can go on.
#[must_use]
enum Told {
    /// Nothing; by then it is to be told again.
    WaitUntil(Option<Instant>),
    /// Something has happened meanwhile.
    HasEnded,
}

impl Vm {
    /// Hands something to the owner from any native thread, and sees to it that the owner notices.
    pub(crate) fn post(&self, post: Post) {
        // Kicked in any case: the owner may be about to sleep although the inbox was not empty.
        let _ = self.inbox.post(post);
        self.kick();
    }

    /// Has the owner look at its inbox and its requests soon: at once if it waits, at the next safepoint if it runs.
    /// Async-signal-safe as long as the owner waits or the monitor is awake.
    pub fn kick(&self) {
        match self.park.notify() {
            Notify::MustKick => self.kick_poller(),
            Notify::OwnerSpins => {}
            Notify::OwnerIsRunning => self.monitor.alert(),
            Notify::AlreadyNotified => self.alert_sleeping_monitor(),
        }
    }

    /// The earlier notification may have been for a post that was taken in before it, so that the monitor found nothing and parked.
    fn alert_sleeping_monitor(&self) {
        // Pairs with `heavy` in the monitor's parking: it sees the post, or is seen parked.
        membarrier::light();
        if self.monitor.may_look_late() {
            self.monitor.alert();
        }
    }

    /// Wakes one waiter of `queue` with `value`, from any native thread.
    ///
    /// ```
    /// use baton_core::kernel::Deadline;
    /// use std::sync::Arc;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let queue = main.vm.kernel(|kernel| kernel.wait_queue_new());
    ///     let vm = Arc::clone(&main.vm);
    ///     let thread = std::thread::spawn(move || vm.wake_from_outside(queue, 42));
    ///     let wake = main.vm.attempt(|kernel| kernel.wait(queue, Deadline::Never));
    ///     assert_eq!(wake.value, 42);
    ///     thread.join().expect("it posts, and ends");
    /// });
    /// ```
    pub fn wake_from_outside(&self, queue: crate::kernel::WaitQueueId, value: u64) {
        self.post(Post::Wake(queue, value));
    }

    /// Lets a suspended process go on, from any native thread.
    ///
    /// ```
    /// use std::sync::Arc;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let (vm, me) = (Arc::clone(&main.vm), main.id);
    ///     let thread = std::thread::spawn(move || vm.resume_from_outside(me));
    ///     // It is heard by who waits, or comes to a safepoint: not before this.
    ///     let _ = main.vm.suspend(main.id);
    ///     thread.join().expect("it posts, and ends");
    /// });
    /// ```
    pub fn resume_from_outside(&self, process: crate::kernel::ProcessId) {
        self.post(Post::Resume(process));
    }

    /// Signals a semaphore once, from any native thread.
    ///
    /// ```
    /// use baton_core::kernel::Deadline;
    /// use std::sync::Arc;
    /// # mod closures { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/doctests/closures.rs")); }
    /// closures::run(|main| {
    ///     let semaphore = main.vm.kernel(|kernel| kernel.semaphore_new(0));
    ///     let vm = Arc::clone(&main.vm);
    ///     let thread = std::thread::spawn(move || vm.signal_from_outside(semaphore));
    ///     main.vm.attempt(|kernel| kernel.semaphore_wait(semaphore, Deadline::Never));
    ///     thread.join().expect("it posts, and ends");
    /// });
    /// ```
    pub fn signal_from_outside(&self, semaphore: crate::kernel::SemaphoreId) {
        self.post(Post::Signal(semaphore));
    }

    /// Has [`Guest::signalled`](crate::guest::Guest::signalled) called inside the VM soon. For signal handlers: it only sets a
    /// bit and kicks.
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
        self.request(super::request::SIGNALLED);
    }

    /// Sets a bit of the requests, and has the owner look at it. Async-signal-safe.
    pub(super) fn request(&self, bit: u32) {
        // Release: pairs with the swap in `safepoint`, and with `idle` and `answer_bells`.
        self.requests.fetch_or(bit, std::sync::atomic::Ordering::Release);
        match self.park.notify() {
            Notify::MustKick => self.kick_poller(),
            Notify::OwnerSpins => {}
            Notify::OwnerIsRunning | Notify::AlreadyNotified => self.monitor.alert_from_signal_handler(),
        }
    }

    /// Takes in posts and deadlines. Inside the VM.
    pub(super) fn harvest(&self) {
        self.park.acknowledge();
        // Relaxed: the thread that forks asks again and again.
        if self.fork_waits.load(std::sync::atomic::Ordering::Relaxed) {
            self.stand_aside();
        }
        self.inner.with(|inner| {
            if !self.inbox.is_empty() {
                for post in self.inbox.take_all() {
                    match post {
                        Post::Returned(process, pinned) => {
                            if pinned.is_some() {
                                inner.kernel.set_pinned(process, pinned);
                            }
                            let from_home = inner.kernel.occupant(HOME) == Some(process);
                            inner.kernel.end_foreign(process);
                            if from_home {
                                inner.home_is_out(process, false);
                            }
                            inner.call_next();
                            if inner.kernel.kill_is_due(process) {
                                self.guest.request_safepoint(inner.kernel.guest(process));
                            }
                        }
                        Post::Wake(queue, value) => {
                            let _ = inner.kernel.wake_one(queue, WakeReason::Done, value);
                        }
                        Post::Resume(process) => {
                            let _ = inner.kernel.resume(process);
                        }
                        Post::Signal(semaphore) => {
                            inner.kernel.semaphore_signal(semaphore, 1);
                        }
                        Post::Closed(descriptor, edition) => {
                            inner.kernel.descriptor_closes(descriptor, edition);
                        }
                        Post::TryAgain(descriptor) => {
                            inner.kernel.descriptor_is_ready(descriptor, Readiness::FAILED);
                        }
                    }
                }
            }
            self.answer_bells(inner);
            if inner.kernel.next_deadline().is_some() {
                inner.kernel.expire(self.due_by());
            }
        });
    }

    /// When the earliest deadline must be met: with slack, those that are due by then are met together.
    #[inline]
    pub(super) fn next_deadline(&self, inner: &Inner) -> Option<Instant> {
        let earliest = inner.kernel.next_deadline()?;
        let slack = self.parameters.timer_slack.nanos();
        Some(Instant::from_nanos(earliest.as_nanos().saturating_add(slack)))
    }

    /// Nothing is runnable: waits for the next deadline, a descriptor or a kick.
    pub(super) fn idle(&self) {
        let (deadline, source, dead) = self.inner.with(|inner| {
            self.publish(inner);
            let calls_are_out = inner.kernel.foreign_count() > 0;
            let source = if calls_are_out { Source::Calls } else { Source::Outside };
            let dead = inner.kernel.all_blocked() && !calls_are_out && !inner.has_bells();
            (self.next_deadline(inner), source, dead)
        });
        match if dead {
            self.tell_of_deadlock()
        } else {
            Told::WaitUntil(deadline)
        } {
            Told::WaitUntil(deadline) if self.pass_time(deadline) => {}
            Told::WaitUntil(deadline) => self.wait(source, deadline),
            Told::HasEnded => {}
        }
        self.park.finish();
        // AcqRel: pairs with `request`.
        let requests = self
            .requests
            .fetch_and(!super::request::SIGNALLED, std::sync::atomic::Ordering::AcqRel);
        if requests & super::request::SIGNALLED != 0 {
            self.guest.signalled();
        }
    }

    /// No process can go on, as far as the owner knows: tells the guest, unless something has come meanwhile.
    fn tell_of_deadlock(&self) -> Told {
        if !self.may_park() {
            return Told::HasEnded;
        }
        self.park.finish();
        let look_again = self.guest.deadlocked();
        // The report may have changed anything, and who posted before `finish` has told only the poller.
        let still_dead = self.inner.with(|inner| inner.kernel.all_blocked());
        if !still_dead || !self.inbox.is_empty() || self.signal_is_due() {
            return Told::HasEnded;
        }
        Told::WaitUntil(look_again.map(|later| Instant::now() + later))
    }

    /// Whether a signal handler has asked for something, or rung.
    pub(super) fn signal_is_due(&self) -> bool {
        // Acquire: pairs with `request`.
        self.requests.load(std::sync::atomic::Ordering::Acquire) & (super::request::SIGNALLED | super::request::RUNG)
            != 0
    }
}
