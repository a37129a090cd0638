//! A vector of objects with keys. The key of a freed object is stale, even if its place is used
//! again.

use super::room::make_room;
use std::num::NonZeroU32;

/// The link of no object.
pub(super) const NIL: u32 = u32::MAX;

/// The place of an object, and the generation of that place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    pub(super) index: u32,
    pub(super) generation: NonZeroU32,
}

impl Key {
    pub(super) const fn to_bits(self) -> u64 {
        ((self.generation.get() as u64) << 32) | self.index as u64
    }

    /// The key with these bits; `None` for bits of no key (generation 0 is never used).
    pub(super) const fn from_bits(bits: u64) -> Option<Key> {
        match NonZeroU32::new((bits >> 32) as u32) {
            Some(generation) => Some(Key {
                index: bits as u32,
                generation,
            }),
            None => None,
        }
    }
}

/// The generation after `generation`; wraps past 0.
pub(super) fn next_generation(generation: NonZeroU32) -> NonZeroU32 {
    generation.checked_add(1).unwrap_or(NonZeroU32::MIN)
}

/// A vector of objects. Free places are linked and reused, the last freed first.
#[derive(Debug)]
pub(super) struct Slab<T> {
    places: Vec<Place<T>>,
    free: u32,
}

#[derive(Debug)]
struct Place<T> {
    generation: NonZeroU32,
    content: Content<T>,
}

#[derive(Debug)]
enum Content<T> {
    Full(T),
    Free { next: u32 },
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Slab {
            places: Vec::new(),
            free: NIL,
        }
    }

    /// Adds an object.
    ///
    /// # Panics
    ///
    /// At 2^32 - 1 objects of one kind; memory is exhausted before that.
    pub(super) fn insert(&mut self, object: T) -> Key {
        if self.free != NIL {
            let index = self.free;
            let place = &mut self.places[index as usize];
            if let Content::Free { next } = place.content {
                self.free = next;
            }
            place.content = Content::Full(object);
            return Key {
                index,
                generation: place.generation,
            };
        }
        let index = self.places.len() as u32;
        assert!(
            index != NIL,
            "more than {NIL} objects of one kind in one VM"
        );
        self.places.push(Place {
            generation: NonZeroU32::MIN,
            content: Content::Full(object),
        });
        Key {
            index,
            generation: NonZeroU32::MIN,
        }
    }

    /// Whether one more object fits. The table grows if necessary; `false` if it cannot.
    pub(super) fn make_room(&mut self) -> bool {
        self.free != NIL || make_room(&mut self.places, 1)
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation != key.generation || matches!(place.content, Content::Free { .. }) {
            return None;
        }
        place.generation = next_generation(place.generation);
        let content = std::mem::replace(&mut place.content, Content::Free { next: self.free });
        self.free = key.index;
        match content {
            Content::Full(object) => Some(object),
            Content::Free { .. } => None,
        }
    }

    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<&T> {
        match self.places.get(key.index as usize) {
            Some(Place {
                generation,
                content: Content::Full(object),
            }) if *generation == key.generation => Some(object),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.places.get_mut(key.index as usize) {
            Some(Place {
                generation,
                content: Content::Full(object),
            }) if *generation == key.generation => Some(object),
            _ => None,
        }
    }

    /// The object at `index`, of any generation: for links between objects, which never dangle.
    #[inline]
    pub(super) fn at(&self, index: u32) -> Option<&T> {
        match self.places.get(index as usize) {
            Some(Place {
                content: Content::Full(object),
                ..
            }) => Some(object),
            _ => None,
        }
    }

    /// As [`Slab::at`], mutable.
    #[inline]
    pub(super) fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        match self.places.get_mut(index as usize) {
            Some(Place {
                content: Content::Full(object),
                ..
            }) => Some(object),
            _ => None,
        }
    }

    /// The key of the object at `index`.
    pub(super) fn key_at(&self, index: u32) -> Option<Key> {
        match self.places.get(index as usize) {
            Some(Place {
                generation,
                content: Content::Full(_),
            }) => Some(Key {
                index,
                generation: *generation,
            }),
            _ => None,
        }
    }

    /// How many places there are, free ones included.
    pub(super) fn places(&self) -> u32 {
        self.places.len() as u32
    }

    /// How many places there are with one more object.
    pub(super) fn places_with_one_more(&self) -> usize {
        self.places.len() + usize::from(self.free == NIL)
    }

    /// All objects, with their indices.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..self.places.len() as u32).filter_map(|index| Some((index, self.at(index)?)))
    }
}
