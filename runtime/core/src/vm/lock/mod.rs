//! The VM lock and the native threads: which thread is inside the VM, and which processes run on
//! it.
//!
//! | file | what it does |
//! |---|---|
//! | `state.rs` | the data under the VM's mutex: the owner, and the native threads |
//! | `this_thread.rs` | the VM of the calling thread |
//! | `enter.rs` | the slow half of the VM lock: entering, leaving, retaking, handing over |
//! | `carriers.rs` | native threads: the loop on their own stacks; start and retirement |
//! | `stint.rs` | a VM in a loop that the program owns |
//! | `affinity.rs` | named native threads, for processes that are bound to them |
//! | `held_threads.rs` | reports of calls that hold a thread for long |
//! | `offload.rs` | calls that are known to be long: the caller moves to another thread |
//! | `thread_queue.rs` | calls that wait for a thread, at the bound on threads |
//! | `kept.rs` | threads that are left to one process, which waits with foreign frames on them |

pub(super) mod affinity;
pub(super) mod carriers;
pub(super) mod enter;
pub(super) mod held_threads;
pub(super) mod kept;
pub(super) mod offload;
pub(super) mod state;
pub(super) mod stint;
pub(super) mod this_thread;
pub(super) mod thread_queue;
