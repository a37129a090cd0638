//! The spin policy that the user has chosen, which may change at run time.

use super::surroundings::{Surroundings, Verdict};
use super::{Accuracy, Decision, Ema, Learned, Outlook, Policy, PolicyName, Spun, Wait};
use baton_sys::clock::Instant;
use baton_sys::processors::Reading;
use std::time::Duration;

/// The user's settings.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The policy that decides.
    pub policy: PolicyName,
    /// The limit of `ema`.
    pub busy_loop_for: Duration,
    /// The share of all time that `learned` may spend on failed spins.
    pub budget: f64,
}

/// Statistics of spinning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often the policies were right.
    pub accuracy: Accuracy,
    /// Total time spun.
    pub spun: Duration,
    /// Time that `learned` may spend on failed spins now.
    pub budget_left: Duration,
    /// The usual upper bound of a park's cost, as far as it is known.
    pub park_cost: Duration,
}

/// All policies. Each keeps what it has learned while another one decides.
#[derive(Debug)]
pub struct Chooser {
    ema: Ema,
    learned: Learned,
    surroundings: Surroundings,
    spun: Duration,
}

impl Chooser {
    /// Creates the policies, with nothing learned, and a full budget of the given share.
    pub fn new(settings: Settings) -> Chooser {
        Chooser {
            ema: Ema::new(settings.busy_loop_for),
            learned: Learned::new(settings.budget),
            surroundings: Surroundings::default(),
            spun: Duration::ZERO,
        }
    }

    /// The decision of the chosen policy. `read` reads the system's processor statistics. It is
    /// called rarely, and only when a spin is wanted.
    ///
    /// The surroundings can forbid spinning to `learned` only. With `ema`, users get Chromium's
    /// rule unchanged.
    pub fn decide(
        &mut self,
        settings: Settings,
        outlook: Outlook,
        read: impl FnOnce() -> Reading,
    ) -> Decision {
        match settings.policy {
            PolicyName::Off => Decision::Park,
            PolicyName::Ema => {
                self.ema.set_limit(settings.busy_loop_for);
                self.ema.decide(outlook)
            }
            PolicyName::Learned => {
                self.learned.set_share(settings.budget);
                let wanted = self.learned.decide(outlook);
                let source = outlook.source;
                if wanted != Decision::Park && self.surroundings.are_stale(outlook.now) {
                    self.surroundings.note(outlook.now, read());
                }
                match wanted {
                    Decision::Spin(_) if self.surroundings.verdict(source) == Verdict::MaySpin => {
                        wanted
                    }
                    _ => Decision::Park,
                }
            }
        }
    }

    /// How many owners of one program may spin at once. With `ema`, users get Chromium's rule
    /// unchanged, for every owner.
    pub fn most_spinners(&self, settings: Settings) -> usize {
        match settings.policy {
            PolicyName::Ema => usize::MAX,
            PolicyName::Off | PolicyName::Learned => self.surroundings.most_spinners(),
        }
    }

    /// Learns from a wait that was decided with `settings`.
    pub fn learn(&mut self, settings: Settings, wait: Wait) {
        self.spun += match wait.spun {
            Spun::Not => Duration::ZERO,
            Spun::Hit => wait.waited,
            Spun::Failed(spun) => spun,
        };
        match settings.policy {
            PolicyName::Off => {}
            PolicyName::Ema => self.ema.learn(wait),
            PolicyName::Learned => self.learned.learn(wait),
        }
    }

    /// The statistics so far.
    pub fn tally(&self) -> Tally {
        Tally {
            accuracy: self.ema.accuracy() + self.learned.accuracy(),
            spun: self.spun,
            budget_left: self.learned.budget_left(),
            park_cost: self.learned.park_cost(),
        }
    }

    /// An estimate of when the event came that ended a park, if that was not recorded.
    pub fn came_at(&self, parked: Instant, noticed: Instant) -> Instant {
        self.learned.came_at(parked, noticed)
    }

