//! The policy that never spins. It uses the least power, and each wait costs a park.

use super::{Decision, Outlook, Policy, Wait};

/// Parks at once.
#[derive(Debug, Default)]
pub struct Off;

impl Policy for Off {
    fn decide(&mut self, _outlook: Outlook) -> Decision {
        Decision::Park
    }

    fn learn(&mut self, _wait: Wait) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spin::replay::{self, TracedWait};
    use std::time::Duration;

    #[test]
    fn each_wait_costs_a_park_and_nothing_is_spun() {
        let cost = Duration::from_micros(50);
        let bill = replay::run(
            &mut Off,
            &[TracedWait::signal(Duration::from_micros(1)); 10],
            cost,
        );
        assert_eq!(bill.paid, cost * 10);
        assert_eq!((bill.spun, bill.failed), (Duration::ZERO, Duration::ZERO));
    }
}
