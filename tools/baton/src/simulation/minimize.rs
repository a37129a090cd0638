//! The fewest decisions with which a run still fails.
//!
//! This is delta debugging (A. Zeller and R. Hildebrandt, "Simplifying and isolating
//! failure-inducing input", 2002): parts of the list are left out, halves first, then smaller ones.
//! In the end no single decision can be left out.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, RandomState};

/// What a run with some of the decisions showed.
#[derive(Debug)]
pub(super) enum Trial<T> {
    /// It fails in the same way; only these decisions took effect.
    Fails(Vec<T>),
    /// It succeeds, or fails otherwise.
    Differs,
    /// There is no time for it.
    OutOfTime,
}

/// The result.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Minimized<T> {
    /// Decisions with which the run fails.
    pub(super) decisions: Vec<T>,
    /// Whether none of them can be left out.
    pub(super) is_done: bool,
}

/// What the search knows of decisions.
pub(super) struct Kinds<M, V, C> {
    /// Whether a decision is left out first, if all such decisions can be.
    pub(super) may_go: M,
    /// Other lists that may do what a list does. Only those that cost less are tried.
    pub(super) variants: V,
    /// What a decision costs.
    pub(super) cost: C,
}

/// Leaves out as many of the decisions as possible, with which a run fails.
pub(super) fn minimize<T: Clone + Hash, C: Fn(&T) -> usize>(
    decisions: Vec<T>,
    kinds: &Kinds<impl Fn(&T) -> bool, impl Fn(&[T]) -> Vec<Vec<T>>, C>,
    run: impl FnMut(&[T]) -> Trial<T>,
) -> Minimized<T> {
    let mut search = Minimizer {
        present: decisions,
        run,
        cost: &kinds.cost,
        tried: HashSet::new(),
        hasher: RandomState::new(),
        is_out_of_time: false,
    };
    if !search.try_with(Vec::new()) {
        let rest = search
            .present
            .iter()
            .filter(|decision| !(kinds.may_go)(decision));
        let rest: Vec<T> = rest.cloned().collect();
        search.try_with(rest);
        search.leave_out_parts();
        while search.try_one_of((kinds.variants)(&search.present)) {
            search.leave_out_parts();
        }
    }
    Minimized {
        decisions: search.present,
        is_done: !search.is_out_of_time,
    }
}

struct Minimizer<'a, T, R, C> {
    /// The fewest so far.
    present: Vec<T>,
    run: R,
    cost: &'a C,
    /// Hashes of the lists that were tried.
    tried: HashSet<u64>,
    hasher: RandomState,
    is_out_of_time: bool,
}

