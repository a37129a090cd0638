//! One program that waits in one way under one policy, at the runtime's own interface: `baton-bench waits POLICY WAY MICROSECONDS SECONDS`.
//!
//! | way | who ends the waits |
//! |---|---|
//! | `thread` | a native thread that answers so many microseconds after it was asked |
//! | `program` | another program that does, at the other end of a socket |
//! | `frames` | a timer at the beginning of each frame of this length, then a thread, for some follow-up tasks |
//! | `periodic` | a native thread, once in so many microseconds |
//! | `timer` | a timer, once in so many microseconds; none, if that is zero |
//! | `application` | a native thread that posts short tasks, each some time after the last one is done |
//!
//! Who answers does so by spinning and notes when, so that what is measured is this side's waiting alone: an answer is late from the moment it is given
//! until the process that waited for it runs.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use baton_core::kernel::{Deadline, Readiness, SemaphoreId, Watch};
use baton_core::spin::{Accuracy, PolicyName};
use baton_core::vm::Ring;
use baton_sys::clock::{self, Instant};

use super::partners::{self, Asked, Pauses};
use crate::command_line::WaitsOptions;
use crate::lab::{Lab, Process};
use crate::{output, stats};

/// What is learned in this part of the time is not measured yet.
const WARM_UP: f64 = 0.2;

/// What a task of the application computes.
const TASK: Duration = Duration::from_micros(10);

/// Follow-up tasks of a frame, and how long each takes to come.
const FOLLOW_UPS: u32 = 3;
const FOLLOW_UP: Duration = Duration::from_micros(300);

/// What a run has come to.
#[derive(Default)]
struct Tally {
    /// Microseconds by which waits ended late.
    late: Vec<f64>,
    /// Waits that ended.
    waits: u64,
    /// On the processor, by the thread that waits.
    cpu: Duration,
    took: Duration,
    /// Spun in all, the first part of the time included.
    spun: Duration,
    /// How often the policy was right, the first part of the time included.
    accuracy: Accuracy,
}

/// The policy of that name.
fn policy(name: &str) -> Result<PolicyName> {
    Ok(match name {
        "off" => PolicyName::Off,
        "ema" => PolicyName::Ema,
        "learned" => PolicyName::Learned,
        _ => bail!("no such policy: {name}"),
    })
}

/// Runs it and prints the figures.
pub(crate) fn run(options: &WaitsOptions) -> Result<()> {
    let period = Duration::from_micros(options.microseconds);
    if options.way == "echo" {
        return partners::echo(period);
    }
    let lab = Lab::new()?;
    lab.vm.parameters.set_spin(policy(&options.policy)?);
    let way = Way::new(&options.way, period)?;
    let outcome = Arc::new(OnceLock::new());
    let of_process = Arc::clone(&outcome);
    let whole = Duration::from_secs_f64(options.seconds);
    lab.spawn(40, false, move |process| {
        let _ = of_process.set(measure(process, way, whole));
        process.vm.stop();
    })?;
    lab.vm.run();
    let tally = outcome.get().context("the process did not come to its end")?;
    print(tally)
}

