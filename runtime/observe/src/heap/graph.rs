//! The objects of a heap and their references, as they come; then which of them are alive.

use super::stream::{Manner, ObjectKind, Record};
use serde::Serialize;
use std::collections::HashMap;

/// An object.
#[derive(Debug)]
pub struct Object {
    /// Its address.
    pub address: u64,
    /// What it is.
    pub kind: ObjectKind,
    /// Its size.
    pub bytes: u64,
    /// A number of a name in [`Graph::name`].
    name: u32,
    /// Where its references begin. They end where those of the next object begin.
    first: usize,
}

/// How an object refers to another. As [`Manner`], with numbers of names, for [`Living::name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// By a field whose name is the text with this address, see [`Living::text_at`].
    Field(u64),
    /// By an element of a table.
    Element(i64),
    /// By a field.
    Named(u32),
    /// By a variable.
    Variable(u32),
    /// By a part that programs cannot name.
    Part(u32),
    /// By a part that has no name.
    Hidden,
}

#[derive(Clone, Copy, Debug)]
struct Reference {
    call: Call,
    /// The address of the target.
    to: u64,
    is_weak: bool,
}

/// What is not alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Garbage {
    /// How many objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A heap.
#[derive(Debug, Default)]
pub struct Graph {
    objects: Vec<Object>,
    references: Vec<Reference>,
    /// References that do not stand behind their objects: the address of the object, and the rest.
    of_others: Vec<(u64, Reference)>,
    places: HashMap<u64, u32>,
    names: Vec<Box<[u8]>>,
    numbers: HashMap<Box<[u8]>, u32>,
    renamed: Vec<(u64, u32)>,
    bytes: u64,
    bytes_read: u64,
    dead: Garbage,
}

impl Graph {
    /// Takes a record.
    ///
    /// # Errors
    /// A sentence: there is no place for it.
    pub fn take(&mut self, record: Record<'_>) -> Result<(), String> {
        match record {
            Record::Begin { bytes } => self.bytes = bytes,
            Record::Object {
                address,
                kind,
                bytes,
                name,
            } => {
                let place = u32::try_from(self.objects.len())
                    .map_err(|_| "the heap has more than 2^32 objects".to_owned())?;
                self.bytes_read += bytes;
                // An object comes once. A second one of this address would have no references.
                self.places.entry(address).or_insert(place);
                let name = self.number(name)?;
                self.objects.push(Object {
                    address,
                    kind,
                    bytes,
                    name,
                    first: self.references.len(),
                });
            }
            Record::Reference { by, to, is_weak } => {
                if self.objects.is_empty() {
                    return Err("wrong records: a reference without its object".to_owned());
                }
                let call = self.call(by)?;
                self.references.push(Reference { call, to, is_weak });
            }
            Record::ReferenceOf { from, name, to } => {
                let reference = Reference {
                    call: Call::Part(self.number(name)?),
                    to,
                    is_weak: false,
                };
                self.of_others.push((from, reference));
            }
            Record::Rename { address, name } => {
                let name = self.number(name)?;
                self.renamed.push((address, name));
            }
            Record::End { dead, dead_bytes } => {
                self.dead = Garbage {
                    objects: dead,
                    bytes: dead_bytes,
                };
            }
        }
        Ok(())
    }

    fn number(&mut self, name: &[u8]) -> Result<u32, String> {
        if let Some(&number) = self.numbers.get(name) {
            return Ok(number);
        }
        let number = u32::try_from(self.names.len())
            .map_err(|_| "the heap has more than 2^32 names".to_owned())?;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        Ok(number)
    }

    fn call(&mut self, by: Manner<'_>) -> Result<Call, String> {
        Ok(match by {
            Manner::Field(name) => Call::Field(name),
            Manner::Element(key) => Call::Element(key),
            Manner::Named(name) => Call::Named(self.number(name)?),
            Manner::Variable(name) => Call::Variable(self.number(name)?),
            Manner::Part(name) => Call::Part(self.number(name)?),
            Manner::Hidden => Call::Hidden,
        })
    }

