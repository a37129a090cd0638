//! What a heap has most of, by class.

use super::graph::{Garbage, Living, Object};
use super::stream::ObjectKind;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

/// The sums of a heap.
#[derive(Debug, PartialEq, Serialize)]
pub struct Summary {
    /// How many living objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is not alive.
    pub garbage: Garbage,
    /// The bytes of the heap, as the guest accounts for them. More than those of the objects if it
    /// has memory that belongs to none, such as a compiler's.
    pub total: u64,
    /// For how many seconds the program stood still.
    pub pause: f64,
    /// The classes, the largest first.
    pub classes: Vec<Class>,
}

/// Objects of one name.
#[derive(Debug, PartialEq, Serialize)]
pub struct Class {
    /// Their name; "(strings)" for all texts.
    pub class: String,
    /// How many.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Summary {
    /// Sums up a heap, for which the program stood still so long.
    pub fn of(living: &Living, pause: Duration) -> Summary {
        let mut sums: HashMap<(ObjectKind, &[u8]), (u64, u64)> = HashMap::new();
        let (mut objects, mut bytes) = (0, 0);
        for object in living
            .objects()
            .filter(|object| object.kind != ObjectKind::Group)
        {
            let class = sums
                .entry((object.kind, class_of(living, object)))
                .or_default();
            class.0 += 1;
            class.1 += object.bytes;
            objects += 1;
            bytes += object.bytes;
        }
        let mut classes: Vec<Class> = sums
            .into_iter()
            .map(|((_, name), (objects, bytes))| Class {
                class: String::from_utf8_lossy(name).into_owned(),
                objects,
                bytes,
            })
            .collect();
        classes.sort_by(|a, b| {
            let rank = |class: &Class| (Reverse(class.bytes), Reverse(class.objects));
            rank(a).cmp(&rank(b)).then_with(|| a.class.cmp(&b.class))
        });
        Summary {
            objects,
            bytes,
            garbage: living.garbage(),
            total: living.total(),
            pause: pause.as_secs_f64(),
            classes,
        }
    }
}

/// Strings are one class, as their names are their texts.
fn class_of<'a>(living: &'a Living, object: &Object) -> &'a [u8] {
    match object.kind {
        ObjectKind::Text => b"(strings)",
        _ => living.name_of(object),
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::Graph;
    use super::super::stream::{Manner, Record};
    use super::*;

    fn summary() -> Summary {
        let mut graph = Graph::default();
        let objects = [
            (ObjectKind::Group, 0, "(root)"),
            (ObjectKind::Table, 2000, "table"),
            (ObjectKind::Table, 48, "table"),
            (ObjectKind::Text, 30, "one"),
            (ObjectKind::Text, 40, "two"),
            (ObjectKind::ForeignObject, 70, "a\n*"),
        ];
        for (number, (kind, bytes, name)) in objects.into_iter().enumerate() {
            let address = 8 * (number as u64 + 1);
            let object = Record::Object {
                address,
                kind,
                bytes,
                name: name.as_bytes(),
            };
            let next = Record::Reference {
                by: Manner::Hidden,
                to: address + 8,
                is_weak: false,
            };
            graph.take(object).expect("there is a place");
            graph.take(next).expect("there is a place");
        }
        graph
            .take(Record::Begin { bytes: 4000 })
            .expect("there is a place");
        let end = Record::End {
            dead: 1,
            dead_bytes: 1024,
        };
        graph.take(end).expect("there is a place");
        Summary::of(&graph.living(), Duration::from_micros(2500))
    }

    #[test]
    fn the_largest_classes_come_first() {
        let summary = summary();
        assert_eq!(
            (summary.objects, summary.bytes, summary.total),
            (5, 2188, 4000)
        );
        let classes: Vec<_> = summary
            .classes
            .iter()
            .map(|class| (class.class.as_str(), class.objects, class.bytes))
            .collect();
        let expected = [("table", 2, 2048), ("(strings)", 2, 70), ("a\n*", 1, 70)];
        assert_eq!(classes, expected);
        let garbage = Garbage {
            objects: 1,
            bytes: 1024,
        };
        assert_eq!(summary.garbage, garbage);
    }
}
