//! Ids: small, `Copy`, and safe to keep after the object is gone.

use std::num::NonZeroU32;

use super::slab::Key;

/// A process. The slot of a forgotten process is used again with another generation. So an old id
/// never names a new process: it counts as a dead process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ProcessId {
    pub(super) index: u32,
    pub(super) generation: NonZeroU32,
}

impl ProcessId {
    /// The index of its slot, dense from 0. For tables outside the scheduler.
    #[inline]
    pub const fn index(self) -> u32 {
        self.index
    }

    /// The generation of its slot; never 0.
    #[inline]
    pub const fn generation(self) -> u32 {
        self.generation.get()
    }

    /// The id as one word; never 0.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        ((self.generation.get() as u64) << 32) | self.index as u64
    }

    /// The id that [`ProcessId::to_bits`] made; `None` for bits of no id, such as 0.
    #[inline]
    pub const fn from_bits(bits: u64) -> Option<ProcessId> {
        match NonZeroU32::new((bits >> 32) as u32) {
            Some(generation) => Some(ProcessId {
                index: bits as u32,
                generation,
            }),
            None => None,
        }
    }
}

/// A native thread that runs processes. Numbered densely from 0 by its creator; 0 is home.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CarrierId(pub u32);

macro_rules! object_ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub struct $name(pub(super) Key);

        impl $name {
            /// The id as one word; never 0.
            #[inline]
            pub const fn to_bits(self) -> u64 {
                self.0.to_bits()
            }

            /// The id that `to_bits` made; `None` for bits of no id, such as 0.
            #[inline]
            pub const fn from_bits(bits: u64) -> Option<$name> {
                match Key::from_bits(bits) {
                    Some(key) => Some($name(key)),
                    None => None,
                }
            }
        }
    )*};
}

object_ids! {
    /// A counting semaphore.
    SemaphoreId;
    /// A mutex.
    MutexId;
    /// A condition variable.
    ConditionId;
    /// An event: a flag to wait for.
    EventId;
    /// A lock for readers and writers.
    RwLockId;
    /// A barrier.
    BarrierId;
    /// A channel.
    ChannelId;
    /// A plain queue of waiting processes, for the executor's own use.
    WaitQueueId;
    /// A timer.
    TimerId;
    /// A wait for an object that several VMs share.
    SharedWaitId;
}
