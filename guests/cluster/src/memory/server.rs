//! The server: an agenda of what happens when, and the state of what it stores.

use super::network::{Faults, Network, Way, mix};
use super::stored::{ClientId, Queue, Table};
use crate::command::{Command, Ticket};
use crate::event::{Answer, Event};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap, VecDeque};

#[derive(Debug, Default)]
pub(super) struct Server {
    pub(super) now: u64,
    /// What happens, by its time and number.
    agenda: BTreeMap<(u64, u64), Step>,
    last: u64,
    clients: BTreeMap<ClientId, Client>,
    subscriptions: BTreeMap<u64, Subscription>,
    /// Requests without a reply, by the subject of the reply.
    requests: BTreeMap<String, (ClientId, Ticket)>,
    pub(super) queues: BTreeMap<String, Queue>,
    pub(super) tables: BTreeMap<String, Table>,
}

/// What happens at a time.
#[derive(Debug)]
pub(super) enum Step {
    Arrive(ClientId, Command),
    Deliver(ClientId, Event),
    /// The time of a holder of a job is over.
    Expire {
        queue: String,
        job: u64,
        delivery: u64,
    },
    /// A delayed job is due.
    Due(String),
}

#[derive(Debug)]
struct Client {
    network: Network,
    ready: VecDeque<Event>,
    lost: HashMap<Ticket, u64>,
}

#[derive(Debug)]
struct Subscription {
    client: ClientId,
    ticket: Ticket,
    subject: String,
    group: Option<String>,
    most: usize,
}

/// What a client sees.
impl Server {
    pub(super) fn add_client(&mut self, faults: Faults, seed: u64) -> ClientId {
        self.last += 1;
        let client = Client {
            network: Network::new(faults, seed ^ self.last),
            ready: VecDeque::new(),
            lost: HashMap::new(),
        };
        self.clients.insert(self.last, client);
        self.last
    }

    pub(super) fn remove_client(&mut self, client: ClientId) {
        self.clients.remove(&client);
        self.subscriptions.retain(|_, one| one.client != client);
        self.requests.retain(|_, (asker, _)| *asker != client);
        for queue in self.queues.values_mut() {
            queue.forget_client(client);
        }
        for table in self.tables.values_mut() {
            table.forget(|watcher, _| watcher == client);
        }
    }

    pub(super) fn is_online(&self, client: ClientId, now: u64) -> bool {
        let client = self.clients.get(&client);
        client.is_some_and(|client| client.network.cut_until(now).is_none())
    }

    pub(super) fn lost(&self, client: ClientId, ticket: Ticket) -> u64 {
        let client = self.clients.get(&client);
        client
            .and_then(|client| client.lost.get(&ticket).copied())
            .unwrap_or(0)
    }

    pub(super) fn due(&self, client: ClientId) -> Option<u64> {
        let is_ready = self
            .clients
            .get(&client)
            .is_some_and(|client| !client.ready.is_empty());
        if is_ready {
            return Some(self.now);
        }
        self.agenda.first_key_value().map(|((time, _), _)| *time)
    }

    pub(super) fn take(&mut self, client: ClientId) -> Option<Event> {
        self.clients.get_mut(&client)?.ready.pop_front()
    }

    pub(super) fn submit(&mut self, id: ClientId, command: Command, now: u64) {
        self.advance(now);
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        match &command {
            Command::Publish { .. } if client.network.cut_until(now).is_some() => return,
            Command::Publish { .. } if client.network.loses() => return,
            Command::Request { ticket, .. } if client.network.cut_until(now).is_some() => {
                let (ticket, answer) = (*ticket, Err("offline".to_owned()));
                return client.ready.push_back(Event::Answer { ticket, answer });
            }
            Command::Request { .. } if client.network.loses() => return,
            Command::EndJob { .. } if client.network.loses() => return,
            _ => {}
        }
        let sent = client.network.cut_until(now).unwrap_or(now);
        let time = client.network.arrival(Way::ToServer, sent);
        self.plan(time, Step::Arrive(id, command));
    }

