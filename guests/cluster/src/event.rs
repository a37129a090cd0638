//! What an engine tells its guest, and the queue in which the native thread puts it.
//!
//! | queue | pipe | left by |
//! |---|---|---|
//! | empty | empty | `Events::put`, which makes the pipe readable |
//! | not empty | has one byte | `Events::take`, if it takes the last event |
//! | empty | has one byte | `Events::take`, which finds no event and empties it; `Events::put` |
//!
//! **No wake-up is lost.** All rows are changed under one mutex. So a process that finds no event
//! has emptied the pipe before the next event makes it readable.

use crate::command::Ticket;
use crate::mutex::Mutex;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The answer to a command.
    Answer {
        /// The command's.
        ticket: Ticket,
        /// What came of it; otherwise why nothing did.
        answer: Result<Answer, String>,
    },
    /// A message of a subscription.
    Message {
        /// The subscription's.
        ticket: Ticket,
        /// Where it was published.
        subject: String,
        /// Where the sender of a request wants its reply; else empty.
        reply: String,
        /// The value.
        payload: Bytes,
    },
    /// An entry of a table that is watched.
    Entry {
        /// The watch's.
        ticket: Ticket,
        /// The entry.
        key: String,
        /// The value. `None`: it was deleted.
        payload: Option<Bytes>,
        /// Its revision.
        revision: u64,
    },
    /// The server can be reached again, or not any more.
    Online(bool),
    /// The connection has ended.
    Closed,
}

/// What came of a command. Which fields count, the [`Command`](crate::Command) says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// A value.
    pub payload: Option<Bytes>,
    /// Of a job that was given up: why.
    pub why: String,
    /// Two numbers.
    pub numbers: [u64; 2],
}

/// The events that wait to be taken.
#[derive(Debug)]
pub(crate) struct Events {
    waiting: Mutex<Waiting>,
    reader: PipeReader,
    writer: PipeWriter,
}

#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<Event>,
    /// Whether the pipe has its byte.
    is_readable: bool,
    /// Of each subscription: its messages in the queue, and those that found too many there.
    messages: HashMap<Ticket, (usize, u64)>,
    /// Bytes of the messages in the queue.
    bytes: usize,
}

/// How many bytes of messages may wait. So many are in progress the other way, too.
const MOST_BYTES: usize = 64 << 20;

/// What a message counts.
fn bytes_of(event: &Event) -> usize {
    match event {
        Event::Message {
            subject,
            reply,
            payload,
            ..
        } => size_of::<Event>() + subject.len() + reply.len() + payload.len(),
        _ => 0,
    }
}

impl Events {
    pub(crate) fn new() -> io::Result<Events> {
        let (reader, writer) = io::pipe()?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        rustix::io::ioctl_fionbio(&writer, true)?;
        Ok(Events {
            waiting: Mutex::default(),
            reader,
            writer,
        })
    }

    pub(crate) fn put(&self, event: Event) {
        self.put_locked(&mut self.waiting.lock(), event);
    }

    /// Puts several events, with at most one wake-up.
    pub(crate) fn put_all(&self, events: Vec<Event>) {
        let mut waiting = self.waiting.lock();
        for event in events {
            self.put_locked(&mut waiting, event);
        }
    }

    /// Puts a message, unless so many of its subscription wait already, or too many bytes of all.
    /// Such a message is counted.
    pub(crate) fn put_message(&self, ticket: Ticket, most: usize, event: Event) {
        let mut waiting = self.waiting.lock();
        let bytes = waiting.bytes + bytes_of(&event);
        let (count, lost) = waiting.messages.entry(ticket).or_default();
        if *count >= most || bytes > MOST_BYTES {
            *lost += 1;
            return;
        }
        *count += 1;
        waiting.bytes = bytes;
        self.put_locked(&mut waiting, event);
    }

    fn put_locked(&self, waiting: &mut Waiting, event: Event) {
        if !waiting.is_readable {
            // It does not block, as the pipe is empty.
            waiting.is_readable = (&self.writer).write(&[0]).is_ok();
        }
        waiting.queue.push_back(event);
    }

    pub(crate) fn take(&self) -> Option<Event> {
        let mut waiting = self.waiting.lock();
        let event = waiting.queue.pop_front();
        match &event {
            Some(message @ Event::Message { ticket, .. }) => {
                waiting.bytes -= bytes_of(message);
                if let Some((count, _)) = waiting.messages.get_mut(ticket) {
                    *count -= 1;
                }
            }
            Some(_) => {}
            None if waiting.is_readable => {
                waiting.is_readable = (&self.reader).read(&mut [0]).is_err();
            }
            None => {}
        }
        event
    }

    /// How many messages of a subscription were lost.
    pub(crate) fn lost(&self, ticket: Ticket) -> u64 {
        let waiting = self.waiting.lock();
        waiting.messages.get(&ticket).map_or(0, |(_, lost)| *lost)
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.reader.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, Events, MOST_BYTES};
    use bytes::Bytes;
    use rustix::io::ioctl_fionread;

    /// Guards against a publisher of few large messages: only their number was bounded.
    #[test]
    fn messages_of_too_many_bytes_are_counted_and_not_kept() {
        let events = Events::new().expect("the system has a pipe");
        let put = |ticket, size| {
            let payload = Bytes::from(vec![0; size]);
            let (subject, reply) = ("news".to_owned(), String::new());
            let message = Event::Message {
                ticket,
                subject,
                reply,
                payload,
            };
            events.put_message(ticket, usize::MAX, message);
            events.lost(ticket)
        };
        assert_eq!(put(1, MOST_BYTES / 2), 0);
        assert_eq!(put(2, MOST_BYTES / 2), 1, "the queue is the connection's");
        assert_eq!(put(2, 1000), 1);
        assert!(events.take().is_some());
        assert_eq!(put(2, MOST_BYTES / 2), 1, "there is room again");
    }

    #[test]
    fn the_pipe_has_one_byte_from_the_first_event_until_none_is_found() {
        let events = Events::new().expect("the system has a pipe");
        let bytes = || ioctl_fionread(&events.reader).expect("the pipe tells it");
        let put = || events.put(Event::Online(true));
        assert_eq!((events.take(), bytes()), (None, 0));
        put();
        put();
        assert_eq!(bytes(), 1);
        assert!(events.take().is_some() && events.take().is_some());
        put(); // the queue was empty, and the pipe was not
        assert_eq!(bytes(), 1);
        assert!(events.take().is_some());
        assert_eq!((events.take(), bytes()), (None, 0));
        put();
        assert_eq!(bytes(), 1);
    }
}
