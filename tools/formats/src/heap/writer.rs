//! Writes a snapshot as it goes: all nodes, then the edges of each node in the same order, then
//! the names.

use std::io::{self, Write};

use serde_json::json;

use super::layout::{
    CONTEXT, EDGE_FIELDS, EDGE_TYPES, ELEMENT, HIDDEN, INTERNAL, NODE_FIELDS, NODE_TYPES, PROPERTY,
    WEAK, number_of,
};
use super::{Edge, EdgeKind, Node};
use crate::interned::Interned;

/// Numbers of objects must be less than this, so that JSON's numbers hold twice as much exactly.
const IDS: u64 = 1 << 52;

/// How many nodes and edges a snapshot has. They stand at the beginning of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// The number of objects.
    pub nodes: usize,
    /// The number of references.
    pub edges: usize,
}

/// Writes a heap to `out` object by object. Give it a buffered writer.
///
/// The first node is the root: a synthetic one that refers to what is always alive.
#[derive(Debug)]
pub struct SnapshotWriter<W: Write> {
    out: W,
    counts: Counts,
    /// How many have been written.
    nodes: usize,
    edges: usize,
    /// Whether the list of nodes is closed and that of edges begun.
    are_nodes_done: bool,
    /// The number of edges that the written nodes have.
    promised: usize,
    strings: Interned<str>,
}

impl<W: Write> SnapshotWriter<W> {
    /// Begins a snapshot of this size.
    ///
    /// # Errors
    ///
    /// Those of `out`, as in all other methods.
    pub fn new(mut out: W, counts: Counts) -> io::Result<Self> {
        let mut node_types = vec![json!(NODE_TYPES), json!("string")];
        node_types.extend(vec![json!("number"); NODE_FIELDS.len() - 2]);
        let head = json!({
            "meta": {
                "node_fields": NODE_FIELDS,
                "node_types": node_types,
                "edge_fields": EDGE_FIELDS,
                "edge_types": [EDGE_TYPES, "string_or_number", "node"],
                "trace_function_info_fields":
                    ["function_id", "name", "script_name", "script_id", "line", "column"],
                "trace_node_fields": ["id", "function_info_index", "count", "size", "children"],
                "sample_fields": ["timestamp_us", "last_assigned_id"],
                "location_fields": ["object_index", "script_id", "line", "column"],
            },
            "node_count": counts.nodes,
            "edge_count": counts.edges,
            "trace_function_count": 0,
        });
        write!(out, "{{\"snapshot\":{head},\n\"nodes\":[")?;
        Ok(Self {
            out,
            counts,
            nodes: 0,
            edges: 0,
            are_nodes_done: false,
            promised: 0,
            strings: Interned::default(),
        })
    }

    /// Writes the next object.
    ///
    /// # Errors
    ///
    /// Those of the output, and [`io::ErrorKind::InvalidInput`] if there are more objects or edges
    /// than [`Counts`] says, if an edge was written before, or if a number is too large.
    pub fn node(&mut self, node: &Node) -> io::Result<()> {
        if self.are_nodes_done || self.nodes == self.counts.nodes {
            let nodes = self.counts.nodes;
            return Err(wrong(format!(
                "expected {nodes} nodes before the edges, got one more"
            )));
        }
        if node.id >= IDS {
            let id = node.id;
            return Err(wrong(format!("expected a number less than 2^52, got {id}")));
        }
        self.promised += node.edges as usize;
        if self.promised > self.counts.edges {
            let (edges, promised) = (self.counts.edges, self.promised);
            return Err(wrong(format!(
                "expected {edges} edges, but nodes have {promised}"
            )));
        }
        let separator = if self.nodes == 0 { "" } else { ",\n" };
        // Viewers take even numbers for objects outside of the heap.
        let id = 2 * node.id + 1;
        let name = self.strings.add(node.name.as_str());
        let (kind, size, edges) = (number_of(node.kind), node.self_size, node.edges);
        write!(self.out, "{separator}{kind},{name},{id},{size},{edges},0,0")?;
        self.nodes += 1;
        Ok(())
    }

    /// Writes the next reference. Those of the first object come first, and so on.
    ///
    /// # Errors
    ///
    /// Those of the output, and [`io::ErrorKind::InvalidInput`] if objects are missing, if there
    /// are more edges than their objects have, or if it leads to no object.
    pub fn edge(&mut self, edge: &Edge) -> io::Result<()> {
        self.end_nodes()?;
        if self.edges == self.promised {
            let promised = self.promised;
            return Err(wrong(format!(
                "expected {promised} edges, as nodes have, got one more"
            )));
        }
        if edge.to >= self.counts.nodes {
            let (to, nodes) = (edge.to, self.counts.nodes);
            return Err(wrong(format!(
                "expected an edge to one of {nodes} nodes, got {to}"
            )));
        }
        let (kind, name) = match &edge.kind {
            EdgeKind::Context(name) => (CONTEXT, self.name(name)),
            EdgeKind::Element(index) => (ELEMENT, *index),
            EdgeKind::Property(name) => (PROPERTY, self.name(name)),
            EdgeKind::Internal(name) => (INTERNAL, self.name(name)),
            EdgeKind::Hidden(index) => (HIDDEN, *index),
            EdgeKind::Weak(name) => (WEAK, self.name(name)),
        };
        let separator = if self.edges == 0 { "" } else { ",\n" };
        // A file counts numbers, not nodes.
        let to = edge.to * NODE_FIELDS.len();
        write!(self.out, "{separator}{kind},{name},{to}")?;
        self.edges += 1;
        Ok(())
    }

