//! The native thread on which all connections of a program live.
//!
//! It starts with the first connection and ends with the last one: each connection holds a
//! [`Thread`], and the thread waits until there is none. A fork's child has no such thread, so it
//! starts its own for its own connections.

use crate::host;
use crate::mutex::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use tokio::runtime;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::LocalSet;

/// Makes the future of a connection, on the thread itself.
type Start = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// A share of the thread.
#[derive(Debug)]
pub(crate) struct Thread {
    starts: UnboundedSender<Start>,
    generation: u32,
}

impl std::fmt::Debug for Starts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Starts")
    }
}

struct Starts(UnboundedReceiver<Start>);

static THREAD: Mutex<Weak<Thread>> = Mutex::new(Weak::new());

impl Thread {
    /// The program's thread, which is started if it does not run.
    pub(crate) fn get() -> io::Result<Arc<Thread>> {
        let mut current = THREAD.lock();
        if let Some(thread) = current.upgrade()
            && thread.generation == host::forks()
        {
            return Ok(thread);
        }
        let runtime = runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let (starts, receiver) = mpsc::unbounded_channel();
        host::start_helper(c"baton-cluster", move || run(&runtime, Starts(receiver)))?;
        let thread = Arc::new(Thread {
            starts,
            generation: host::forks(),
        });
        *current = Arc::downgrade(&thread);
        Ok(thread)
    }

    /// Runs a connection on the thread.
    pub(crate) fn start<F>(&self, make: impl FnOnce() -> F + Send + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        // The thread receives until no share is left, so it is there.
        let _ = self.starts.send(Box::new(|| Box::pin(make())));
    }
}

/// Runs connections until no share of the thread is left and the last one has ended.
fn run(runtime: &runtime::Runtime, Starts(mut starts): Starts) {
    let connections = LocalSet::new();
    runtime.block_on(connections.run_until(async {
        let mut all = tokio::task::JoinSet::new();
        while let Some(make) = starts.recv().await {
            all.spawn_local(make());
        }
        while all.join_next().await.is_some() {}
    }));
}
