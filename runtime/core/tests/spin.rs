//! The promises of the learned spin policy, on random and adversarial traces: at most twice the
//! offline optimum plus 1 ms per minute, and failed spins within the budget.

use baton_core::spin::budget;
use baton_core::spin::replay::{self, Bill, TracedWait};
use baton_core::spin::{Decision, Ended, Learned, Outlook, Policy, Source, Spun, Wait};
use baton_sys::clock::Instant;
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

const PARK_COST: Duration = Duration::from_micros(50);
const SHARE: f64 = 0.01;

/// The length of a long test. Miri is about a thousand times slower, and gets a length of its own.
const fn length(usual: usize, with_miri: usize) -> usize {
    if cfg!(miri) { with_miri } else { usual }
}

/// The policy on a machine where parks cost this much.
fn new() -> Learned {
    Learned::new(SHARE).with_park_cost(PARK_COST)
}

/// A series of waits of one kind, in microseconds.
#[derive(Clone, Debug)]
enum Stretch {
    /// Exponentially distributed lengths.
    Exponential(f64),
    /// All of one length.
    Periodic(f64),
    /// Two lengths in turns.
    Alternating(f64, f64),
    /// Several short waits, then a long one.
    Bursts(f64, usize, f64),
    /// Any length between, evenly by magnitude.
    Anything(f64, f64),
    /// Deadlines, all of one length.
    Timers(f64),
}

fn magnitude(least: f64, most: f64) -> impl Strategy<Value = f64> {
    (least.ln()..most.ln()).prop_map(f64::exp)
}

fn stretch() -> impl Strategy<Value = Stretch> {
    let any = || magnitude(0.5, 20_000.0);
    // A wrong guess costs most near the cost of a park.
    let near = || 35.0..70.0;
    prop_oneof![
        any().prop_map(Stretch::Exponential),
        any().prop_map(Stretch::Periodic),
        near().prop_map(Stretch::Periodic),
        (any(), any()).prop_map(|(a, b)| Stretch::Alternating(a, b)),
        (near(), any()).prop_map(|(a, b)| Stretch::Alternating(a, b)),
        (magnitude(0.5, 60.0), 1..60_usize, any()).prop_map(|(a, n, b)| Stretch::Bursts(a, n, b)),
        (any(), any()).prop_map(|(a, b)| Stretch::Anything(a.min(b), a.max(b))),
    ]
}

fn micros(micros: f64) -> Duration {
    Duration::from_nanos((micros * 1000.0) as u64 + 1)
}

impl Stretch {
    /// Its waits, from numbers between 0 and 1.
    fn events(&self, chances: &[f64]) -> Vec<TracedWait> {
        let signal = |length: f64| TracedWait::signal(micros(length));
        let numbered = chances.iter().enumerate();
        let make = |(number, chance): (usize, &f64)| match *self {
            Stretch::Exponential(mean) => signal(-mean * (1.0 - chance).ln()),
            Stretch::Periodic(length) => signal(length),
            Stretch::Alternating(a, b) => signal(if number % 2 == 0 { a } else { b }),
            Stretch::Bursts(short, count, pause) => signal(if number % (count + 1) == count {
                pause
            } else {
                short
            }),
            Stretch::Anything(least, most) => {
                signal((least.ln() + chance * (most / least).ln()).exp())
            }
            Stretch::Timers(length) => TracedWait::timer(micros(length)),
        };
        numbered.map(make).collect()
    }
}

fn chances() -> impl Strategy<Value = Vec<f64>> {
    vec(0.0..1.0_f64, 20..length(400, 40))
}

/// Series of random kinds and lengths, one after another.
fn trace(stretch: impl Strategy<Value = Stretch>) -> impl Strategy<Value = Vec<TracedWait>> {
    let one = (stretch, chances()).prop_map(|(stretch, chances)| stretch.events(&chances));
    vec(one, 1..10).prop_map(|stretches| stretches.concat())
}

/// The allowance: 1 ms for each minute that was begun.
fn slack(bill: &Bill) -> Duration {
    Duration::from_millis(1) * (bill.elapsed.as_secs() / 60 + 1) as u32
}

