//! Tables: each is a bucket of JetStream's key-value store.

use super::state::Session;
use crate::command::Ticket;
use crate::event::{Answer, Event};
use async_nats::jetstream;
use async_nats::jetstream::kv::{
    Config, CreateErrorKind, Entry, Operation, Store, UpdateErrorKind,
};
use bytes::Bytes;
use futures_util::StreamExt;
use std::error::Error;
use std::rc::Rc;
use std::time::Duration;

/// The delay before a watch that has failed begins again.
const AGAIN: Duration = Duration::from_millis(500);

/// What the guest is told if an entry has another revision.
const CHANGED: &str = "changed";

impl Session {
    pub(super) async fn open_table(
        self: Rc<Self>,
        name: String,
        replicas: usize,
    ) -> Result<Answer, String> {
        // This request says clearly what is missing.
        self.ask_jetstream("INFO", &serde_json::json!({}))
            .await
            .map_err(super::failure::Failure::text)?;
        let number = self.clients.number();
        let context = jetstream::new(self.clients.current());
        let bucket = bucket_of(&name);
        let store = match context.get_key_value(&bucket).await {
            Ok(store) => store,
            Err(_) => context
                .create_key_value(Config {
                    bucket,
                    history: 1,
                    num_replicas: replicas,
                    ..Config::default()
                })
                .await
                .map_err(|why| explain(&why))?,
        };
        self.tables.borrow_mut().insert(name, (number, store));
        Ok(Answer::default())
    }

    /// An open table. It is opened again if its client has ended.
    async fn table(&self, name: &str) -> Result<Store, String> {
        let found = self.tables.borrow().get(name).cloned();
        let Some((number, store)) = found else {
            return Err("the table is not open".to_owned());
        };
        if number == self.clients.number() {
            return Ok(store);
        }
        let number = self.clients.number();
        let context = jetstream::new(self.clients.current());
        let again = self.unless_offline(context.get_key_value(bucket_of(name)));
        let store = again.await?.map_err(|why| explain(&why))?;
        let opened = (number, store.clone());
        self.tables.borrow_mut().insert(name.to_owned(), opened);
        Ok(store)
    }

    pub(super) async fn get(self: Rc<Self>, table: String, key: String) -> Result<Answer, String> {
        let table = self.table(&table).await?;
        let found = self.unless_offline(table.entry(key)).await?;
        let found = found.map_err(|why| explain(&why))?;
        Ok(match found {
            Some(entry) => Answer {
                numbers: [entry.revision, 0],
                payload: value_of(&entry),
                ..Answer::default()
            },
            None => Answer::default(),
        })
    }

    pub(super) async fn put(
        self: Rc<Self>,
        table: String,
        key: String,
        payload: Option<Bytes>,
        expected: Option<u64>,
    ) -> Result<Answer, String> {
        let table = self.table(&table).await?;
        let put = async {
            match (payload, expected) {
                (Some(value), None) => table.put(&key, value).await.map_err(|why| explain(&why)),
                (Some(value), Some(0)) => table.create(&key, value).await.map_err(|why| match why
                    .kind()
                {
                    CreateErrorKind::AlreadyExists => CHANGED.to_owned(),
                    _ => explain(&why),
                }),
                (Some(value), Some(revision)) => {
                    let updated = table.update(&key, value, revision).await;
                    updated.map_err(|why| match why.kind() {
                        UpdateErrorKind::WrongLastRevision => CHANGED.to_owned(),
                        _ => explain(&why),
                    })
                }
                (None, expected) => {
                    let deleted = table.delete_expect_revision(&key, expected).await;
                    deleted.map(|()| 0).map_err(|why| match why.kind() {
                        UpdateErrorKind::WrongLastRevision => CHANGED.to_owned(),
                        _ => explain(&why),
                    })
                }
            }
        };
        let revision = self.unless_offline(put).await??;
        Ok(Answer {
            numbers: [revision, 0],
            ..Answer::default()
        })
    }

    /// Waits for an operation until the connection is lost.
    async fn unless_offline<T>(&self, operation: impl Future<Output = T>) -> Result<T, String> {
        let mut online = self.online.clone();
        if !*online.borrow_and_update() {
            return Err("offline".to_owned());
        }
        let limited = tokio::time::timeout(super::requests::ATTEMPT, operation);
        tokio::select! {
            result = limited => result.map_err(|_| "timeout".to_owned()),
            _ = online.changed() => Err("offline".to_owned()),
        }
    }

    /// Puts entries until the task is cancelled. After a failure it goes on behind the last one.
    pub(super) async fn watch(self: Rc<Self>, ticket: Ticket, table: String, prefix: String) {
        let mut last = 0;
        let mut has_answered = false;
        loop {
            let watch = match (self.table(&table).await, last) {
                (Err(why), _) if !has_answered => return self.answer(ticket, Err(why)),
                (Err(_), _) => None,
                (Ok(table), 0) => table.watch_with_history(">").await.ok(),
                (Ok(table), last) => table.watch_all_from_revision(last + 1).await.ok(),
            };
            if let Some(mut entries) = watch {
                if !has_answered {
                    self.answer(ticket, Ok(Answer::default()));
                    has_answered = true;
                }
                while let Some(Ok(entry)) = entries.next().await {
                    last = entry.revision;
                    if entry.key.starts_with(&prefix) {
                        self.shared.events.put(Event::Entry {
                            ticket,
                            payload: value_of(&entry),
                            revision: entry.revision,
                            key: entry.key,
                        });
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
            self.await_online().await;
        }
    }
}

fn bucket_of(table: &str) -> String {
    format!("BATON_{table}")
}

fn value_of(entry: &Entry) -> Option<Bytes> {
    (entry.operation == Operation::Put).then(|| entry.value.clone())
}

/// The text of an error and of what has caused it.
fn explain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = error.source();
    }
    text
}