fn print(tally: &Tally) -> Result<()> {
    let seconds = tally.took.as_secs_f64();
    let mut lines = format!(
        "cpu_percent {}\nwaits_per_second {}\nspun_s {}\n",
        tally.cpu.as_secs_f64() / seconds * 100.0,
        tally.waits as f64 / seconds,
        tally.spun.as_secs_f64(),
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

/// How to wait once; answers how late that ended, if anybody can know.
enum Way {
    Thread { gap: Duration },
    Program { gap: Duration },
    Frames { length: Duration },
    Periodic { period: Duration },
    Timer { period: Duration },
    Application,
}

impl Way {
    fn new(name: &str, period: Duration) -> Result<Way> {
        Ok(match name {
            "thread" => Way::Thread { gap: period },
            "program" => Way::Program { gap: period },
            "frames" => Way::Frames { length: period },
            "periodic" => Way::Periodic { period },
            "timer" => Way::Timer { period },
            "application" => Way::Application,
            _ => bail!("no such way to wait: {name}"),
        })
    }
}

/// Waits for so long, and counts what comes after the first part of it.
fn measure(process: &Process, way: Way, whole: Duration) -> Tally {
    let mut wait_once = waiter(process, way);
    let end = Instant::now() + whole;
    let counts_from = Instant::now() + whole.mul_f64(WARM_UP);
    while Instant::now() < counts_from {
        let _ = wait_once(counts_from);
    }
    let mut tally = Tally::default();
    let (began, cpu) = (Instant::now(), clock::thread_cpu_time());
    while Instant::now() < end {
        tally.late.extend(wait_once(end).map(|late| late.as_secs_f64() * 1e6));
        tally.waits += 1;
    }
    tally.cpu = clock::thread_cpu_time() - cpu;
    tally.took = Instant::now() - began;
    let spin = process.vm.spin_tally();
    tally.spun = spin.spun;
    tally.accuracy = spin.accuracy;
    tally
}

type Waiter<'a> = Box<dyn FnMut(Instant) -> Option<Duration> + 'a>;

/// One wait that ends at the given time at the latest, where nobody else ends it.
fn waiter(process: &Process, way: Way) -> Waiter<'_> {
    match way {
        Way::Thread { gap } => {
            let mut ask = asker(process);
            Box::new(move |_| Some(ask(gap)))
        }
        Way::Program { gap } => match other_program(gap) {
            Ok(mut socket) => Box::new(move |_| Some(ask_program(process, &mut socket))),
            Err(error) => {
                eprintln!("baton-bench: {error:#}");
                std::process::exit(1);
            }
        },
        Way::Frames { length } => {
            let mut ask = asker(process);
            let mut next = Instant::now();
            Box::new(move |_| {
                next += length;
                process.vm.sleep_until(next);
                (0..FOLLOW_UPS).for_each(|_| {
                    let _ = ask(FOLLOW_UP);
                });
                None
            })
        }
        Way::Periodic { period } => {
            let semaphore = rung_by(process, |bell| partners::ring_periodically(bell, period));
            Box::new(move |_| {
                wait_for(process, semaphore);
                None
            })
        }
        Way::Timer { period } => {
            let mut next = Instant::now();
            Box::new(move |end| {
                next = if period.is_zero() { end } else { next + period };
                process.vm.sleep_until(next.min(end));
                Some(Instant::now() - next)
            })
        }
        Way::Application => {
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

/// Asks a native thread to answer after a gap; answers how late the answer was noticed.
fn asker(process: &Process) -> impl FnMut(Duration) -> Duration + '_ {
    let asked = Arc::new(Asked::default());
    let of_thread = Arc::clone(&asked);
    let semaphore = rung_by(process, |bell| partners::answer(of_thread, bell));
    move |gap| {
        asked.ask(gap);
        wait_for(process, semaphore);
        Instant::now() - asked.answered()
    }
}

/// A semaphore that whoever is given the bell signals.
fn rung_by(process: &Process, start: impl FnOnce(baton_core::vm::Bell)) -> SemaphoreId {
    let semaphore = process.vm.kernel(|kernel| kernel.semaphore_new(0));
    start(process.vm.hang_bell(Ring::Signal(semaphore)));
    semaphore
}

fn wait_for(process: &Process, semaphore: SemaphoreId) {
    process
        .vm
        .attempt(|kernel| kernel.semaphore_wait(semaphore, Deadline::Never));
}

/// This program once more, in another role; it ends when the socket is closed.
fn other_program(gap: Duration) -> Result<UnixStream> {
    static CHILD: Mutex<Option<std::process::Child>> = Mutex::new(None);
    let (ours, theirs) = UnixStream::pair().context("cannot open a socket pair")?;
    ours.set_nonblocking(true)?;
    let own = std::env::current_exe().context("cannot find this program's own executable")?;
    let gap = gap.as_micros().to_string();
    let child = Command::new(own)
        .args(["waits", "off", "echo", &gap, "0"])
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
            eprintln!("baton-bench: the socket cannot be waited for: {:?}", waited.err());
            std::process::exit(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_and_ways_that_do_not_exist_are_named() {
        let error = policy("sometimes").expect_err("there is none");
        assert_eq!(error.to_string(), "no such policy: sometimes");
        let error = Way::new("standing", Duration::ZERO).err().expect("there is none");
        assert_eq!(error.to_string(), "no such way to wait: standing");
    }
}
