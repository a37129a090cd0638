//! Which object keeps what: dominators, and retained sizes.
//!
//! An object *dominates* another if all ways from the root to the other lead through it. So what an
//! object dominates is freed with it. Its *retained size* is the size of all that.
//!
//! The algorithm is Lengauer's and Tarjan's, in its simple form ("A fast algorithm for finding
//! dominators in a flowgraph", 1979). It takes nearly linear time. Nothing recurses, as a list may
//! have millions of objects behind each other.

use super::graph::Living;
use std::cmp::Reverse;

/// No object.
const NONE: u32 = u32::MAX;

/// How many objects behind each other are shown that keep nearly the same.
const MOST_ALIKE: u8 = 3;

/// The dominators of all objects, by their places in [`Living::objects`].
#[derive(Debug)]
pub struct Dominators {
    /// The nearest dominator; the root's is itself.
    nearest: Vec<u32>,
    retained: Vec<u64>,
    /// All objects; each comes after its dominators.
    order: Vec<u32>,
}

impl Dominators {
    /// Finds the dominators in a heap.
    pub fn of(living: &Living) -> Dominators {
        let followers = Lists::of_references(living);
        let search = Search::of(&followers);
        let found = Finder::of(&search, &followers).find();
        let order = search.order;
        let mut nearest = vec![0; order.len()];
        let mut retained: Vec<u64> = living.objects().map(|object| object.bytes).collect();
        for (at, &number) in order.iter().enumerate() {
            nearest[number as usize] = order[found[at] as usize];
        }
        // A dominator has been found before what it dominates.
        for &number in order.iter().skip(1).rev() {
            retained[nearest[number as usize] as usize] += retained[number as usize];
        }
        Dominators {
            nearest,
            retained,
            order,
        }
    }

    /// The bytes that would be free without this object, its own among them.
    pub fn retained(&self, number: usize) -> u64 {
        self.retained[number]
    }

    /// The objects that retain at least so many bytes, those with most first. Of objects behind
    /// each other that retain nearly the same, as in a list, only the first ones.
    pub fn largest(&self, least: u64, is_counted: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut alike = vec![0_u8; self.order.len()];
        let mut largest = Vec::new();
        for &number in &self.order {
            let number = number as usize;
            let (nearest, retained) = (self.nearest[number] as usize, self.retained[number]);
            if retained < least || !is_counted(number) {
                continue;
            }
            let is_behind = number != nearest && is_counted(nearest);
            if is_behind && retained / 9 >= self.retained[nearest] / 10 {
                alike[number] = alike[nearest].saturating_add(1);
            }
            if alike[number] < MOST_ALIKE {
                largest.push(number);
            }
        }
        largest.sort_by_key(|&number| (Reverse(self.retained[number]), number));
        largest
    }

    /// For each of some classes the bytes that would be free without its objects. `class_of` gives
    /// the place of an object's class among `classes`; `None`: it is not counted by class.
    pub fn retained_by_class(
        &self,
        classes: usize,
        class_of: impl Fn(usize) -> Option<usize>,
    ) -> Vec<u64> {
        let dominated = Lists::of_dominated(self);
        let mut sums = vec![0; classes];
        // How many objects of a class dominate what is looked at. What they retain is counted.
        let mut above = vec![0_u32; classes];
        let mut pending: Vec<(u32, bool)> = self
            .order
            .first()
            .map(|&root| (root, false))
            .into_iter()
            .collect();
        while let Some((number, is_left)) = pending.pop() {
            let class = class_of(number as usize);
            if is_left {
                if let Some(class) = class {
                    above[class] -= 1;
                }
                continue;
            }
            if let Some(class) = class {
                if above[class] == 0 {
                    sums[class] += self.retained[number as usize];
                }
                above[class] += 1;
            }
            pending.push((number, true));
            pending.extend(dominated.of(number).iter().map(|&next| (next, false)));
        }
        sums
    }
}

/// A list of numbers for each number, in one piece of memory.
struct Lists {
    /// Where each list begins, and at last where the last one ends.
    begins: Vec<usize>,
    numbers: Vec<u32>,
}

impl Lists {
    /// What each object refers to, so that it lives.
    fn of_references(living: &Living) -> Lists {
        let mut lists = Lists {
            begins: vec![0],
            numbers: Vec::new(),
        };
        for number in 0..living.objects().len() {
            let strong = living
                .references_of(number)
                .filter(|&(.., is_weak)| !is_weak);
            lists.numbers.extend(strong.map(|(_, to, _)| to as u32));
            lists.begins.push(lists.numbers.len());
        }
        lists
    }

    /// The objects whose nearest dominator each one is.
    fn of_dominated(found: &Dominators) -> Lists {
        let pairs = found.order.iter().skip(1);
        let pairs = pairs.map(|&number| (found.nearest[number as usize], number));
        Lists::of_pairs(found.order.len(), pairs)
    }

