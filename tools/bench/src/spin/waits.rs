//! One program that waits in one way under one policy, through the runtime's Rust interface:
//! `baton-bench waits POLICY WAY MICROSECONDS SECONDS`.
//!
//! | way | what ends the waits |
//! |---|---|
//! | `thread` | a native thread that answers MICROSECONDS after a request |
//! | `program` | another program that does the same, at the other end of a socket |
//! | `frames` | a timer at the start of each frame of this length, then a thread, for follow-ups |
//! | `periodic` | a native thread, every MICROSECONDS |
//! | `timer` | a timer, every MICROSECONDS; nothing, if that is zero |
//! | `application` | a native thread that posts short tasks, each some time after the last one |
//!
//! The answering side spins and records the time of its answer, so that only the waiting side is
//! measured. The lateness of an answer is the time from the answer until the waiting process runs.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use baton_core::sched::{Deadline, Readiness, SemaphoreId, Watch};
use baton_core::spin::{Accuracy, PolicyName};
use baton_core::vm::WakeAction;
use baton_sys::clock::{self, Instant};

use super::partners::{self, Asked, Pauses};
use crate::child;
use crate::lab::{Lab, Process};
use crate::{output, stats};

const WAYS: [&str; 6] = [
    "thread",
    "program",
    "frames",
    "periodic",
    "timer",
    "application",
];

/// The share of the time, at the beginning, in which policies learn and nothing is measured.
const WARM_UP: f64 = 0.2;

/// The length of a task of the application.
const TASK: Duration = Duration::from_micros(10);

/// The number of follow-up tasks of a frame, and the time before each.
const FOLLOW_UPS: u32 = 3;
const FOLLOW_UP: Duration = Duration::from_micros(300);

/// The results of a run.
#[derive(Default)]
struct Tally {
    /// The lateness of each wait, in microseconds.
    late: Vec<f64>,
    /// The number of waits that ended.
    waits: u64,
    /// The CPU time of the waiting thread.
    cpu: Duration,
    took: Duration,
    /// How often the policy was right, including the first part of the run.
    accuracy: Accuracy,
}

/// The policy with this name.
fn policy_named(name: &str) -> Result<PolicyName> {
    Ok(match name {
        "off" => PolicyName::Off,
        "ema" => PolicyName::Ema,
        "learned" => PolicyName::Learned,
        _ => bail!("no such policy: {name}"),
    })
}

/// Runs the program and prints the figures.
pub(crate) fn run(policy: &str, way: &str, microseconds: u64, seconds: f64) -> Result<()> {
    let period = Duration::from_micros(microseconds);
    if way == "echo" {
        return partners::echo(period);
    }
    let lab = Lab::new()?;
    lab.vm.parameters.set_spin(policy_named(policy)?);
    ensure!(WAYS.contains(&way), "no such way to wait: {way}");
    let way = way.to_string();
    let outcome = Arc::new(OnceLock::new());
    let of_process = Arc::clone(&outcome);
    let whole = Duration::from_secs_f64(seconds);
    lab.spawn(40, false, move |process| {
        let _ = of_process.set(measure(process, &way, period, whole));
        process.vm.stop();
    })?;
    lab.vm.run();
    let tally = outcome
        .get()
        .context("the process did not come to its end")?;
    print(tally)
}

fn print(tally: &Tally) -> Result<()> {
    let seconds = tally.took.as_secs_f64();
    let mut lines = format!(
        "cpu_percent {}\nwaits_per_second {}\n",
        tally.cpu.as_secs_f64() / seconds * 100.0,
        tally.waits as f64 / seconds,
    );
    for (name, count) in super::counts(tally.accuracy) {
        lines.push_str(&format!("{name} {count}\n"));
    }
    for (name, percent) in [("p50_us", 50.0), ("p99_us", 99.0)] {
        if let Some(late) = stats::percentile(&tally.late, percent) {
            lines.push_str(&format!("{name} {late}\n"));
        }
    }
    output::print(&lines)
}

/// Waits for the time `whole`, and measures everything after the first part of it.
fn measure(process: &Process, way: &str, period: Duration, whole: Duration) -> Tally {
    let mut wait_once = waiter(process, way, period);
    let end = Instant::now() + whole;
    let counts_from = Instant::now() + whole.mul_f64(WARM_UP);
    while Instant::now() < counts_from {
        let _ = wait_once(counts_from);
    }
    let mut tally = Tally::default();
    let (began, cpu) = (Instant::now(), clock::thread_cpu_time());
    while Instant::now() < end {
        tally
            .late
            .extend(wait_once(end).map(|late| late.as_secs_f64() * 1e6));
        tally.waits += 1;
    }
    tally.cpu = clock::thread_cpu_time() - cpu;
    tally.took = Instant::now() - began;
    tally.accuracy = process.vm.spin_tally().accuracy;
    tally
}