    /// Learns from a park that took `took` from the kick until the owner ran.
    pub fn learn_park_cost(&mut self, took: Duration) {
        self.learned.learn_park_cost(took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spin::surroundings::HOLDS;
    use crate::spin::{Ended, Source};

    const MANY: Reading = Reading {
        cpus: 4,
        machine: 4,
        quota: false,
        pressure: 0.0,
        stolen: 0,
        total: 1,
    };

    fn settings(policy: PolicyName) -> Settings {
        Settings {
            policy,
            busy_loop_for: Duration::from_millis(2),
            budget: 0.01,
        }
    }

    fn new() -> Chooser {
        Chooser::new(settings(PolicyName::Learned))
    }

    fn decide(
        chooser: &mut Chooser,
        policy: PolicyName,
        read: impl FnOnce() -> Reading,
    ) -> Decision {
        decide_at(chooser, policy, Instant::from_nanos(0), read)
    }

    fn decide_at(
        chooser: &mut Chooser,
        policy: PolicyName,
        now: Instant,
        read: impl FnOnce() -> Reading,
    ) -> Decision {
        let outlook = Outlook {
            now,
            source: Source::Outside,
            due_in: None,
        };
        chooser.decide(settings(policy), outlook, read)
    }

    fn learn_short_wait(chooser: &mut Chooser, policy: PolicyName) {
        let wait = Wait {
            source: Source::Outside,
            waited: Duration::from_micros(10),
            ended: Ended::Signalled,
            spun: Spun::Not,
        };
        chooser.learn(settings(policy), wait);
    }

    fn no_reading() -> Reading {
        panic!("the system is asked for nothing")
    }

    #[test]
    fn off_never_spins_whatever_the_others_have_learned() {
        let mut chooser = new();
        learn_short_wait(&mut chooser, PolicyName::Ema);
        learn_short_wait(&mut chooser, PolicyName::Learned);
        assert_eq!(
            decide(&mut chooser, PolicyName::Off, no_reading),
            Decision::Park
        );
    }

    #[test]
    fn ema_spins_for_its_limit_on_any_machine() {
        let decision = decide(&mut new(), PolicyName::Ema, no_reading);
        assert_eq!(decision, Decision::Spin(Duration::from_millis(2)));
    }

    #[test]
    fn the_system_is_asked_only_when_a_spin_is_wanted_and_then_rarely() {
        let mut chooser = new();
        assert_eq!(
            decide(&mut chooser, PolicyName::Learned, no_reading),
            Decision::Park
        );
        learn_short_wait(&mut chooser, PolicyName::Learned);
        assert_ne!(
            decide(&mut chooser, PolicyName::Learned, || MANY),
            Decision::Park
        );
        assert_ne!(
            decide(&mut chooser, PolicyName::Learned, no_reading),
            Decision::Park
        );
    }

    #[test]
    fn where_spinning_is_harmful_learned_parks_until_that_is_over() {
        let mut chooser = new();
        learn_short_wait(&mut chooser, PolicyName::Learned);
        let one = Reading {
            cpus: 1,
            machine: 1,
            ..MANY
        };
        assert_eq!(
            decide(&mut chooser, PolicyName::Learned, || one),
            Decision::Park
        );
        assert_eq!(
            decide(&mut chooser, PolicyName::Learned, no_reading),
            Decision::Park
        );
        let later = Instant::from_nanos(0) + HOLDS;
        assert_ne!(
            decide_at(&mut chooser, PolicyName::Learned, later, || MANY),
            Decision::Park
        );
    }

    #[test]
    fn spun_time_is_summed_over_all_policies() {
        let mut chooser = new();
        learn_short_wait(&mut chooser, PolicyName::Learned);
        let spin = |spun, ended| Wait {
            source: Source::Outside,
            waited: Duration::from_micros(10),
            ended,
            spun,
        };
        chooser.learn(
            settings(PolicyName::Learned),
            spin(Spun::Hit, Ended::Signalled),
        );
        let failed = Spun::Failed(Duration::from_micros(3));
        chooser.learn(settings(PolicyName::Ema), spin(failed, Ended::Signalled));
        let tally = chooser.tally();
        assert_eq!(tally.spun, Duration::from_micros(13));
        let expected = Accuracy {
            true_positives: 1,
            false_positives: 1,
            true_negatives: 0,
            false_negatives: 1,
        };
        assert_eq!(tally.accuracy, expected);
    }

    #[test]
    fn at_most_half_of_the_processors_spin_except_with_ema() {
        let mut chooser = new();
        let most = |chooser: &Chooser, policy| chooser.most_spinners(settings(policy));
        assert_eq!(most(&chooser, PolicyName::Learned), 1);
        learn_short_wait(&mut chooser, PolicyName::Learned);
        let _ = decide(&mut chooser, PolicyName::Learned, || MANY);
        assert_eq!(most(&chooser, PolicyName::Learned), 2);
        assert_eq!(most(&chooser, PolicyName::Ema), usize::MAX);
    }

    #[test]
    fn a_budget_of_nothing_parks() {
        let mut chooser = new();
        learn_short_wait(&mut chooser, PolicyName::Learned);
        let outlook = Outlook {
            now: Instant::from_nanos(0),
            source: Source::Outside,
            due_in: None,
        };
        let nothing = Settings {
            budget: 0.0,
            ..settings(PolicyName::Learned)
        };
        assert_eq!(chooser.decide(nothing, outlook, no_reading), Decision::Park);
    }
}