    /// The bytes of the objects that have come, and of the whole heap.
    pub fn progress(&self) -> (u64, u64) {
        (self.bytes_read.min(self.bytes), self.bytes)
    }

    /// Leaves out what is not alive: what the first object, the root, does not reach by references
    /// that keep their targets.
    pub fn living(mut self) -> Living {
        self.numbers = HashMap::new();
        for (address, name) in std::mem::take(&mut self.renamed) {
            if let Some(&place) = self.places.get(&address) {
                self.objects[place as usize].name = name;
            }
        }
        let mut of_others: HashMap<u32, Vec<Reference>> = HashMap::new();
        for (from, reference) in std::mem::take(&mut self.of_others) {
            if let Some(&place) = self.places.get(&from) {
                of_others.entry(place).or_default().push(reference);
            }
        }
        let mut living = Living {
            graph: self,
            of_others,
            order: Vec::new(),
            numbers: Vec::new(),
            garbage: Garbage::default(),
        };
        living.find();
        living
    }
}

/// A heap without its garbage.
#[derive(Debug)]
pub struct Living {
    graph: Graph,
    /// References of objects that other objects caused.
    of_others: HashMap<u32, Vec<Reference>>,
    /// The places of the living objects, the root first.
    order: Vec<u32>,
    /// For each place, the object's number in `order`; [`NONE`] for garbage.
    numbers: Vec<u32>,
    garbage: Garbage,
}

/// No number.
const NONE: u32 = u32::MAX;

impl Living {
    /// The root's neighbours come first, so an object's number grows with its distance.
    fn find(&mut self) {
        let count = self.graph.objects.len();
        let mut numbers = vec![NONE; count];
        let mut order: Vec<u32> = Vec::new();
        if count > 0 {
            numbers[0] = 0;
            order.push(0);
        }
        let mut next = 0;
        while let Some(&place) = order.get(next) {
            next += 1;
            for reference in self
                .references(place)
                .filter(|reference| !reference.is_weak)
            {
                let Some(&to) = self.graph.places.get(&reference.to) else {
                    continue;
                };
                if numbers[to as usize] == NONE {
                    numbers[to as usize] = order.len() as u32;
                    order.push(to);
                }
            }
        }
        self.garbage = self.graph.dead;
        for (object, &number) in self.graph.objects.iter().zip(&numbers) {
            if number == NONE {
                self.garbage.objects += 1;
                self.garbage.bytes += object.bytes;
            }
        }
        (self.order, self.numbers) = (order, numbers);
    }

    fn references(&self, place: u32) -> impl Iterator<Item = &Reference> {
        let objects = &self.graph.objects;
        let first = objects[place as usize].first;
        let end = objects
            .get(place as usize + 1)
            .map_or(self.graph.references.len(), |next| next.first);
        let caused_by_others = self.of_others.get(&place).into_iter().flatten();
        self.graph.references[first..end]
            .iter()
            .chain(caused_by_others)
    }

    /// What the guest's collector will free, or has found dead already.
    pub fn garbage(&self) -> Garbage {
        self.garbage
    }

    /// The bytes of the heap, as the guest accounts for them.
    pub fn total(&self) -> u64 {
        self.graph.bytes
    }

    /// The living objects, the root first.
    pub fn objects(&self) -> impl ExactSizeIterator<Item = &Object> {
        self.order
            .iter()
            .map(|&place| &self.graph.objects[place as usize])
    }

    /// The references of the object with this place in [`Self::objects`]: how it refers, the place
    /// of the other object, and whether the reference is weak.
    pub fn references_of(&self, number: usize) -> impl Iterator<Item = (Call, usize, bool)> {
        self.references(self.order[number]).filter_map(|reference| {
            let place = *self.graph.places.get(&reference.to)?;
            let to = self.numbers[place as usize];
            (to != NONE).then_some((reference.call, to as usize, reference.is_weak))
        })
    }

    /// The class of an object, or its text.
    pub fn name_of(&self, object: &Object) -> &[u8] {
        self.name(object.name)
    }