    /// The second numbers, for each first number.
    fn of_pairs(count: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Lists {
        let mut begins = vec![0; count + 1];
        for (first, _) in pairs.clone() {
            begins[first as usize + 1] += 1;
        }
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let mut ends = begins.clone();
        let mut numbers = vec![0; begins.last().copied().unwrap_or(0)];
        for (first, second) in pairs {
            numbers[ends[first as usize]] = second;
            ends[first as usize] += 1;
        }
        Lists { begins, numbers }
    }

    fn of(&self, number: u32) -> &[u32] {
        let number = number as usize;
        &self.numbers[self.begins[number]..self.begins[number + 1]]
    }

    fn count(&self) -> usize {
        self.begins.len() - 1
    }
}

/// A search in depth from the root. Its steps number the objects anew.
struct Search {
    /// The objects, in the order in which they were found.
    order: Vec<u32>,
    /// For each object, the step that found it.
    steps: Vec<u32>,
    /// For each step, the step of the object that led to it.
    parents: Vec<u32>,
}

impl Search {
    fn of(followers: &Lists) -> Search {
        let mut search = Search {
            order: Vec::new(),
            steps: vec![NONE; followers.count()],
            parents: Vec::new(),
        };
        // An object, the step that led to it, and how many of its followers were visited.
        let mut path: Vec<(u32, usize)> = Vec::new();
        if followers.count() > 0 {
            search.find(0, 0);
            path.push((0, 0));
        }
        while let Some((number, visited)) = path.last_mut() {
            let Some(&next) = followers.of(*number).get(*visited) else {
                path.pop();
                continue;
            };
            *visited += 1;
            if search.steps[next as usize] == NONE {
                let parent = search.steps[*number as usize];
                search.find(next, parent);
                path.push((next, 0));
            }
        }
        search
    }

    fn find(&mut self, number: u32, parent: u32) {
        self.steps[number as usize] = self.order.len() as u32;
        self.order.push(number);
        self.parents.push(parent);
    }
}

/// The state of Lengauer's and Tarjan's algorithm. All numbers are steps of the search.
struct Finder<'a> {
    search: &'a Search,
    predecessors: Lists,
    /// The semidominators so far.
    semi: Vec<u32>,
    /// The forest: what each step hangs on, and the step with the least semidominator up to there.
    ancestors: Vec<u32>,
    labels: Vec<u32>,
    /// Memory for the path that is made shorter.
    path: Vec<u32>,
}

