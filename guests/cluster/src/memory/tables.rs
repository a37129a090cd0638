//! Tables.

use super::server::Server;
use super::stored::ClientId;
use crate::command::Ticket;
use crate::event::{Answer, Event};
use bytes::Bytes;

impl Server {
    pub(super) fn get(&mut self, client: ClientId, ticket: Ticket, table: &str, key: &str) {
        let found = self.tables.get(table).map(|table| {
            let payload = table.entries.get(key).and_then(|(value, _)| value.clone());
            Answer {
                payload,
                numbers: [table.revision_of(key), 0],
                ..Answer::default()
            }
        });
        let answer = found.ok_or_else(|| "the table is not open".to_owned());
        self.answer(client, ticket, answer);
    }

    pub(super) fn put(
        &mut self,
        client: ClientId,
        ticket: Ticket,
        table: &str,
        key: String,
        payload: Option<Bytes>,
        expected: Option<u64>,
    ) {
        let Some(table) = self.tables.get_mut(table) else {
            return self.answer(client, ticket, Err("the table is not open".to_owned()));
        };
        if expected.is_some_and(|expected| expected != table.revision_of(&key)) {
            return self.answer(client, ticket, Err("changed".to_owned()));
        }
        table.revision += 1;
        let revision = table.revision;
        table
            .entries
            .insert(key.clone(), (payload.clone(), revision));
        let mut watchers = table.watchers.clone();
        watchers.retain(|(_, _, prefix)| key.starts_with(prefix));
        for (watcher, ticket, _) in watchers {
            let entry = Event::Entry {
                ticket,
                key: key.clone(),
                payload: payload.clone(),
                revision,
            };
            self.send(watcher, entry);
        }
        let answer = Answer {
            numbers: [revision, 0],
            ..Answer::default()
        };
        self.answer(client, ticket, Ok(answer));
    }

    pub(super) fn watch(&mut self, client: ClientId, ticket: Ticket, table: &str, prefix: String) {
        let Some(table) = self.tables.get_mut(table) else {
            return self.answer(client, ticket, Err("the table is not open".to_owned()));
        };
        let mut there: Vec<(u64, String, Option<Bytes>)> = table
            .entries
            .iter()
            .filter(|(key, (value, _))| key.starts_with(&prefix) && value.is_some())
            .map(|(key, (value, revision))| (*revision, key.clone(), value.clone()))
            .collect();
        there.sort_unstable_by_key(|(revision, _, _)| *revision);
        table.watchers.push((client, ticket, prefix));
        self.answer(client, ticket, Ok(Answer::default()));
        for (revision, key, payload) in there {
            let entry = Event::Entry {
                ticket,
                key,
                payload,
                revision,
            };
            self.send(client, entry);
        }
    }
}