    /// The name with this number.
    pub fn name(&self, number: u32) -> &[u8] {
        &self.graph.names[number as usize]
    }

    /// The text with this address; "?" if there is none.
    pub fn text_at(&self, address: u64) -> &[u8] {
        let object = self.graph.places.get(&address);
        object.map_or(b"?", |&place| {
            self.name_of(&self.graph.objects[place as usize])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(address: u64, name: &[u8]) -> Record<'_> {
        Record::Object {
            address,
            kind: ObjectKind::Table,
            bytes: 10,
            name,
        }
    }

    fn reference(by: Manner<'_>, to: u64) -> Record<'_> {
        Record::Reference {
            by,
            to,
            is_weak: false,
        }
    }

    fn graph(records: &[Record<'_>]) -> Living {
        let mut graph = Graph::default();
        for &record in records {
            graph.take(record).expect("there is a place");
        }
        graph.living()
    }

    fn names(living: &Living) -> Vec<&str> {
        let text = |object| std::str::from_utf8(living.name_of(object)).expect("text");
        living.objects().map(text).collect()
    }

    #[test]
    fn what_the_root_does_not_reach_is_garbage() {
        let living = graph(&[
            object(8, b"root"),
            reference(Manner::Named(b"a"), 16),
            reference(Manner::Hidden, 800), // of no object
            object(24, b"alone"),
            reference(Manner::Hidden, 16),
            object(16, b"a"),
            reference(Manner::Element(3), 8),
            Record::Reference {
                by: Manner::Hidden,
                to: 24,
                is_weak: true,
            },
            Record::End {
                dead: 5,
                dead_bytes: 100,
            },
        ]);
        assert_eq!(names(&living), ["root", "a"]);
        let garbage = Garbage {
            objects: 6,
            bytes: 110,
        };
        assert_eq!(living.garbage(), garbage);
        let of_a: Vec<_> = living.references_of(1).collect();
        assert_eq!(of_a, [(Call::Element(3), 0, false)]);
    }

    #[test]
    fn a_weak_reference_between_living_objects_stays() {
        let living = graph(&[
            object(8, b"root"),
            reference(Manner::Hidden, 16),
            object(16, b"a"),
            Record::Reference {
                by: Manner::Element(1),
                to: 8,
                is_weak: true,
            },
        ]);
        let of_a: Vec<_> = living.references_of(1).collect();
        assert_eq!(of_a, [(Call::Element(1), 0, true)]);
    }

    /// As in a table with weak keys: the value lives while its key does.
    #[test]
    fn a_reference_that_another_object_causes_keeps_its_target() {
        let of_key = Record::ReferenceOf {
            from: 16,
            name: b"value",
            to: 24,
        };
        let with_key = graph(&[
            object(8, b"root"),
            reference(Manner::Hidden, 16),
            of_key,
            object(16, b"key"),
            object(24, b"value"),
        ]);
        assert_eq!(names(&with_key), ["root", "key", "value"]);
        let without = graph(&[
            object(8, b"root"),
            of_key,
            object(16, b"key"),
            object(24, b"value"),
        ]);
        assert_eq!(names(&without), ["root"]);
    }

    #[test]
    fn an_object_may_be_renamed_before_it_comes() {
        let living = graph(&[
            object(8, b"root"),
            reference(Manner::Hidden, 16),
            Record::Rename {
                address: 16,
                name: b"process",
            },
            object(16, b"coroutine"),
        ]);
        assert_eq!(names(&living), ["root", "process"]);
    }

    #[test]
    fn a_field_has_the_text_of_its_string() {
        let living = graph(&[
            object(8, b"root"),
            reference(Manner::Field(32), 8),
            object(32, b"cache"),
        ]);
        assert_eq!(living.text_at(32), b"cache");
        assert_eq!(living.text_at(40), b"?");
        let of_root: Vec<_> = living.references_of(0).collect();
        assert_eq!(of_root, [(Call::Field(32), 0, false)]);
    }
}
