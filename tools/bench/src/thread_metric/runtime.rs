//! Runs one test of Thread-Metric through the runtime's Rust interface, without a language:
//! `baton-bench runtime TEST SECONDS`.

use std::ffi::c_int;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use baton_core::sched::ProcessId;
use baton_core::vm::{WakeAction, Waker};
use baton_sys::fiber::Echo;
use baton_sys::stack::StackPool;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::{Signal, raise};

use super::calls;
use crate::child::cpu_seconds;
use crate::lab::{Lab, Process};

/// The priority of the reporter, which is more urgent than all others.
const REPORTER: u8 = 79;
const COUNTERS: usize = 5;

type Counters = Arc<[AtomicU64; COUNTERS]>;

/// Runs the test for about `seconds`. Prints the counts, the interval, and the CPU time. Fails if a
/// check of the test fails.
pub(crate) fn run(test: &str, seconds: f64) -> Result<()> {
    let interval = Duration::from_secs_f64(seconds);
    let (counts, took) = match test {
        "bare" => bare(interval)?,
        test => in_a_vm(test, interval)?,
    };
    let cpu = cpu_seconds(&getrusage(UsageWho::RUSAGE_SELF)?);
    println!(
        "counts {counts}\nseconds {:.6}\ncpu {cpu:.6}",
        took.as_secs_f64()
    );
    Ok(())
}

fn in_a_vm(test: &str, interval: Duration) -> Result<(u64, Duration)> {
    let lab = Lab::new()?;
    let counters: Counters = Arc::default();
    let apart = prepare(&lab, test, &counters)?;
    let begin = Instant::now();
    let found = Arc::new(OnceLock::new());
    let (seen, of_reporter) = (Arc::clone(&found), Arc::clone(&counters));
    lab.spawn(REPORTER, false, move |process| {
        process
            .vm
            .sleep_until(baton_sys::clock::Instant::now() + interval);
        // Relaxed: all of this runs on one thread.
        let counts = of_reporter
            .each_ref()
            .map(|counter| counter.load(Ordering::Relaxed));
        let _ = seen.set((counts, begin.elapsed()));
        process.vm.stop();
    })?;
    lab.vm.run();
    let (counts, took) = *found
        .get()
        .context("the reporter did not come to its end")?;
    check(&counts[..apart])?;
    Ok((counts.iter().sum(), took))
}

/// Checks the counters of processes that take turns. Each must be within one of the mean, and none
/// may be zero.
fn check(counts: &[u64]) -> Result<()> {
    let mean = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    ensure!(
        counts.iter().all(|&count| count > 0),
        "a process never ran: {counts:?}"
    );
    let is_near = |&count: &u64| (count as f64 - mean).abs() <= 1.0;
    ensure!(
        counts.iter().all(is_near),
        "counters are more than one from their mean: {counts:?}"
    );
    Ok(())
}

/// Spawns the processes of a test. Returns how many counters must stay together.
fn prepare(lab: &Lab, test: &str, counters: &Counters) -> Result<usize> {
    match test {
        "basic" => spawn_counting(lab, counters, basic()),
        "cooperative" => {
            for number in 0..COUNTERS {
                let counters = Arc::clone(counters);
                lab.spawn(40, false, move |process| {
                    loop {
                        calls::yield_now(process);
                        count(&counters, number);
                        process.checkpoint();
                    }
                })?;
            }
            Ok(COUNTERS)
        }
        "preemptive" => preemptive(lab, counters),
        "interrupt" => interrupt(lab, counters, || raise(Signal::SIGUSR1).is_ok()),
        "interrupt_thread" => {
            let asked = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&asked);
            std::thread::spawn(move || {
                loop {
                    // Acquire: pairs with the release below.
                    while !seen.swap(false, Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                    on_interrupt(0);
                }
            });
            interrupt(lab, counters, move || {
                // Release: pairs with the acquire above.
                asked.store(true, Ordering::Release);
                true
            })
        }
        "interrupt_preemption" => interrupt_preemption(lab, counters),
        "message" => spawn_counting(lab, counters, message()),
        "synchronization" => spawn_counting(lab, counters, synchronization()),
        "memory" => spawn_counting(lab, counters, |_: &Process| {
            drop(black_box(Box::<[u8; 128]>::new_uninit()));
        }),
        _ => bail!("no such test: {test}"),
    }
}