    /// Writes the names, and returns the output after a flush.
    ///
    /// # Errors
    ///
    /// Those of the output, and [`io::ErrorKind::InvalidInput`] if objects or edges are missing.
    pub fn finish(mut self) -> io::Result<W> {
        self.end_nodes()?;
        if self.edges != self.counts.edges {
            let (all, edges) = (self.counts.edges, self.edges);
            return Err(wrong(format!("expected {all} edges, got {edges}")));
        }
        self.out.write_all(
            b"],\n\"trace_function_infos\":[],\n\"trace_tree\":[],\n\"samples\":[],\n\
              \"locations\":[],\n\"strings\":[",
        )?;
        for (number, string) in self.strings.iter().enumerate() {
            if number > 0 {
                self.out.write_all(b",\n")?;
            }
            serde_json::to_writer(&mut self.out, string)?;
        }
        self.out.write_all(b"]}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Closes the list of nodes, if it is not closed.
    fn end_nodes(&mut self) -> io::Result<()> {
        if self.are_nodes_done {
            return Ok(());
        }
        if self.nodes != self.counts.nodes {
            let (all, nodes) = (self.counts.nodes, self.nodes);
            return Err(wrong(format!("expected {all} nodes, got {nodes}")));
        }
        self.are_nodes_done = true;
        self.out.write_all(b"],\n\"edges\":[")
    }

    fn name(&mut self, name: &str) -> u64 {
        u64::from(self.strings.add(name))
    }
}

fn wrong(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

#[cfg(test)]
mod checks {
    use super::*;
    use crate::heap::NodeKind;

    fn writer(nodes: usize, edges: usize) -> SnapshotWriter<Vec<u8>> {
        SnapshotWriter::new(Vec::new(), Counts { nodes, edges }).expect("a vector")
    }

    fn node(edges: u32) -> Node {
        Node::new(NodeKind::Object, "table", 5, 56).with_edges(edges)
    }

    fn edge(to: usize) -> Edge {
        let kind = EdgeKind::Element(1);
        Edge { kind, to }
    }

    fn why<T>(result: io::Result<T>) -> String {
        match result {
            Ok(_) => "nothing".to_owned(),
            Err(why) => {
                assert_eq!(why.kind(), io::ErrorKind::InvalidInput);
                why.to_string()
            }
        }
    }

    #[test]
    fn objects_and_references_are_numbers_and_names_come_last() -> io::Result<()> {
        let mut writer = writer(2, 1);
        writer.node(&Node::new(NodeKind::Synthetic, "(root)", 0, 0).with_edges(1))?;
        writer.node(&node(0))?;
        let kind = EdgeKind::Property("a\"\n\u{1}</script>".to_owned());
        writer.edge(&Edge { kind, to: 1 })?;
        let text = String::from_utf8(writer.finish()?).expect("it is text");
        let (_, body) = text.split_once("\n\"nodes\":").expect("nodes");
        let expected = "[9,0,1,0,1,0,0,\n3,1,11,56,0,0,0],\n\"edges\":[2,2,7],\n\
            \"trace_function_infos\":[],\n\"trace_tree\":[],\n\"samples\":[],\n\
            \"locations\":[],\n\"strings\":[\"(root)\",\n\"table\",\n\
            \"a\\\"\\n\\u0001</script>\"]}\n";
        assert_eq!(body, expected);
        Ok(())
    }

    #[test]
    fn counts_that_do_not_fit_are_refused() -> io::Result<()> {
        assert_eq!(why(writer(1, 0).finish()), "expected 1 nodes, got 0");
        assert_eq!(why(writer(0, 1).finish()), "expected 1 edges, got 0");
        let mut full = writer(1, 1);
        full.node(&node(1))?;
        assert_eq!(
            why(full.node(&node(0))),
            "expected 1 nodes before the edges, got one more"
        );
        assert_eq!(
            why(full.edge(&edge(1))),
            "expected an edge to one of 1 nodes, got 1"
        );
        let mut full = writer(1, 1);
        full.node(&node(1))?;
        full.edge(&edge(0))?;
        assert_eq!(
            why(full.edge(&edge(0))),
            "expected 1 edges, as nodes have, got one more"
        );
        let why_more = why(writer(1, 1).node(&node(2)));
        assert_eq!(why_more, "expected 1 edges, but nodes have 2");
        let large = Node::new(NodeKind::Object, "", 1 << 52, 0);
        let why_large = why(writer(1, 0).node(&large));
        assert_eq!(
            why_large,
            "expected a number less than 2^52, got 4503599627370496"
        );
        Ok(())
    }

    #[test]
    fn a_heap_may_be_empty() -> io::Result<()> {
        let text = String::from_utf8(writer(0, 0).finish()?).expect("it is text");
        assert!(text.contains("\"nodes\":[],\n\"edges\":[],"), "{text}");
        assert!(text.ends_with("\"strings\":[]}\n"), "{text}");
        Ok(())
    }
}