    /// Lets everything happen up to a time.
    pub(super) fn advance(&mut self, now: u64) {
        while let Some(entry) = self.agenda.first_entry()
            && entry.key().0 <= now
        {
            let ((time, _), step) = entry.remove_entry();
            self.now = self.now.max(time);
            self.happen(step);
        }
        self.now = self.now.max(now);
    }
}

/// What happens.
impl Server {
    pub(super) fn plan(&mut self, time: u64, step: Step) {
        self.last += 1;
        self.agenda.insert((time, self.last), step);
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Whether a client can be reached now.
    pub(super) fn reaches(&self, client: ClientId) -> bool {
        self.is_online(client, self.now)
    }

    /// Whether something that is sent to the client now is lost.
    pub(super) fn loses(&mut self, client: ClientId) -> bool {
        match self.clients.get_mut(&client) {
            Some(client) => client.network.loses(),
            None => true,
        }
    }

    /// Sends an event that is not lost.
    pub(super) fn send(&mut self, id: ClientId, event: Event) {
        let now = self.now;
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let sent = client.network.cut_until(now).unwrap_or(now);
        let time = client.network.arrival(Way::ToClient, sent);
        self.plan(time, Step::Deliver(id, event));
    }

    pub(super) fn answer(
        &mut self,
        client: ClientId,
        ticket: Ticket,
        answer: Result<Answer, String>,
    ) {
        self.send(client, Event::Answer { ticket, answer });
    }

    fn happen(&mut self, step: Step) {
        match step {
            Step::Deliver(client, event) => {
                if let Some(client) = self.clients.get_mut(&client) {
                    client.ready.push_back(event);
                }
            }
            Step::Arrive(client, command) => self.carry_out(client, command),
            Step::Expire {
                queue,
                job,
                delivery,
            } => self.expire(&queue, job, delivery),
            Step::Due(queue) => self.dispatch(&queue),
        }
    }

    fn carry_out(&mut self, client: ClientId, command: Command) {
        match command {
            Command::Publish { subject, payload } => self.publish(&subject, "", &payload),
            Command::Subscribe {
                ticket,
                subject,
                group,
                most,
            } => {
                self.last += 1;
                let subscription = Subscription {
                    client,
                    ticket,
                    subject,
                    group,
                    most,
                };
                self.subscriptions.insert(self.last, subscription);
                self.answer(client, ticket, Ok(Answer::default()));
            }
            Command::Request {
                ticket,
                subject,
                payload,
            } => self.request(client, ticket, &subject, &payload),
            Command::Cancel { ticket } => self.cancel(client, ticket),
            Command::OpenQueue {
                ticket,
                name,
                options,
            } => self.open_queue(client, ticket, name, options),
            Command::Send {
                ticket,
                queue,
                payload,
                id,
                delay,
                patience,
            } => {
                let until = patience.map(|patience| self.now.saturating_add(nanoseconds(patience)));
                let due = self.now.saturating_add(nanoseconds(delay));
                self.store(client, ticket, &queue, payload, id, due, until);
            }
            Command::Receive {
                ticket,
                queue,
                waits,
            } => self.receive(client, ticket, &queue, waits),
            Command::EndJob { job, end } => self.end_job(client, job, end),
            Command::OpenTable { ticket, name, .. } => {
                self.tables.entry(name).or_default();
                self.answer(client, ticket, Ok(Answer::default()));
            }
            Command::Get { ticket, table, key } => self.get(client, ticket, &table, &key),
            Command::Put {
                ticket,
                table,
                key,
                payload,
                expected,
            } => self.put(client, ticket, &table, key, payload, expected),
            Command::Watch {
                ticket,
                table,
                prefix,
            } => self.watch(client, ticket, &table, prefix),
            Command::Close { ticket } => {
                self.answer(client, ticket, Ok(Answer::default()));
                self.send(client, Event::Closed);
            }
        }
    }

    fn cancel(&mut self, client: ClientId, ticket: Ticket) {
        self.subscriptions
            .retain(|_, one| (one.client, one.ticket) != (client, ticket));
        self.requests.retain(|_, asker| *asker != (client, ticket));
        for queue in self.queues.values_mut() {
            queue.stop_waiting(client, ticket);
        }
        for table in self.tables.values_mut() {
            table.forget(|watcher, other| (watcher, other) == (client, ticket));
        }
    }
}

/// Messages and requests.
impl Server {
    fn request(&mut self, client: ClientId, ticket: Ticket, subject: &str, payload: &Bytes) {
        if self.receivers(subject).is_empty() {
            return self.answer(client, ticket, Err("no service".to_owned()));
        }
        let reply = format!("_INBOX.{client}.{ticket}");
        self.requests.insert(reply.clone(), (client, ticket));
        self.publish(subject, &reply, payload);
    }

