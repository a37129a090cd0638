//! One poll of the monitor for one VM: reads the hints and the owner's gate, and carries out what
//! [`decide`](super::decide) makes of them. A poll costs the running process nothing.

use super::decide::{Actions, Host, PollEvent, PollSettings, PollState, Seen};
use super::next_poll::{NextPoll, TICK};
use super::stall::Cause;
use crate::vm::lock::enter::Retake;
use crate::vm::{Vm, request, slow_reason};
use baton_sys::clock::Instant;
use baton_sys::signals::ThreadHandle;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

impl Vm {
    /// Polls once. Returns when the next poll is due.
    pub(crate) fn poll(self: &Arc<Vm>, now: Instant) -> NextPoll {
        // Relaxed: a coarse clock orders nothing.
        self.hints
            .coarse_now
            .store(now.as_nanos(), Ordering::Relaxed);
        if self.has_ended() {
            return NextPoll::Quiet(None);
        }
        if self.handler_waits() && !self.park.is_waiting() {
            self.guest.signal_waits();
        }
        let mut state = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = PollSettings {
            preemptive: self.parameters.preemptive(),
            window: self.parameters.window.get(),
            beat: self.parameters.beat.get(),
            warn_blocked: self.parameters.warn_blocked.get(),
        };
        if self.park.is_waiting() || self.host.is_between() {
            return state.decide(now, settings, &PollEvent::Waits).next;
        }
        let Some((gate, thread, host)) = self.gate_of_owner() else {
            return state.decide(now, settings, &PollEvent::Comes).next;
        };
        let is_waiting = || thread.is_waiting();
        let seen = self.see(&mut state, (gate, thread, host), &is_waiting);
        let actions = state.decide(now, settings, &PollEvent::Runs(seen));
        self.act_on(&mut state, now, actions, (gate, thread))
    }

    /// The gate's value and the thread of an owner that has come, and the host's stint. The gate is
    /// read under the mutex: its thread may end as soon as it is no longer listed.
    fn gate_of_owner(&self) -> Option<(u64, ThreadHandle, Host)> {
        let mut state = self.lock_state();
        let owner = state.owner.filter(|_| state.owner_has_come)?;
        let host = self.see_host(&mut state, owner);
        let entry = state.entry(owner)?;
        Some((entry.gate?.value(), entry.thread?, host))
    }

