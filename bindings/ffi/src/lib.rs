//! Foreign calls for any language: C declarations, types, libraries, calls and callbacks.
//!
//! | module | what it does |
//! |---|---|
//! | [`declarations`] | what a program has declared, read from C |
//! | [`types`] | the types of C: size, alignment, members, names |
//! | [`call`] | prepared signatures, calls and callbacks |
//! | [`library`] | shared libraries and their symbols |
//! | [`learning`] | which functions are known to be long |
//! | [`error`] | what is wrong with a declaration, with line and column |
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