#[inline]
fn count(counters: &Counters, number: usize) {
    // Relaxed (both): one thread writes and reads the counter.
    let counter = &counters[number];
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Spawns one process that repeats an action and counts.
fn spawn_counting(
    lab: &Lab,
    counters: &Counters,
    mut body: impl FnMut(&Process) + Send + 'static,
) -> Result<usize> {
    let counters = Arc::clone(counters);
    lab.spawn(40, false, move |process| {
        loop {
            body(process);
            count(&counters, 0);
            process.checkpoint();
        }
    })?;
    Ok(1)
}

/// Makes a pass over 1024 words that the compiler may not leave out.
fn basic() -> impl FnMut(&Process) + Send {
    let words: Vec<AtomicU64> = (0..1024).map(|_| AtomicU64::new(0)).collect();
    let mut passes = 0u64;
    move |_| {
        for word in &words {
            // Relaxed (both): atomics stand for C's volatile here.
            let old = word.load(Ordering::Relaxed);
            word.store(old.wrapping_add(passes) ^ old, Ordering::Relaxed);
        }
        passes += 1;
    }
}

fn preemptive(lab: &Lab, counters: &Counters) -> Result<usize> {
    let mut next: Option<ProcessId> = None;
    for number in (0..COUNTERS).rev() {
        let (counters, wakes) = (Arc::clone(counters), next);
        let priority = 10 * (number as u8 + 1);
        next = Some(lab.spawn(priority, number > 0, move |process| {
            loop {
                if let Some(next) = wakes {
                    calls::resume(process, next);
                }
                count(&counters, number);
                if number > 0 {
                    calls::suspend_self(process);
                }
                process.checkpoint();
            }
        })?);
    }
    Ok(COUNTERS)
}

static WAKER: OnceLock<Waker> = OnceLock::new();
static INTERRUPTS: AtomicU64 = AtomicU64::new(0);

/// The handler of the interrupt. It runs in a signal handler, or on a thread that is unknown to the
/// VM.
extern "C" fn on_interrupt(_signal: c_int) {
    // Relaxed: the waker orders it.
    INTERRUPTS.fetch_add(1, Ordering::Relaxed);
    if let Some(waker) = WAKER.get() {
        calls::wake(waker);
    }
}

/// Spawns a process that causes an interrupt and waits for a semaphore. The interrupt's handler
/// signals the semaphore.
fn interrupt(
    lab: &Lab,
    counters: &Counters,
    cause: impl Fn() -> bool + Send + 'static,
) -> Result<usize> {
    baton_sys::signals::watch(Signal::SIGUSR1 as c_int, on_interrupt)?;
    let counters = Arc::clone(counters);
    lab.spawn(40, false, move |process| {
        let semaphore = process.vm.sched(|sched| sched.semaphore_new(0));
        let _ = WAKER.set(process.vm.new_waker(WakeAction::Signal(semaphore)));
        loop {
            assert!(cause(), "an interrupt can be caused");
            calls::semaphore_wait(process, semaphore);
            count(&counters, 0);
            // Relaxed (both): the waker has ordered them.
            let handled = INTERRUPTS.load(Ordering::Relaxed);
            assert_eq!(
                handled,
                counters[0].load(Ordering::Relaxed),
                "an interrupt was lost"
            );
            process.checkpoint();
        }
    })?;
    Ok(1)
}

/// Spawns processes in which an interrupt's handler resumes a more urgent process. That process
/// counts and suspends itself.
fn interrupt_preemption(lab: &Lab, counters: &Counters) -> Result<usize> {
    baton_sys::signals::watch(Signal::SIGUSR1 as c_int, on_interrupt)?;
    let of_urgent = Arc::clone(counters);
    let urgent = lab.spawn(60, true, move |process| {
        loop {
            count(&of_urgent, 1);
            calls::suspend_self(process);
        }
    })?;
    let counters = Arc::clone(counters);
    lab.spawn(40, false, move |process| {
        let _ = WAKER.set(process.vm.new_waker(WakeAction::Resume(urgent)));
        loop {
            assert!(raise(Signal::SIGUSR1).is_ok(), "an interrupt can be caused");
            process.checkpoint();
            count(&counters, 0);
        }
    })?;
    Ok(2)
}

/// Sends sixteen bytes through a channel and receives them. The channel carries the index of their
/// place.
fn message() -> impl FnMut(&Process) + Send {
    const PLACES: usize = 16;
    let mut channel = None;
    let mut places = [[0u64; 2]; PLACES];
    let mut sent = 0u64;
    move |process| {
        let channel =
            *channel.get_or_insert_with(|| process.vm.sched(|sched| sched.channel_new(10)));
        let place = sent as usize % PLACES;
        places[place] = [sent, !sent];
        calls::channel_send(process, channel, place as u64);
        let place = calls::channel_receive(process, channel);
        // The words are read one by one, as they were written. Reading all sixteen bytes at once
        // would have to wait for the stores.
        let received = places[place as usize]
            .each_ref()
            .map(|word| black_box(*word));
        assert!(
            received[0] == sent && received[1] == !sent,
            "a message is not what was sent"
        );
        sent += 1;
    }
}

fn synchronization() -> impl FnMut(&Process) + Send {
    let mut semaphore = None;
    move |process| {
        let semaphore =
            *semaphore.get_or_insert_with(|| process.vm.sched(|sched| sched.semaphore_new(1)));
        calls::semaphore_wait(process, semaphore);
        calls::semaphore_signal(process, semaphore);
    }
}

/// Runs the bare switch of stacks, there and back. No scheduler can be faster.
fn bare(interval: Duration) -> Result<(u64, Duration)> {
    const AT_A_TIME: u64 = 10_000;
    let begin = Instant::now();
    let mut switches = 0;
    with_a_fiber(|go| {
        while begin.elapsed() < interval {
            go(AT_A_TIME);
            switches += 2 * AT_A_TIME;
        }
    })?;
    Ok((switches, begin.elapsed()))
}

/// Switches stacks `times` times: one half there, the other half back.
pub(super) fn switch_stacks(times: u64) -> Result<()> {
    with_a_fiber(|go| go(times / 2))
}

/// Makes a fiber, and calls `f` with a function that switches to it and back as often as told.
fn with_a_fiber(f: impl FnOnce(&mut dyn FnMut(u64))) -> Result<()> {
    let mut pool = StackPool::new(64 * 1024)?;
    let mut stack = pool.allocate(None)?;
    let mut echo = Echo::new(&mut stack);
    f(&mut |times| {
        for _ in 0..times {
            echo.there_and_back();
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_must_be_near_each_other_and_move() {
        assert!(check(&[10, 10, 11, 10, 9]).is_ok());
        assert!(check(&[10, 10, 12, 10, 10]).is_err());
        assert!(check(&[0, 1, 1, 1, 1]).is_err());
    }
}
