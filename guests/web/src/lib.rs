//! `baton/web.so`, which `require "baton.web"` loads, as `baton.net` and `baton.http` do at the
//! first use of TLS, WebSocket or HTTP/2.
//!
//! All protocols are state machines here: bytes go in, and bytes come out. Nothing in Rust has a
//! socket or waits, and no call of Lua is made.
//!
//! | module | what it is |
//! |---|---|
//! | `tls` | TLS by rustls |
//! | `websocket` | frames and messages of WebSocket by tungstenite |
//! | `http2` | the server's side of HTTP/2 by h2 |
//! | `wire` | bytes in memory in place of a socket |
//! | `c` | all of them for `c/`, the module's half in C, which reads, writes and waits by `baton.net` |
//! | `record` | what the program finds in the file; the texts of `lua/` |

#![deny(unsafe_code)]

mod http2;
mod tls;
mod websocket;
mod wire;

#[allow(unsafe_code)]
mod c;
// Unit tests have no Lua.
#[cfg(not(test))]
#[allow(unsafe_code)]
mod record;
