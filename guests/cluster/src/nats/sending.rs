//! Publishes in the order of the commands. A publish waits while the client's own queue is full, as
//! it is after a while without a server, and nothing else must wait for that.

use super::Weight;
use super::clients::Clients;
use async_nats::{Client, HeaderMap, Subject};
use bytes::Bytes;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

/// For how long the end of a connection waits until all is sent.
const FLUSH: Duration = Duration::from_secs(5);

enum Outgoing {
    Message(String, Bytes, Option<Weight>),
    Question(String, String, Bytes),
    Stored(String, String, HeaderMap, Bytes),
    Flush(oneshot::Sender<bool>),
}

#[derive(Clone)]
pub(super) struct Sender(UnboundedSender<Outgoing>);

impl Sender {
    pub(super) fn start(clients: &Rc<Clients>) -> Sender {
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::task::spawn_local(send_all(Rc::clone(clients), receiver));
        Sender(sender)
    }

    pub(super) fn publish(&self, subject: String, payload: Bytes, weight: Option<Weight>) {
        let _ = self.0.send(Outgoing::Message(subject, payload, weight));
    }

    /// Publishes something whose replies go to a subject.
    pub(super) fn ask(&self, subject: String, reply: String, payload: Bytes) {
        let _ = self.0.send(Outgoing::Question(subject, reply, payload));
    }

    /// Publishes what is stored. The acknowledgement goes to a subject.
    pub(super) fn store(&self, subject: String, reply: String, headers: HeaderMap, payload: Bytes) {
        let _ = self
            .0
            .send(Outgoing::Stored(subject, reply, headers, payload));
    }

    /// Waits until the server has all that was published. Returns false if it takes too long.
    pub(super) async fn flush(&self) -> bool {
        let (done, is_done) = oneshot::channel();
        let _ = self.0.send(Outgoing::Flush(done));
        matches!(tokio::time::timeout(FLUSH, is_done).await, Ok(Ok(true)))
    }
}

async fn send_all(clients: Rc<Clients>, mut outgoing: UnboundedReceiver<Outgoing>) {
    while let Some(next) = outgoing.recv().await {
        let client = clients.current();
        match next {
            Outgoing::Message(subject, payload, _weight) => {
                let subject = Subject::from(subject);
                let publish = |client: Client| {
                    let (subject, payload) = (subject.clone(), payload.clone());
                    async move { client.publish(subject, payload).await }
                };
                clients.publish(publish).await;
            }
            // If the client has ended, these two get no answer, and are sent again.
            Outgoing::Question(subject, reply, payload) => {
                let _ = client.publish_with_reply(subject, reply, payload).await;
            }
            Outgoing::Stored(subject, reply, headers, payload) => {
                let sent = client.publish_with_reply_and_headers(subject, reply, headers, payload);
                let _ = sent.await;
            }
            // A connection that is lost may take the reply with it. Who waits gives up then.
            Outgoing::Flush(mut done) => {
                tokio::select! {
                    has_all = has_all(&client) => drop(done.send(has_all)),
                    () = done.closed() => {}
                }
            }
        }
    }
}

/// Asks the server for a reply to our own message: it handles messages in their order, so it has
/// all earlier ones when this one comes back.
async fn has_all(client: &Client) -> bool {
    use futures_util::StreamExt;
    let inbox = client.new_inbox();
    let Ok(mut echo) = client.subscribe(inbox.clone()).await else {
        return false;
    };
    client.publish(inbox, Bytes::new()).await.is_ok() && echo.next().await.is_some()
}

/// What a header is called.
pub(super) fn headers(all: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in all {
        map.insert(*name, *value);
    }
    map
}
