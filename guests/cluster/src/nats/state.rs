//! What the tasks of a connection share, and the tasks.

use super::attempts::Attempts;
use super::clients::Clients;
use super::sending::Sender;
use super::work::{Jobs, OpenQueue};
use super::{Shared, Weight};
use crate::command::Ticket;
use crate::event::{Answer, Event};
use async_nats::jetstream::kv::Store;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// What the tasks of a connection share. All of them are on one thread.
pub(super) struct Session {
    pub(super) clients: Rc<Clients>,
    pub(super) online: watch::Receiver<bool>,
    pub(super) shared: Arc<Shared>,
    pub(super) sender: Sender,
    pub(super) attempts: Attempts,
    pub(super) queues: RefCell<HashMap<String, Rc<OpenQueue>>>,
    /// Queues that were opened again with other options. Some may still wait for them.
    pub(super) replaced: RefCell<Vec<Rc<OpenQueue>>>,
    pub(super) jobs: RefCell<Jobs>,
    /// Each with the number of its client.
    pub(super) tables: RefCell<HashMap<String, (u64, Store)>>,
    /// The tasks that receive jobs, one of each queue.
    pub(super) receivers: RefCell<JoinSet<()>>,
    /// The tasks that store jobs again.
    pub(super) asides: RefCell<JoinSet<()>>,
    tasks: RefCell<Tasks>,
}

#[derive(Default)]
struct Tasks {
    all: JoinSet<()>,
    by_ticket: HashMap<Ticket, AbortHandle>,
}

impl Session {
    pub(super) fn new(
        clients: Rc<Clients>,
        online: watch::Receiver<bool>,
        shared: &Arc<Shared>,
    ) -> Session {
        Session {
            sender: Sender::start(&clients),
            attempts: Attempts::new(&clients.current()),
            clients,
            online,
            shared: Arc::clone(shared),
            queues: RefCell::default(),
            replaced: RefCell::default(),
            jobs: RefCell::default(),
            tables: RefCell::default(),
            receivers: RefCell::default(),
            asides: RefCell::default(),
            tasks: RefCell::default(),
        }
    }

    /// All queues that are or were open.
    pub(super) fn all_queues(&self) -> Vec<Rc<OpenQueue>> {
        let (open, replaced) = (self.queues.borrow(), self.replaced.borrow());
        open.values().chain(replaced.iter()).cloned().collect()
    }

    /// Ends all tasks.
    pub(super) fn end_all(&self) {
        self.clients.close();
        self.tasks.borrow_mut().all.abort_all();
        self.receivers.borrow_mut().abort_all();
        self.asides.borrow_mut().abort_all();
    }

    pub(super) fn answer(&self, ticket: Ticket, answer: Result<Answer, String>) {
        self.shared.events.put(Event::Answer { ticket, answer });
    }

    /// Runs a task until it ends or its ticket is cancelled.
    pub(super) fn spawn(self: &Rc<Self>, ticket: Ticket, task: impl Future<Output = ()> + 'static) {
        let session = Rc::clone(self);
        let mut tasks = self.tasks.borrow_mut();
        let handle = tasks.all.spawn_local(async move {
            task.await;
            session.tasks.borrow_mut().by_ticket.remove(&ticket);
        });
        tasks.by_ticket.insert(ticket, handle);
    }

    /// Runs a task until it ends.
    pub(super) fn spawn_detached(&self, task: impl Future<Output = ()> + 'static) {
        self.tasks.borrow_mut().all.spawn_local(task);
    }

    /// Runs a task whose result is the answer, and during which the command counts.
    pub(super) fn spawn_answer<F>(
        self: &Rc<Self>,
        ticket: Ticket,
        weight: Weight,
        make: impl FnOnce(Rc<Self>) -> F,
    ) where
        F: Future<Output = Result<Answer, String>> + 'static,
    {
        let work = make(Rc::clone(self));
        let session = Rc::clone(self);
        self.spawn(ticket, async move {
            let answer = work.await;
            drop(weight);
            session.answer(ticket, answer);
        });
    }

    pub(super) fn forget_ended(&self) {
        let all = &mut self.tasks.borrow_mut().all;
        while all.try_join_next().is_some() {}
        let asides = &mut self.asides.borrow_mut();
        while asides.try_join_next().is_some() {}
    }

    pub(super) fn cancel(&self, ticket: Ticket) {
        let handle = self.tasks.borrow_mut().by_ticket.remove(&ticket);
        if let Some(handle) = handle {
            handle.abort();
        }
        self.attempts.forget(ticket);
        for queue in self.all_queues() {
            queue.stop_waiting(ticket);
        }
    }
}
