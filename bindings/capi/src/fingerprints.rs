//! For debug builds: whether each process finds the engine as it left it.
//!
//! The guest's `fingerprint` is a number for what the engine has at the moment. It is noted when
//! the state of a process is put away, and compared when that is brought back.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is known of the processes whose state was put away, by their user data.
#[derive(Default)]
pub(crate) struct Fingerprints(Mutex<HashMap<usize, u64>>);

/// A process does not find what it left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Differs {
    left: u64,
    found: u64,
}

impl Differs {
    /// What is wrong, and what to do.
    pub(crate) fn message(&self, user_data: usize) -> String {
        format!(
            "a switch has changed the engine's state of the process with the user data \
             {user_data:#x}: its `fingerprint` was {:#x} when it was left, and is {:#x} now; the \
             guest's `switched` must put away all that the engine keeps once, and bring it back",
            self.left, self.found
        )
    }
}

impl Fingerprints {
    fn all(&self) -> MutexGuard<'_, HashMap<usize, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of a process is about to be put away.
    pub(crate) fn note(&self, user_data: usize, fingerprint: u64) {
        self.all().insert(user_data, fingerprint);
    }

    /// The state of a process was brought back.
    pub(crate) fn compare(&self, user_data: usize, found: u64) -> Result<(), Differs> {
        match self.all().remove(&user_data) {
            Some(left) if left != found => Err(Differs { left, found }),
            // The process begins.
            _ => Ok(()),
        }
    }

    /// A process has other user data.
    pub(crate) fn rename(&self, before: usize, after: usize) {
        let mut all = self.all();
        if let Some(left) = all.remove(&before) {
            all.insert(after, left);
        }
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn a_process_that_does_not_find_what_it_left_is_noticed() {
        let prints = Fingerprints::default();
        prints.note(1, 70);
        prints.note(2, 80);
        prints.rename(2, 3);
        assert_eq!(prints.compare(1, 70), Ok(()));
        assert_eq!(
            prints.compare(1, 71),
            Ok(()),
            "one of the same user data begins"
        );
        let differs = prints.compare(3, 81).expect_err("it was 80");
        assert_eq!(
            differs,
            Differs {
                left: 80,
                found: 81
            }
        );
        assert!(differs.message(3).contains("was 0x50 when it was left"));
    }
}
