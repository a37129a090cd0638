//! What the file exports, and functions of the engine for `c/module.c`: commands and events as flat
//! records, and the texts of `lua/`.

use crate::host;
use crate::memory::{Faults, Memory};
use crate::nats::{Nats, Options};
use crate::{Answer, Command, End, Engine, Event, QueueOptions};
use bytes::Bytes;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::time::Duration;

/// `struct baton_module_record` of `baton_module.h`.
#[repr(C)]
struct Record {
    built_for: *const c_char,
    open: unsafe extern "C" fn(*mut c_void) -> c_int,
}

// SAFETY: it is never written, nor is the text that it points to.
unsafe impl Sync for Record {}

unsafe extern "C" {
    /// Of `c/module.c`. The argument is a `lua_State`.
    fn baton_cluster_open(state: *mut c_void) -> c_int;
}

/// What the program finds in the file.
// SAFETY: the only definition of this symbol, with the type of `baton_module.h`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static baton_module: Record = Record {
    built_for: concat!(env!("BATON_MODULE_BUILT_FOR"), "\0")
        .as_ptr()
        .cast(),
    open: baton_cluster_open,
};

/// Bytes of the other half. Null: there are none.
#[repr(C)]
#[derive(Clone, Copy)]
struct Slice {
    at: *const c_char,
    size: usize,
}

impl Slice {
    const NONE: Slice = Slice {
        at: std::ptr::null(),
        size: 0,
    };

    fn of(bytes: &[u8]) -> Slice {
        Slice {
            at: bytes.as_ptr().cast(),
            size: bytes.len(),
        }
    }

    /// # Safety
    /// The bytes are readable for the duration of the call.
    unsafe fn bytes(self) -> Option<Bytes> {
        // SAFETY: the caller's condition.
        (!self.at.is_null()).then(|| unsafe {
            Bytes::copy_from_slice(std::slice::from_raw_parts(self.at.cast(), self.size))
        })
    }

