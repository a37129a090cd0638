//! Files as replies: which file a path names, of what type it is, and which part of it a request
//! wants. No file is touched here.

pub mod conditions;
pub mod kinds;
pub mod paths;
