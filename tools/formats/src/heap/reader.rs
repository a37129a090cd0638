//! Reads the files that this crate writes.

use std::fmt;
use std::io::{self, BufReader, Read};

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use super::layout::{
    CONTEXT, EDGE_FIELDS, ELEMENT, HIDDEN, INTERNAL, NODE_FIELDS, PROPERTY, WEAK, kind_of,
};
use super::{Edge, EdgeKind, Node, NodeKind};

/// A heap in memory, as it was read from a file.
#[derive(Debug)]
pub struct Snapshot {
    nodes: Vec<StoredNode>,
    edges: Vec<StoredEdge>,
    strings: Vec<String>,
}

/// A node, with its name as a number of a string.
#[derive(Debug)]
pub(super) struct StoredNode {
    pub(super) kind: NodeKind,
    name: u32,
    pub(super) id: u64,
    pub(super) size: u64,
    /// The number of edges of all nodes before it, and of those up to its last one.
    first_edge: usize,
    end_of_edges: usize,
}

/// An edge, with its kind as the file has it.
#[derive(Debug)]
pub(super) struct StoredEdge {
    kind: u8,
    name: u64,
    pub(super) to: usize,
}

impl StoredEdge {
    /// Whether it keeps the other object alive.
    pub(super) fn is_strong(&self) -> bool {
        self.kind != WEAK
    }
}

/// The parts of a file that are read. All others are skipped.
#[derive(serde::Deserialize)]
struct SnapshotFile {
    snapshot: Head,
    nodes: Nodes,
    edges: Edges,
    strings: Vec<String>,
}

#[derive(serde::Deserialize)]
struct Head {
    meta: Meta,
    node_count: usize,
    edge_count: usize,
}

#[derive(serde::Deserialize)]
struct Meta {
    node_fields: Vec<String>,
    edge_fields: Vec<String>,
}

/// The kind of objects, and their name if they are grouped by it.
pub(super) type ClassKey<'a> = (NodeKind, &'a str);

struct Nodes(Vec<StoredNode>);

struct Edges(Vec<StoredEdge>);

impl Snapshot {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Those of `file`, and [`io::ErrorKind::InvalidData`] if it is not a snapshot that a
    /// [`SnapshotWriter`](super::SnapshotWriter) wrote.
    pub fn read(file: impl Read) -> io::Result<Self> {
        let read: Result<SnapshotFile, serde_json::Error> =
            serde_json::from_reader(BufReader::new(file));
        let SnapshotFile {
            snapshot,
            nodes: Nodes(nodes),
            edges: Edges(edges),
            strings,
        } = read.map_err(|why| match why.is_io() {
            true => io::Error::from(why),
            false => invalid(&why.to_string()),
        })?;
        if snapshot.meta.node_fields != NODE_FIELDS || snapshot.meta.edge_fields != EDGE_FIELDS {
            return Err(invalid("it has other fields than Baton writes"));
        }
        if snapshot.node_count != nodes.len() || snapshot.edge_count != edges.len() {
            return Err(invalid(
                "it has another number of nodes or edges than it says",
            ));
        }
        let heap = Self {
            nodes,
            edges,
            strings,
        };
        heap.check()?;
        Ok(heap)
    }

    /// Checks that all numbers are those of strings, nodes and edges.
    fn check(&self) -> io::Result<()> {
        let end = self.nodes.last().map_or(0, |last| last.end_of_edges);
        if end != self.edges.len() {
            return Err(invalid(
                "its nodes have another number of edges than it has",
            ));
        }
        let is_string = |name: u64| (name as usize) < self.strings.len();
        if !self.nodes.iter().all(|node| is_string(node.name.into())) {
            return Err(invalid("the name of a node is missing"));
        }
        for edge in &self.edges {
            if edge.to >= self.nodes.len() {
                return Err(invalid("an edge leads to no node"));
            }
            match edge.kind {
                ELEMENT | HIDDEN => {}
                CONTEXT | PROPERTY | INTERNAL | WEAK if is_string(edge.name) => {}
                CONTEXT | PROPERTY | INTERNAL | WEAK => {
                    return Err(invalid("the name of an edge is missing"));
                }
                kind => return Err(invalid(&format!("edges of kind {kind} are not known"))),
            }
        }
        Ok(())
    }

    /// The number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no object, not even a root.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The object with this place, from 0; number 0 is the root.
    ///
    /// # Panics
    ///
    /// There is no such object.
    #[must_use]
    pub fn node(&self, at: usize) -> Node {
        let stored = &self.nodes[at];
        Node {
            kind: stored.kind,
            name: self.name(at).to_owned(),
            id: stored.id,
            self_size: stored.size,
            edges: u32::try_from(self.count_of_edges(at)).unwrap_or(u32::MAX),
        }
    }