    /// # Safety
    /// As for [`Slice::bytes`].
    unsafe fn text(self) -> Option<String> {
        // SAFETY: the caller's condition.
        let bytes = unsafe { self.bytes() }?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// `struct engine_options` of the C half.
#[repr(C)]
struct RawOptions {
    url: *const c_char,
    name: *const c_char,
    user: *const c_char,
    password: *const c_char,
    token: *const c_char,
    credentials: *const c_char,
    authority: *const c_char,
    certificate: *const c_char,
    key: *const c_char,
    is_encrypted: c_int,
    is_simulated: c_int,
    seed: u64,
    delay: f64,
    loss: f64,
    duplication: f64,
    every: f64,
    lasts: f64,
}

/// `struct engine_command`. Times are in seconds, and negative if there is none.
///
/// | kind | command | subject | text | numbers |
/// |---|---|---|---|---|
/// | 1 | publish | | | |
/// | 2 | subscribe | | group | most |
/// | 3 | request | | | |
/// | 4 | cancel | | | |
/// | 5 | open a queue | its name | the dead one | most, ack, tries, replicas, prefetch |
/// | 6 | send | the queue | id | delay, patience |
/// | 7 | receive | the queue | | whether it waits |
/// | 8, 9, 10 | end a job: done, retry, reject | | why | job, delay |
/// | 11 | open a table | its name | | replicas |
/// | 12 | get | the table | the key | |
/// | 13 | put; without a payload, delete | the table | the key | the revision expected |
/// | 14 | watch | the table | prefix | |
/// | 15 | close | | | |
/// | 16 | end a job that nobody has seen | | | job |
#[repr(C)]
struct RawCommand {
    kind: c_int,
    ticket: u64,
    subject: Slice,
    text: Slice,
    payload: Slice,
    numbers: [f64; 5],
}

/// `struct engine_event`.
///
/// | kind | event | subject | text | numbers |
/// |---|---|---|---|---|
/// | 1 | answer | | why a job is dead | as in the answer |
/// | 2 | there is no answer | | why | |
/// | 3 | message | | where its reply goes | |
/// | 4 | entry of a table | the key | | revision |
/// | 5 | online, offline | | | 1, 0 |
/// | 6 | closed | | | |
#[repr(C)]
struct RawEvent {
    kind: c_int,
    ticket: u64,
    subject: Slice,
    text: Slice,
    payload: Slice,
    numbers: [u64; 2],
}

/// A connection, for the C half.
struct Connection {
    engine: Box<dyn Engine + Send>,
    /// What was taken last, to which a record refers.
    last: Option<Event>,
    generation: u32,
}

impl Connection {
    fn is_ours(&self) -> bool {
        self.generation == host::forks()
    }
}

fn seconds(time: f64) -> Option<Duration> {
    (time >= 0.0).then(|| Duration::try_from_secs_f64(time).unwrap_or(Duration::MAX))
}

fn nanoseconds(time: f64) -> u64 {
    (time * 1e9) as u64
}

/// # Safety
/// `text` is a C string or null.
unsafe fn string(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's condition.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

/// # Safety
/// The strings of the options are C strings or null.
unsafe fn connect(raw: &RawOptions, ticket: u64) -> std::io::Result<Box<dyn Engine + Send>> {
    // SAFETY: the caller's condition, for each string.
    let text = |text| unsafe { string(text) };
    let url = text(raw.url).unwrap_or_default();
    if raw.is_simulated != 0 {
        let faults = Faults {
            delay: nanoseconds(raw.delay),
            loss: raw.loss,
            duplication: raw.duplication,
            every: nanoseconds(raw.every),
            lasts: nanoseconds(raw.lasts),
        };
        return Ok(Box::new(Memory::connect(&url, faults, raw.seed)));
    }
    let path = |file| text(file).map(PathBuf::from);
    let options = Options {
        url,
        name: text(raw.name).unwrap_or_default(),
        user: text(raw.user).zip(text(raw.password)),
        token: text(raw.token),
        credentials: path(raw.credentials),
        is_encrypted: raw.is_encrypted != 0,
        authority: path(raw.authority),
        certificate: path(raw.certificate).zip(path(raw.key)),
    };
    Ok(Box::new(Nats::connect(options, ticket)?))
}

/// # Safety
/// The record's bytes are readable.
unsafe fn read(raw: &RawCommand) -> Option<Command> {
    // SAFETY: the caller's condition, for each slice.
    let (subject, text, payload) =
        unsafe { (raw.subject.text(), raw.text.text(), raw.payload.bytes()) };
    let (ticket, numbers) = (raw.ticket, raw.numbers);
    let count = |index: usize| numbers[index].max(0.0) as u64;
    let name = subject.clone().unwrap_or_default();
    let job = |end| Some(Command::EndJob { job: count(0), end });
    Some(match raw.kind {
        1 => Command::Publish {
            subject: name,
            payload: payload?,
        },
        2 => Command::Subscribe {
            ticket,
            subject: name,
            group: text,
            most: count(0) as usize,
        },
        3 => Command::Request {
            ticket,
            subject: name,
            payload: payload?,
        },
        4 => Command::Cancel { ticket },
        5 => Command::OpenQueue {
            ticket,
            name,
            options: QueueOptions {
                most: (numbers[0] >= 0.0).then(|| count(0)),
                ack: seconds(numbers[1])?,
                tries: count(2),
                dead: text,
                replicas: count(3) as usize,
                prefetch: count(4) as usize,
            },
        },
        6 => Command::Send {
            ticket,
            queue: name,
            payload: payload?,
            id: text,
            delay: seconds(numbers[0]).unwrap_or_default(),
            patience: seconds(numbers[1]),
        },
        7 => Command::Receive {
            ticket,
            queue: name,
            waits: numbers[0] != 0.0,
        },
        8 => job(End::Done)?,
        9 => job(End::Retry(seconds(numbers[1]).unwrap_or_default()))?,
        16 => job(End::Untried)?,
        10 => job(End::Reject(text.unwrap_or_default()))?,
        11 => Command::OpenTable {
            ticket,
            name,
            replicas: count(0) as usize,
        },
        12 => Command::Get {
            ticket,
            table: name,
            key: text?,
        },
        13 => Command::Put {
            ticket,
            table: name,
            key: text?,
            payload,
            expected: (numbers[0] >= 0.0).then(|| count(0)),
        },
        14 => Command::Watch {
            ticket,
            table: name,
            prefix: text.unwrap_or_default(),
        },
        15 => Command::Close { ticket },
        _ => return None,
    })
}

/// The record of an event, which refers to it.
fn record(event: &Event) -> RawEvent {
    let mut raw = RawEvent {
        kind: 0,
        ticket: 0,
        subject: Slice::NONE,
        text: Slice::NONE,
        payload: Slice::NONE,
        numbers: [0; 2],
    };
    let value = |payload: &Option<Bytes>| match payload {
        Some(payload) => Slice::of(payload),
        None => Slice::NONE,
    };
    match event {
        Event::Answer { ticket, answer } => {
            raw.ticket = *ticket;
            match answer {
                Ok(Answer {
                    payload,
                    why,
                    numbers,
                }) => {
                    raw.kind = 1;
                    raw.payload = value(payload);
                    raw.text = Slice::of(why.as_bytes());
                    raw.numbers = *numbers;
                }
                Err(why) => {
                    raw.kind = 2;
                    raw.text = Slice::of(why.as_bytes());
                }
            }
        }
        Event::Message {
            ticket,
            subject,
            reply,
            payload,
        } => {
            raw.kind = 3;
            raw.ticket = *ticket;
            raw.subject = Slice::of(subject.as_bytes());
            raw.text = Slice::of(reply.as_bytes());
            raw.payload = Slice::of(payload);
        }
        Event::Entry {
            ticket,
            key,
            payload,
            revision,
        } => {
            raw.kind = 4;
            raw.ticket = *ticket;
            raw.subject = Slice::of(key.as_bytes());
            raw.payload = value(payload);
            raw.numbers[0] = *revision;
        }
        Event::Online(is_online) => {
            raw.kind = 5;
            raw.numbers[0] = u64::from(*is_online);
        }
        Event::Closed => raw.kind = 6,
    }
    raw
}

/// Connects. Returns null and an errno if the system has no thread or pipe.
///
/// # Safety
/// The strings of the options are C strings or null, and `error` is writable.
// SAFETY: the only definition of this symbol, with the signature of `c/module.c`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_cluster_connect(
    options: &RawOptions,
    ticket: u64,
    error: *mut c_int,
) -> *mut Connection {
    // SAFETY: the caller's condition.
    match unsafe { connect(options, ticket) } {
        Ok(engine) => Box::into_raw(Box::new(Connection {
            engine,
            last: None,
            generation: host::forks(),
        })),
        Err(why) => {
            // SAFETY: the caller's condition.
            unsafe {
                error.write(
                    why.raw_os_error()
                        .unwrap_or(rustix::io::Errno::AGAIN.raw_os_error()),
                )
            };
            std::ptr::null_mut()
        }
    }
}

/// Begins what a command says. Returns 0 if there is no room for it now.
///
/// # Safety
/// The bytes of the command are readable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_cluster_submit(
    connection: &mut Connection,
    command: &RawCommand,
    now: u64,
) -> c_int {
    // SAFETY: the caller's condition.
    let command = unsafe { read(command) };
    command
        .is_none_or(|command| connection.engine.submit(command, now))
        .into()
}

/// Writes what has happened next. Returns 0 if nothing has.
///
/// # Safety
/// `event` is writable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_cluster_take(
    connection: &mut Connection,
    now: u64,
    event: *mut RawEvent,
) -> c_int {
    connection.last = connection.engine.take(now);
    let Some(last) = &connection.last else {
        return 0;
    };
    // SAFETY: the caller's condition.
    unsafe { event.write(record(last)) };
    1
}

