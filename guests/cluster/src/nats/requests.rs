//! Requests to a server, and to its JetStream.

use super::failure::Failure;
use super::state::Session;
use async_nats::{Message, Request, RequestErrorKind, StatusCode};
use bytes::Bytes;
use serde_json::Value;
use std::time::Duration;

/// For how long an attempt of a request of JetStream waits.
pub(super) const ATTEMPT: Duration = Duration::from_secs(5);

impl Session {
    /// Sends a request, and waits for its reply until the connection is lost.
    pub(super) async fn request(
        &self,
        subject: String,
        payload: Bytes,
        patience: Option<Duration>,
    ) -> Result<Message, Failure> {
        let request = Request::new().payload(payload).timeout(patience);
        self.send_request(subject, request).await
    }

    /// A request with a subscription of its own: the reply to a pull request comes with another
    /// subject than it went to, by which the client could not tell whose it is.
    pub(super) async fn request_alone(
        &self,
        subject: String,
        payload: Bytes,
        patience: Duration,
    ) -> Result<Message, Failure> {
        let request = Request::new()
            .payload(payload)
            .timeout(Some(patience))
            .inbox(self.clients.current().new_inbox());
        self.send_request(subject, request).await
    }

    async fn send_request(&self, subject: String, request: Request) -> Result<Message, Failure> {
        let mut online = self.online.clone();
        if !*online.borrow_and_update() {
            return Err(Failure::Offline);
        }
        let client = self.clients.current();
        tokio::select! {
            reply = client.send_request(subject, request) => {
                reply.map_err(|error| match error.kind() {
                    RequestErrorKind::NoResponders => Failure::NoResponders,
                    RequestErrorKind::TimedOut => Failure::TimedOut,
                    RequestErrorKind::Other => Failure::Offline, // the client has ended
                    _ => Failure::Wrong(error.to_string()),
                })
            }
            _ = online.changed() => Err(Failure::Offline),
        }
    }

    /// A request of JetStream's API. Its replies are JSON.
    pub(super) async fn ask_jetstream(&self, what: &str, with: &Value) -> Result<Value, Failure> {
        let subject = format!("$JS.API.{what}");
        let reply = self
            .request(subject, with.to_string().into(), Some(ATTEMPT))
            .await?;
        parse(&reply)
    }

    /// Waits until the server can be reached.
    pub(super) async fn await_online(&self) {
        // The task that replaces clients has a sender, and lives as long as the others.
        let _ = self.online.clone().wait_for(|online| *online).await;
    }
}

pub(super) fn parse(reply: &Message) -> Result<Value, Failure> {
    if reply.status.is_some_and(|status| status != StatusCode::OK) {
        let why = reply.description.clone().unwrap_or_default();
        return Err(Failure::Wrong(format!("the server answers '{why}'")));
    }
    let value: Value = serde_json::from_slice(&reply.payload)
        .map_err(|why| Failure::Wrong(format!("the server's answer is no JSON: {why}")))?;
    match value.get("error") {
        None => Ok(value),
        Some(error) => Err(Failure::Refused(
            error["err_code"].as_u64().unwrap_or(0),
            error["description"].as_str().unwrap_or("error").to_owned(),
        )),
    }
}
