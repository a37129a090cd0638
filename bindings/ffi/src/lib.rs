//! Foreign calls for any language: C declarations, types, libraries, calls and callbacks. This is
//! the part of an ffi that knows no language.
//!
//! | module | what it does |
//! |---|---|
//! | [`declarations`] | holds what a program has declared, as read from C |
//! | [`types`] | describes the types of C: size, alignment, members, names |
//! | [`library`] | loads shared libraries and finds their symbols |
//! | [`call`] | prepares signatures, makes calls and callbacks |
//! | [`learning`] | learns which functions are long |
//! | [`timed`] | makes calls with a timeout, on threads of their own |
//! | [`callback_queue`] | passes callbacks of foreign threads to processes |
//! | [`error`] | reports a wrong declaration, with line and column |
//!
//! # From a declaration to a call
//!
//! 1. [`declare`](declarations::Declarations::declare) reads C, as a header has it, without the
//!    preprocessor.
//! 2. [`symbol`](library::Library::symbol) finds the function's address.
//! 3. [`Plan::new`](call::Plan::new) prepares its signature, once for all calls.
//! 4. [`call`](call::Plan::call) makes a call. The caller converts the values of its language to
//!    the bytes that the [slots](call::Slot) of the plan have room for, and back.
//!
//! ```
//! use baton_ffi::call::Plan;
//! use baton_ffi::declarations::{Declarations, Symbol};
//! use baton_ffi::library::Library;
//! use baton_ffi::types::Kind;
//! use std::ffi::c_void;
//!
//! let mut declared = Declarations::default();
//! declared.declare("size_t strlen(const char *text);", &[])?;
//! let Some(Symbol::External(external)) = declared.symbol("strlen") else { panic!("declared") };
//! let Kind::Function(function) = declared.types.kind(external.of.id) else { panic!("one") };
//! let function = function.clone();
//! let plan = Plan::new(&mut declared.types, &function, &[])?;
//! let address = Library::program().symbol("strlen")?;
//!
//! let mut text = c"four".as_ptr();
//! let mut arguments = [(&raw mut text).cast::<c_void>()]; // the address of each argument
//! let mut length = 0_u64;
//! // SAFETY: strlen was declared as it is defined; the argument and the result fit their slots.
//! unsafe { plan.call(address, arguments.as_mut_ptr(), (&raw mut length).cast()) };
//! assert_eq!(length, 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Many signatures need no libffi: [`Plan::direct`](call::Plan::direct) says how to call them with
//! registers that the guest fills, in C by `c/direct.h`.
//!
//! # Types
//!
//! ```
//! use baton_ffi::declarations::Declarations;
//!
//! let mut declared = Declarations::default();
//! declared.declare("struct point { int x, y; }; double length(struct point p);", &[])?;
//! let point = declared.type_name("struct point", &[])?;
//! assert_eq!(declared.types.size_of(point.id), Some(8));
//! assert_eq!(declared.types.field(point.id, "y").map(|found| found.offset), Some(4));
//! # Ok::<(), baton_ffi::error::DeclarationError>(())
//! ```
//!
//! # Callbacks
//!
//! A [`Callback`](call::Callback) is a C function pointer that calls a handler with the addresses
//! of the arguments:
//!
//! ```
//! use baton_ffi::call::{Callback, Plan};
//! use baton_ffi::declarations::Declarations;
//! use baton_ffi::types::Kind;
//! use std::ffi::c_void;
//! use std::sync::Arc;
//!
//! unsafe extern "C" fn double(_: *mut c_void, result: *mut c_void, arguments: *mut *mut c_void) {
//!     // SAFETY: the plan below says: one int, and an int as the result, which is written as 8
//!     // bytes.
//!     unsafe { *result.cast::<i64>() = 2 * i64::from(*(*arguments).cast::<i32>()) }
//! }
//!
//! let mut declared = Declarations::default();
//! let of = declared.prototype("int double_it(int number);")?.external.of;
//! let Kind::Function(function) = declared.types.kind(of.id).clone() else { panic!("one") };
//! let plan = Arc::new(Plan::new(&mut declared.types, &function, &[])?);
//! let callback = Callback::new(plan, double, std::ptr::null_mut())?;
//! // SAFETY: the callback has this signature.
//! let pointer: extern "C" fn(i32) -> i32 = unsafe { std::mem::transmute(callback.code()) };
//! assert_eq!(pointer(21), 42);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The handler runs on the thread that C calls on. A guest on the Baton runtime enters its VM there
//! first, and pins the process. A panic must not leave the handler: it aborts the program.
//!
//! # Calls that block
//!
//! A call may last. The guest lets other processes run meanwhile: it makes the call by
//! [`Inside::foreign`](baton_core::vm::Inside::foreign). Where [`learning`] says that the function
//! is long, it makes the call by [`Inside::offload`](baton_core::vm::Inside::offload). Where the
//! call has a timeout, a helper thread makes it ([`timed`]).
//!
//! [`timed`] and [`callback_queue`] use `baton-core`. The other modules need no runtime.
//!
//! # Threads
//!
//! A [`Plan`](call::Plan), a [`Callback`](call::Callback) and a [`Library`](library::Library) may
//! be used by many threads at once. [`Declarations`](declarations::Declarations) and
//! [`learning::Estimate`] have one user at a time: on Baton, the VM's owner.
//!
//! A callback on a thread outside of the VM passes its call on ([`callback_queue`]).
#![warn(missing_docs)]

pub mod call;
pub mod callback_queue;
pub mod declarations;
mod declare;
pub mod error;
mod helper_threads;
pub mod learning;
pub mod library;
mod parse;
pub mod timed;
pub mod types;