/// The failed spins allowed: the bucket's share of this time, and what was saved.
fn allowed_failures(bill: &Bill) -> Duration {
    (bill.elapsed + budget::FILL).mul_f64(SHARE) + bill.saved + Duration::from_nanos(1)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: length(256, 2) as u32,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_traces_cost_at_most_twice_the_optimum(trace in trace(stretch())) {
        let bill = replay::run(&mut new(), &trace, PARK_COST);
        prop_assert!(bill.paid <= bill.optimum * 2 + slack(&bill), "{bill:?}");
    }

    #[test]
    fn failed_spins_stay_inside_the_budget(
        trace in trace(prop_oneof![
            4 => stretch(),
            1 => magnitude(0.5, 20_000.0).prop_map(Stretch::Timers),
        ]),
    ) {
        let bill = replay::run(&mut new(), &trace, PARK_COST);
        prop_assert!(bill.failed <= allowed_failures(&bill), "{bill:?}");
    }

    #[test]
    fn no_spin_is_longer_than_a_park_costs(trace in trace(stretch()), park_cost in 3..150_u64) {
        let park_cost = Duration::from_micros(park_cost);
        let mut policy = Learned::new(SHARE).with_park_cost(park_cost);
        let mut bill = Bill::default();
        for event in trace {
            let longest = policy.park_cost();
            let spun = (bill.spun, replay::step(&mut policy, &mut bill, event, park_cost));
            prop_assert!(bill.spun - spun.0 <= longest);
        }
    }
}

/// An adversary that knows the policy, and ends each wait when that costs most.
struct Adversary {
    policy: Learned,
    bill: Bill,
    /// Waits that ended at once because the policy parked.
    parked_for_nothing: u32,
}

impl Adversary {
    fn play(&mut self) {
        let decision = self.policy.decide(Outlook {
            now: Instant::from_nanos(0) + self.bill.elapsed,
            source: Source::Outside,
            due_in: None,
        });
        let waited = match decision {
            Decision::Park => {
                self.parked_for_nothing += 1;
                Duration::from_nanos(100)
            }
            Decision::Spin(limit) => limit + Duration::from_nanos(100),
        };
        let spun = self
            .bill
            .add(TracedWait::signal(waited), decision, PARK_COST);
        assert_ne!(spun, Spun::Hit);
        self.policy.learn(Wait {
            source: Source::Outside,
            waited,
            ended: Ended::Signalled,
            spun,
        });
    }
}

/// No policy with a budget can keep the factor against this adversary (see `learned.rs`). Even then
/// the budget holds, and each refusal costs at most one park beyond the factor.
#[test]
fn an_adversary_that_knows_the_policy_cannot_exceed_the_budget() {
    let mut adversary = Adversary {
        policy: new(),
        bill: Bill::default(),
        parked_for_nothing: 0,
    };
    for _ in 0..length(200_000, 300) {
        adversary.play();
    }
    let bill = adversary.bill;
    assert!(bill.failed > Duration::ZERO, "it was made to spin");
    assert_eq!(bill.saved, Duration::ZERO);
    assert!(bill.failed <= allowed_failures(&bill), "{bill:?}");
    let bound = bill.optimum * 2 + PARK_COST * adversary.parked_for_nothing + slack(&bill);
    assert!(bill.paid <= bound, "{bill:?}");
}

#[test]
fn a_wait_just_longer_than_a_park_again_and_again_costs_no_more_than_parking() {
    let bill = replay::run(
        &mut new(),
        &vec![TracedWait::signal(Duration::from_micros(51)); length(100_000, 200)],
        PARK_COST,
    );
    assert!(bill.ratio() < 1.01, "{bill:?}");
}

#[test]
fn the_adversary_of_fixed_limits_is_not_spun_for() {
    let bill = replay::run(
        &mut new(),
        &vec![TracedWait::signal(Duration::from_micros(1900)); length(30_000, 200)],
        PARK_COST,
    );
    assert_eq!(bill.spun, Duration::ZERO);
}

#[test]
fn a_timer_of_a_kilohertz_after_a_busy_hour_is_spun_for_briefly_and_never_again() {
    let mut policy = new();
    replay::run(
        &mut policy,
        &vec![TracedWait::signal(Duration::from_micros(10)); length(100_000, 200)],
        PARK_COST,
    );
    let mut bill = replay::run(
        &mut policy,
        &[TracedWait::timer(Duration::from_millis(1)); 200],
        PARK_COST,
    );
    assert!(bill.failed < Duration::from_millis(3), "{bill:?}");
    bill = replay::run(
        &mut policy,
        &vec![TracedWait::timer(Duration::from_millis(1)); length(10_000, 200)],
        PARK_COST,
    );
    assert_eq!(bill.spun, Duration::ZERO);
}