type Waiter<'a> = Box<dyn FnMut(Instant) -> Option<Duration> + 'a>;

/// A function that waits once. The wait ends at the given time at the latest, if nothing else ends
/// it.
fn waiter<'p>(process: &'p Process, way: &str, period: Duration) -> Waiter<'p> {
    match way {
        "thread" => {
            let mut ask = asker(process);
            Box::new(move |_| Some(ask(period)))
        }
        "program" => match other_program(period) {
            Ok(mut socket) => Box::new(move |_| Some(ask_program(process, &mut socket))),
            Err(error) => {
                eprintln!("baton-bench: {error:#}");
                std::process::exit(1);
            }
        },
        "frames" => {
            let mut ask = asker(process);
            let mut next = Instant::now();
            Box::new(move |_| {
                next += period;
                process.vm.sleep_until(next);
                (0..FOLLOW_UPS).for_each(|_| {
                    let _ = ask(FOLLOW_UP);
                });
                None
            })
        }
        "periodic" => {
            let semaphore =
                signalled_by(process, |waker| partners::wake_periodically(waker, period));
            Box::new(move |_| {
                wait_for(process, semaphore);
                None
            })
        }
        "timer" => {
            let mut next = Instant::now();
            Box::new(move |end| {
                next = if period.is_zero() { end } else { next + period };
                process.vm.sleep_until(next.min(end));
                Some(Instant::now() - next)
            })
        }
        // The application is the last of the ways.
        _ => {
            let mut ask = asker(process);
            let mut pauses = Pauses::default();
            Box::new(move |_| {
                let late = ask(pauses.next());
                partners::compute(TASK);
                Some(late)
            })
        }
    }
}

/// A function that requests an answer from a native thread after a gap. Returns the lateness of the
/// answer.
fn asker<'p>(process: &'p Process) -> impl FnMut(Duration) -> Duration + 'p {
    let asked = Arc::new(Asked::default());
    let of_thread = Arc::clone(&asked);
    let semaphore = signalled_by(process, |waker| partners::answer(of_thread, waker));
    move |gap| {
        asked.ask(gap);
        wait_for(process, semaphore);
        Instant::now() - asked.answered()
    }
}

/// A semaphore, and a waker that signals it. The waker is passed to `start`.
fn signalled_by(process: &Process, start: impl FnOnce(baton_core::vm::Waker)) -> SemaphoreId {
    let semaphore = process.vm.sched(|sched| sched.semaphore_new(0));
    start(process.vm.new_waker(WakeAction::Signal(semaphore)));
    semaphore
}

fn wait_for(process: &Process, semaphore: SemaphoreId) {
    process
        .vm
        .block_on(|sched| sched.semaphore_wait(semaphore, Deadline::Never));
}

/// Starts this program once more, in another role. It ends when the socket is closed.
fn other_program(gap: Duration) -> Result<UnixStream> {
    static CHILD: Mutex<Option<std::process::Child>> = Mutex::new(None);
    let (ours, theirs) = UnixStream::pair().context("cannot open a socket pair")?;
    ours.set_nonblocking(true)?;
    let gap = gap.as_micros().to_string();
    let child = child::this_program(&["waits", "off", "echo", &gap, "0"])?
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .context("cannot start the other program")?;
    *CHILD.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
    Ok(ours)
}

fn ask_program(process: &Process, socket: &mut UnixStream) -> Duration {
    let watches = [Watch {
        descriptor: socket.as_raw_fd().cast_unsigned(),
        wants: Readiness::READ,
    }];
    partners::send(socket);
    let mut answered = None;
    let waited = process.vm.wait_ready(&watches, Deadline::Never, |_| {
        answered = partners::receive(socket);
        answered.is_some()
    });
    match (waited, answered) {
        (Ok(_), Some(answered)) => Instant::now() - answered,
        (waited, _) => {
            eprintln!(
                "baton-bench: the socket cannot be waited for: {:?}",
                waited.err()
            );
            std::process::exit(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_and_ways_that_do_not_exist_are_named() {
        let error = policy_named("sometimes").expect_err("there is none");
        assert_eq!(error.to_string(), "no such policy: sometimes");
        let error = run("off", "standing", 0, 0.0).expect_err("there is none");
        assert_eq!(error.to_string(), "no such way to wait: standing");
    }
}
