//! The boxes of a flame graph: stacks that begin alike share their first boxes.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::profile::merged::{Lines, Merged};

/// The narrowest box that is drawn, as a part of the whole. It can be seen after a zoom.
const NARROWEST: f64 = 1.0 / 20_000.0;

/// The largest number of boxes in a file, so that a browser stays quick.
const BOXES: usize = 30_000;

/// The largest number of boxes above each other, without the one for all.
const DEPTH: usize = 1_000;

/// A box, with its place as a part of the whole width.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FlameBox {
    /// The number of its place; none for the box of all stacks.
    pub(super) place: Option<u32>,
    /// The number of boxes below it.
    pub(super) depth: usize,
    /// Its left edge and its width, from 0 to 1.
    pub(super) left: f64,
    pub(super) width: f64,
    /// What was measured in it.
    pub(super) value: u64,
    pub(super) count: u64,
    /// What was measured by line of its function.
    pub(super) lines: Lines,
}

/// All boxes that are drawn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    /// Each box comes after the one that it stands on.
    pub(super) boxes: Vec<FlameBox>,
    /// The largest depth of a box.
    pub(super) depth: usize,
    /// The number of boxes that are too small or too high.
    pub(super) left_out: usize,
}

/// A function after the functions that called it.
#[derive(Debug, Default)]
struct Branch {
    place: Option<u32>,
    value: u64,
    count: u64,
    lines: Lines,
    children: Vec<usize>,
}

impl Layout {
    /// Arranges stacks. Of two boxes side by side the wider one is at the left; `labels` decides
    /// between equals.
    pub(super) fn of(merged: &Merged, labels: &[String]) -> Self {
        let (mut nodes, mut left_out) = grown(merged);
        let mut boxes = Vec::new();
        let mut pending = vec![(0, 0, 0.0)];
        while let Some((at, depth, left)) = pending.pop() {
            let lines = std::mem::take(&mut nodes[at].lines);
            let node = &nodes[at];
            let width = match node.place {
                Some(_) => share(node.value, nodes[0].value),
                None => 1.0,
            };
            boxes.push(FlameBox {
                place: node.place,
                depth,
                left,
                width,
                value: node.value,
                count: node.count,
                lines,
            });
            let mut children = std::mem::take(&mut nodes[at].children);
            children.sort_by_key(|&child| {
                let label = nodes[child].place.map(|place| &labels[place as usize]);
                (Reverse(nodes[child].value), label)
            });
            let mut next = left;
            for child in children {
                let width = share(nodes[child].value, nodes[0].value);
                if width >= NARROWEST {
                    pending.push((child, depth + 1, next));
                } else {
                    left_out += size(&nodes, child);
                }
                next += width;
            }
        }
        // A box is never wider than the one below it, and the sort keeps the order of equals. So
        // what is kept has all that it stands on.
        if boxes.len() > BOXES {
            boxes.sort_by(|one, other| other.width.total_cmp(&one.width));
            left_out += boxes.len() - BOXES;
            boxes.truncate(BOXES);
        }
        let depth = boxes.iter().map(|flame_box| flame_box.depth).max();
        Self {
            depth: depth.unwrap_or(0),
            boxes,
            left_out,
        }
    }
}

/// The tree of all stacks, and the number of functions that are too deep for it.
fn grown(merged: &Merged) -> (Vec<Branch>, usize) {
    let mut nodes = vec![Branch::default()];
    let mut known: HashMap<(usize, u32), usize> = HashMap::new();
    let mut too_deep = 0;
    for path in &merged.paths {
        let mut at = 0;
        count(&mut nodes[at], path.value, path.count);
        for (&place, lines) in path.places.iter().zip(&path.lines).take(DEPTH) {
            let next = nodes.len();
            let child = *known.entry((at, place)).or_insert(next);
            if child == next {
                nodes.push(Branch {
                    place: Some(place),
                    ..Branch::default()
                });
                nodes[at].children.push(child);
            }
            at = child;
            count(&mut nodes[at], path.value, path.count);
            for (&line, &value) in lines {
                let sum = nodes[at].lines.entry(line).or_default();
                *sum = sum.saturating_add(value);
            }
        }
        too_deep += path.places.len().saturating_sub(DEPTH);
    }
    (nodes, too_deep)
}

fn count(node: &mut Branch, value: u64, count: u64) {
    node.value = node.value.saturating_add(value);
    node.count = node.count.saturating_add(count);
}

/// A part of a whole, from 0 to 1.
fn share(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        _ => part as f64 / whole as f64,
    }
}

