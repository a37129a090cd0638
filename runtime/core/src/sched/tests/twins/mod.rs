//! Fast paths against the slow paths that they stand for.
//!
//! Two schedulers carry out the same random operations. At times one takes the fast path, where
//! that is allowed, and the other the slow one. Both must answer the same, and be equal afterwards
//! in every field. A fast path that is refused must change nothing. The two then go on with the
//! next operations, so later comparisons also see what an earlier path left behind.

mod operations;
mod switches;
mod waits;

use std::cell::Cell;
use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::*;
use operations::{Kind, Operation, World, operation};

/// How often at least the fast path must be taken in all cases of a test. Miri's few cases need
/// not reach it.
const LEAST_TAKEN: u32 = 10;

/// What two schedulers are compared by.
type View = fn(&World) -> String;

/// Every field. The process that ran last has no meaning while another one runs.
fn whole(world: &World) -> String {
    without(world, &[])
}

/// Every field but those with these names, which are numbers or lists of them.
fn without(world: &World, names: &[&str]) -> String {
    let mut text = format!("{:?}", world.sched);
    let last = world.sched.current().map(|_| &"last");
    for name in names.iter().chain(last) {
        let label = format!(" {name}: ");
        let parts: Vec<_> = text
            .split(&label)
            .enumerate()
            .map(|(number, part)| match number {
                0 => part,
                _ => after_value(part),
            })
            .collect();
        text = parts.join(&label);
    }
    text
}

/// What follows a number or a list.
fn after_value(text: &str) -> &str {
    match text.strip_prefix('[') {
        Some(list) => list.split_once(']').map_or("", |(_, rest)| rest),
        None => text.trim_start_matches(|c: char| c.is_ascii_digit()),
    }
}

/// The fields in which two schedulers differ.
fn difference(fast: &str, slow: &str) -> String {
    let fields = |text: &str| -> Vec<String> { text.split(", ").map(String::from).collect() };
    let (fast, slow) = (fields(fast), fields(slow));
    let pairs = fast.iter().zip(&slow).enumerate();
    let unequal = pairs.filter(|(_, (fast, slow))| fast != slow);
    let lines: Vec<_> = unequal
        .map(|(place, (one, other))| {
            let before = fast[place.saturating_sub(3)..place].join(", ");
            format!("{before}, fast: {one}, slow: {other}")
        })
        .take(20)
        .collect();
    format!(
        "{} and {} fields\n{}",
        fast.len(),
        slow.len(),
        lines.join("\n")
    )
}

fn compare(view: View, [fast, slow]: &[World; 2]) -> Result<(), TestCaseError> {
    if cfg!(miri) {
        return Ok(()); // it takes many seconds to write a scheduler as text
    }
    let (fast, slow) = (view(fast), view(slow));
    if fast == slow {
        return Ok(());
    }
    Err(TestCaseError::fail(difference(&fast, &slow)))
}

/// Two paths that must have the same effect.
struct Twins<'a, A> {
    /// Done in both schedulers first; says whether the paths are to be compared then.
    before: &'a dyn Fn(&mut World, Operation) -> bool,
    /// `None` where the fast path may not be taken.
    fast: &'a dyn Fn(&mut World, Operation) -> Option<A>,
    slow: &'a dyn Fn(&mut World, Operation) -> A,
    view: View,
}

impl<'a, A: Debug + PartialEq> Twins<'a, A> {
    fn new(
        fast: &'a dyn Fn(&mut World, Operation) -> Option<A>,
        slow: &'a dyn Fn(&mut World, Operation) -> A,
    ) -> Self {
        Twins {
            before: &|_, _| true,
            fast,
            slow,
            view: whole,
        }
    }

    /// Fails with the shortest sequence of operations after which the two paths differ.
    #[track_caller]
    fn agree(&self) {
        let config = Config {
            cases: length(64, 1),
            failure_persistence: None,
            ..Config::default()
        };
        let taken = Cell::new(0);
        let sequence = vec(operation(), 1..length(90, 20) as usize);
        let outcome = TestRunner::new(config).run(&sequence, |operations| {
            let mut worlds = [World::new(), World::new()];
            for operation in operations {
                if operation.kind != Kind::Compare {
                    worlds.iter_mut().for_each(|world| world.apply(operation));
                } else if self.try_both(&mut worlds, operation)? {
                    taken.set(taken.get() + 1);
                }
            }
            Ok(())
        });
        if let Err(error) = outcome {
            panic!("{error}");
        }
        let taken = taken.get();
        assert!(cfg!(miri) || taken >= LEAST_TAKEN, "taken {taken} times");
    }

    /// Says whether the fast path was taken.
    fn try_both(
        &self,
        worlds: &mut [World; 2],
        operation: Operation,
    ) -> Result<bool, TestCaseError> {
        let [goes_on, _] = worlds
            .each_mut()
            .map(|world| (self.before)(world, operation));
        let answer = goes_on
            .then(|| (self.fast)(&mut worlds[0], operation))
            .flatten();
        let is_taken = answer.is_some();
        if let Some(answer) = answer {
            prop_assert_eq!(answer, (self.slow)(&mut worlds[1], operation));
        }
        compare(self.view, worlds)?;
        worlds.iter_mut().for_each(World::settle);
        Ok(is_taken)
    }
}
