//! The machine, the two threads, and the search.

mod machine;
mod threads;

use std::collections::HashMap;
use std::fmt;
use threads::{State, Step};

/// The machine, and the parts of the protocol that are present.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol {
    /// A take runs `membarrier` between its store and its load.
    pub(crate) membarrier: bool,
    /// An enter reads `slow`, and takes the slow path if the VM is revoked.
    pub(crate) checks_revoked: bool,
    /// After the thread has noted the object of its call, it reads `slow`, and takes the slow path
    /// if the VM is revoked.
    pub(crate) checks_noted: bool,
    /// A leave stores the gate with release.
    pub(crate) leave_is_release: bool,
    /// Plain stores become visible in the order in which they were made.
    pub(crate) stores_in_order: bool,
    /// An enter reads `slow` with acquire. Otherwise the thread may read the guest's state before
    /// that, and even while it is still in its call.
    pub(crate) slow_is_acquire: bool,
    /// Locking the mutex is an acquire. Otherwise what was read before it may be used after it.
    pub(crate) lock_is_acquire: bool,
    /// How many foreign calls the thread makes.
    pub(crate) calls: u8,
}

/// What must not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forbidden {
    /// Two owners. What follows is not explored.
    BothInside,
    /// The new owner does not see the last write to the guest's state.
    HeirSeesOldState,
    /// The thread does not see the last write to the guest's state.
    ThreadSeesOldState,
    /// The thread uses the object of its call while another thread has the VM and does not know the
    /// object.
    UsedUnnoticed,
    /// From here the thread can never finish its rounds.
    Stuck,
}

/// All forbidden states.
pub(crate) const EVERYTHING: &[Forbidden] = &[
    Forbidden::BothInside,
    Forbidden::HeirSeesOldState,
    Forbidden::ThreadSeesOldState,
    Forbidden::UsedUnnoticed,
    Forbidden::Stuck,
];

/// A forbidden state, and the shortest way to it.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) what: Forbidden,
    trace: Vec<(Step, State)>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}:", self.what)?;
        for (number, (step, state)) in self.trace.iter().enumerate() {
            writeln!(f, "{:3}. {step:<58} {state}", number + 1)?;
        }
        Ok(())
    }
}

/// All states found so far, in the order of their distance from the first.
#[derive(Default)]
struct Explored {
    states: Vec<State>,
    numbers: HashMap<State, usize>,
    /// By state: the state that it was found from, and the step.
    parents: Vec<Option<(usize, Step)>>,
    /// By state: those that lead to it.
    predecessors: Vec<Vec<usize>>,
}

/// Explores every interleaving. Returns the number of states, or the shortest way to a forbidden
/// one.
pub(crate) fn explore(protocol: Protocol, forbidden: &[Forbidden]) -> Result<usize, Violation> {
    let mut explored = Explored::default();
    explored.add(State::first(), None);
    let mut next = 0;
    while next < explored.states.len() {
        let state = explored.states[next].clone();
        let wrong = state.what_is_wrong();
        if let Some(what) = wrong.filter(|what| forbidden.contains(what)) {
            return Err(explored.violation(what, next));
        }
        if wrong != Some(Forbidden::BothInside) {
            for (step, successor) in state.successors(protocol) {
                explored.add(successor, Some((next, step)));
            }
        }
        next += 1;
    }
    match explored
        .first_that_cannot_finish()
        .filter(|_| forbidden.contains(&Forbidden::Stuck))
    {
        Some(stuck) => Err(explored.violation(Forbidden::Stuck, stuck)),
        None => Ok(explored.states.len()),
    }
}

impl Explored {
    fn add(&mut self, state: State, parent: Option<(usize, Step)>) {
        let known = self.numbers.get(&state).copied();
        let number = known.unwrap_or_else(|| {
            let number = self.states.len();
            self.numbers.insert(state.clone(), number);
            self.states.push(state);
            self.parents.push(parent);
            self.predecessors.push(Vec::new());
            number
        });
        if let Some((from, _)) = parent {
            self.predecessors[number].push(from);
        }
    }

    fn violation(&self, what: Forbidden, state: usize) -> Violation {
        let mut trace = Vec::new();
        let mut at = state;
        while let Some((from, step)) = self.parents[at] {
            trace.push((step, self.states[at].clone()));
            at = from;
        }
        trace.reverse();
        Violation { what, trace }
    }

    /// A state from which the thread can never finish all its rounds.
    fn first_that_cannot_finish(&self) -> Option<usize> {
        let mut can_finish: Vec<bool> = self.states.iter().map(State::is_finished).collect();
        let mut to_visit: Vec<usize> = (0..can_finish.len())
            .filter(|&state| can_finish[state])
            .collect();
        while let Some(state) = to_visit.pop() {
            for &from in &self.predecessors[state] {
                if !std::mem::replace(&mut can_finish[from], true) {
                    to_visit.push(from);
                }
            }
        }
        can_finish.iter().position(|&can| !can)
    }
}
