//! One output stream of a running program. A thread collects it while the test runs.

use std::io::{ErrorKind, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long to wait for the end of the stream after the end of the program. A child of the program
/// may still hold the pipe open, and a busy machine may delay the thread that reads.
const END_OF_FILE_LIMIT: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Collected {
    bytes: Vec<u8>,
    at_end: bool,
}

type Shared = Arc<(Mutex<Collected>, Condvar)>;

/// A pipe from the program that is not read until requested.
pub(super) struct Stream {
    pipe: Option<Box<dyn Read + Send>>,
    reading: bool,
    shared: Shared,
}

impl Stream {
    pub(super) fn of(pipe: impl Read + Send + 'static) -> Self {
        Self {
            pipe: Some(Box::new(pipe)),
            reading: false,
            shared: Shared::default(),
        }
    }

    /// Starts to collect.
    pub(super) fn read(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            self.reading = true;
            let shared = Arc::clone(&self.shared);
            std::thread::spawn(move || collect(pipe, &shared));
        }
    }

    /// Returns the pipe unread.
    pub(super) fn close(&mut self) {
        self.pipe = None;
    }

    /// Waits until `text` has arrived. Returns false after a timeout, or if the stream ended
    /// without it.
    pub(super) fn await_text(&self, text: &str, limit: Duration) -> bool {
        let has_text = |collected: &Collected| contains(&collected.bytes, text.as_bytes());
        let collected = self.wait(limit, |collected| has_text(collected) || collected.at_end);
        has_text(&collected)
    }

    /// Returns all text up to the end of file.
    pub(super) fn take_all(&self) -> String {
        let limit = if self.reading {
            END_OF_FILE_LIMIT
        } else {
            Duration::ZERO
        };
        let collected = self.wait(limit, |collected| collected.at_end);
        let text = String::from_utf8_lossy(&collected.bytes);
        if self.reading && !collected.at_end {
            return format!(
                "{text}\n[the output did not end within {limit:?} of the program's end]"
            );
        }
        text.into_owned()
    }

    fn wait(
        &self,
        limit: Duration,
        done: impl Fn(&Collected) -> bool,
    ) -> MutexGuard<'_, Collected> {
        let (mutex, grown) = &*self.shared;
        let until = Instant::now() + limit;
        let mut collected = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if done(&collected) || left.is_zero() {
                return collected;
            }
            collected = grown
                .wait_timeout(collected, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

fn collect(mut pipe: Box<dyn Read + Send>, shared: &Shared) {
    let (mutex, grown) = &**shared;
    let mut buffer = [0; 64 * 1024];
    loop {
        let count = match pipe.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            count => count.unwrap_or(0),
        };
        let mut collected = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        collected.bytes.extend_from_slice(&buffer[..count]);
        collected.at_end = count == 0;
        grown.notify_all();
        if count == 0 {
            return;
        }
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
}
