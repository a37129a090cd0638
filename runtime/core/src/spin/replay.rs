//! What a policy pays for a trace of waits, and what hindsight would have paid.

use super::{Decision, Ended, Outlook, Policy, Source, Spun, Wait};
use baton_sys::clock::Instant;
use std::time::Duration;

/// One wait of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// How long until it ends.
    pub after: Duration,
    /// Whether it ends at a deadline, which is known when it begins.
    pub ended: Ended,
}

impl Event {
    /// A wait that somebody ends.
    pub const fn signal(after: Duration) -> Event {
        Event {
            after,
            ended: Ended::Signalled,
        }
    }

    /// A wait for a deadline.
    pub const fn timer(after: Duration) -> Event {
        Event {
            after,
            ended: Ended::Due,
        }
    }
}

/// What a trace came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bill {
    /// What the policy paid: time spun, and the parks.
    pub paid: Duration,
    /// What who knows each wait beforehand pays.
    pub optimum: Duration,
    /// Time spun in all.
    pub spun: Duration,
    /// Time spun for nothing.
    pub failed: Duration,
    /// What the spins that hit saved, beside parking at once.
    pub saved: Duration,
    /// How long the trace took under this policy: its waits, and waking up.
    pub elapsed: Duration,
}

impl Bill {
    /// Paid for each unit that hindsight would have paid.
    pub fn ratio(&self) -> f64 {
        self.paid.as_secs_f64() / self.optimum.as_secs_f64()
    }

    /// Spinning as a share of the whole time.
    pub fn spin_share(&self) -> f64 {
        self.spun.as_secs_f64() / self.elapsed.as_secs_f64()
    }

    /// Adds a wait that was met with `decision`; returns how its spin went.
    pub fn add(&mut self, event: Event, decision: Decision, park_cost: Duration) -> Spun {
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

/// Replays a trace: waits one after another, with nothing between them, on a machine where a park
/// costs `park_cost`.
pub fn run<P: Policy + ?Sized>(policy: &mut P, trace: &[Event], park_cost: Duration) -> Bill {
    let mut bill = Bill::default();
    for &event in trace {
        step(policy, &mut bill, event, park_cost);
    }
    bill
}

/// Replays one wait more.
pub fn step<P: Policy + ?Sized>(
    policy: &mut P,
    bill: &mut Bill,
    event: Event,
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
            &[Event::signal(us(10)), Event::signal(us(70))],
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
            let bill = run(&mut Fixed(us(50)), &[Event::signal(us(wait))], us(50));
            assert!(bill.ratio() <= 2.0, "a wait of {wait} us: {bill:?}");
        }
    }
}
