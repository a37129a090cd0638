//! Names that are written once, and later by their numbers.

use super::messages::InternedNameMessage;
use crate::interned::Interned;

/// The largest number of names that get a number. A reader keeps them all in memory, so a program
/// that never repeats a name must not fill it.
const NAMES: usize = 65_536;

/// How a packet names something.
#[derive(Debug, PartialEq)]
pub(super) enum Named {
    /// By this number.
    Number(u64),
    /// By itself.
    Name(String),
}

/// The names of one kind that have numbers, and those that the next packet has to introduce.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: Interned<str>,
    new: Vec<InternedNameMessage>,
}

impl Names {
    /// The number of a name, or the name itself if it is new and the table is full.
    pub(super) fn named(&mut self, name: &str) -> Named {
        if let Some(number) = self.known.find(name) {
            return Named::Number(u64::from(number) + 1);
        }
        if self.known.len() >= NAMES {
            return Named::Name(name.to_owned());
        }
        // Number 0 means that there is none.
        let number = u64::from(self.known.add(name)) + 1;
        self.new.push(InternedNameMessage {
            iid: Some(number),
            name: Some(name.to_owned()),
        });
        Named::Number(number)
    }

    /// The names that got a number since the last call.
    pub(super) fn take_new(&mut self) -> Vec<InternedNameMessage> {
        std::mem::take(&mut self.new)
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn a_name_is_introduced_once() {
        let mut names = Names::default();
        assert_eq!(names.named("a"), Named::Number(1));
        assert_eq!(names.named("b"), Named::Number(2));
        let new: Vec<u64> = names
            .take_new()
            .iter()
            .map(InternedNameMessage::iid)
            .collect();
        assert_eq!(new, [1, 2]);
        assert_eq!(names.named("a"), Named::Number(1));
        assert!(names.take_new().is_empty());
    }

    #[test]
    fn after_the_limit_only_new_names_are_written_in_full() {
        let mut names = Names::default();
        for number in 0..NAMES {
            names.named(&number.to_string());
        }
        assert_eq!(names.named("one more"), Named::Name("one more".to_owned()));
        assert_eq!(names.named("0"), Named::Number(1));
        assert_eq!(names.take_new().len(), NAMES);
    }
}
