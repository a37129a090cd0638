//! The observer: the target's thread that answers clients.
//!
//! | state | left by |
//! |---|---|
//! | none | a request: the socket is bound, the thread starts |
//! | running | [`QUIET`] without a client: the socket is removed, the thread ends |
//!
//! Both changes are made under one mutex. The thread removes the socket first, and then serves
//! those who have connected in time. A client that comes later finds no socket, and makes a new
//! request.
//!
//! Each client has a thread of its own, so one that does not read keeps only itself waiting.

mod conversation;

pub use conversation::{Conversation, Handle, Part, Session, Target, answer_text, send_part};

use crate::inherited::Noted;
use crate::place::Place;
use crate::protocol::Access;
use baton_sys::forking::{Child, ForkMutex};
use baton_sys::thread;
use conversation::{converse, refuse};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::geteuid;
use std::io::{self, ErrorKind};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long the observer stays without a client, and how long a client may be silent.
pub const QUIET: Duration = Duration::from_secs(60);

/// The maximal number of clients at once.
pub const MOST_CLIENTS: usize = 16;

/// Serves the client at the other end of a connection that the program was started with, on a
/// thread of its own. Such a client has started the program, so it may do everything. `gone` runs
/// on that thread when the client has gone, even if it has asked nothing.
///
/// # Errors
/// The system's; then `gone` does not run.
pub fn serve_parent(
    client: UnixStream,
    target: Arc<dyn Target>,
    gone: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    start_counted("baton-observer", move || {
        // An error of the connection ends it, and concerns nobody else.
        let _ = converse(&client, Access::All, &*target);
        gone();
    })
}

/// The program whose observer runs, by its number: a fork's child has none.
static RUNNING: ForkMutex<Option<u32>> = ForkMutex::new(None);

/// How many threads there are for observers.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// The program in which they are counted.
static COUNTED_IN: AtomicU32 = AtomicU32::new(0);

/// Begins anew in a fork's child, which has no observer.
pub(crate) fn renew_in_child(child: &Child) {
    RUNNING.renew_in_child(child, None);
}

/// How many threads of this program serve observers.
pub fn threads() -> usize {
    // Relaxed (both): a count for reports.
    match COUNTED_IN.load(Ordering::Relaxed) == std::process::id() {
        true => THREADS.load(Ordering::Relaxed),
        false => 0, // a fork's child has none of its parent's
    }
}

/// Begins to count threads, unless this program does so already.
pub(crate) fn count_in_this_program() {
    let pid = std::process::id();
    // Relaxed (both): as in `threads`.
    if COUNTED_IN.swap(pid, Ordering::Relaxed) != pid {
        THREADS.store(0, Ordering::Relaxed);
    }
}

/// Starts a thread that serves an observer of this program, and is counted among these.
///
/// # Errors
/// The system's, if it has no room for another thread.
pub fn start_counted(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    count_in_this_program();
    thread::start_helper(name, move || {
        let _counted = Counted::new();
        body();
    })
}

/// Counts the calling thread among those that serve observers.
pub(crate) struct Counted;

