//! Values that are stored once and named by a small number.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Distinct values, numbered from 0 in the order in which they came.
#[derive(Debug)]
pub(crate) struct Interned<T: ?Sized> {
    values: Vec<Arc<T>>,
    numbers: HashMap<Arc<T>, u32>,
}

impl<T: ?Sized> Default for Interned<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            numbers: HashMap::new(),
        }
    }
}

// A derived implementation would ask for values that can be cloned, which texts cannot.
impl<T: ?Sized> Clone for Interned<T> {
    fn clone(&self) -> Self {
        Self {
            values: self.values.clone(),
            numbers: self.numbers.clone(),
        }
    }
}

impl<T: ?Sized + Hash + Eq> Interned<T> {
    /// The number of a value, which is stored if it is new.
    ///
    /// # Panics
    ///
    /// There are 2^32 distinct values already.
    pub(crate) fn add(&mut self, value: impl Into<Arc<T>> + Borrow<T>) -> u32 {
        if let Some(&number) = self.numbers.get(value.borrow()) {
            return number;
        }
        let number = u32::try_from(self.values.len()).expect("fewer than 2^32 distinct values");
        let value: Arc<T> = value.into();
        self.values.push(Arc::clone(&value));
        self.numbers.insert(value, number);
        number
    }

    /// The number of a value, if it is stored.
    pub(crate) fn find(&self, value: &T) -> Option<u32> {
        self.numbers.get(value).copied()
    }

    /// The value with a number that [`Self::add`] returned.
    pub(crate) fn get(&self, number: u32) -> &T {
        &self.values[number as usize]
    }

    /// All values in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().map(AsRef::as_ref)
    }

    /// How many values are stored.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn an_equal_value_gets_the_same_number() {
        let mut names = Interned::<str>::default();
        assert_eq!([names.add("a"), names.add("b"), names.add("a")], [0, 1, 0]);
        assert_eq!(names.get(1), "b");
        assert_eq!(names.find("c"), None);
        assert_eq!(names.iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(names.len(), 2);
    }
}
