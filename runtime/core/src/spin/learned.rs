//! The default policy. It spins as long as would have cost least lately, never longer than a park
//! costs, and within a budget.
//!
//! Three rules, each in its own file, apply in this order:
//!
//! 1. The [`Histogram`] of the wait's source gives the length that would have cost least.
//! 2. The [`Ledger`] replaces that length by the cost of a park while the promise below is at risk.
//!    That length never costs more than twice the optimum.
//! 3. The [`Budget`] grants the spin or refuses it.
//!
//! **The promise.** While the budget refuses nothing, the cost is at most twice the offline optimum
//! plus the ledger's allowance, for every trace. Each refusal adds at most one park. No policy can
//! keep both promises against an adversary that knows it. While there are tokens, the adversary
//! ends each wait just after the spin; while there are none, at once. Then each wait costs a park,
//! and the optimum is zero. The budget has priority, as it limits wasted energy.
//!
//! **Waits that a timer ended** predict nothing: a near deadline does not say how soon another
//! event will come. They are not added to the histogram, with one exception: a wait longer than any
//! spin shows that no event came for so long.

use super::budget::{Budget, Grant};
use super::histogram::Histogram;
use super::ledger::{Freedom, Ledger};
use super::park_cost::ParkCost;
use super::{Accuracy, Decision, Ended, Outlook, Policy, Source, Spun, Wait};
use baton_sys::clock::Instant;
use std::time::Duration;

/// The learned data, and the budget.
#[derive(Debug)]
pub struct Learned {
    /// One histogram per [`Source`].
    waits: [Histogram; Source::COUNT],
    ledger: Ledger,
    budget: Budget,
    park_cost: ParkCost,
    accuracy: Accuracy,
}

impl Learned {
    /// Creates a policy that has learned nothing. `share` is the share of all time for failed
    /// spins.
    pub fn new(share: f64) -> Learned {
        Learned {
            waits: [Histogram::new(), Histogram::new()],
            ledger: Ledger::default(),
            budget: Budget::new(share),
            park_cost: ParkCost::default(),
            accuracy: Accuracy::default(),
        }
    }

    /// This policy on a machine where each park so far has cost the same.
    pub fn with_park_cost(self, cost: Duration) -> Learned {
        Learned {
            park_cost: ParkCost::steady(cost),
            ..self
        }
    }

    /// Sets the budget's share of all time.
    pub fn set_share(&mut self, share: f64) {
        self.budget.set_share(share);
    }

    /// The usual upper bound of a park's cost, as far as it is known. No spin is longer.
    pub fn park_cost(&self) -> Duration {
        self.park_cost.bound()
    }

    /// An estimate of when the event came that ended a park, if that was not recorded: a park's
    /// mean cost before it was noticed. If that is before the middle of the park, the park was
    /// cheap, and the middle is the better estimate.
    pub fn came_at(&self, parked: Instant, noticed: Instant) -> Instant {
        let middle = parked + (noticed - parked) / 2;
        middle.max(noticed - self.park_cost.mean())
    }

    /// Learns from a park that took `took` from the kick until the owner ran.
    pub fn learn_park_cost(&mut self, took: Duration) {
        self.park_cost.learn(took);
    }

    /// How often it was right so far. A wait is short if it ends sooner than a park costs.
    pub fn accuracy(&self) -> Accuracy {
        self.accuracy
    }

    /// Time that may be spent on failed spins now.
    pub fn budget_left(&self) -> Duration {
        self.budget.left()
    }

    fn wanted(&self, source: Source) -> Duration {
        let cost = self.park_cost();
        let best = self.waits[source as usize].best_spin(cost);
        match self.ledger.freedom(best, cost) {
            Freedom::Free => best,
            Freedom::BreakEven => cost,
        }
    }
}

impl Policy for Learned {
    fn decide(&mut self, outlook: Outlook) -> Decision {
        let decision = Decision::spin(self.wanted(outlook.source)).until_due(outlook.due_in);
        match self.budget.grant(decision.limit(), outlook.now) {
            Grant::Granted => decision,
            Grant::Exhausted => Decision::Park,
        }
    }

