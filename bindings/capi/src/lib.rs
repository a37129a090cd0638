//! `include/baton.h`: what an interpreter in C calls of the Baton runtime.
//!
//! A crate that depends on this one finds the header's directory in the environment variable
//! `DEP_BATON_CAPI_INCLUDE` of its build script. The Lua guest (`baton-lua`) implements the
//! functions, and is their first user.
