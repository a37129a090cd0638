//! A connection as it runs on the native thread: carries out commands one after the other. What
//! must wait for the server does so in a task of its own.

use super::clients::{Clients, Feed, Life};
use super::connect::{DELAYS, Options, connect, delay, set_online};
use super::failure::Failure;
use super::state::Session;
use super::{Shared, Weight};
use crate::command::{Command, Ticket};
use crate::event::{Answer, Event};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

/// Runs a connection until it is closed, or the guest has dropped it.
pub(super) async fn run(
    options: Options,
    ticket: Ticket,
    mut commands: UnboundedReceiver<(Command, Weight)>,
    shared: &Arc<Shared>,
) {
    let online = watch::Sender::new(true);
    let connected = connect(&options, shared, &online).await;
    let (client, life) = match connected {
        Ok(connected) => connected,
        Err(why) => {
            let answer = Err(why);
            return shared.events.put(Event::Answer { ticket, answer });
        }
    };
    shared.set_online(true);
    shared.set_max_payload(client.max_payload());
    let clients = Clients::new(client);
    let session = Rc::new(Session::new(clients, online.subscribe(), shared));
    session.spawn_detached(Rc::clone(&session).replace_clients(options, online, life));
    match session.attempts.subscribe(&session.clients).await {
        Ok(replies) => session.spawn_detached(Rc::clone(&session).await_stored(replies)),
        Err(why) => return session.answer(ticket, Err(why)),
    }
    session.answer(ticket, Ok(Answer::default()));
    while let Some((command, weight)) = commands.recv().await {
        session.forget_ended();
        if let Command::Close { ticket } = command {
            session.end_receiving().await;
            let is_flushed = session.sender.flush().await;
            let answer = match is_flushed {
                true => Ok(Answer::default()),
                false => Err("offline".to_owned()),
            };
            session.answer(ticket, answer);
            break;
        }
        session.carry_out(command, weight);
    }
    // The guest may have dropped it.
    if !session.queues.borrow().is_empty() {
        session.end_receiving().await;
        session.sender.flush().await;
    }
    session.end_all();
}

impl Session {
    /// Makes another client whenever the task of the client has ended.
    async fn replace_clients(
        self: Rc<Self>,
        options: Options,
        online: watch::Sender<bool>,
        mut life: Life,
    ) {
        let mut attempts = 0;
        loop {
            let began = Instant::now();
            life.ended().await;
            set_online(&self.shared, &online, false);
            if began.elapsed() > DELAYS.1 {
                attempts = 0; // else a server that ends each client would be asked all the time
            }
            life = loop {
                attempts += 1;
                tokio::time::sleep(delay(attempts)).await;
                if let Ok((client, life)) = connect(&options, &self.shared, &online).await {
                    self.shared.set_max_payload(client.max_payload());
                    self.clients.replace(client);
                    set_online(&self.shared, &online, true);
                    break life;
                }
            };
        }
    }

    fn carry_out(self: &Rc<Self>, command: Command, weight: Weight) {
        match command {
            Command::Publish { subject, payload } => {
                self.sender.publish(subject, payload, Some(weight));
            }
            Command::Subscribe {
                ticket,
                subject,
                group,
                most,
            } => {
                let session = Rc::clone(self);
                self.spawn(ticket, session.subscribe(ticket, subject, group, most));
            }
            Command::Request {
                ticket,
                subject,
                payload,
            } => self.spawn_answer(ticket, weight, |session| async move {
                match session.request(subject, payload, None).await {
                    Ok(reply) => Ok(Answer {
                        payload: Some(reply.payload),
                        ..Answer::default()
                    }),
                    Err(Failure::NoResponders) => Err("no service".to_owned()),
                    Err(why) => Err(why.text()),
                }
            }),
            Command::Cancel { ticket } => self.cancel(ticket),
            Command::OpenQueue {
                ticket,
                name,
                options,
            } => self.spawn_answer(ticket, weight, |session| session.open_queue(name, options)),
            command @ Command::Send { .. } => self.begin_send(command, weight),
            Command::Receive {
                ticket,
                queue,
                waits,
            } => self.receive(ticket, &queue, waits),
            Command::EndJob { job, end } => self.end_job(job, end),
            Command::OpenTable {
                ticket,
                name,
                replicas,
            } => self.spawn_answer(ticket, weight, |session| session.open_table(name, replicas)),
            Command::Get { ticket, table, key } => {
                self.spawn_answer(ticket, weight, |session| session.get(table, key));
            }
            Command::Put {
                ticket,
                table,
                key,
                payload,
                expected,
            } => self.spawn_answer(ticket, weight, |session| {
                session.put(table, key, payload, expected)
            }),
            Command::Watch {
                ticket,
                table,
                prefix,
            } => {
                let session = Rc::clone(self);
                self.spawn(ticket, session.watch(ticket, table, prefix));
            }
            Command::Close { .. } => {}
        }
    }

    /// Puts messages until the task is cancelled. The answer comes when the server knows the
    /// subscription, or will know it once it can be reached.
    async fn subscribe(
        self: Rc<Self>,
        ticket: Ticket,
        subject: String,
        group: Option<String>,
        most: usize,
    ) {
        let mut messages = match Feed::new(&self.clients, subject, group).await {
            Ok(messages) => messages,
            Err(why) => return self.answer(ticket, Err(why.to_string())),
        };
        let mut online = self.online.clone();
        if *online.borrow_and_update() {
            tokio::select! {
                _ = self.sender.flush() => {}
                _ = online.changed() => {}
            }
        }
        self.answer(ticket, Ok(Answer::default()));
        while let Some(message) = messages.next().await {
            let event = Event::Message {
                ticket,
                subject: message.subject.to_string(),
                reply: message
                    .reply
                    .map(|reply| reply.to_string())
                    .unwrap_or_default(),
                payload: message.payload,
            };
            self.shared.events.put_message(ticket, most, event);
        }
    }
}