/// Writes an answer with a job that is already here. Returns 0 if there is none.
///
/// # Safety
/// The bytes of the queue's name are readable, and `event` is writable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_cluster_take_job(
    connection: &mut Connection,
    queue: &Slice,
    event: *mut RawEvent,
) -> c_int {
    // SAFETY: the caller's condition.
    let name = unsafe { std::slice::from_raw_parts(queue.at.cast(), queue.size) };
    let name = std::str::from_utf8(name).unwrap_or_default();
    let Some(answer) = connection.engine.take_job(name) else {
        return 0;
    };
    let (ticket, answer) = (0, Ok(answer));
    let last = connection.last.insert(Event::Answer { ticket, answer });
    // SAFETY: the caller's condition.
    unsafe { event.write(record(last)) };
    1
}

/// The descriptor that is readable when there may be something to take; -1 if there is none.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_cluster_descriptor(connection: &Connection) -> c_int {
    connection.engine.descriptor().unwrap_or(-1)
}

/// When there is something to take, on the monotonic clock; `BATON_NO_DEADLINE`: never.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_cluster_due(connection: &Connection) -> u64 {
    connection.engine.due().unwrap_or(u64::MAX)
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_cluster_is_online(connection: &Connection, now: u64) -> c_int {
    connection.engine.is_online(now).into()
}

/// Whether this program made the connection, and not one that has forked it.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_cluster_is_ours(connection: &Connection) -> c_int {
    connection.is_ours().into()
}

/// How many messages of a subscription were lost.
// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_cluster_lost(connection: &Connection, ticket: u64) -> u64 {
    connection.engine.lost(ticket)
}

// SAFETY: as above.
#[unsafe(no_mangle)]
extern "C" fn baton_cluster_max_payload(connection: &Connection) -> usize {
    connection.engine.max_payload()
}

/// Ends a connection. In a fork's child its memory is leaked: the mutexes may be locked, and the
/// connection is the parent's.
///
/// # Safety
/// `connection` comes from [`baton_cluster_connect`], and is not used afterwards.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_cluster_end(connection: *mut Connection) {
    // SAFETY: the caller's condition.
    let connection = unsafe { Box::from_raw(connection) };
    if !connection.is_ours() {
        std::mem::forget(connection);
    }
}

/// The text of a file of `lua/`; empty for another name.
///
/// # Safety
/// `name` is a C string, `size` is writable.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_cluster_source(name: *const c_char, size: *mut usize) -> *const c_char {
    // SAFETY: the caller's condition.
    let text = match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"cluster" => include_str!("../lua/cluster.lua"),
        b"cluster/queues" => include_str!("../lua/queues.lua"),
        b"cluster/services" => include_str!("../lua/services.lua"),
        b"cluster/work" => include_str!("../lua/work.lua"),
        b"cluster/tables" => include_str!("../lua/tables.lua"),
        _ => "",
    };
    // SAFETY: the caller's condition.
    unsafe { size.write(text.len()) };
    text.as_ptr().cast()
}
