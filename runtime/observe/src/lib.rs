//! Attaching to a running program, to see what its processes do. Nothing is prepared at its start,
//! and nothing costs anything while nobody looks. This crate knows no language.
//!
//! ```text
//! client                                        target
//! attach(pid): may this user do that?
//!   PID.request, in a directory of the user's
//!   SIGQUIT ----------------------------------> the handler notes it (`quit::note`)
//!                                               at a safepoint, or by the monitor: `quit::serve`
//!                                                 checks and removes the request
//!                                                 starts the observer thread, which binds PID.sock
//!   connects; both check who the other is <----
//!   {"version":1,...}  -----------------------> checks the version
//!   {"ask":"stacks"}   -----------------------> `Target::answer`
//!                      <----------------------- {"part":...} ..., {"done":...}
//!                                               ends after a quiet minute
//! ```
//!
//! Some questions open a conversation instead: then both sides send lines when they like, until the
//! connection ends ([`observer::Conversation`]). A debugger does that. If it has started the
//! program, it is at the other end of a pair of sockets, and there is no request
//! ([`observer::serve_parent`], [`client::Connection::to_child`]).
//!
//! | module | what is there |
//! |---|---|
//! | [`place`] | the directory of requests and sockets, and who may use it |
//! | [`quit`] | the target's side: SIGQUIT, requests, refusals |
//! | [`observer`] | the target's side: the thread that answers |
//! | [`client`] | the other side |
//! | [`exporter`] | metrics over HTTP, if the environment asks for it |
//! | [`usage`] | what the program uses of the system |
//! | [`inherited`] | connections that a fork's child closes |
//! | [`protocol`] | lines of JSON, their limits, and the version |
//! | [`report`] | processes and their stacks, as data and as text |
//! | [`heap`] | heaps, as data |
//!
//! # Who may attach
//!
//! The same user, or root. The directory belongs to the target's user and is closed to others
//! (0700), and so is the socket (0600). Both sides ask the kernel who the other is
//! (`SO_PEERCRED`). No network address is involved.
#![forbid(unsafe_code)]

pub mod client;
pub mod exporter;
pub mod heap;
pub mod inherited;
pub mod observer;
pub mod place;
pub mod protocol;
pub mod quit;
pub mod report;
mod stale;
pub mod usage;