impl Finder<'_> {
    fn of<'a>(search: &'a Search, followers: &Lists) -> Finder<'a> {
        let count = search.order.len();
        let pairs = search.order.iter().enumerate().flat_map(|(from, &number)| {
            let to = followers.of(number).iter();
            to.map(move |&to| (search.steps[to as usize], from as u32))
        });
        Finder {
            search,
            predecessors: Lists::of_pairs(count, pairs),
            semi: (0..count as u32).collect(),
            ancestors: vec![NONE; count],
            labels: (0..count as u32).collect(),
            path: Vec::new(),
        }
    }

    /// The nearest dominator of each step.
    fn find(mut self) -> Vec<u32> {
        let count = self.search.order.len();
        let mut nearest = vec![0; count];
        // For each step, the first of those that it is the semidominator of; then the next ones.
        let (mut first, mut next) = (vec![NONE; count], vec![NONE; count]);
        for step in (1..count as u32).rev() {
            let at = step as usize;
            for place in self.predecessors.begins[at]..self.predecessors.begins[at + 1] {
                let from = self.predecessors.numbers[place];
                let least = self.least(from);
                self.semi[at] = self.semi[at].min(self.semi[least as usize]);
            }
            let semi = self.semi[at] as usize;
            (next[at], first[semi]) = (first[semi], step);
            let parent = self.search.parents[at];
            self.ancestors[at] = parent;
            let mut waiting = std::mem::replace(&mut first[parent as usize], NONE);
            while waiting != NONE {
                let least = self.least(waiting);
                let is_lower = self.semi[least as usize] < self.semi[waiting as usize];
                nearest[waiting as usize] = if is_lower { least } else { parent };
                waiting = next[waiting as usize];
            }
        }
        for at in 1..count {
            if nearest[at] != self.semi[at] {
                nearest[at] = nearest[nearest[at] as usize];
            }
        }
        nearest
    }

    /// The step with the least semidominator, from this one up to the root of its tree. Makes the
    /// path there shorter.
    fn least(&mut self, step: u32) -> u32 {
        let above = |finder: &Self, step: u32| finder.ancestors[step as usize];
        if above(self, step) == NONE {
            return step;
        }
        let mut here = step;
        while above(self, above(self, here)) != NONE {
            self.path.push(here);
            here = above(self, here);
        }
        while let Some(here) = self.path.pop() {
            let ancestor = above(self, here) as usize;
            let semi = |label: u32| self.semi[label as usize];
            if semi(self.labels[ancestor]) < semi(self.labels[here as usize]) {
                self.labels[here as usize] = self.labels[ancestor];
            }
            self.ancestors[here as usize] = self.ancestors[ancestor];
        }
        self.labels[step as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::Graph;
    use super::super::stream::{Manner, ObjectKind, Record};
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A heap of objects of 1, 2, 4 ... bytes, with these references.
    fn living(count: u64, references: &[(u64, u64)]) -> Living {
        let mut graph = Graph::default();
        for number in 0..count {
            let object = Record::Object {
                address: 8 * (number + 1),
                kind: ObjectKind::Table,
                bytes: 1 << number.min(40),
                name: b"table",
            };
            graph.take(object).expect("there is a place");
            for &(_, to) in references.iter().filter(|&&(from, _)| from == number) {
                let reference = Record::Reference {
                    by: Manner::Hidden,
                    to: 8 * (to + 1),
                    is_weak: false,
                };
                graph.take(reference).expect("there is a place");
            }
        }
        graph.living()
    }

    /// For each living object, its address, its dominators' and its retained size.
    fn found(living: &Living) -> Vec<(u64, u64, u64)> {
        let dominators = Dominators::of(living);
        let addresses: Vec<u64> = living.objects().map(|object| object.address).collect();
        let each = addresses.iter().enumerate().map(|(number, &address)| {
            let nearest = dominators.nearest[number] as usize;
            let retained = dominators.retained(number);
            (address / 8 - 1, addresses[nearest] / 8 - 1, retained)
        });
        let mut each: Vec<_> = each.collect();
        each.sort_unstable();
        each
    }

    #[test]
    fn an_object_retains_what_only_it_leads_to() {
        // 0 leads to 1 and 2, both to 3, and 3 to 4.
        let living = living(5, &[(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]);
        let expected = [(0, 0, 31), (1, 0, 2), (2, 0, 4), (3, 0, 24), (4, 3, 16)];
        assert_eq!(found(&living), expected);
    }

    #[test]
    fn a_class_does_not_count_what_is_inside_of_its_own_twice() {
        // A list: each one keeps the next.
        let living = living(4, &[(0, 1), (1, 2), (2, 3)]);
        let dominators = Dominators::of(&living);
        let all_but_the_root = |number: usize| (number > 0).then_some(0);
        assert_eq!(dominators.retained_by_class(1, all_but_the_root), [14]);
        let odd_and_even = |number: usize| Some(number % 2);
        assert_eq!(dominators.retained_by_class(2, odd_and_even), [15, 14]);
    }

    #[test]
    fn the_largest_are_the_beginnings_of_what_keeps_the_same() {
        // A list of objects that keep the last one, which is by far the largest.
        let references: Vec<(u64, u64)> = (1..10).map(|number| (number - 1, number)).collect();
        let mut references = references;
        references.push((9, 40));
        let living = living(41, &references);
        let dominators = Dominators::of(&living);
        let largest = dominators.largest(1 << 30, |number| number > 0);
        assert_eq!(largest, [1, 2, 3]);
        assert!(dominators.largest(1 << 50, |_| true).is_empty());
    }

    #[test]
    fn a_long_list_needs_no_stack() {
        let count = 100_000;
        let references: Vec<(u64, u64)> = (1..count).map(|number| (number - 1, number)).collect();
        let mut graph = Graph::default();
        for &(from, to) in &references {
            let object = Record::Object {
                address: 8 * (from + 1),
                kind: ObjectKind::Table,
                bytes: 10,
                name: b"table",
            };
            let reference = Record::Reference {
                by: Manner::Hidden,
                to: 8 * (to + 1),
                is_weak: false,
            };
            graph.take(object).expect("there is a place");
            graph.take(reference).expect("there is a place");
        }
        let living = graph.living();
        assert_eq!(Dominators::of(&living).retained(0), 10 * (count - 1));
        let empty = Graph::default().living();
        assert!(Dominators::of(&empty).order.is_empty());
    }

    /// Whether the root reaches an object although another one is taken away.
    fn is_reached_without(count: u64, references: &[(u64, u64)], without: u64, to: u64) -> bool {
        let mut seen = vec![false; count as usize];
        let mut pending = vec![0];
        while let Some(here) = pending.pop() {
            if here == without || std::mem::replace(&mut seen[here as usize], true) {
                continue;
            }
            let followers = references.iter().filter(|&&(from, _)| from == here);
            pending.extend(followers.map(|&(_, to)| to));
        }
        seen[to as usize]
    }

    proptest! {
        /// By the definition: without a dominator, the object is not reached.
        #[test]
        fn dominators_are_those_of_the_definition(references in vec((0..9_u64, 0..9_u64), 0..30)) {
            let living = living(9, &references);
            let found = found(&living);
            for &(object, nearest, retained) in &found {
                let alive = |&&(other, ..): &&(u64, u64, u64)| other != object;
                let lost = found.iter().filter(alive).filter(|&&(other, ..)| {
                    object == 0 || !is_reached_without(9, &references, object, other)
                });
                let lost: u64 = lost.map(|&(other, ..)| 1 << other).sum();
                prop_assert_eq!(retained, lost + (1 << object));
                prop_assert!(object == 0
                    || nearest == 0
                    || !is_reached_without(9, &references, nearest, object));
            }
        }
    }
}
