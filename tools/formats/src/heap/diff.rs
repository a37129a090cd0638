//! The difference of two snapshots: which classes of objects have grown, and what keeps them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

use super::NodeKind;
use super::paths::Paths;
use super::reader::{ClassKey, Snapshot};
use super::shapes::Shapes;
use crate::{quantity, text};

/// The largest number of characters of a name in a table.
const NAME: usize = 60;

/// The largest number of steps of a path in a table. Paths in data are whole.
const STEPS: usize = 24;

/// The width of the columns with sizes and counts, in characters.
const WIDTH: usize = 12;

/// A step from an object to another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// How the object is referred to, in the guest's manner: `.name`, `[1]`, `<metatable>`.
    pub by: String,
    /// The class of the object that it leads to.
    pub to: String,
}

/// A class of objects that has grown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClassGrowth {
    /// The class: the name of its objects; `(strings)` and `(numbers)` stand for all of those.
    pub class: String,
    /// The number of its objects in the first snapshot.
    pub count_before: u64,
    /// The number of its objects in the second snapshot.
    pub count_after: u64,
    /// The sizes of its objects in the first snapshot, in bytes.
    pub bytes_before: u64,
    /// The sizes of its objects in the second snapshot, in bytes.
    pub bytes_after: u64,
    /// A shortest way from the root to one of its objects. Where such ways differ, it is one of
    /// those that lead to the most new ones. Empty if no object of the class can be reached.
    pub path: Vec<Step>,
    /// The number of new objects that ways like this one lead to.
    pub kept: u64,
}

/// What has grown from a first snapshot to a second one. `Display` writes a table for people,
/// [`Self::to_json`] text for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Growth {
    /// The number of objects in the first snapshot.
    pub count_before: u64,
    /// The number of objects in the second snapshot.
    pub count_after: u64,
    /// The sizes of all objects in the first snapshot, in bytes.
    pub bytes_before: u64,
    /// The sizes of all objects in the second snapshot, in bytes.
    pub bytes_after: u64,
    /// The classes that have grown, by size or by number; the largest growth in bytes comes first.
    pub classes: Vec<ClassGrowth>,
}

/// The sums of a class in both snapshots.
#[derive(Debug, Default, Clone, Copy)]
struct ClassSums {
    count: [u64; 2],
    bytes: [u64; 2],
}

impl ClassSums {
    fn has_grown(&self) -> bool {
        self.count[1] > self.count[0] || self.bytes[1] > self.bytes[0]
    }

    /// How much it has grown, in bytes and in objects.
    fn growth(&self) -> (i128, i128) {
        let of = |[before, after]: [u64; 2]| i128::from(after) - i128::from(before);
        (of(self.bytes), of(self.count))
    }
}

/// The objects of a class to which ways of one kind lead.
#[derive(Debug, Clone, Copy)]
struct Kept {
    /// How many of them are new, and how many there are.
    new: u64,
    all: u64,
    /// The first new one, or else the first one.
    example: usize,
}

impl Growth {
    /// Compares two snapshots of one program. Only the `limit` classes that have grown most are
    /// listed.
    #[must_use]
    pub fn between(before: &Snapshot, after: &Snapshot, limit: usize) -> Self {
        let mut sums: HashMap<ClassKey<'_>, ClassSums> = HashMap::new();
        for (side, snapshot) in [before, after].into_iter().enumerate() {
            for (at, node) in snapshot.nodes().iter().enumerate() {
                let sums = sums.entry(snapshot.class(at)).or_default();
                sums.count[side] += 1;
                sums.bytes[side] = sums.bytes[side].saturating_add(node.size);
            }
        }
        let mut grown: Vec<(ClassKey<'_>, ClassSums)> = sums
            .into_iter()
            .filter(|(_, sums)| sums.has_grown())
            .collect();
        grown.sort_by_key(|(class, sums)| (Reverse(sums.growth()), class.1, class.0 as u8));
        grown.truncate(limit);

        let keys: Vec<ClassKey<'_>> = grown.iter().map(|(class, _)| *class).collect();
        let paths = Paths::of(after);
        let kept = largest_groups(before, after, &keys, &paths);
        let classes = grown.iter().zip(kept).map(|((class, sums), kept)| {
            let [count_before, count_after] = sums.count;
            let [bytes_before, bytes_after] = sums.bytes;
            ClassGrowth {
                class: class_name(*class),
                count_before,
                count_after,
                bytes_before,
                bytes_after,
                path: kept.map_or_else(Vec::new, |kept| path(after, &paths, kept.example)),
                kept: kept.map_or(0, |kept| kept.new),
            }
        });
        Self {
            count_before: before.len() as u64,
            count_after: after.len() as u64,
            bytes_before: before.size(),
            bytes_after: after.size(),
            classes: classes.collect(),
        }
    }

    /// The growth as JSON on one line.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Only a map with other keys than text could fail.
        serde_json::to_string(self).expect("numbers and texts are JSON")
    }
}