/// The number of nodes from this one upwards.
fn size(nodes: &[Branch], from: usize) -> usize {
    let mut sum = 0;
    let mut pending = vec![from];
    while let Some(at) = pending.pop() {
        sum += 1;
        pending.extend(&nodes[at].children);
    }
    sum
}

#[cfg(test)]
mod checks {
    use super::*;
    use crate::profile::{Frame, Labels, Measure, Profile};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn layout(stacks: &[(&str, u64)]) -> (Layout, Vec<String>) {
        let mut profile = Profile::new(Measure::CpuTime, "");
        for (names, value) in stacks {
            // The outermost comes first in these texts.
            let frames = names
                .chars()
                .rev()
                .map(|name| Frame::lua(name.to_string(), "", 0));
            let stack = profile.stack(frames);
            profile.add(stack, *value, 1, Labels::default());
        }
        let merged = Merged::of(&profile);
        let labels: Vec<String> = merged.places.iter().map(|place| place.name()).collect();
        (Layout::of(&merged, &labels), labels)
    }

    fn find<'a>(layout: &'a Layout, labels: &[String], name: &str, depth: usize) -> &'a FlameBox {
        let is_it = |found: &&FlameBox| {
            let label = found.place.map(|place| labels[place as usize].as_str());
            label == Some(name) && found.depth == depth
        };
        layout.boxes.iter().find(is_it).expect("a box")
    }

    #[test]
    fn stacks_that_begin_alike_share_boxes_and_the_widest_is_at_the_left() {
        let (layout, labels) = layout(&[("ab", 10), ("ac", 30), ("d", 60)]);
        assert_eq!(layout.boxes.len(), 5);
        let position = |name, depth| {
            let found = find(&layout, &labels, name, depth);
            (found.left, found.width, found.value)
        };
        assert_eq!(position("d", 1), (0.0, 0.6, 60));
        assert_eq!(position("a", 1), (0.6, 0.4, 40));
        assert_eq!(position("c", 2), (0.6, 0.3, 30));
        assert_eq!(position("b", 2).2, 10);
        assert_eq!((layout.depth, layout.left_out), (2, 0));
    }

    #[test]
    fn equal_boxes_are_in_the_order_of_their_names() {
        let (layout, labels) = layout(&[("b", 1), ("a", 1)]);
        assert_eq!(find(&layout, &labels, "a", 1).left, 0.0);
        assert_eq!(find(&layout, &labels, "b", 1).left, 0.5);
    }

    #[test]
    fn what_is_too_narrow_or_too_deep_is_left_out_and_counted() {
        let (layout, _) = layout(&[("a", 1_000_000), ("bcd", 1)]);
        assert_eq!((layout.boxes.len(), layout.left_out), (2, 3));
        let (layout, _) = self::layout(&[(&"x".repeat(DEPTH + 7), 1)]);
        assert_eq!((layout.depth, layout.left_out), (DEPTH, 7));
    }

    #[test]
    fn the_number_of_boxes_is_limited_to_the_widest() {
        let names: Vec<String> = (0..40).map(|_| "y".repeat(900)).collect();
        let stacks: Vec<(String, u64)> = names
            .iter()
            .enumerate()
            .map(|(number, rest)| (format!("{}{rest}", (b'A' + number as u8) as char), 1))
            .collect();
        let stacks: Vec<(&str, u64)> = stacks
            .iter()
            .map(|(path, value)| (&path[..], *value))
            .collect();
        let (layout, _) = layout(&stacks);
        assert_eq!(layout.boxes.len(), BOXES);
        assert_eq!(layout.left_out, 40 * 901 + 1 - BOXES);
        assert_eq!(layout.boxes[0].place, None);
    }

    proptest! {
        #[test]
        fn every_box_lies_on_the_one_below_it(stacks in vec(("[abc]{1,6}", 1_u64..1000), 1..12)) {
            let stacks: Vec<(&str, u64)> =
                stacks.iter().map(|(path, value)| (path.as_str(), *value)).collect();
            let (layout, _) = layout(&stacks);
            for upper in layout.boxes.iter().filter(|upper| upper.depth > 0) {
                let below = layout.boxes.iter().filter(|lower| {
                    lower.depth + 1 == upper.depth
                        && lower.left <= upper.left + 1e-9
                        && upper.left + upper.width <= lower.left + lower.width + 1e-9
                        && lower.value >= upper.value
                });
                prop_assert_eq!(below.count(), 1);
            }
        }
    }
}
