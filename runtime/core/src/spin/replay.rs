//! Replays a trace of waits: what a policy costs, and what the optimum costs.

use super::{Decision, Ended, Outlook, Policy, Source, Spun, Wait};
use baton_sys::clock::Instant;
use std::time::Duration;

/// One wait of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedWait {
    /// How long until it ends.
    pub after: Duration,
    /// What ends it. A deadline is known when the wait begins.
    pub ended: Ended,
}

impl TracedWait {
    /// A wait that an event from outside ends.
    pub const fn signal(after: Duration) -> TracedWait {
        TracedWait {
            after,
            ended: Ended::Signalled,
        }
    }

    /// A wait that a deadline ends.
    pub const fn timer(after: Duration) -> TracedWait {
        TracedWait {
            after,
            ended: Ended::Due,
        }
    }
}

/// The result of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bill {
    /// The policy's cost: time spun, and the parks.
    pub paid: Duration,
    /// The cost with each wait known beforehand.
    pub optimum: Duration,
    /// Total time spun.
    pub spun: Duration,
    /// Time of failed spins.
    pub failed: Duration,
    /// Time that successful spins saved over an immediate park.
    pub saved: Duration,
    /// The length of the trace with this policy: its waits and wake-ups.
    pub elapsed: Duration,
}

impl Bill {
    /// The policy's cost divided by the optimum.
    pub fn ratio(&self) -> f64 {
        self.paid.as_secs_f64() / self.optimum.as_secs_f64()
    }

    /// Time spun as a share of the whole time.
    pub fn spin_share(&self) -> f64 {
        self.spun.as_secs_f64() / self.elapsed.as_secs_f64()
    }

    /// Adds a wait with this `decision`. Returns the result of its spin.
    pub fn add(&mut self, event: TracedWait, decision: Decision, park_cost: Duration) -> Spun {
        let limit = decision.limit();
        self.optimum += event.after.min(park_cost);
        self.elapsed += event.after;
        if !limit.is_zero() && event.after <= limit {
            self.paid += event.after;
            self.spun += event.after;
            self.saved += park_cost.saturating_sub(event.after);
            return Spun::Hit;
        }
        self.paid += limit + park_cost;
        self.spun += limit;
        self.failed += limit;
        self.elapsed += park_cost;
        match decision {
            Decision::Park => Spun::Not,
            Decision::Spin(limit) => Spun::Failed(limit),
        }
    }
}

/// Replays a trace: waits without a pause between them, on a machine where a park costs
/// `park_cost`.
pub fn run<P: Policy + ?Sized>(policy: &mut P, trace: &[TracedWait], park_cost: Duration) -> Bill {
    let mut bill = Bill::default();
    for &event in trace {
        step(policy, &mut bill, event, park_cost);
    }
    bill
}

/// Replays one more wait.
pub fn step<P: Policy + ?Sized>(
    policy: &mut P,
    bill: &mut Bill,
    event: TracedWait,
    park_cost: Duration,
) {
    let due_in = (event.ended == Ended::Due).then_some(event.after);
    let decision = policy
        .decide(Outlook {
            now: Instant::from_nanos(0) + bill.elapsed,
            source: Source::Outside,
            due_in,
        })
        .until_due(due_in);
    let spun = bill.add(event, decision, park_cost);
    policy.learn(Wait {
        source: Source::Outside,
        waited: event.after,
        ended: event.ended,
        spun,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Duration);

    impl Policy for Fixed {
        fn decide(&mut self, _outlook: Outlook) -> Decision {
            Decision::spin(self.0)
        }

        fn learn(&mut self, _wait: Wait) {}
    }

    const fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn a_hit_costs_its_wait_and_a_failed_spin_costs_itself_and_a_park() {
        let bill = run(
            &mut Fixed(us(30)),
            &[TracedWait::signal(us(10)), TracedWait::signal(us(70))],
            us(50),
        );
        assert_eq!(bill.paid, us(10 + 30 + 50));
        assert_eq!(bill.optimum, us(10 + 50));
        assert_eq!(
            (bill.spun, bill.failed, bill.saved),
            (us(40), us(30), us(40))
        );
        assert_eq!(bill.elapsed, us(10 + 70 + 50));
    }

    #[test]
    fn spinning_for_what_a_park_costs_is_at_most_twice_the_optimum() {
        for wait in [1, 49, 50, 51, 5000] {
            let bill = run(&mut Fixed(us(50)), &[TracedWait::signal(us(wait))], us(50));
            assert!(bill.ratio() <= 2.0, "a wait of {wait} us: {bill:?}");
        }
    }
}