    /// The references of the object with this place.
    ///
    /// # Panics
    ///
    /// There is no such object.
    pub fn edges(&self, at: usize) -> impl Iterator<Item = Edge> {
        self.edges_of(at).map(move |(_, stored)| Edge {
            kind: self.edge_kind(stored),
            to: stored.to,
        })
    }

    /// The sum of the sizes of all objects, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        let sizes = self.nodes.iter().map(|node| node.size);
        sizes.fold(0, u64::saturating_add)
    }

    pub(super) fn nodes(&self) -> &[StoredNode] {
        &self.nodes
    }

    /// The name of the object with this place.
    pub(super) fn name(&self, at: usize) -> &str {
        &self.strings[self.nodes[at].name as usize]
    }

    /// The class of the object with this place.
    pub(super) fn class(&self, at: usize) -> ClassKey<'_> {
        let kind = self.nodes[at].kind;
        match kind {
            // Their names are their values.
            NodeKind::String | NodeKind::Number => (kind, ""),
            _ => (kind, self.name(at)),
        }
    }

    /// The number of references of the object with this place.
    pub(super) fn count_of_edges(&self, at: usize) -> usize {
        self.nodes[at].end_of_edges - self.nodes[at].first_edge
    }

    /// The edges of the object with this place, with their numbers among all edges.
    pub(super) fn edges_of(&self, at: usize) -> impl Iterator<Item = (usize, &StoredEdge)> {
        let node = &self.nodes[at];
        let range = node.first_edge..node.end_of_edges;
        range.clone().zip(&self.edges[range])
    }

    /// How the edge with this number refers to its object.
    pub(super) fn kind_of_edge(&self, number: usize) -> EdgeKind {
        self.edge_kind(&self.edges[number])
    }

    fn edge_kind(&self, edge: &StoredEdge) -> EdgeKind {
        // The file was checked: the kinds with names have one.
        let name = || self.strings[edge.name as usize].clone();
        match edge.kind {
            CONTEXT => EdgeKind::Context(name()),
            ELEMENT => EdgeKind::Element(edge.name),
            PROPERTY => EdgeKind::Property(name()),
            INTERNAL => EdgeKind::Internal(name()),
            HIDDEN => EdgeKind::Hidden(edge.name),
            _ => EdgeKind::Weak(name()),
        }
    }
}

fn invalid(why: &str) -> io::Error {
    let message = format!("not a heap snapshot: {why}");
    io::Error::new(io::ErrorKind::InvalidData, message)
}

/// The next numbers of a list, or nothing at its end. An error if it ends within them.
fn numbers<'de, A: SeqAccess<'de>, const COUNT: usize>(
    list: &mut A,
) -> Result<Option<[u64; COUNT]>, A::Error> {
    let mut numbers = [0; COUNT];
    for (index, number) in numbers.iter_mut().enumerate() {
        match list.next_element()? {
            Some(next) => *number = next,
            None if index == 0 => return Ok(None),
            None => return Err(A::Error::custom("a list ends too early")),
        }
    }
    Ok(Some(numbers))
}

