//! Who is inside the VM, and on which native thread.
//!
//! | file | what it does |
//! |---|---|
//! | `state.rs` | what the VM's mutex guards: the owner, and the native threads |
//! | `this_thread.rs` | the VM of the calling thread |
//! | `enter.rs` | the slow half of the VM lock: entering, leaving, retaking, handing over |
//! | `carriers.rs` | native threads: the loop on their own stacks; start and retirement |
//! | `affinity.rs` | native threads with names, for processes that are bound to them |
//! | `held_threads.rs` | threads that a call keeps from others for long |
//! | `offload.rs` | calls that are known to be long: the caller goes to another thread |
//! | `thread_queue.rs` | at the bound on threads, calls wait for one |
//! | `in_call.rs` | a foreign function gives way in its middle |

pub(super) mod affinity;
pub(super) mod carriers;
pub(super) mod enter;
pub(super) mod held_threads;
pub(super) mod in_call;
pub(super) mod offload;
pub(super) mod state;
pub(super) mod this_thread;
pub(super) mod thread_queue;
