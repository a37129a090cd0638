//! The unsafe fence of the Baton runtime: everything that talks to the processor or the operating
//! system. It knows no scheduler and no language. `baton-core` builds on it; one file there has
//! unsafe code, for the tokens of threads inside the VM.
//!
//! To write an interpreter, begin with `baton-core`, which exports this crate as `sys`. An
//! interpreter uses a few modules itself:
//!
//! | module | what an interpreter does with it |
//! |---|---|
//! | [`gate`] | checks whether it is to reach a safepoint; enters and leaves the VM from C (`c/gate.h`) |
//! | [`signals`] | is preempted by a signal; watches signals |
//! | [`commands`] | runs commands in the system's shell |
//! | [`clock`] | names deadlines: points of monotonic time, as one word |
//! | [`overflow`] | reports which process has overflowed its stack |
//! | [`reserve`] | makes "out of memory" an error of its language |
//! | [`activity`], [`features`] | reports threads, and the mechanisms in use |
//! | [`snapshot`] | has its heap read in a copy of the program |
//!
//! The others serve the executor:
//!
//! | module | what it wraps |
//! |---|---|
//! | [`fiber`], [`stack`] | execution contexts and the switch between them; stacks for processes |
//! | [`owner_cell`] | data that only the owner of a VM touches |
//! | [`pile`] | records that any thread gives back |
//! | [`inbox`] | messages from any thread to the owner |
//! | [`parking`], [`poller`], [`pause`] | waking the owner; its wait in the system; spinning by time |
//! | [`membarrier`] | asymmetric fences |
//! | [`forking`] | what is done around a `fork`; mutexes that outlast one |
//! | [`processors`], [`promptness`] | how many processors there are; how promptly threads run |
//! | [`errno`], [`peer`] | the C library's last error; who is connected to a socket |
//! | [`shared_memory`] | words that two programs share |
//! | [`thread`] | native threads that start while a library is loaded |
//!
//! # A preempt handler
//!
//! The runtime asks a running process to give way in two steps. First it sets
//! [`ATTENTION`](gate::ATTENTION) in the gate of the process's thread. If the process continues to
//! run, its thread gets signals, and the flag is not set again. So every interpreter needs a
//! handler. One that checks the gate at each instruction calls `set_attention` in it. Others arm
//! their own check:
//!
//! ```
//! use baton_sys::gate;
//! use baton_sys::signals::{Interrupted, ThreadHandle, install_preempt_handler};
//! use std::sync::atomic::{AtomicBool, Ordering};
//!
//! static CHECK: AtomicBool = AtomicBool::new(false); // what the interpreter reads
//!
//! extern "C" fn preempt() {
//!     // Async-signal-safe code only. Each entry of the VM may find the flag by itself.
//!     CHECK.store(true, Ordering::Relaxed);
//! }
//!
//! install_preempt_handler(preempt)?;
//! gate::here().set_attention(); // the runtime does this from another thread,
//! assert_eq!(ThreadHandle::current().interrupt(), Interrupted::Sent); // and then this
//! assert!(CHECK.load(Ordering::Relaxed));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Systems
//!
//! Linux on x86-64 and AArch64. The crate also compiles for macOS and FreeBSD, but was never run
//! there. Where a mechanism needs a newer kernel, there is a fallback:
//! [`features`] says what is in use.
//!
//! Under `--cfg loom` only the modules with model checks exist.
#![warn(missing_docs)]

pub mod gate;
pub mod owner_cell;

#[cfg(not(loom))]
pub mod fiber;

#[cfg(not(loom))]
pub mod activity;
pub mod asked;
#[cfg(not(loom))]
pub mod clock;
#[cfg(not(loom))]
pub mod commands;
#[cfg(not(loom))]
pub mod errno;
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
pub mod peer;
pub mod pile;
#[cfg(not(loom))]
mod platform;
#[cfg(not(loom))]
pub mod poller;
#[cfg(not(loom))]
pub mod processors;
#[cfg(not(loom))]
pub mod promptness;
#[cfg(not(loom))]
pub mod reserve;
#[cfg(not(loom))]
pub mod shared_memory;
pub mod shared_mutex;
#[cfg(not(loom))]
pub mod signals;
#[cfg(not(loom))]
pub mod snapshot;
#[cfg(not(loom))]
pub mod stack;
#[cfg(not(loom))]
pub mod thread;
#[cfg(not(loom))]
pub mod ticks;