impl<'de> Deserialize<'de> for Nodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Nodes;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("the numbers of all nodes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Nodes, A::Error> {
                let mut nodes = Vec::new();
                let mut first_edge: usize = 0;
                while let Some([kind, name, id, size, edges, _, _]) = numbers(&mut list)? {
                    let kind = u8::try_from(kind).ok().and_then(kind_of);
                    let end_of_edges = usize::try_from(edges)
                        .ok()
                        .and_then(|edges| first_edge.checked_add(edges));
                    nodes.push(StoredNode {
                        kind: kind.ok_or_else(|| A::Error::custom("a node of unknown kind"))?,
                        name: u32::try_from(name).map_err(A::Error::custom)?,
                        id: id / 2,
                        size,
                        first_edge,
                        end_of_edges: end_of_edges
                            .ok_or_else(|| A::Error::custom("a node with too many edges"))?,
                    });
                    first_edge = nodes.last().map_or(0, |last| last.end_of_edges);
                }
                Ok(Nodes(nodes))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

impl<'de> Deserialize<'de> for Edges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Edges;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("the numbers of all edges")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Edges, A::Error> {
                let mut edges = Vec::new();
                while let Some([kind, name, to]) = numbers(&mut list)? {
                    let to = usize::try_from(to).map_err(A::Error::custom)?;
                    if !to.is_multiple_of(NODE_FIELDS.len()) {
                        return Err(A::Error::custom("an edge leads to the middle of a node"));
                    }
                    edges.push(StoredEdge {
                        kind: u8::try_from(kind).map_err(A::Error::custom)?,
                        name,
                        to: to / NODE_FIELDS.len(),
                    });
                }
                Ok(Edges(edges))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

#[cfg(test)]
mod checks {
    use super::*;
    use crate::heap::{Counts, SnapshotWriter};
    use proptest::collection::vec;
    use proptest::prelude::*;

    type Heap = Vec<(Node, Vec<Edge>)>;

    fn written(heap: &Heap) -> Vec<u8> {
        let counts = Counts {
            nodes: heap.len(),
            edges: heap.iter().map(|(_, edges)| edges.len()).sum(),
        };
        let mut writer = SnapshotWriter::new(Vec::new(), counts).expect("a vector");
        for (node, _) in heap {
            writer.node(node).expect("a node");
        }
        for edge in heap.iter().flat_map(|(_, edges)| edges) {
            writer.edge(edge).expect("an edge");
        }
        writer.finish().expect("a vector")
    }

    fn kinds() -> impl Strategy<Value = NodeKind> {
        prop::sample::select(vec![NodeKind::Object, NodeKind::String, NodeKind::Closure])
    }

    fn edge_kinds() -> impl Strategy<Value = EdgeKind> {
        prop_oneof![
            any::<String>().prop_map(EdgeKind::Context),
            any::<u32>().prop_map(|index| EdgeKind::Element(index.into())),
            any::<String>().prop_map(EdgeKind::Property),
            any::<String>().prop_map(EdgeKind::Internal),
            any::<u32>().prop_map(|index| EdgeKind::Hidden(index.into())),
            any::<String>().prop_map(EdgeKind::Weak),
        ]
    }

    fn heaps() -> impl Strategy<Value = Heap> {
        let id = 0..1_u64 << 52;
        let edges = vec((edge_kinds(), any::<usize>()), 0..4);
        let node = (kinds(), any::<Vec<u8>>(), id, any::<u64>(), edges);
        vec(node, 0..10).prop_map(|nodes| {
            let count = nodes.len();
            let heap = nodes.into_iter().map(|(kind, name, id, size, edges)| {
                let edges: Vec<Edge> = edges
                    .into_iter()
                    .map(|(kind, to)| Edge {
                        kind,
                        to: to % count,
                    })
                    .collect();
                let number = u32::try_from(edges.len()).expect("few");
                (Node::new(kind, name, id, size).with_edges(number), edges)
            });
            heap.collect()
        })
    }

    proptest! {
        #[test]
        fn what_was_written_can_be_read_back(heap in heaps()) {
            let read = Snapshot::read(&written(&heap)[..])?;
            let back: Heap = (0..read.len())
                .map(|at| (read.node(at), read.edges(at).collect()))
                .collect();
            prop_assert_eq!(back, heap);
        }

        #[test]
        fn a_damaged_file_is_refused_or_read(
            heap in heaps(),
            at: prop::sample::Index,
            byte: u8,
            is_cut: bool,
        ) {
            let mut bytes = written(&heap);
            let at = at.index(bytes.len());
            match is_cut {
                true => bytes.truncate(at),
                false => bytes[at] = byte,
            }
            // A change within a name leaves a whole file. None may panic.
            if let Ok(read) = Snapshot::read(&bytes[..]) {
                for at in 0..read.len() {
                    drop(read.node(at));
                    read.edges(at).for_each(drop);
                }
            }
        }
    }

    #[test]
    fn another_file_is_refused_with_a_reason() {
        let heap = vec![(Node::new(NodeKind::Object, "a", 0, 0), vec![])];
        let good = String::from_utf8(written(&heap)).expect("it is text");
        for (from, to, why) in [
            ("\"detachedness\"", "\"other\"", "other fields"),
            (
                "\"node_count\":1",
                "\"node_count\":2",
                "another number of nodes",
            ),
            ("3,0,1,0,0,0,0", "3,9,1,0,0,0,0", "name of a node"),
            ("3,0,1,0,0,0,0", "6,0,1,0,0,0,0", "unknown kind"),
            ("3,0,1,0,0,0,0", "3,0,1,0,1,0,0", "another number of edges"),
            ("3,0,1,0,0,0,0", "3,0,1,0,0,0", "ends too early"),
        ] {
            let bad = good.replace(from, to);
            assert_ne!(bad, good);
            let error = Snapshot::read(bad.as_bytes()).expect_err(why);
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(error.to_string().contains(why), "{error}");
        }
        let error = Snapshot::read(&b"[1, 2]"[..]).expect_err("an array");
        assert!(
            error.to_string().starts_with("not a heap snapshot: "),
            "{error}"
        );
    }
}
