//! Which VM of a simulated run goes on, and for how many steps: pure.

use crate::vm::api::operations::next_number;
use baton_sys::clock::Instant;

/// The mean of the steps of a turn is this, divided by 10^p, with p from 0 to
/// [`MOST_POWER_OF_DIVISOR`]. It is drawn for each run, as that of slices.
const LONGEST_MEAN: f64 = 10_000.0;
const MOST_POWER_OF_DIVISOR: f64 = 3.0;

/// What a VM could do with a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It can go on.
    MayRun,
    /// It waits until this time, or for another VM.
    Waits(Option<Instant>),
    /// It waits for something from outside of the program, which has no time here.
    WaitsForOutside,
}

/// Who goes on. VMs are named by their places in the list.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// This VM.
    GoesOn(usize),
    /// No VM, before this time.
    Later(Instant),
    /// No VM, unless something comes from outside. This VM waits for that; `None` if none does.
    Outside(Option<usize>),
}

/// The random decisions about turns.
#[derive(Debug)]
pub(super) struct Order {
    /// State of the random number generator. Not 0.
    random: u64,
    mean_steps: f64,
    /// How many steps are left of the present turn.
    steps_left: u64,
}

impl Order {
    /// `first` is the first state of the generator.
    pub(super) fn new(first: u64) -> Order {
        let mut order = Order {
            random: first,
            mean_steps: LONGEST_MEAN,
            steps_left: 0,
        };
        let divisor = 10_f64.powf(MOST_POWER_OF_DIVISOR * order.chance());
        order.mean_steps /= divisor;
        order
    }

    /// Chooses among VMs with these standings.
    pub(super) fn choose(&mut self, all: &[Standing], now: Instant) -> Choice {
        let may_run = |standing: &Standing| match *standing {
            Standing::MayRun => true,
            Standing::Waits(until) => until.is_some_and(|until| until <= now),
            Standing::WaitsForOutside => false,
        };
        let ready = all.iter().filter(|standing| may_run(standing)).count() as u64;
        if ready > 0 {
            let chosen = (self.next() % ready) as usize;
            let mut places = (0..all.len()).filter(|&place| may_run(&all[place]));
            return Choice::GoesOn(places.nth(chosen).unwrap_or(0));
        }
        let times = all.iter().filter_map(|standing| match *standing {
            Standing::Waits(until) => until,
            _ => None,
        });
        match times.min() {
            Some(earliest) => Choice::Later(earliest),
            None => {
                let waits_for_outside = |standing| standing == &Standing::WaitsForOutside;
                Choice::Outside(all.iter().position(waits_for_outside))
            }
        }
    }

    /// Begins the turn of the VM that was chosen.
    pub(super) fn begin_turn(&mut self) {
        // As if the turn could end at each step, with the same chance.
        let steps = -self.mean_steps * (1.0 - self.chance()).ln();
        self.steps_left = 1 + steps as u64;
    }

    /// Counts steps of the present turn.
    pub(super) fn count(&mut self, steps: u32) {
        self.steps_left = self.steps_left.saturating_sub(steps.into());
    }

    /// How many steps are left of the present turn; at least one, the first of the next turn.
    pub(super) fn steps_left(&self) -> u32 {
        u32::try_from(self.steps_left).unwrap_or(u32::MAX).max(1)
    }

    /// Whether the steps of the present turn are made.
    pub(super) fn is_over(&self) -> bool {
        self.steps_left == 0
    }

    /// A random number from 0 up to 1, exclusive.
    fn chance(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The next random number.
    fn next(&mut self) -> u64 {
        next_number(&mut self.random)
    }
}

/// The first state of the generator, which must not be 0. Adjacent seeds give unrelated states
/// (splitmix64).
pub(in crate::vm) fn first_number(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ (mixed >> 31)).max(1)
}

#[cfg(test)]
mod tests {
    use super::{Choice, Order, Standing, first_number};
    use baton_sys::clock::Instant;

    const NOW: Instant = Instant::from_nanos(100);

    fn at(nanoseconds: u64) -> Standing {
        Standing::Waits(Some(Instant::from_nanos(nanoseconds)))
    }

    #[test]
    fn each_vm_that_can_go_on_is_chosen_some_time_and_no_other() {
        let mut order = Order::new(7);
        let all = [
            Standing::WaitsForOutside,
            Standing::MayRun,
            at(101),
            at(100),
            Standing::Waits(None),
            Standing::MayRun,
        ];
        let mut chosen = [0; 6];
        for _ in 0..1000 {
            match order.choose(&all, NOW) {
                Choice::GoesOn(place) => chosen[place] += 1,
                other => panic!("{other:?}"),
            }
        }
        let is_chosen = chosen.map(|times| times > 200);
        assert_eq!(is_chosen, [false, true, false, true, false, true]);
        assert_eq!(chosen.iter().sum::<i32>(), 1000);
    }

    #[test]
    fn without_a_vm_that_can_go_on_the_earliest_time_comes_first_and_then_the_world() {
        let mut order = Order::new(7);
        let waits = Standing::Waits(None);
        let all = [Standing::WaitsForOutside, at(300), waits, at(200)];
        let earliest = Choice::Later(Instant::from_nanos(200));
        assert_eq!(order.choose(&all, NOW), earliest);
        let all = [waits, Standing::WaitsForOutside, Standing::WaitsForOutside];
        assert_eq!(order.choose(&all, NOW), Choice::Outside(Some(1)));
        assert_eq!(order.choose(&[waits], NOW), Choice::Outside(None));
    }

    #[test]
    fn the_same_number_gives_the_same_turns_and_others_give_long_and_short_ones() {
        let turns = |first| {
            let mut order = Order::new(first);
            let mut one = || {
                order.begin_turn();
                let mut steps = 0;
                while !order.is_over() {
                    order.count(1);
                    steps += 1;
                }
                steps
            };
            (0..100).map(|_| one()).collect::<Vec<u32>>()
        };
        let mean = |first| turns(first).iter().sum::<u32>() / 100;
        let means = (1..50).map(|seed| mean(first_number(seed)));
        let (least, most) = means.fold((u32::MAX, 0), |(least, most), mean| {
            (least.min(mean), most.max(mean))
        });
        assert_eq!(turns(7), turns(7));
        assert!(least < 30 && most > 3000, "{least} {most}");
    }
}
