//! Another program on the machine, which does not use Baton. It measures what it loses while
//! Baton's processes run.
//!
//! | way | what the program does until its standard input ends |
//! |---|---|
//! | `events` | runs an event loop that computes for 2 ms every 10 ms |
//! | `compute` | computes without a pause, and counts its work |
//! | `wake` | sleeps for a millisecond at a time, and records how late it wakes |

use std::io::{self, Read};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::child::{self, Figures, Owned, figures};
use crate::{output, stats};

const PERIOD: Duration = Duration::from_millis(10);
const HANDLING: Duration = Duration::from_millis(2);
const SLEEP: Duration = Duration::from_millis(1);
const LIMIT_TO_END: Duration = Duration::from_secs(10);

/// Whether standard input has ended.
static ENDED: AtomicBool = AtomicBool::new(false);

/// The running program, which is started from this executable.
pub(crate) struct Neighbour {
    child: Owned,
}

impl Neighbour {
    /// Starts the program. It is already at work when this function returns.
    pub(crate) fn start(way: &str) -> Result<Neighbour> {
        let mut command = child::this_program(&["neighbour", way])?;
        let mut child = Owned::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        if let Some(output) = child.inner.stdout.as_mut() {
            output.read_exact(&mut [0])?;
        }
        Ok(Neighbour { child })
    }

    /// Ends the program and returns its figures.
    pub(crate) fn end(mut self) -> Result<Figures> {
        drop(self.child.inner.stdin.take());
        let said = child::drain(self.child.inner.stdout.take());
        let status = self.child.wait_at_most(LIMIT_TO_END)?;
        if !status.is_some_and(|status| status.success()) {
            bail!("the program beside ended with {status:?}");
        }
        Ok(figures(&child::collect(said)?))
    }
}

/// Runs the program itself.
pub(crate) fn run(way: &str) -> Result<()> {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        // Relaxed: the flag publishes no other data.
        ENDED.store(true, Ordering::Relaxed);
    });
    output::print("\n")?;
    let start = Instant::now();
    let figures = match way {
        "events" => {
            handle_events();
            String::new()
        }
        "compute" => format!("turns {}\n", compute_until(&has_ended)),
        "wake" => {
            let late = wake();
            let at = |percent| stats::percentile(&late, percent).unwrap_or(f64::NAN);
            format!("p50_us {}\np99_us {}\n", at(50.0), at(99.0))
        }
        other => bail!("no such way: {other}"),
    };
    output::print(&format!(
        "{figures}seconds {}\n",
        start.elapsed().as_secs_f64()
    ))
}

fn has_ended() -> bool {
    // Relaxed: as above.
    ENDED.load(Ordering::Relaxed)
}

fn handle_events() {
    let mut due = Instant::now();
    while !has_ended() {
        due += PERIOD;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let start = Instant::now();
        compute_until(&|| start.elapsed() >= HANDLING);
    }
}

/// Computes until `is_enough` returns true. Returns the number of turns, each of some microseconds.
fn compute_until(is_enough: &dyn Fn() -> bool) -> u64 {
    let (mut turns, mut state) = (0, 1_u64);
    while !is_enough() {
        for step in 0..5000 {
            state = std::hint::black_box(
                state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(step),
            );
        }
        turns += 1;
    }
    turns
}

/// The lateness of each sleep, in microseconds.
fn wake() -> Vec<f64> {
    let mut late = Vec::new();
    while !has_ended() {
        let start = Instant::now();
        thread::sleep(SLEEP);
        late.push(start.elapsed().saturating_sub(SLEEP).as_secs_f64() * 1e6);
    }
    late
}
