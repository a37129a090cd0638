//! Which objects are reached in the same manner: by ways of the same *shape*.
//!
//! Two ways have the same shape if their steps lead to objects of the same classes by the same kind
//! of reference. Places in lists do not matter, nor do numbers in names, nor names in a collection:
//! an object with more than [`FEW`] references. Steps that repeat, as in a linked list, count once.

use super::paths::Paths;
use super::reader::Snapshot;
use super::{EdgeKind, NodeKind};
use std::collections::HashMap;

/// The largest number of references of an object whose names of references matter.
const FEW: usize = 64;

/// No shape: the object cannot be reached.
const NONE: u32 = u32::MAX;

/// The last step of a way: how it refers, and to which class.
type LastStep = (EdgeKind, u32);

/// The shape of a shortest way to each object.
pub(super) struct Shapes(Vec<u32>);

impl Shapes {
    pub(super) fn of(snapshot: &Snapshot, paths: &Paths) -> Self {
        let mut shapes = vec![NONE; snapshot.len()];
        let mut classes: HashMap<(NodeKind, &str), u32> = HashMap::new();
        // Each shape by its number: the shape of the way to the object before, and the last step.
        let mut known: HashMap<(u32, LastStep), u32> = HashMap::new();
        let mut last_steps: Vec<Option<LastStep>> = Vec::new();
        for at in paths.nearest_first() {
            let Some((before, edge)) = paths.before(at) else {
                shapes[at] = number(last_steps.len());
                last_steps.push(None);
                continue;
            };
            let next_class = number(classes.len());
            let class = *classes.entry(snapshot.class(at)).or_insert(next_class);
            let is_collection = snapshot.count_of_edges(before) > FEW;
            let by = without_place(snapshot.kind_of_edge(edge), is_collection);
            let step = (by, class);
            let shape_before = shapes[before];
            let repeats = last_steps[shape_before as usize].as_ref() == Some(&step);
            shapes[at] = if repeats {
                shape_before
            } else {
                let next = number(last_steps.len());
                let shape = *known.entry((shape_before, step.clone())).or_insert(next);
                if shape == next {
                    last_steps.push(Some(step));
                }
                shape
            };
        }
        Self(shapes)
    }

    /// The shape of the way to an object; none if the object cannot be reached.
    pub(super) fn to(&self, at: usize) -> Option<u32> {
        let shape = self.0[at];
        (shape != NONE).then_some(shape)
    }
}

/// How it refers, without what may differ in ways of the same shape.
fn without_place(kind: EdgeKind, is_collection: bool) -> EdgeKind {
    match kind {
        EdgeKind::Property(_) if is_collection => EdgeKind::Property(String::new()),
        EdgeKind::Property(name) => EdgeKind::Property(without_numbers(name)),
        EdgeKind::Element(_) => EdgeKind::Element(0),
        EdgeKind::Hidden(_) => EdgeKind::Hidden(0),
        EdgeKind::Context(_) | EdgeKind::Internal(_) | EdgeKind::Weak(_) => kind,
    }
}

/// A number for the next one of so many.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(NONE)
}

fn without_numbers(mut name: String) -> String {
    name.retain(|character| !character.is_ascii_digit());
    name
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn places_and_numbers_do_not_matter_and_names_do() {
        let name = |text: &str| EdgeKind::Property(text.to_owned());
        assert_eq!(
            without_place(EdgeKind::Element(7), false),
            without_place(EdgeKind::Element(8), true)
        );
        assert_eq!(
            without_place(name("process 17"), false),
            without_place(name("process 4"), false)
        );
        assert_ne!(
            without_place(name("inbox"), false),
            without_place(name("basket"), false)
        );
        assert_eq!(
            without_place(name("inbox"), true),
            without_place(name("basket"), true)
        );
    }
}