impl Counted {
    pub(crate) fn new() -> Counted {
        // Relaxed: as in `threads`.
        THREADS.fetch_add(1, Ordering::Relaxed);
        Counted
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // Relaxed: as in `threads`.
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The name of the socket of a program.
pub(crate) fn name_of_socket(pid: u32) -> String {
    format!("{pid}.socket")
}

/// Starts the observer, unless it runs.
///
/// # Errors
/// The system's, for the socket or the thread.
pub(crate) fn start(place: &Place, access: Access, target: Arc<dyn Target>) -> io::Result<()> {
    let pid = std::process::id();
    let mut running = RUNNING.lock();
    if *running == Some(pid) {
        return Ok(());
    }
    count_in_this_program();
    let name = name_of_socket(pid);
    place.remove(&name); // of an earlier program with this number
    let listener = UnixListener::bind(place.path_of(&name))?;
    place.close_to_others(&name)?;
    listener.set_nonblocking(true)?;
    let place = Place::open(place.path(), geteuid().as_raw())?;
    thread::start_helper("baton-observer", move || {
        let _counted = Counted::new();
        let observer = Observer {
            place,
            listener,
            access,
            target,
            clients: Arc::new(AtomicUsize::new(0)),
            quiet: QUIET,
        };
        observer.run(pid);
    })?;
    *running = Some(pid);
    Ok(())
}

struct Observer {
    place: Place,
    listener: UnixListener,
    access: Access,
    target: Arc<dyn Target>,
    /// How many clients are connected.
    clients: Arc<AtomicUsize>,
    /// How long it stays without one.
    quiet: Duration,
}

impl Observer {
    fn run(&self, pid: u32) {
        let _noted = Noted::new(&self.listener);
        let mut quiet_since = Instant::now();
        loop {
            self.await_client(self.quiet);
            while let Some(client) = self.accept() {
                self.serve(client);
                quiet_since = Instant::now();
            }
            // Relaxed: a client that has just gone has its thread end first; a late value only
            // lets the observer stay longer.
            if self.clients.load(Ordering::Relaxed) > 0 {
                quiet_since = Instant::now();
            }
            if quiet_since.elapsed() >= self.quiet {
                return self.end(pid);
            }
        }
    }

    fn await_client(&self, patience: Duration) {
        let mut ready = [PollFd::new(&self.listener, PollFlags::IN)];
        let patience = Timespec::try_from(patience).ok();
        // An error is like a timeout: the next accept tells.
        let _ = poll(&mut ready, patience.as_ref());
    }

    fn accept(&self) -> Option<UnixStream> {
        match self.listener.accept() {
            Ok((client, _)) => Some(client),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(_) => {
                // The program is short of descriptors: not again at once.
                std::thread::sleep(Duration::from_millis(100));
                None
            }
        }
    }

    /// Ends the observer: a client that comes from now on makes a new request.
    fn end(&self, pid: u32) {
        let mut running = RUNNING.lock();
        self.place.remove(&name_of_socket(pid));
        *running = None;
        drop(running);
        // Those who have found the socket in time have threads of their own.
        while let Some(client) = self.accept() {
            self.serve(client);
        }
    }

    /// Serves a client on a thread of its own.
    fn serve(&self, client: UnixStream) {
        // Relaxed: only a bound.
        if self.clients.fetch_add(1, Ordering::Relaxed) >= MOST_CLIENTS {
            self.clients.fetch_sub(1, Ordering::Relaxed);
            refuse(
                &client,
                format!("{MOST_CLIENTS} clients are connected already; try later"),
            );
            return;
        }
        let (clients, target) = (Arc::clone(&self.clients), Arc::clone(&self.target));
        let access = self.access;
        let started = thread::start_helper("baton-observer", move || {
            let _counted = Counted::new();
            // An error of the connection ends it, and concerns nobody else.
            let _ = converse(&client, access, &*target);
            // Relaxed: as above.
            clients.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            // The client was dropped with the thread's function. Relaxed: as above.
            self.clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use serde_json::value::RawValue;
    use std::sync::mpsc::channel;

    /// Answers nothing.
    struct Silent;

    impl Target for Silent {
        fn program(&self) -> String {
            "Silent 1".to_owned()
        }

        fn begin(&self, _: Access) -> Box<dyn Session> {
            Box::new(Silent)
        }
    }

    impl Session for Silent {
        fn answer(&mut self, _: &str, _: &Value, _: Part<'_>) -> Result<Box<RawValue>, String> {
            Err("nothing is known".to_owned())
        }
    }

    #[test]
    fn the_observer_ends_after_a_quiet_time_and_removes_its_socket() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("baton");
        let user = geteuid().as_raw();
        let place = Place::open_or_make(&path, user).expect("it is made");
        let name = name_of_socket(7);
        let listener = UnixListener::bind(place.path_of(&name)).expect("it is free");
        listener.set_nonblocking(true).expect("it can be set");
        let observer = Observer {
            place: Place::open(&path, user).expect("it is there"),
            listener,
            access: Access::Observe,
            target: Arc::new(Silent),
            clients: Arc::new(AtomicUsize::new(0)),
            quiet: Duration::from_millis(50),
        };
        let (done, ended) = channel();
        std::thread::spawn(move || {
            observer.run(7);
            let _ = done.send(());
        });
        let client = UnixStream::connect(path.join(&name)).expect("it listens");
        let soon = Duration::from_millis(200);
        assert!(ended.recv_timeout(soon).is_err(), "it left a client alone");
        drop(client);
        ended
            .recv_timeout(Duration::from_secs(60))
            .expect("it ends");
        assert!(!path.join(&name).exists());
    }
}