fn class_name((kind, name): ClassKey<'_>) -> String {
    match (kind, name) {
        (NodeKind::String, _) => "(strings)".to_owned(),
        (NodeKind::Number, _) => "(numbers)".to_owned(),
        (kind, "") => format!("({kind:?})").to_lowercase(),
        (_, name) => name.to_owned(),
    }
}

/// For each class, the group of its objects with the most new ones on ways of one kind. None if no
/// object of the class can be reached.
fn largest_groups(
    before: &Snapshot,
    after: &Snapshot,
    classes: &[ClassKey<'_>],
    paths: &Paths,
) -> Vec<Option<Kept>> {
    let numbers: HashMap<ClassKey<'_>, usize> = classes.iter().copied().zip(0..).collect();
    // An object is new if the first snapshot has none of its number and class.
    let mut old: HashMap<u64, usize> = HashMap::new();
    for (at, node) in before.nodes().iter().enumerate() {
        if let Some(&class) = numbers.get(&before.class(at)) {
            old.insert(node.id, class);
        }
    }
    let shapes = Shapes::of(after, paths);
    let mut groups: HashMap<(usize, u32), Kept> = HashMap::new();
    for (at, node) in after.nodes().iter().enumerate() {
        let Some(&class) = numbers.get(&after.class(at)) else {
            continue;
        };
        let Some(shape) = shapes.to(at) else {
            continue;
        };
        let is_new = old.get(&node.id) != Some(&class);
        let group = groups.entry((class, shape)).or_insert(Kept {
            new: 0,
            all: 0,
            example: at,
        });
        if is_new && group.new == 0 {
            group.example = at;
        }
        group.new += u64::from(is_new);
        group.all += 1;
    }
    let mut largest = vec![None; classes.len()];
    for ((class, _), group) in groups {
        let rank = |kept: Kept| (kept.new, kept.all, Reverse(kept.example));
        if largest[class].is_none_or(|best| rank(best) < rank(group)) {
            largest[class] = Some(group);
        }
    }
    largest
}

/// The way from the root to an object.
fn path(snapshot: &Snapshot, paths: &Paths, to: usize) -> Vec<Step> {
    let mut here = 0;
    let steps = paths.edges_to(to).into_iter().map(|number| {
        let (_, edge) = snapshot
            .edges_of(here)
            .find(|(edge, _)| *edge == number)
            .expect("a path follows the edges of its objects");
        here = edge.to;
        Step {
            by: snapshot.kind_of_edge(number).shown(),
            to: class_name(snapshot.class(here)),
        }
    });
    steps.collect()
}

/// A growth with its sign.
fn signed(before: u64, after: u64, shown: impl Fn(u64) -> String) -> String {
    match after.checked_sub(before) {
        Some(0) => "0".to_owned(),
        Some(growth) => format!("+{}", shown(growth)),
        None => format!("-{}", shown(before - after)),
    }
}

/// A path on one line. Of a long one, the middle is left out.
fn shown(path: &[Step]) -> String {
    let texts = |steps: &[Step]| -> String {
        let texts = steps
            .iter()
            .map(|step| text::shortened(&text::visible(&step.by), NAME));
        texts.collect()
    };
    if path.len() <= STEPS {
        return format!("(root){}", texts(path));
    }
    let (first, last) = (&path[..STEPS / 2], &path[path.len() - STEPS / 2..]);
    let left_out = path.len() - STEPS;
    format!(
        "(root){} ... {left_out} more ... {}",
        texts(first),
        texts(last)
    )
}

impl fmt::Display for Growth {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "heap: {} in {} objects, then {} in {} objects",
            quantity::size(self.bytes_before),
            self.count_before,
            quantity::size(self.bytes_after),
            self.count_after
        )?;
        writeln!(out, "{:>WIDTH$}{:>WIDTH$}  class", "bytes", "objects")?;
        for class in &self.classes {
            let bytes = signed(class.bytes_before, class.bytes_after, quantity::size);
            let count = signed(class.count_before, class.count_after, |count| {
                count.to_string()
            });
            let name = text::shortened(&text::visible(&class.class), NAME);
            writeln!(out, "{bytes:>WIDTH$}{count:>WIDTH$}  {name}")?;
            let indent = 2 * WIDTH + 2;
            let path = match class.path.as_slice() {
                [] => "not reachable".to_owned(),
                path if class.kept > 1 => format!("{} new like {}", class.kept, shown(path)),
                path => shown(path),
            };
            writeln!(out, "{:indent$}{path}", "")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod checks {
    use super::*;
    use crate::heap::{Counts, Edge, EdgeKind, Node, SnapshotWriter};

    /// Makes a snapshot: nodes with their edges, each as a kind and the place of its node.
    fn snapshot(nodes: &[(Node, Vec<(EdgeKind, usize)>)]) -> Snapshot {
        let counts = Counts {
            nodes: nodes.len(),
            edges: nodes.iter().map(|(_, edges)| edges.len()).sum(),
        };
        let mut writer = SnapshotWriter::new(Vec::new(), counts).expect("a vector");
        for (node, edges) in nodes {
            let edges = u32::try_from(edges.len()).expect("few");
            writer
                .node(&node.clone().with_edges(edges))
                .expect("a node");
        }
        for (kind, to) in nodes.iter().flat_map(|(_, edges)| edges) {
            let kind = kind.clone();
            writer.edge(&Edge { kind, to: *to }).expect("an edge");
        }
        Snapshot::read(&writer.finish().expect("a vector")[..]).expect("a snapshot")
    }

    fn property(name: &str, to: usize) -> (EdgeKind, usize) {
        (EdgeKind::Property(name.to_owned()), to)
    }

    fn object(class: &str, id: u64, size: u64) -> Node {
        Node::new(NodeKind::Object, class, id, size)
    }

    /// A root, a table of globals, a table `cache` with this many sessions, and one other session.
    fn with_sessions(count: usize) -> Snapshot {
        let mut nodes = vec![
            (
                Node::new(NodeKind::Synthetic, "(root)", 0, 0),
                vec![property("_G", 1)],
            ),
            (
                object("table", 1, 56),
                vec![property("current", 3), property("my cache", 2)],
            ),
            (object("table", 2, 56), vec![]),
            (object("session", 3, 100), vec![property("id", 4)]),
            (Node::new(NodeKind::String, "text", 4, 30), vec![]),
        ];
        for number in 0..count {
            let place = nodes.len();
            let id = 100 + number as u64;
            nodes.push((object("session", id, 100), vec![property("id", 4)]));
            nodes[2]
                .1
                .push((EdgeKind::Element(number as u64 + 1), place));
        }
        snapshot(&nodes)
    }

    #[test]
    fn a_leak_is_found_with_what_keeps_it() {
        let growth = Growth::between(&with_sessions(2), &with_sessions(1002), 10);
        assert_eq!((growth.count_before, growth.count_after), (7, 1007));
        let expected = ClassGrowth {
            class: "session".to_owned(),
            count_before: 3,
            count_after: 1003,
            bytes_before: 300,
            bytes_after: 100_300,
            path: vec![
                Step {
                    by: "._G".to_owned(),
                    to: "table".to_owned(),
                },
                Step {
                    by: "[\"my cache\"]".to_owned(),
                    to: "table".to_owned(),
                },
                Step {
                    by: "[3]".to_owned(),
                    to: "session".to_owned(),
                },
            ],
            kept: 1000,
        };
        assert_eq!(growth.classes, [expected]);
        let table = "\
heap: 442 B in 7 objects, then 98.1 KiB in 1007 objects
       bytes     objects  class
   +97.7 KiB       +1000  session
                          1000 new like (root)._G[\"my cache\"][3]
";
        assert_eq!(growth.to_string(), table);
        let json: serde_json::Value = serde_json::from_str(&growth.to_json()).expect("JSON");
        assert_eq!(json["classes"][0]["path"][1]["by"], "[\"my cache\"]");
    }

    #[test]
    fn objects_with_a_keeper_each_are_found_by_the_way_that_they_share() {
        let listeners = |count: u64| {
            let mut nodes = vec![
                (
                    Node::new(NodeKind::Synthetic, "(root)", 0, 0),
                    vec![property("listeners", 1), property("last", 2)],
                ),
                (object("table", 1, 56), vec![]),
                (object("session", 10, 100), vec![]),
            ];
            for number in 0..count {
                let place = nodes.len();
                let listener = (EdgeKind::Element(number + 1), place);
                nodes[1].1.push(listener);
                nodes.push((
                    object("function", 100 + 2 * number, 40),
                    vec![(EdgeKind::Context("session".to_owned()), place + 1)],
                ));
                nodes.push((object("session", 101 + 2 * number, 100), vec![]));
            }
            snapshot(&nodes)
        };
        let growth = Growth::between(&snapshot(&[]), &listeners(500), 10);
        let session = &growth.classes[0];
        assert_eq!((session.class.as_str(), session.kept), ("session", 500));
        assert_eq!(
            shown(&session.path),
            "(root).listeners[1]<variable session>"
        );
    }

    #[test]
    fn what_has_not_grown_is_not_listed() {
        let growth = Growth::between(&with_sessions(5), &with_sessions(2), 10);
        assert_eq!(growth.classes, []);
    }

    #[test]
    fn strings_are_one_class_and_the_limit_holds() {
        let root = |edges| (Node::new(NodeKind::Synthetic, "(root)", 0, 0), edges);
        let before = snapshot(&[root(vec![])]);
        let after = snapshot(&[
            root(vec![property("a", 1), property("b", 2), property("c", 3)]),
            (Node::new(NodeKind::String, "one", 1, 30), vec![]),
            (Node::new(NodeKind::String, "two", 2, 30), vec![]),
            (object("", 3, 50), vec![]),
        ]);
        let classes = |limit| -> Vec<(String, u64)> {
            let growth = Growth::between(&before, &after, limit);
            let classes = growth.classes.into_iter();
            classes
                .map(|class| (class.class, class.bytes_after))
                .collect()
        };
        let all = [("(strings)".to_owned(), 60), ("(object)".to_owned(), 50)];
        assert_eq!(classes(10), all);
        assert_eq!(classes(1), all[..1]);
    }

    #[test]
    fn a_weak_reference_keeps_nothing() {
        let before = snapshot(&[(Node::new(NodeKind::Synthetic, "(root)", 0, 0), vec![])]);
        let after = snapshot(&[
            (
                Node::new(NodeKind::Synthetic, "(root)", 0, 0),
                vec![(EdgeKind::Weak("w".to_owned()), 1)],
            ),
            (object("table", 1, 56), vec![]),
        ]);
        let growth = Growth::between(&before, &after, 10);
        assert_eq!(growth.classes[0].path, []);
        assert!(growth.to_string().contains("not reachable"), "{growth}");
    }

    #[test]
    fn a_long_path_is_shown_without_its_middle() {
        let step = |number: usize| Step {
            by: format!("[{number}]"),
            to: "table".to_owned(),
        };
        let path: Vec<Step> = (0..100).map(step).collect();
        let line = shown(&path);
        assert!(line.starts_with("(root)[0][1]"), "{line}");
        assert!(
            line.ends_with("[11] ... 76 more ... [88][89][90][91][92][93][94][95][96][97][98][99]")
        );
    }

    #[test]
    fn references_are_shown_in_the_guests_manner() {
        for (kind, expected) in [
            (EdgeKind::Property("a_1".to_owned()), ".a_1"),
            (EdgeKind::Property("1a".to_owned()), "[\"1a\"]"),
            (EdgeKind::Property("a\"\n".to_owned()), "[\"a\\\"\\n\"]"),
            (EdgeKind::Element(7), "[7]"),
            (EdgeKind::Context("n".to_owned()), "<variable n>"),
            (EdgeKind::Internal("metatable".to_owned()), "<metatable>"),
            (EdgeKind::Hidden(3), "<#3>"),
        ] {
            assert_eq!(kind.shown(), expected);
        }
    }
}