    fn learn(&mut self, wait: Wait) {
        let cost = self.park_cost();
        self.accuracy.count(&wait, cost);
        if wait.ended == Ended::Signalled || wait.waited > cost {
            self.waits[wait.source as usize].add(wait.waited);
        }
        self.ledger.book(&wait, cost);
        match (wait.spun, wait.ended) {
            (Spun::Failed(spun), _) => self.budget.pay(spun),
            (Spun::Hit, Ended::Signalled) => self.budget.save(cost.saturating_sub(wait.waited)),
            // No event came before the deadline, which was known beforehand.
            (Spun::Hit, Ended::Due) => self.budget.pay(wait.waited),
            (Spun::Not, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spin::replay::{self, TracedWait};

    const COST: Duration = Duration::from_micros(50);
    const SHARE: f64 = 0.01;

    /// A policy that has learned nothing.
    fn new() -> Learned {
        Learned::new(SHARE).with_park_cost(COST)
    }

    const fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    fn decide(policy: &mut Learned, source: Source) -> Decision {
        policy.decide(Outlook {
            now: Instant::from_nanos(0),
            source,
            due_in: None,
        })
    }

    /// A policy after `count` waits of this kind.
    fn after(count: usize, event: TracedWait) -> Learned {
        let mut policy = new();
        replay::run(&mut policy, &vec![event; count], COST);
        policy
    }

    #[test]
    fn a_new_policy_parks() {
        assert_eq!(decide(&mut new(), Source::Outside), Decision::Park);
    }

    #[test]
    fn short_waits_are_spun_for_and_waits_longer_than_a_park_are_not() {
        let mut policy = after(10, TracedWait::signal(us(10)));
        assert!(decide(&mut policy, Source::Outside).limit() >= us(10));
        for long in [60, 300, 1900] {
            let mut policy = after(10, TracedWait::signal(us(long)));
            assert_eq!(
                decide(&mut policy, Source::Outside),
                Decision::Park,
                "{long} us"
            );
        }
    }

    #[test]
    fn each_source_has_habits_of_its_own() {
        let mut policy = after(10, TracedWait::signal(us(10)));
        assert_eq!(decide(&mut policy, Source::Calls), Decision::Park);
    }

    #[test]
    fn waits_that_a_timer_ended_are_no_predictions() {
        let mut policy = after(100, TracedWait::timer(us(10)));
        assert_eq!(decide(&mut policy, Source::Outside), Decision::Park);
        // What was learned before stays; long waits show that no event came.
        let mut policy = after(10, TracedWait::signal(us(10)));
        replay::run(&mut policy, &[TracedWait::timer(us(5)); 100], COST);
        assert!(decide(&mut policy, Source::Outside).limit() >= us(10));
        replay::run(&mut policy, &[TracedWait::timer(us(1000)); 200], COST);
        assert_eq!(decide(&mut policy, Source::Outside), Decision::Park);
    }

    #[test]
    fn it_does_not_spin_beyond_a_deadline_or_longer_than_a_park_costs() {
        let mut policy = after(10, TracedWait::signal(us(45)));
        let mut limit = |due_in| {
            let outlook = Outlook {
                now: Instant::from_nanos(0),
                source: Source::Outside,
                due_in,
            };
            policy.decide(outlook).limit()
        };
        assert!(limit(None) >= us(45) && limit(None) <= COST);
        assert_eq!(limit(Some(us(3))), us(3));
    }

    #[test]
    fn without_a_budget_it_parks() {
        let mut policy = Learned::new(0.0).with_park_cost(COST);
        let bill = replay::run(&mut policy, &[TracedWait::signal(us(10)); 20], COST);
        assert_eq!(bill.spun, Duration::ZERO);
    }

    #[test]
    fn a_machine_that_wakes_fast_is_not_spun_on_for_waits_that_a_slow_one_would_spin_for() {
        let mut policy = after(10, TracedWait::signal(us(30)));
        assert!(decide(&mut policy, Source::Outside).limit() >= us(30));
        for _ in 0..200 {
            policy.learn_park_cost(us(5));
        }
        assert!(decide(&mut policy, Source::Outside).limit() <= us(5));
    }

    #[test]
    fn nothing_else_than_failed_spins_comes_out_of_the_budget() {
        let mut policy = after(10, TracedWait::signal(us(10)));
        // Far more than the bucket holds; in Miri twice as much.
        let count: u32 = if cfg!(miri) { 400 } else { 10_000 };
        let waits = vec![TracedWait::signal(us(10)); count as usize];
        let bill = replay::run(&mut policy, &waits, COST);
        assert_eq!(bill.spun, us(10) * count);
    }

    #[test]
    fn waits_that_end_as_late_as_parks_now_and_then_take_are_spun_for() {
        let mut policy = after(10, TracedWait::signal(us(45)));
        for took in [25, 35].into_iter().cycle().take(300) {
            policy.learn_park_cost(us(took));
        }
        assert!(policy.park_cost() < us(51), "{:?}", policy.park_cost());
        assert!(decide(&mut policy, Source::Outside).limit() >= us(45));
        for _ in 0..300 {
            policy.learn_park_cost(us(30));
        }
        assert_eq!(decide(&mut policy, Source::Outside), Decision::Park);
    }

    #[test]
    fn an_unrecorded_event_came_a_park_before_it_was_noticed_or_in_the_middle_of_a_cheap_park() {
        let policy = new();
        let came =
            |noticed| policy.came_at(Instant::from_nanos(0), Instant::from_nanos(0) + us(noticed));
        assert_eq!(came(200), Instant::from_nanos(0) + us(150));
        assert_eq!(came(100), Instant::from_nanos(0) + us(50));
        assert_eq!(came(30), Instant::from_nanos(0) + us(15));
    }

    #[test]
    fn short_timers_after_short_signals_are_not_spun_for_beyond_the_budget() {
        let mut policy = after(10, TracedWait::signal(us(45)));
        let count = if cfg!(miri) { 500 } else { 100_000 };
        let bill = replay::run(&mut policy, &vec![TracedWait::timer(us(40)); count], COST);
        let allowed = (bill.elapsed + crate::spin::budget::FILL).mul_f64(SHARE) + us(1);
        assert!(
            bill.spun <= allowed,
            "{:?} spun, {allowed:?} allowed",
            bill.spun
        );
    }
}
