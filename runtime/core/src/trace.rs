//! Traces: what happened in a VM, as events in the order in which they happened.
//!
//! While a VM is traced, its owner notes events in a ring of bounded memory, in which the oldest
//! ones are overwritten. Readers copy events out of it, and learn how many they have missed. An
//! event says only what cannot be found out later. What it means, such as the name of an object, is
//! looked up when the trace is written.
//!
//! | while | switches | others |
//! |---|---|---|
//! | a VM is not traced | one test | one test when a wait ends |
//! | it is traced | are noted | are noted where they happen |
//!
//! **No protocol between threads.** Only the owner writes, or the thread that has taken the VM from
//! it, with the VM's mutex. Readers read in a look ([`Vm::look`](crate::vm::Vm::look)), which is
//! the same. A thread whose call comes back posts that, with the time, and the owner notes it.
//!
//! | file | what it holds |
//! |---|---|
//! | `trace.rs` | what an event says |
//! | `trace/ring.rs` | the ring |
//! | `vm/ext/tracing.rs` | notes events |

pub(crate) mod ring;

use crate::sched::{Blocker, CarrierId, ProcessId, WakeReason};
use baton_sys::clock::Instant;

pub use ring::{MOST_EVENTS, Reading};

/// Something that happened. 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceEvent {
    /// When.
    pub at: Instant,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A process runs from now on, on this native thread.
    Runs {
        /// The process.
        process: ProcessId,
        /// The native thread.
        carrier: CarrierId,
    },
    /// The running process does not run any more.
    Left {
        /// The process.
        process: ProcessId,
        /// Why.
        cause: Left,
        /// What it waits for, if it waits.
        blocker: Option<Blocker>,
    },
    /// The wait or the suspension of a process has ended.
    Wakes {
        /// The process that is runnable now.
        process: ProcessId,
        /// The process that has ended the wait; `None` if none did, as for a descriptor.
        by: Option<ProcessId>,
        /// How the wait ended.
        reason: WakeReason,
    },
    /// As [`What::Wakes`], because a time has come.
    Due {
        /// The process that is runnable now.
        process: ProcessId,
        /// The time that has come.
        due: Instant,
    },
    /// Others run beside the foreign call of a process: it was retaken, or offloaded. A call that
    /// no others run beside is a part of the process's run. The function's name follows.
    CallBegins {
        /// The process.
        process: ProcessId,
        /// The native thread that makes the call.
        carrier: CarrierId,
    },
    /// That call has come back.
    CallEnds {
        /// The process.
        process: ProcessId,
    },
    /// There is a new process.
    Spawned {
        /// The process.
        process: ProcessId,
        /// The process that has spawned it; `None` if none did.
        by: Option<ProcessId>,
    },
    /// A process has ended. Its name follows.
    Ended {
        /// The process.
        process: ProcessId,
        /// Its number, as the guest counts processes.
        number: u64,
    },
    /// The owner waits in the system, on this native thread: no process is runnable.
    IdleBegins {
        /// The native thread.
        carrier: CarrierId,
    },
    /// That wait has ended.
    IdleEnds,
    /// The guest collects garbage from now on, as a part of what the running process does.
    GarbageBegins,
    /// It does so no more.
    GarbageEnds,
    /// A process keeps the others from running: it was warned of.
    Stalls {
        /// The process.
        process: ProcessId,
    },
    /// A part of a name, which belongs to the event before it.
    Name(Letters),
}

/// Why a process was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It yielded.
    Yielded,
    /// Its slice was over.
    SliceOver,
    /// A more urgent process became runnable.
    Outranked,
    /// It waits, or sleeps.
    Waits,
    /// It is suspended.
    Suspended,
    /// It is out in a foreign call.
    Calls,
    /// It has ended.
    Ended,
    /// It continues on another native thread, or after a hook.
    Moves,
}

/// Up to [`Letters::MOST`] bytes of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Letters {
    used: u8,
    bytes: [u8; Letters::MOST],
}

impl Letters {
    /// The maximal number of bytes.
    pub const MOST: usize = 22;

    /// The bytes. A character may be split between two parts of a name.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.used)]
    }

    /// The parts of a name.
    pub(crate) fn parts(name: &[u8]) -> impl Iterator<Item = Letters> + '_ {
        name.chunks(Letters::MOST).map(|part| {
            let mut bytes = [0; Letters::MOST];
            bytes[..part.len()].copy_from_slice(part);
            Letters {
                used: part.len() as u8,
                bytes,
            }
        })
    }
}

impl std::fmt::Debug for Letters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// A name of limited length, written without an allocation. What does not fit is left out.
pub(crate) struct ShortName {
    used: usize,
    bytes: [u8; ShortName::MOST],
}

impl ShortName {
    const MOST: usize = 4 * Letters::MOST;

    pub(crate) fn new() -> ShortName {
        ShortName {
            used: 0,
            bytes: [0; ShortName::MOST],
        }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

impl std::fmt::Write for ShortName {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = ShortName::MOST - self.used;
        let end = text.floor_char_boundary(room.min(text.len()));
        self.bytes[self.used..self.used + end].copy_from_slice(&text.as_bytes()[..end]);
        self.used += end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn an_event_is_half_a_cache_line() {
        assert_eq!(size_of::<TraceEvent>(), 32);
    }

    #[test]
    fn a_name_comes_back_from_its_parts() {
        let mut name = ShortName::new();
        write!(name, "a name of more than {} letters: ä", Letters::MOST).expect("it fits");
        let parts: Vec<Letters> = Letters::parts(name.as_bytes()).collect();
        assert_eq!(parts.len(), 2);
        let whole: Vec<u8> = parts
            .iter()
            .flat_map(|part| part.as_bytes().to_vec())
            .collect();
        assert_eq!(
            String::from_utf8_lossy(&whole),
            "a name of more than 22 letters: ä"
        );
    }

    #[test]
    fn a_name_that_is_too_long_is_cut_between_characters() {
        let mut name = ShortName::new();
        write!(
            name,
            "{}ä{}",
            "x".repeat(ShortName::MOST - 1),
            "y".repeat(9)
        )
        .expect("it is cut");
        let text = std::str::from_utf8(name.as_bytes()).expect("whole characters");
        assert!(text.starts_with("xxx") && !text.contains('ä'), "{text}");
    }
}
