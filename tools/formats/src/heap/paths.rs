//! Shortest ways from the root to all objects.

use super::reader::Snapshot;

/// No object, and no edge.
const NONE: u32 = u32::MAX;

/// For each object the last step of a shortest way from the root to it.
#[derive(Debug)]
pub(super) struct Paths {
    /// The object before it, and the number of the edge from there; both are [`NONE`] for the root
    /// and for objects that cannot be reached.
    steps: Vec<(u32, u32)>,
    /// All objects that can be reached, the nearest first.
    found: Vec<u32>,
}

impl Paths {
    /// Finds the ways over edges that keep objects alive.
    ///
    /// Objects and edges beyond number 2^32 are taken as not reachable.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let mut steps = vec![(NONE, NONE); snapshot.len()];
        // `next` is the first of what was found whose edges were not followed.
        let mut found: Vec<u32> = Vec::new();
        if !snapshot.is_empty() {
            found.push(0);
        }
        let mut next = 0;
        while let Some(&from) = found.get(next) {
            next += 1;
            for (number, edge) in snapshot.edges_of(from as usize) {
                let (Ok(to), Ok(number)) = (u32::try_from(edge.to), u32::try_from(number)) else {
                    continue;
                };
                let is_new = to != 0 && steps[edge.to] == (NONE, NONE);
                if is_new && edge.is_strong() {
                    steps[edge.to] = (from, number);
                    found.push(to);
                }
            }
        }
        Self { steps, found }
    }

    /// All objects that can be reached. Each comes after the object before it.
    pub(super) fn nearest_first(&self) -> impl Iterator<Item = usize> + '_ {
        self.found.iter().map(|&at| at as usize)
    }

    /// The object before this one, and the number of the edge between them. None for the root and
    /// for objects that cannot be reached.
    pub(super) fn before(&self, at: usize) -> Option<(usize, usize)> {
        let (node, edge) = self.steps[at];
        (node != NONE).then_some((node as usize, edge as usize))
    }

    /// The numbers of the edges from the root to this object.
    pub(super) fn edges_to(&self, at: usize) -> Vec<usize> {
        let mut edges = Vec::new();
        let mut here = at;
        while let Some((before, edge)) = self.before(here) {
            edges.push(edge);
            here = before;
        }
        edges.reverse();
        edges
    }
}
