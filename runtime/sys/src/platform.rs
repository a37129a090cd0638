//! What each system calls the same thing: one module per system, with the same names.
//!
//! | module | system |
//! |---|---|
//! | `linux` | Linux |
//! | `macos` | macOS; compiled, never run |
//! | `freebsd` | FreeBSD; compiled, never run |
//! | `bsd` | what these two have in common |

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;

#[cfg(target_os = "macos")]
mod macos;
#[cfg(target_os = "macos")]
pub(crate) use macos::*;

#[cfg(target_os = "freebsd")]
mod freebsd;
#[cfg(target_os = "freebsd")]
pub(crate) use freebsd::*;

#[cfg(any(target_os = "macos", target_os = "freebsd"))]
mod bsd;
#[cfg(any(target_os = "macos", target_os = "freebsd"))]
pub(crate) use bsd::*;

#[cfg(not(any(target_os = "linux", target_os = "macos", target_os = "freebsd")))]
compile_error!("baton-sys has a module for Linux, macOS and FreeBSD only: add one to platform.rs");
