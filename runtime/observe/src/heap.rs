//! Heaps, as a program sends them: records ([`stream`]), which make a graph ([`graph`]), what its
//! objects keep ([`dominators`]), and its sums by class ([`summary`]).
//!
//! ```
//! use baton_observe::heap::graph::Graph;
//! use baton_observe::heap::stream::Reader;
//!
//! let mut graph = Graph::default();
//! let mut reader = Reader::default();
//! // A group at address 8 that refers to a text of 30 bytes at address 16; no garbage.
//! let first = b"B\x01\x1eO\x02\x00\x00\x06(root)n";
//! let second = b"\x01a\x02O\x00\x01\x1e\x02hiZ\x00\x00";
//! for piece in [&first[..], second] {
//!     reader.read(piece, &mut |record| graph.take(record))?;
//! }
//! assert!(reader.has_ended());
//! let living = graph.living();
//! let names: Vec<_> = living.objects().map(|object| living.name_of(object)).collect();
//! assert_eq!(names, [b"(root)".as_slice(), b"hi"]);
//! # Ok::<(), String>(())
//! ```

pub mod dominators;
pub mod graph;
pub mod stream;
pub mod summary;