    fn publish(&mut self, subject: &str, reply: &str, payload: &Bytes) {
        if let Some((client, ticket)) = self.requests.remove(subject) {
            let answer = match self.reaches(client) {
                true if self.loses(client) => return,
                true => Ok(Answer {
                    payload: Some(payload.clone()),
                    ..Answer::default()
                }),
                false => Err("offline".to_owned()),
            };
            return self.answer(client, ticket, answer);
        }
        for subscription in self.receivers(subject) {
            let Some(Subscription {
                client,
                ticket,
                most,
                ..
            }) = self.subscriptions.get(&subscription)
            else {
                continue;
            };
            let (client, ticket, most) = (*client, *ticket, *most);
            if !self.reaches(client) || self.loses(client) {
                continue;
            }
            let message = Event::Message {
                ticket,
                subject: subject.to_owned(),
                reply: reply.to_owned(),
                payload: payload.clone(),
            };
            self.send_message(client, ticket, most, message);
        }
    }

    fn send_message(&mut self, id: ClientId, ticket: Ticket, most: usize, message: Event) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let is_of_it = |event: &&Event| match event {
            Event::Message { ticket: other, .. } => *other == ticket,
            _ => false,
        };
        if client.ready.iter().filter(is_of_it).count() >= most {
            *client.lost.entry(ticket).or_default() += 1;
            return;
        }
        if client.network.duplicates() {
            self.send(id, message.clone());
        }
        self.send(id, message);
    }

    /// The subscriptions that get a message: all without a group, and one of each group.
    fn receivers(&mut self, subject: &str) -> Vec<u64> {
        let mut chosen = Vec::new();
        let mut groups: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
        for (number, one) in &self.subscriptions {
            match &one.group {
                _ if !matches(&one.subject, subject) => {}
                None => chosen.push(*number),
                Some(group) => {
                    let members = groups.entry((&one.subject, group)).or_default();
                    members.push(*number);
                }
            }
        }
        let turn = mix(self.last) as usize;
        chosen.extend(groups.values().map(|members| members[turn % members.len()]));
        chosen
    }
}

/// Whether a pattern is of a subject. `*` stands for a word, and `>` for one or more at the end.
fn matches(pattern: &str, subject: &str) -> bool {
    let (mut wanted, mut words) = (pattern.split('.'), subject.split('.'));
    loop {
        match (wanted.next(), words.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some(one), Some(other)) if one == "*" || one == other => {}
            _ => return false,
        }
    }
}

pub(super) fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod checks {
    use super::matches;

    #[test]
    fn patterns_are_those_of_nats() {
        for (pattern, subject, wanted) in [
            ("a.b", "a.b", true),
            ("a.*", "a.b", true),
            ("a.*", "a.b.c", false),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            (">", "a", true),
            ("a.b", "a", false),
            ("a", "a.b", false),
        ] {
            assert_eq!(matches(pattern, subject), wanted, "{pattern} {subject}");
        }
    }
}
