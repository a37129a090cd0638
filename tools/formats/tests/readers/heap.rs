//! The loader of Chrome's DevTools reads heap snapshots.

use std::io;

use baton_formats::heap::{Counts, Edge, EdgeKind, Node, NodeKind, SnapshotWriter};
use serde_json::{Value, json};

use crate::{HOSTILE, file, lossy, node};

type Heap = Vec<(Node, Vec<(EdgeKind, usize)>)>;

/// What DevTools finds in a heap. None if it is not installed.
fn loaded(heap: &Heap) -> io::Result<Option<Value>> {
    let counts = Counts {
        nodes: heap.len(),
        edges: heap.iter().map(|(_, edges)| edges.len()).sum(),
    };
    let mut writer = SnapshotWriter::new(Vec::new(), counts)?;
    for (node, edges) in heap {
        let edges = u32::try_from(edges.len()).expect("few");
        writer.node(&node.clone().with_edges(edges))?;
    }
    for (kind, to) in heap.iter().flat_map(|(_, edges)| edges) {
        let kind = kind.clone();
        writer.edge(&Edge { kind, to: *to })?;
    }
    let file = file(".heapsnapshot", &writer.finish()?);
    let what = "heap snapshots, by the loader of Chrome's DevTools";
    Ok(node(what, "heap.mjs", file.path(), &[]).map(|text| crate::json(&text)))
}

fn root(edges: Vec<(EdgeKind, usize)>) -> (Node, Vec<(EdgeKind, usize)>) {
    (Node::new(NodeKind::Synthetic, "(root)", 0, 0), edges)
}

fn property(name: &str, to: usize) -> (EdgeKind, usize) {
    (EdgeKind::Property(name.to_owned()), to)
}

#[test]
fn devtools_computes_what_each_object_keeps_alive() -> io::Result<()> {
    let node = |kind, name, id, size| Node::new(kind, name, id, size);
    let heap = vec![
        root(vec![property("_G", 1)]),
        (
            node(NodeKind::Object, "table", 1, 56),
            vec![
                property("sessions", 2),
                (EdgeKind::Internal("metatable".to_owned()), 3),
                (EdgeKind::Weak("cache".to_owned()), 5),
            ],
        ),
        (
            node(NodeKind::Object, "table", 2, 100),
            vec![(EdgeKind::Element(1), 4), (EdgeKind::Hidden(7), 3)],
        ),
        (
            node(NodeKind::Closure, "handler", 3, 40),
            vec![(EdgeKind::Context("count".to_owned()), 6)],
        ),
        (node(NodeKind::String, "hello", 4, 30), vec![]),
        (node(NodeKind::Native, "FILE*", 5, 16), vec![]),
        (node(NodeKind::Number, "7", 6, 8), vec![]),
    ];
    let Some(loaded) = loaded(&heap)? else {
        return Ok(());
    };
    assert_eq!(loaded["problems"], json!([]));
    let brief: Vec<Value> = loaded["nodes"]
        .as_array()
        .expect("nodes")
        .iter()
        .map(|node| {
            json!([
                node["type"],
                node["name"],
                node["id"],
                node["self"],
                node["retained"]
            ])
        })
        .collect();
    // The weak reference keeps nothing, so the file counts for the root only. Two objects refer to
    // the function, so the first table keeps it, and the second does not.
    let expected = json!([
        ["synthetic", "(root)", 1, 0, 250],
        ["object", "table", 3, 56, 234],
        ["object", "table", 5, 100, 130],
        ["closure", "handler", 7, 40, 48],
        ["string", "hello", 9, 30, 30],
        ["native", "FILE*", 11, 16, 16],
        ["number", "7", 13, 8, 8],
    ]);
    assert_eq!(json!(brief), expected);
    let edges = json!([
        {"type": "property", "name": "sessions", "to": 2},
        {"type": "internal", "name": "metatable", "to": 3},
        {"type": "weak", "name": "cache", "to": 5},
    ]);
    assert_eq!(loaded["nodes"][1]["edges"], edges);
    assert_eq!(loaded["nodes"][2]["edges"][1]["type"], "hidden");
    assert_eq!(loaded["nodes"][3]["edges"][0]["type"], "context");
    Ok(())
}

#[test]
fn devtools_groups_objects_by_class() -> io::Result<()> {
    let mut heap = vec![
        root(vec![property("cache", 1)]),
        (Node::new(NodeKind::Object, "cache", 1, 56), vec![]),
    ];
    for number in 0..1000 {
        let place = heap.len();
        let id = 2 + number as u64;
        heap.push((Node::new(NodeKind::Object, "session", id, 100), vec![]));
        heap[1]
            .1
            .push((EdgeKind::Element(number as u64 + 1), place));
    }
    let Some(loaded) = loaded(&heap)? else {
        return Ok(());
    };
    let classes = json!([
        {"name": "cache", "count": 1, "self": 56, "retained": 100_056},
        {"name": "session", "count": 1000, "self": 100_000, "retained": 100_000},
    ]);
    assert_eq!(loaded["classes"], classes);
    assert_eq!(loaded["nodes"][1001]["distance"], 2);
    Ok(())
}

#[test]
fn devtools_reads_hostile_names() -> io::Result<()> {
    let mut heap = vec![root(vec![])];
    for (number, name) in HOSTILE.into_iter().enumerate() {
        let node = Node::new(NodeKind::Object, name, 1 + number as u64, 10);
        heap[0]
            .1
            .push((EdgeKind::Property(lossy(name)), number + 1));
        heap.push((node, vec![]));
    }
    let Some(loaded) = loaded(&heap)? else {
        return Ok(());
    };
    assert_eq!(loaded["problems"], json!([]));
    for (number, name) in HOSTILE.into_iter().enumerate() {
        assert_eq!(loaded["nodes"][number + 1]["name"], lossy(name));
        assert_eq!(loaded["nodes"][0]["edges"][number]["name"], lossy(name));
    }
    Ok(())
}
