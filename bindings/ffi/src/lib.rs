//! Foreign calls for any language: C declarations, types, libraries, calls and callbacks.
//!
//! | module | what it does |
//! |---|---|
//! | [`declarations`] | holds what a program has declared, as read from C |
//! | [`types`] | describes the types of C: size, alignment, members, names |
//! | [`call`] | prepares signatures, makes calls and callbacks |
//! | [`library`] | loads shared libraries and finds their symbols |
//! | [`learning`] | learns which functions are long |
//! | [`error`] | reports a wrong declaration, with line and column |
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

pub mod call;
pub mod declarations;
pub mod error;
pub mod learning;
pub mod library;
mod parse;
pub mod types;