impl<T, R, C> Minimizer<'_, T, R, C>
where
    T: Clone + Hash,
    R: FnMut(&[T]) -> Trial<T>,
    C: Fn(&T) -> usize,
{
    fn leave_out_parts(&mut self) {
        let mut parts = 2;
        while self.present.len() > 1 && !self.is_out_of_time {
            let part = self.present.len().div_ceil(parts);
            if self.leave_out_one_of(part) {
                parts = parts.saturating_sub(1).max(2);
            } else if part == 1 {
                return;
            } else {
                parts = (parts * 2).min(self.present.len());
            }
        }
    }

    /// Leaves out one part of this size, if that is possible.
    fn leave_out_one_of(&mut self, part: usize) -> bool {
        for begin in (0..self.present.len()).step_by(part) {
            let end = (begin + part).min(self.present.len());
            let rest = [&self.present[..begin], &self.present[end..]].concat();
            if self.try_with(rest) {
                return true;
            }
        }
        false
    }

    fn try_one_of(&mut self, lists: Vec<Vec<T>>) -> bool {
        lists.into_iter().any(|list| self.try_with(list))
    }

    /// Tries decisions that cost less. Returns whether they suffice.
    fn try_with(&mut self, decisions: Vec<T>) -> bool {
        let is_new = self.tried.insert(self.hasher.hash_one(&decisions));
        if !is_new || self.is_out_of_time || self.cost(&decisions) >= self.cost(&self.present) {
            return false;
        }
        match (self.run)(&decisions) {
            Trial::Fails(effective) if self.cost(&effective) <= self.cost(&decisions) => {
                self.present = effective;
                return true;
            }
            Trial::Fails(_) => {
                self.present = decisions;
                return true;
            }
            Trial::Differs => {}
            Trial::OutOfTime => self.is_out_of_time = true,
        }
        false
    }

    fn cost(&self, decisions: &[T]) -> usize {
        decisions.iter().map(self.cost).sum()
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    /// Numbers without variants, of which all cost the same.
    fn plain<M: Fn(&u32) -> bool>(may_go: M) -> Kinds<M, Variants, fn(&u32) -> usize> {
        Kinds {
            may_go,
            variants: |_| Vec::new(),
            cost: |_| 1,
        }
    }

    type Variants = fn(&[u32]) -> Vec<Vec<u32>>;

    /// Minimizes numbers below `count`, of which `needed` are needed. Returns them and the number
    /// of runs.
    fn minimized(count: u32, needed: &[u32]) -> (Vec<u32>, usize) {
        let mut runs = 0;
        let run = |present: &[u32]| {
            runs += 1;
            match needed.iter().all(|number| present.contains(number)) {
                true => Trial::Fails(present.to_vec()),
                false => Trial::Differs,
            }
        };
        let result = minimize((0..count).collect(), &plain(|_| false), run);
        assert!(result.is_done);
        (result.decisions, runs)
    }

    #[test]
    fn only_what_is_needed_is_left() {
        for needed in [
            &[][..],
            &[0],
            &[999],
            &[0, 999],
            &[17, 18, 500],
            &[1, 2, 3, 4, 5],
        ] {
            let (left, runs) = minimized(1000, needed);
            assert_eq!(left, needed);
            assert!(runs < 200, "{runs} runs for {needed:?}");
        }
    }

    #[test]
    fn nothing_is_tried_twice() {
        let mut tried = Vec::new();
        let run = |present: &[u32]| {
            assert!(!tried.contains(&present.to_vec()), "{present:?} again");
            tried.push(present.to_vec());
            match present.contains(&3) && present.contains(&5) {
                true => Trial::Fails(present.to_vec()),
                false => Trial::Differs,
            }
        };
        assert_eq!(
            minimize((0..20).collect(), &plain(|_| false), run).decisions,
            [3, 5]
        );
    }

    #[test]
    fn what_may_go_first_goes_at_once() {
        let mut sizes = Vec::new();
        let run = |present: &[u32]| {
            sizes.push(present.len());
            match present.contains(&4) {
                true => Trial::Fails(present.to_vec()),
                false => Trial::Differs,
            }
        };
        let result = minimize((0..100).collect(), &plain(|&number| number >= 5), run);
        assert_eq!(result.decisions, [4]);
        assert_eq!(sizes[..2], [0, 5]);
    }

    #[test]
    fn decisions_without_effect_are_dropped() {
        let run = |present: &[u32]| match present.contains(&7) {
            true => Trial::Fails(vec![7]),
            false => Trial::Differs,
        };
        assert_eq!(
            minimize((0..1000).collect(), &plain(|_| false), run).decisions,
            [7]
        );
    }

    #[test]
    fn a_shorter_variant_that_fails_is_taken_and_minimized() {
        let variants: Variants = |list| match list {
            [3, 5, 7] => vec![vec![1, 2, 3], vec![8, 9]],
            _ => Vec::new(),
        };
        let kinds = Kinds {
            variants,
            ..plain(|_| false)
        };
        let run = |present: &[u32]| match present {
            [3, 5, 7] | [8, 9] | [9] => Trial::Fails(present.to_vec()),
            _ => Trial::Differs,
        };
        assert_eq!(minimize(vec![3, 5, 7], &kinds, run).decisions, [9]);
    }

    #[test]
    fn out_of_time_the_best_so_far_is_the_result() {
        let mut runs = 0;
        let run = |present: &[u32]| {
            runs += 1;
            match runs {
                1 | 2 => Trial::Differs,
                3 => Trial::Fails(present.to_vec()),
                _ => Trial::OutOfTime,
            }
        };
        let result = minimize((0..8).collect(), &plain(|_| false), run);
        assert_eq!(result.decisions.len(), 4);
        assert!(!result.is_done);
        assert_eq!(runs, 4);
    }
}
