//! `libbaton-lua`: Lua's C API, and the functions of `baton_lua.h`, for a program that embeds Lua.
//!
//! They are in `baton-lua`. This crate gives them with all that they need.

use baton_lua::ReservingAllocator;

/// Running out of memory is an error that a script can catch.
#[global_allocator]
static ALLOCATOR: ReservingAllocator = ReservingAllocator;
