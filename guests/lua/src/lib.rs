//! Lua 5.4 on the Baton runtime.
//!
//! Lua's sources are compiled unmodified with one force-included header (`c/seam/seam.h`). A Lua
//! error is a longjmp and must not cross Rust frames, so every function that Lua calls is C (`c/`);
//! it asks the runtime through the functions of `bridge`, which only return values.
//!
//! | module | what it is |
//! |---|---|
//! | `guest` | the [`Guest`](baton_core::guest::Guest) that Lua is to the runtime |
//! | `bridge` | what the C half asks: processes, objects, timers |
//! | `parameters`, `settings` | the same for parameters; for counters and features |
//! | `ffi` | what `require "baton.ffi"` asks of `baton-ffi` |
//! | `program` | a program: one VM with its main process |

mod bridge;
mod ffi;
mod guest;
mod parameters;
mod program;
mod settings;
mod waits;

pub use baton_sys::reserve::ReservingAllocator;
pub use program::run_program;