    fn see<'a>(
        &self,
        state: &mut PollState,
        (gate, thread, host): (u64, ThreadHandle, Host),
        is_waiting: &'a dyn Fn() -> Option<bool>,
    ) -> Seen<'a> {
        let run = self.hints.run_number();
        let watched = self.descriptors.are_watched();
        let has_news = watched && self.owner_misses_news(state);
        Seen {
            thread: thread.id(),
            gate,
            cpu: thread.cpu_time(),
            is_waiting,
            run,
            run_began: self.hints.run_began(run),
            idle_waits: self.counters.idle_waits.get(),
            slice: self.hinted_slice(),
            // Relaxed: a hint; the safepoint uses the exact accounts.
            slice_used: self.hints.slice_used.load(Ordering::Relaxed),
            slices_differ: self.slow_reasons() & slow_reason::SLICED != 0,
            summary: self.hints.summary(),
            posted: has_news || self.has_posts(),
            watched,
            armed: self.descriptors.are_armed(),
            deadline: self.hinted_deadline(),
            host,
        }
    }

    fn has_posts(&self) -> bool {
        !self.inbox.is_empty() || self.handler_waits()
    }

    /// The earliest deadline.
    fn hinted_deadline(&self) -> Option<Instant> {
        // Relaxed: a hint; see the monitor's rest for what orders it.
        let deadline = self.hints.deadline.load(Ordering::Relaxed);
        (deadline != u64::MAX).then(|| Instant::from_nanos(deadline))
    }

    /// Whether the monitor must not rest now until `deadline`, in nanoseconds.
    pub(crate) fn needs_watching(&self, deadline: u64) -> bool {
        if self.has_ended() || self.park.is_waiting() || self.host.is_between() {
            return false;
        }
        self.stint_needs_watching(deadline)
            || self.hints.summary().has_runnable()
            || self.has_posts()
            || self
                .hinted_deadline()
                .is_some_and(|hinted| hinted.as_nanos() < deadline)
            || (self.descriptors.are_watched() && !self.descriptors.are_armed())
    }

    /// Whether descriptors with waiting processes are ready, and the owner has neither been idle
    /// nor polled since the last poll of the monitor.
    fn owner_misses_news(&self, state: &mut PollState) -> bool {
        let harvests = self.descriptors.harvests();
        let has_asked = std::mem::replace(&mut state.harvests, harvests) != harvests;
        (self.descriptors.take_notified() || !has_asked) && self.poller.has_news()
    }

    /// Notes that a poller has events. Returns whether it is this VM's.
    pub(crate) fn note_news(&self, poller: u64) -> bool {
        let is_ours = u64::try_from(self.poller.fd()) == Ok(poller);
        if is_ours {
            self.descriptors.note_notified();
        }
        is_ours
    }

    /// Carries out what was decided about an owner with this gate value and thread.
    fn act_on(
        self: &Arc<Vm>,
        state: &mut PollState,
        now: Instant,
        actions: Actions,
        (gate, thread): (u64, ThreadHandle),
    ) -> NextPoll {
        if let Some(from) = actions.set_deadlines_from {
            // Relaxed: a hint. An owner that reads an old value wakes the monitor needlessly, or is
            // polled a little later.
            self.hints
                .deadlines_from
                .store(from.as_nanos(), Ordering::Relaxed);
        }
        if actions.retake {
            match self.retake(gate, false) {
                Retake::Done => {
                    // No request is lost: the heir begins with its loop, which takes in posts and
                    // deadlines. A signal's bit stays set until the next poll.
                    let next = state.note_retaken(now, self.parameters.window.get());
                    return actions.next.no_later_than(next);
                }
                Retake::Exclusive => state.note_exclusive(gate),
                Retake::Ended | Retake::NoThread => {}
            }
        }
        if actions.end_slice {
            // Release: pairs with the swap in `safepoint`.
            self.requests.fetch_or(request::SLICE, Ordering::Release);
        }
        if actions.end_stint {
            // Relaxed: a hint to read the clock; `begin_stint` clears it.
            self.slow_reasons
                .fetch_or(slow_reason::STINT_OVER, Ordering::Relaxed);
        }
        if actions.set_attention {
            self.counters.beats.increment();
            self.set_attention_of_owner();
        }
        if actions.signal {
            self.counters.signals.increment();
            let _ = thread.interrupt();
        }
        if actions.look_why {
            self.look_why_unanswered(thread);
        }
        if actions.warn.is_some_and(|cause| self.warn(cause)) {
            state.note_warned();
        }
        if actions.listen && !self.listen() {
            return actions.next.no_later_than(now + TICK);
        }
        actions.next
    }

    fn set_attention_of_owner(&self) {
        let mut state = self.lock_state();
        let owner = state.owner;
        if let Some(gate) = owner
            .and_then(|owner| state.entry(owner))
            .and_then(|entry| entry.gate)
        {
            gate.set_attention();
        }
    }

    /// Warns of a stall. If the gate moves all the time, as a function uses the guest's API, the
    /// owner itself warns at its next enter. Returns whether that is done.
    fn warn(self: &Arc<Vm>, stall: Cause) -> bool {
        match stall {
            Cause::Unanswered(_) => {
                self.have_owner_warn();
                true
            }
            Cause::Call(gate) => self.retake(gate, true) == Retake::Exclusive,
        }
    }

    /// Has the poller wake the monitor when a descriptor is ready. Returns whether it will.
    fn listen(&self) -> bool {
        if self.monitor.listen_to(&self.poller) {
            self.descriptors.note_armed(true);
        }
        self.descriptors.are_armed()
    }
}
