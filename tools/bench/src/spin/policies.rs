//! Spin policies for comparison, which Baton does not offer.

use std::time::Duration;

use baton_core::spin::{Decision, Outlook, Policy, Wait};

/// Always spins for as long as a park costs. It never costs more than twice the optimum, and never
/// much less if waits are long.
pub(super) struct BreakEven {
    pub(super) park_cost: Duration,
}

impl Policy for BreakEven {
    fn decide(&mut self, outlook: Outlook) -> Decision {
        Decision::spin(self.park_cost).until_due(outlook.due_in)
    }

    fn learn(&mut self, _wait: Wait) {}
}

/// KVM's policy of polling for a halted guest (Documentation/virt/kvm/halt-polling.rst in Linux).
/// The limit doubles after a wait that a longer spin would have met. After a long wait it returns
/// to zero.
#[derive(Default)]
pub(super) struct GrowAndShrink {
    limit: Duration,
}

/// The kernel's default limits.
const FIRST_LIMIT: Duration = Duration::from_micros(10);
const LARGEST_LIMIT: Duration = Duration::from_micros(200);

impl Policy for GrowAndShrink {
    fn decide(&mut self, outlook: Outlook) -> Decision {
        Decision::spin(self.limit).until_due(outlook.due_in)
    }

    fn learn(&mut self, wait: Wait) {
        if wait.waited > LARGEST_LIMIT {
            self.limit = Duration::ZERO;
        } else if wait.waited > self.limit {
            self.limit = (self.limit * 2).clamp(FIRST_LIMIT, LARGEST_LIMIT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::spin::replay::{self, TracedWait};

    const COST: Duration = Duration::from_micros(50);

    fn signals(micros: &[u64]) -> Vec<TracedWait> {
        let signal = |&micros: &u64| TracedWait::signal(Duration::from_micros(micros));
        micros.iter().map(signal).collect()
    }

    #[test]
    fn break_even_pays_twice_the_optimum_for_a_long_wait_and_nothing_extra_for_a_short_one() {
        let ratio = |micros| {
            replay::run(
                &mut BreakEven { park_cost: COST },
                &signals(&[micros]),
                COST,
            )
            .ratio()
        };
        assert_eq!((ratio(1000), ratio(20)), (2.0, 1.0));
    }

    #[test]
    fn the_limit_grows_with_short_waits_and_a_long_one_ends_it() {
        let mut policy = GrowAndShrink::default();
        let _ = replay::run(&mut policy, &signals(&[15, 15]), COST);
        assert_eq!(policy.limit, Duration::from_micros(20));
        let _ = replay::run(&mut policy, &signals(&[150; 10]), COST);
        assert_eq!(policy.limit, Duration::from_micros(160));
        let _ = replay::run(&mut policy, &signals(&[201]), COST);
        assert_eq!(policy.limit, Duration::ZERO);
    }
}
