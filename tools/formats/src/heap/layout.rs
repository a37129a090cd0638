//! The layout of a snapshot's file, as V8 writes it.
//!
//! A node has a number for each of [`NODE_FIELDS`], and an edge for each of [`EDGE_FIELDS`]. A kind
//! is its place in a list of names, which the file repeats. A name is a number in the table of
//! strings at the end.

use super::NodeKind;

/// The fields of a node, in their order.
pub(super) const NODE_FIELDS: [&str; 7] = [
    "type",
    "name",
    "id",
    "self_size",
    "edge_count",
    "trace_node_id",
    "detachedness",
];

/// The fields of an edge, in their order.
pub(super) const EDGE_FIELDS: [&str; 3] = ["type", "name_or_index", "to_node"];

/// The kinds of nodes that V8 has.
pub(super) const NODE_TYPES: [&str; 15] = [
    "hidden",
    "array",
    "string",
    "object",
    "code",
    "closure",
    "regexp",
    "number",
    "native",
    "synthetic",
    "concatenated string",
    "sliced string",
    "symbol",
    "bigint",
    "object shape",
];

/// The kinds of edges that V8 has.
pub(super) const EDGE_TYPES: [&str; 7] = [
    "context", "element", "property", "internal", "hidden", "shortcut", "weak",
];

/// The kinds of edges that are written here, by their places in [`EDGE_TYPES`].
pub(super) const CONTEXT: u8 = 0;
pub(super) const ELEMENT: u8 = 1;
pub(super) const PROPERTY: u8 = 2;
pub(super) const INTERNAL: u8 = 3;
pub(super) const HIDDEN: u8 = 4;
pub(super) const WEAK: u8 = 6;

/// The kinds of nodes with their places in [`NODE_TYPES`].
const KINDS: [(NodeKind, u8); 9] = [
    (NodeKind::Hidden, 0),
    (NodeKind::Array, 1),
    (NodeKind::String, 2),
    (NodeKind::Object, 3),
    (NodeKind::Code, 4),
    (NodeKind::Closure, 5),
    (NodeKind::Number, 7),
    (NodeKind::Native, 8),
    (NodeKind::Synthetic, 9),
];

/// The place of a kind in [`NODE_TYPES`].
pub(super) fn number_of(kind: NodeKind) -> u8 {
    KINDS[kind as usize].1
}

/// The kind with this place in [`NODE_TYPES`], if it is one of ours.
pub(super) fn kind_of(number: u8) -> Option<NodeKind> {
    KINDS
        .iter()
        .find(|(_, own)| *own == number)
        .map(|(kind, _)| *kind)
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn each_kind_has_the_name_that_v8_gives_it() {
        for (index, (kind, number)) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
            let name = format!("{kind:?}").to_lowercase();
            assert_eq!(NODE_TYPES[usize::from(number_of(kind))], name);
            assert_eq!(kind_of(number), Some(kind));
        }
        assert_eq!(kind_of(6), None);
        for (number, name) in [
            (CONTEXT, "context"),
            (ELEMENT, "element"),
            (PROPERTY, "property"),
            (INTERNAL, "internal"),
            (HIDDEN, "hidden"),
            (WEAK, "weak"),
        ] {
            assert_eq!(EDGE_TYPES[usize::from(number)], name);
        }
    }
}
