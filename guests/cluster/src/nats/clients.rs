//! The client of a connection, and those that take its place.
//!
//! A client has a task that reads what the server sends. There are lines at which that task panics.
//! Such a client takes no commands any more, and does not reconnect. Nothing says so but the end of
//! its callback for events, which its task owns: that is its [`Life`].
//!
//! For the other tasks of the connection this is a lost connection. Another client is made
//! (`Session::replace_clients`), and each [`Feed`] subscribes again. What the server may have got
//! from the client before is not sent again, as with any connection that is lost.

use async_nats::{Client, Message, PublishError, PublishErrorKind, SubscribeError, Subscriber};
use futures_util::StreamExt;
use std::cell::RefCell;
use std::rc::Rc;
use tokio::sync::{oneshot, watch};

/// The number after the last client's.
const CLOSED: u64 = u64::MAX;

/// The present client of a connection.
pub(super) struct Clients {
    current: RefCell<Client>,
    /// The number of the present one.
    number: watch::Sender<u64>,
}

/// Ends when the task of a client has ended.
pub(super) struct Life(pub(super) oneshot::Receiver<()>);

impl Life {
    pub(super) async fn ended(self) {
        let _ = self.0.await; // nothing is ever sent
    }
}

impl Clients {
    pub(super) fn new(client: Client) -> Rc<Clients> {
        Rc::new(Clients {
            current: RefCell::new(client),
            number: watch::Sender::new(0),
        })
    }

    pub(super) fn current(&self) -> Client {
        self.current.borrow().clone()
    }

    /// The number of the present client.
    pub(super) fn number(&self) -> u64 {
        *self.number.borrow()
    }

    pub(super) fn replace(&self, client: Client) {
        *self.current.borrow_mut() = client;
        self.number.send_modify(|number| *number += 1);
    }

    /// There will be no other client.
    pub(super) fn close(&self) {
        self.number.send_replace(CLOSED);
    }

    /// Waits for another client than the one of this number. Returns whether there is one.
    async fn after(&self, number: u64) -> bool {
        let mut numbers = self.number.subscribe();
        let next = numbers.wait_for(|now| *now != number || *now == CLOSED);
        next.await.is_ok_and(|now| *now != CLOSED)
    }

    /// Publishes by `publish`; by the next client if this one has ended.
    pub(super) async fn publish<F>(&self, publish: impl Fn(Client) -> F)
    where
        F: Future<Output = Result<(), PublishError>>,
    {
        loop {
            let number = self.number();
            match publish(self.current()).await {
                Err(why) if why.kind() == PublishErrorKind::Send => {
                    if !self.after(number).await {
                        return;
                    }
                }
                // A wrong subject or a large payload: the guest has checked both.
                _ => return,
            }
        }
    }
}

/// The messages of a subscription, from one client after the other.
pub(super) struct Feed {
    clients: Rc<Clients>,
    /// The number of the client that `messages` come from.
    number: u64,
    messages: Subscriber,
    subject: String,
    group: Option<String>,
    is_draining: bool,
}

impl Feed {
    /// Subscribes to a subject.
    ///
    /// # Errors
    /// What is wrong with the subject; or the client has ended.
    pub(super) async fn new(
        clients: &Rc<Clients>,
        subject: String,
        group: Option<String>,
    ) -> Result<Feed, SubscribeError> {
        let number = clients.number();
        let messages = subscribe(&clients.current(), &subject, group.as_ref()).await?;
        Ok(Feed {
            clients: Rc::clone(clients),
            number,
            messages,
            subject,
            group,
            is_draining: false,
        })
    }

    /// The next message. `None`: there will be none. Nothing is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.messages.next().await {
                return Some(message);
            }
            if self.is_draining || !self.clients.after(self.number).await {
                return None;
            }
            let number = self.clients.number();
            let client = self.clients.current();
            // If this one has ended as well, its messages are over at once.
            let again = subscribe(&client, &self.subject, self.group.as_ref()).await;
            if let Ok(messages) = again {
                self.messages = messages;
            }
            self.number = number;
        }
    }

    /// Gives what is already on its way, and ends. Returns whether something may come.
    pub(super) async fn drain(&mut self) -> bool {
        self.is_draining = true;
        self.messages.drain().await.is_ok()
    }
}

async fn subscribe(
    client: &Client,
    subject: &str,
    group: Option<&String>,
) -> Result<Subscriber, SubscribeError> {
    let subject = subject.to_owned();
    match group {
        Some(group) => client.queue_subscribe(subject, group.clone()).await,
        None => client.subscribe(subject).await,
    }
}
