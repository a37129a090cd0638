//! The unsafe fence of the Baton runtime: everything that talks to the processor or the operating
//! system.
//!
//! | module | what it wraps |
//! |---|---|
//! | [`gate`] | a native thread's words of the VM lock; shared with C through `c/gate.h` |
//! | [`fiber`] | execution contexts and the switch between them |
//! | [`clock`] | monotonic time as one word; processor time |
//! | [`forking`] | what is done around a `fork` |
//! | [`features`] | which mechanisms with a fallback are in use |
//! | [`inbox`] | messages from any thread to the owner |
//! | [`membarrier`] | asymmetric fences |
//! | [`overflow`] | faults in guards of stacks |
//! | [`parking`] | who must wake the owner |
//! | [`pause`] | spinning by time |
//! | [`poller`] | the owner's wait |
//! | [`processors`] | how many processors there are, and who else gets their time |
//! | [`signals`] | preemption signal, watched signals, alternate stacks |
//! | [`reserve`] | memory kept in reserve for Rust's collections |
//! | [`stack`] | stacks for processes |
//! | [`thread`] | native threads that start while a library is loaded |
//!
//! It knows no scheduler and no language; `baton-core` builds on it without unsafe code.

pub mod gate;
pub mod owner_cell;

#[cfg(not(loom))]
pub mod fiber;

#[cfg(not(loom))]
pub mod activity;
#[cfg(not(loom))]
pub mod clock;
#[cfg(not(loom))]
pub mod features;
#[cfg(not(loom))]
pub mod forking;
pub mod inbox;
#[cfg(not(loom))]
pub mod membarrier;
#[cfg(not(loom))]
mod memory;
#[cfg(not(loom))]
pub mod overflow;
pub mod parking;
#[cfg(not(loom))]
pub mod pause;
#[cfg(not(loom))]
pub mod poller;
#[cfg(not(loom))]
pub mod processors;
#[cfg(not(loom))]
pub mod promptness;
#[cfg(not(loom))]
pub mod reserve;
#[cfg(not(loom))]
pub mod signals;
#[cfg(not(loom))]
pub mod stack;
#[cfg(not(loom))]
pub mod thread;
