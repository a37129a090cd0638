//! What a heap has most of, by class.

use super::dominators::Dominators;
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
    /// The bytes that would be free without them: their own, and those of what only they keep.
    pub retained: u64,
}

/// No class: groups have none.
const NONE: u32 = u32::MAX;

impl Summary {
    /// Sums up a heap, for which the program stood still so long.
    pub fn of(living: &Living, dominators: &Dominators, pause: Duration) -> Summary {
        let mut places: HashMap<(ObjectKind, &[u8]), u32> = HashMap::new();
        let mut classes: Vec<Class> = Vec::new();
        let (mut objects, mut bytes) = (0, 0);
        let mut class_of_object = Vec::new();
        for object in living.objects() {
            if object.kind == ObjectKind::Group {
                class_of_object.push(NONE);
                continue;
            }
            let name = class_of(living, object);
            let place = *places.entry((object.kind, name)).or_insert_with(|| {
                classes.push(Class {
                    class: String::from_utf8_lossy(name).into_owned(),
                    objects: 0,
                    bytes: 0,
                    retained: 0,
                });
                classes.len() as u32 - 1
            });
            class_of_object.push(place);
            let class = &mut classes[place as usize];
            class.objects += 1;
            class.bytes += object.bytes;
            objects += 1;
            bytes += object.bytes;
        }
        let class_of_number = |number: usize| {
            let place = class_of_object[number];
            (place != NONE).then_some(place as usize)
        };
        let retained = dominators.retained_by_class(classes.len(), class_of_number);
        for (class, retained) in classes.iter_mut().zip(retained) {
            class.retained = retained;
        }
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
        let living = graph.living();
        Summary::of(
            &living,
            &Dominators::of(&living),
            Duration::from_micros(2500),
        )
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
            .map(|class| {
                let name = class.class.as_str();
                (name, class.objects, class.bytes, class.retained)
            })
            .collect();
        // Each object refers to the next one.
        let expected = [
            ("table", 2, 2048, 2188),
            ("(strings)", 2, 70, 140),
            ("a\n*", 1, 70, 70),
        ];
        assert_eq!(classes, expected);
        let garbage = Garbage {
            objects: 1,
            bytes: 1024,
        };
        assert_eq!(summary.garbage, garbage);
    }
}
