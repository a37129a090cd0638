//! Tests the chat by WebSocket.

use super::example;
use crate::harness::baton;
use std::net::TcpListener;

#[test]
fn the_web_chat_is_bounded_and_throws_out_who_does_not_read() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = free.local_addr().expect("it is bound").port().to_string();
    drop(free);
    let mut server = example("web_chat.lua", &[&port]).start();
    server.await_stdout(&format!("port {port}\n"));
    let mut visitors = baton().script("examples/web_chat.lua").arg(port).start();
    visitors.await_stdout("ready for the end\n");
    server.signal("TERM");
    visitors
        .finish()
        .succeeds()
        .quietly()
        .wrote("ready for the end\ndone\n");
    server.finish().succeeds().quietly();
}
