//! `libbaton.a`: the functions of `baton.h` for a program in C, which links it.
//!
//! They are in `baton-capi`. This crate gives them with all that they need.

extern crate baton_capi as _;
