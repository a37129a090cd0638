//! TLS 1.2 and 1.3 by rustls, over bytes that others read and write.
//!
//! | module | what it has |
//! |---|---|
//! | [`pem`] | certificates and keys as texts and files |
//! | [`certificates`] | a server's or client's own certificates; the choice by name |
//! | [`context`] | what connections have in common; reading the files again |
//! | [`session`] | one connection |
//! | [`failure`] | what failed, in plain words |
//! | `unchecked` | for `verify = false` |

pub(crate) mod certificates;
pub(crate) mod context;
pub(crate) mod failure;
pub(crate) mod pem;
pub(crate) mod session;
mod unchecked;
