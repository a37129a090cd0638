//! The partners that end the waits of `baton-bench waits`: native threads, and another program.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use baton_core::vm::Waker;
use baton_sys::clock::Instant;
use baton_sys::pause;

use super::traces::Chance;

/// The last part of a gap, through which the partner spins. Before that, it sleeps.
const EXACT: Duration = Duration::from_micros(300);

/// The current request to a native thread, and the time of its last answer.
#[derive(Default)]
pub(super) struct Asked {
    /// The requested gap in nanoseconds, plus one; 0 if there is no request.
    gap: AtomicU64,
    answered: AtomicU64,
}

impl Asked {
    /// Requests an answer after this gap.
    pub(super) fn ask(&self, gap: Duration) {
        // Release: pairs with the swap in `take`.
        self.gap.store(gap.as_nanos() as u64 + 1, Ordering::Release);
    }

    /// The time of the last answer.
    pub(super) fn answered(&self) -> Instant {
        // Relaxed: the waker orders it.
        Instant::from_nanos(self.answered.load(Ordering::Relaxed))
    }

    fn take(&self) -> Option<Duration> {
        // AcqRel: pairs with the store in `ask`.
        let asked = self.gap.swap(0, Ordering::AcqRel);
        asked.checked_sub(1).map(Duration::from_nanos)
    }

    fn is_asked(&self) -> bool {
        // Relaxed: `take` orders it.
        self.gap.load(Ordering::Relaxed) != 0
    }

    /// Records that the answer is given now.
    fn note_answer(&self) {
        // Relaxed: the waker orders it.
        self.answered
            .store(Instant::now().as_nanos(), Ordering::Relaxed);
    }
}

/// Starts a thread that wakes the waker once for each request, until the program ends.
pub(super) fn answer(asked: Arc<Asked>, waker: Waker) {
    thread::spawn(move || {
        loop {
            let _ = pause::spin_until(Instant::FAR_FUTURE, || asked.is_asked());
            let now = Instant::now();
            if let Some(gap) = asked.take() {
                pass(now + gap);
                asked.note_answer();
                waker.wake();
            }
        }
    });
}

/// Starts a thread that wakes the waker once per period.
pub(super) fn wake_periodically(waker: Waker, period: Duration) {
    thread::spawn(move || {
        let mut next = Instant::now();
        loop {
            next += period;
            pass(next);
            waker.wake();
        }
    });
}

/// Returns at `until`.
fn pass(until: Instant) {
    let left = until - Instant::now();
    if left > EXACT {
        thread::sleep(left - EXACT);
    }
    let _ = pause::spin_until(until, || false);
}

/// Keeps the processor busy for this time.
pub(super) fn compute(length: Duration) {
    let _ = pause::spin_until(Instant::now() + length, || false);
}

/// Runs the other program. Standard input is a socket. For each byte on it, the program answers
/// with the time, after a gap, until the socket is closed.
pub(super) fn echo(gap: Duration) -> Result<()> {
    let input = std::io::stdin();
    let mut socket = UnixStream::from(input.as_fd().try_clone_to_owned()?);
    socket
        .set_nonblocking(true)
        .context("standard input is no socket")?;
    loop {
        match socket.read(&mut [0]) {
            Ok(0) => return Ok(()),
            Ok(_) => {
                pass(Instant::now() + gap);
                if socket
                    .write_all(&Instant::now().as_nanos().to_ne_bytes())
                    .is_err()
                {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => return Err(error).context("cannot read from the other program"),
        }
    }
}

/// Sends a byte to the other program.
pub(super) fn send(socket: &mut UnixStream) {
    if let Err(error) = socket.write_all(&[1]) {
        eprintln!("baton-bench: the other program is gone: {error}");
        std::process::exit(1);
    }
}

/// The time of its answer; `None` if there is no answer yet. Both programs use the same clock.
pub(super) fn receive(socket: &mut UnixStream) -> Option<Instant> {
    let mut answer = [0; 8];
    match socket.read(&mut answer) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Ok(8) => Some(Instant::from_nanos(u64::from_ne_bytes(answer))),
        other => {
            eprintln!("baton-bench: the other program is gone: {other:?}");
            std::process::exit(1);
        }
    }
}

/// The pauses between one task's end and the next task. They are usually 25 us, exponentially
/// distributed. Now and then one is a hundred times as long, as when a page is laid out or a user
/// thinks. They are the same in every run.
pub(super) struct Pauses(Chance);

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses(Chance::new())
    }
}

impl Pauses {
    pub(super) fn next(&mut self) -> Duration {
        const MEAN: f64 = 25e-6;
        const RARE: f64 = 0.01;
        let is_rare = self.0.next() < RARE;
        let pause = -MEAN * (1.0 - self.0.next()).ln();
        Duration::from_secs_f64(if is_rare { 100.0 * pause } else { pause })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_once() {
        let asked = Asked::default();
        assert_eq!((asked.is_asked(), asked.take()), (false, None));
        asked.ask(Duration::ZERO);
        assert_eq!((asked.take(), asked.take()), (Some(Duration::ZERO), None));
        asked.ask(Duration::from_micros(5));
        assert_eq!(asked.take(), Some(Duration::from_micros(5)));
    }

    #[test]
    fn pauses_are_the_same_in_every_run_and_mostly_short() {
        let mut pauses = Pauses::default();
        let some: Vec<Duration> = (0..10_000).map(|_| pauses.next()).collect();
        let mean = some.iter().sum::<Duration>() / 10_000;
        assert!((40..60).contains(&mean.as_micros()), "{mean:?}");
        assert_eq!(Pauses::default().next(), some[0]);
    }
}
