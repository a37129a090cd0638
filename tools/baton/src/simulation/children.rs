//! The child programs that run now. Each leads a process group, so that what it starts can be
//! killed with it.
//!
//! Two threads kill them: one at their time limits, and one when this program is interrupted. The
//! second one then ends this program, as the signal would have.

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg, raise};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use std::process::Child;
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::Instant;

/// Why a child was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Killed {
    /// It took too long.
    AtItsLimit,
    /// Its result does not matter any more.
    NotNeeded,
}

struct Entry {
    group: Pid,
    seed: u64,
    until: Option<Instant>,
    killed: Option<Killed>,
}

struct Running {
    entries: Vec<Entry>,
    /// Seeds above this one do not matter.
    highest: u64,
}

static RUNNING: Mutex<Running> = Mutex::new(Running {
    entries: Vec::new(),
    highest: u64::MAX,
});

/// Notified when there is a new entry.
static CHANGED: Condvar = Condvar::new();

/// Begins to watch. To be called before there are children and other threads.
pub(super) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        watch_signals();
        thread::spawn(watch_limits);
    });
}

/// Waits for the end of a child that leads its process group, without taking its status. It is
/// killed at `until`. Returns why it was killed, if it was.
pub(super) fn await_end(child: &Child, seed: u64, until: Option<Instant>) -> Option<Killed> {
    let pid = Pid::from_raw(child.id().cast_signed());
    let mut running = running();
    let mut entry = Entry {
        group: pid,
        seed,
        until,
        killed: None,
    };
    if seed > running.highest {
        entry.kill(Killed::NotNeeded);
    }
    running.entries.push(entry);
    drop(running);
    CHANGED.notify_all();
    while waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) == Err(Errno::EINTR) {}
    let mut running = self::running();
    let place = running.entries.iter().position(|entry| entry.group == pid);
    place.and_then(|place| running.entries.swap_remove(place).killed)
}

/// Kills the children whose seeds are higher, now and later.
pub(super) fn kill_above(seed: u64) {
    let mut running = running();
    running.highest = running.highest.min(seed);
    let entries = running.entries.iter_mut();
    for entry in entries.filter(|entry| entry.seed > seed) {
        entry.kill(Killed::NotNeeded);
    }
}

fn running() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Entry {
    /// Its leader has not been waited for, so the group's number is still its own.
    fn kill(&mut self, why: Killed) {
        if self.killed.is_none() {
            self.killed = Some(why);
            let _ = killpg(self.group, Signal::SIGKILL);
        }
    }
}

fn watch_limits() {
    let mut running = running();
    loop {
        let now = Instant::now();
        for entry in &mut running.entries {
            if entry.until.is_some_and(|until| until <= now) {
                entry.kill(Killed::AtItsLimit);
            }
        }
        let alive = running
            .entries
            .iter()
            .filter(|entry| entry.killed.is_none());
        let next = alive.filter_map(|entry| entry.until).min();
        running = match next {
            None => CHANGED
                .wait(running)
                .unwrap_or_else(PoisonError::into_inner),
            Some(next) => {
                let waited = CHANGED.wait_timeout(running, next - now);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}

/// The signals that end this program. Those that were ignored at the start stay so.
const SIGNALS: [Signal; 3] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM];

fn watch_signals() {
    let mut signals = SigSet::empty();
    for signal in SIGNALS.into_iter().filter(|&signal| !is_ignored(signal)) {
        signals.add(signal);
    }
    // Children do not inherit this: their mask is cleared.
    if signals.thread_block().is_err() {
        return;
    }
    thread::spawn(move || {
        let Ok(signal) = signals.wait() else {
            return;
        };
        // The lock is kept, so that no other child is waited for.
        let mut running = running();
        for entry in &mut running.entries {
            entry.kill(Killed::NotNeeded);
        }
        let _ = signals.thread_unblock();
        let _ = raise(signal);
    });
}

/// Whether a signal is ignored, as the system tells. If it does not tell, it is not.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal as i32 - 1) & 1 != 0)
}
