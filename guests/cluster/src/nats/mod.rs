//! The engine over NATS.
//!
//! | file | what it does |
//! |---|---|
//! | `connect` | options, the connection, and what is wrong with it |
//! | `clients` | the client, and the next one when its task has ended |
//! | `session` | carries out commands, on the native thread |
//! | `state` | what the tasks of a connection share |
//! | `sending` | publishes in the order of the commands |
//! | `requests`, `failure` | requests of JetStream, and their errors |
//! | `work` | queues that are open, and jobs that this program holds |
//! | `queues` | opening a queue |
//! | `attempts`, `storing` | sending jobs, and storing other messages |
//! | `receiving` | requests for jobs, and what comes |
//! | `ahead` | jobs that are fetched before a process asks for them |
//! | `jobs`, `ends` | how jobs end, and whether the server keeps up with that |
//! | `recent` | counts what has happened a short time ago |
//! | `tables` | tables |

mod ahead;
mod attempts;
mod clients;
mod connect;
mod ends;
mod failure;
mod jobs;
mod queues;
mod receiving;
mod recent;
mod requests;
mod sending;
mod session;
mod state;
mod storing;
mod tables;
mod work;

pub use connect::Options;

use crate::command::{Command, Ticket};
use crate::event::{Answer, Event, Events};
use crate::host;
use crate::mutex::Mutex as PlainMutex;
use crate::thread::Thread;
use ahead::Ahead;
use std::collections::HashMap;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, UnboundedSender};

/// How many bytes of commands may be in progress. A command that finds more is refused.
const MOST_BYTES: usize = 64 << 20;

/// For how long the end of a connection waits until jobs that were fetched ahead are given back.
const GIVING_BACK: Duration = Duration::from_secs(1);

/// What each command counts beside its payload.
const COMMAND_BYTES: usize = 256;

/// What the native thread and the guest share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) events: Events,
    /// The jobs that are fetched ahead, by their queues.
    ahead: PlainMutex<HashMap<String, Arc<PlainMutex<Ahead>>>>,
    /// Bytes of commands that are in progress. Relaxed: a limit, which need not be exact.
    in_progress: AtomicUsize,
    /// Relaxed: a hint. The command finds out by itself.
    is_online: AtomicBool,
    /// Relaxed: as above.
    max_payload: AtomicUsize,
}

/// The size of a command that is in progress. Dropped when it is not any more.
#[derive(Debug)]
pub(crate) struct Weight(Arc<Shared>, usize);

impl Drop for Weight {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// A connection to NATS servers.
#[derive(Debug)]
pub struct Nats {
    commands: UnboundedSender<(Command, Weight)>,
    shared: Arc<Shared>,
    /// It is disconnected when the connection has ended.
    ended: Mutex<Receiver<()>>,
    /// Keeps the thread.
    _thread: Arc<Thread>,
    generation: u32,
}

impl Nats {
    /// Begins to connect. The answer to `ticket` says what came of it. If it is an error, the
    /// connection has ended.
    ///
    /// # Errors
    /// The system's, if it has no thread or pipe.
    pub fn connect(options: Options, ticket: Ticket) -> io::Result<Nats> {
        let thread = Thread::get()?;
        let shared = Arc::new(Shared {
            events: Events::new()?,
            ahead: PlainMutex::default(),
            in_progress: AtomicUsize::new(0),
            is_online: AtomicBool::new(false),
            max_payload: AtomicUsize::new(1 << 20),
        });
        let (commands, receiver) = mpsc::unbounded_channel();
        let to_share = Arc::clone(&shared);
        let (ending, ended) = channel::<()>();
        thread.start(move || async move {
            let _ending = ending;
            session::run(options, ticket, receiver, &to_share).await;
            to_share.set_online(false);
            to_share.events.put(Event::Closed);
        });
        Ok(Nats {
            commands,
            shared,
            ended: Mutex::new(ended),
            _thread: thread,
            generation: host::forks(),
        })
    }

    /// Whether this program made the connection, and not one that has forked it.
    fn is_ours(&self) -> bool {
        self.generation == host::forks()
    }
}

impl crate::Engine for Nats {
    fn submit(&mut self, command: Command, _now: u64) -> bool {
        if !self.is_ours() {
            return true;
        }
        let size = COMMAND_BYTES + payload_of(&command);
        if self.shared.in_progress.load(Ordering::Relaxed) > MOST_BYTES {
            return false;
        }
        self.shared.in_progress.fetch_add(size, Ordering::Relaxed);
        // A connection that has ended drops it: the guest knows from the event.
        let _ = self
            .commands
            .send((command, Weight(Arc::clone(&self.shared), size)));
        true
    }

    fn take(&mut self, _now: u64) -> Option<Event> {
        match self.is_ours() {
            true => self.shared.events.take(),
            false => Some(Event::Closed),
        }
    }

    fn take_job(&mut self, queue: &str) -> Option<Answer> {
        match self.is_ours() {
            true => self.shared.ahead_of(queue)?.lock().take(Instant::now()),
            false => None,
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        Some(self.shared.events.descriptor())
    }

    fn due(&self) -> Option<u64> {
        None
    }

    fn is_online(&self, _now: u64) -> bool {
        self.is_ours() && self.shared.is_online.load(Ordering::Relaxed)
    }

    fn lost(&self, ticket: Ticket) -> u64 {
        match self.is_ours() {
            true => self.shared.events.lost(ticket),
            false => 0,
        }
    }

    fn max_payload(&self) -> usize {
        self.shared.max_payload.load(Ordering::Relaxed)
    }
}

/// The end of a program must not keep jobs from others that it has only fetched.
impl Drop for Nats {
    fn drop(&mut self) {
        if !self.is_ours() || !self.shared.has_fetched_ahead() {
            return;
        }
        // The session ends with the last sender of commands.
        drop(std::mem::replace(
            &mut self.commands,
            mpsc::unbounded_channel().0,
        ));
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(GIVING_BACK);
    }
}

impl Shared {
    fn put_ahead(&self, queue: &str, ahead: &Arc<PlainMutex<Ahead>>) {
        let ahead = Arc::clone(ahead);
        self.ahead.lock().insert(queue.to_owned(), ahead);
    }

    fn ahead_of(&self, queue: &str) -> Option<Arc<PlainMutex<Ahead>>> {
        self.ahead.lock().get(queue).cloned()
    }

    fn has_fetched_ahead(&self) -> bool {
        let (all, now) = (self.ahead.lock(), Instant::now());
        all.values().any(|ahead| ahead.lock().is_in_use(now))
    }

    fn set_online(&self, is_online: bool) {
        if self.is_online.swap(is_online, Ordering::Relaxed) != is_online {
            self.events.put(Event::Online(is_online));
        }
    }

    fn set_max_payload(&self, size: usize) {
        self.max_payload.store(size, Ordering::Relaxed);
    }
}

fn payload_of(command: &Command) -> usize {
    match command {
        Command::Publish { payload, .. }
        | Command::Request { payload, .. }
        | Command::Send { payload, .. } => payload.len(),
        Command::Put { payload, .. } => payload.as_ref().map_or(0, bytes::Bytes::len),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
