//! Who ends the waits of `waits`: native threads, and another program.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use baton_core::vm::Bell;
use baton_sys::clock::Instant;
use baton_sys::pause;

use super::traces::Chance;

/// The last part of a gap is spun through; before that the partner sleeps.
const EXACT: Duration = Duration::from_micros(300);

/// What is asked of a native thread, and when it answered.
#[derive(Default)]
pub(super) struct Asked {
    /// A gap, in nanoseconds and one; 0 while nobody asks.
    gap: AtomicU64,
    answered: AtomicU64,
}

impl Asked {
    /// Asks for an answer after this gap.
    pub(super) fn ask(&self, gap: Duration) {
        // Release: pairs with the swap in `take`.
        self.gap.store(gap.as_nanos() as u64 + 1, Ordering::Release);
    }

    /// When the last answer was given.
    pub(super) fn answered(&self) -> Instant {
        // Relaxed: the bell orders it.
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

    /// The answer is given now.
    fn note_answer(&self) {
        // Relaxed: the bell orders it.
        self.answered.store(Instant::now().as_nanos(), Ordering::Relaxed);
    }
}

/// A thread that rings once for each time that it is asked, as long as the program lives.
pub(super) fn answer(asked: Arc<Asked>, bell: Bell) {
    thread::spawn(move || {
        loop {
            let _ = pause::spin_until(Instant::FAR_FUTURE, || asked.is_asked());
            let now = Instant::now();
            if let Some(gap) = asked.take() {
                pass(now + gap);
                asked.note_answer();
                bell.ring();
            }
        }
    });
}

/// A thread that rings once in a period.
pub(super) fn ring_periodically(bell: Bell, period: Duration) {
    thread::spawn(move || {
        let mut next = Instant::now();
        loop {
            next += period;
            pass(next);
            bell.ring();
        }
    });
}

/// Returns at this time.
fn pass(until: Instant) {
    let left = until - Instant::now();
    if left > EXACT {
        thread::sleep(left - EXACT);
    }
    let _ = pause::spin_until(until, || false);
}

/// Keeps the processor busy.
pub(super) fn compute(length: Duration) {
    let _ = pause::spin_until(Instant::now() + length, || false);
}

/// The other program: answers each byte that comes on standard input, which is a socket, after a gap with the time, until that is closed.
pub(super) fn echo(gap: Duration) -> Result<()> {
    let input = std::io::stdin();
    let mut socket = UnixStream::from(input.as_fd().try_clone_to_owned()?);
    socket.set_nonblocking(true).context("standard input is no socket")?;
    loop {
        match socket.read(&mut [0]) {
            Ok(0) => return Ok(()),
            Ok(_) => {
                pass(Instant::now() + gap);
                if socket.write_all(&Instant::now().as_nanos().to_ne_bytes()).is_err() {
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

/// When its answer was given, if that has come; both programs have one clock.
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

/// What passes between a task's end and the next task: 25 us as a rule, exponentially distributed, and now and then, as when a page is laid out
/// or a user thinks, a hundred times that. The same in every run.
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
    fn what_is_asked_is_taken_once() {
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
