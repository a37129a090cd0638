//! Lua 5.4 on the Baton runtime.
//!
//! Lua's sources are compiled unmodified, with one header included before each file
//! (`c/seam/seam.h`). A Lua error is a longjmp and must not cross Rust frames. So every function
//! that Lua calls is in C (`c/`). The C half calls the runtime through the functions of
//! `baton-capi`, which only return values.
//!
//! | module | what it is |
//! |---|---|
//! | `guest` | the [`Guest`](baton_core::guest::Guest) of the runtime |
//! | [`answers`] | what clients make of answers to observers: texts and files |
//! | `call_times` | how long foreign calls took that others ran beside |
//! | `inside` | what observers ask: stacks, counters, parameters |
//! | `ffi` | functions of `baton-ffi` for `require "baton.ffi"` |
//! | `own_metrics` | the metrics that the program keeps itself |
//! | `spares` | blocks of messages that return to the VM that has made them |
//! | `source` | the modules that are written in Lua |
//! | [`suggestions`] | what a mistyped word was meant to be; unknown variables of the environment |
//! | `own_modules` | where `baton/NAME.so` is |
//! | `wording` | how reports name processes |
//! | `program` | a program: its first VM with its main process |
//! | `hosting` | a state that a program embeds: its VM, beside the program's own code |
//! | `vms` | the VMs beside that one |

pub mod answers;
mod call_times;
mod ffi;
mod guest;
mod hosting;
mod inside;
mod own_metrics;
mod own_modules;
mod program;
mod source;
mod spares;
pub mod suggestions;
mod vms;
mod wording;

// C calls it.
use baton_http as _;
pub use baton_sys::reserve::ReservingAllocator;
pub use inside::debug::check_expression;
pub use program::{Simulation, run_program};
