//! The unsafe fence of the Baton runtime: everything that talks to the processor or the operating system.
//!
//! | module | what it wraps |
//! |---|---|
//! | [`gate`] | a native thread's words of the VM lock; shared with C through `c/gate.h` |
//! | [`fiber`] | execution contexts and the switch between them |
//!
//! It knows no scheduler and no language; `baton-core` builds on it without unsafe code.

pub mod gate;

#[cfg(not(loom))]
pub mod fiber;
