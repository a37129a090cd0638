//! Parts that most programs do not use: hooks, simulation, fork, looks, wakers.
//!
//! | file | what it does |
//! |---|---|
//! | `collecting.rs` | whether the guest's collector works |
//! | `hooks.rs` | scheduler hooks and switch hooks that the guest's users write |
//! | `simulation.rs` | runs that the same seed repeats |
//! | `turnstile.rs`, `turnstile/` | several VMs in such a run: one goes on at a time |
//! | `recorder.rs` | records the decisions of such runs, or makes given ones |
//! | `census.rs` | what all processes wait for at one instant |
//! | `fork.rs` | the VM around a fork, and in the child |
//! | `halting.rs` | ends a VM from another thread |
//! | `look.rs` | other threads read the state of the VM |
//! | `thread_times.rs` | the processor time of native threads, and of calls beside which others run |
//! | `tracing.rs` | notes what happens, for traces |
//! | `waker.rs` | wakes a process from a signal handler or any thread |

mod census;
pub(super) mod collecting;
pub(super) mod fork;
pub(super) mod halting;
pub(super) mod hooks;
pub(super) mod look;
pub(super) mod recorder;
pub(super) mod simulation;
pub(super) mod thread_times;
pub(super) mod tracing;
pub(super) mod turnstile;
pub(super) mod waker;
