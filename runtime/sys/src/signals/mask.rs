//! Which signals a native thread blocks.

use std::ffi::c_int;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::marker::PhantomData;
use std::time::Duration;
use std::{fmt, mem};

use super::{PREEMPT_SIGNAL, ThreadHandle};

/// The signals that a native thread blocks.
#[derive(Clone, Copy)]
pub struct SignalMask(libc::sigset_t);

impl SignalMask {
    /// The calling thread's mask.
    #[must_use]
    pub fn of_this_thread() -> SignalMask {
        SignalMask::empty().change(libc::SIG_BLOCK)
    }

    /// Blocks no signal.
    #[must_use]
    pub fn empty() -> SignalMask {
        // SAFETY: all-zero bytes are a set of signals, which is then emptied.
        unsafe {
            let mut set: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&raw mut set);
            SignalMask(set)
        }
    }

    /// Blocks all signals.
    #[must_use]
    pub fn full() -> SignalMask {
        let mut all = SignalMask::empty();
        // SAFETY: the set is writable.
        unsafe { libc::sigfillset(&raw mut all.0) };
        all
    }

    /// As this one, with another signal that is blocked. A number that is no signal has no effect.
    #[must_use]
    pub fn with(mut self, signal: c_int) -> SignalMask {
        // SAFETY: the set is writable.
        unsafe { libc::sigaddset(&raw mut self.0, signal) };
        self
    }

    /// Whether it blocks a signal.
    #[must_use]
    pub fn blocks(&self, signal: c_int) -> bool {
        // SAFETY: the set is initialised.
        unsafe { libc::sigismember(&raw const self.0, signal) == 1 }
    }

    /// Makes it the calling thread's mask. Returns the mask before.
    pub fn set(self) -> SignalMask {
        self.change(libc::SIG_SETMASK)
    }

    /// Has the calling thread block these signals, too. Returns the mask before.
    pub fn block(self) -> SignalMask {
        self.change(libc::SIG_BLOCK)
    }

    /// Has the calling thread block none of these signals. Returns the mask before.
    pub fn unblock(self) -> SignalMask {
        self.change(libc::SIG_UNBLOCK)
    }

    /// The set, for the C library.
    pub(crate) fn as_set(&self) -> *const libc::sigset_t {
        &raw const self.0
    }

    fn change(self, how: c_int) -> SignalMask {
        let mut before = SignalMask::empty();
        // SAFETY: one set is initialised, the other one is writable. The call cannot fail, as `how`
        // is one of its three numbers.
        unsafe { libc::pthread_sigmask(how, &raw const self.0, &raw mut before.0) };
        before
    }
}

impl fmt::Debug for SignalMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignalMask")
    }
}

/// The calling thread receives [`PREEMPT_SIGNAL`]. Dropped, it blocks the signal again if it did so
/// before. Dropped on the thread that made it, hence neither `Send` nor `Sync`.
///
/// A program may be started with the signal blocked, or block all signals on the thread on which it
/// then runs processes: to take them from a descriptor, or on a thread that waits for them.
#[derive(Debug)]
pub struct PreemptUnblocked {
    was_blocked: bool,
    stays_on_its_thread: PhantomData<*mut ()>,
}

impl PreemptUnblocked {
    /// Unblocks the signal on the calling thread.
    #[must_use = "dropped, it ends"]
    pub fn begin() -> PreemptUnblocked {
        let before = SignalMask::empty().with(PREEMPT_SIGNAL).unblock();
        PreemptUnblocked {
            was_blocked: before.blocks(PREEMPT_SIGNAL),
            stays_on_its_thread: PhantomData,
        }
    }
}

impl Drop for PreemptUnblocked {
    fn drop(&mut self) {
        if self.was_blocked {
            SignalMask::empty().with(PREEMPT_SIGNAL).block();
        }
    }
}

/// Whether a thread of this program blocks a signal that was sent to it, and has for some time;
/// `false` if the system does not say. A signal's handler blocks it, too, while it runs, and
/// perhaps without a processor: so what counts is a signal that waits at each of three looks, on a
/// thread that has run in between for longer than a handler does. Allocates nothing.
pub(crate) fn is_blocked_on(thread: ThreadHandle, signal: c_int) -> bool {
    const LOOKS: u32 = 3;
    (0..LOOKS).all(|look| (look == 0 || has_run_on(thread)) && waits_on(thread, signal))
}

/// Waits until a thread has run for longer than a handler does. Returns whether it has, in a time
/// in which one without a processor usually gets one; `true` if the system does not say.
fn has_run_on(thread: ThreadHandle) -> bool {
    const LONGER_THAN_A_HANDLER: Duration = Duration::from_micros(50);
    const AT_MOST: u32 = 15;
    let before = thread.cpu_time();
    (0..AT_MOST).any(|_| {
        std::thread::sleep(Duration::from_millis(2));
        match (before, thread.cpu_time()) {
            (Some(before), Some(now)) => now >= before + LONGER_THAN_A_HANDLER,
            _ => true,
        }
    })
}

/// Whether a thread blocks a signal that was sent to it. Reads a small file (proc(5),
/// `/proc/pid/task/tid/status`).
fn waits_on(thread: ThreadHandle, signal: c_int) -> bool {
    if cfg!(any(baton_portable, not(target_os = "linux"))) {
        return false;
    }
    let mut path = [0; 48];
    let mut rest = &mut path[..];
    // The path has room for any number.
    let _ = write!(rest, "/proc/self/task/{}/status", thread.id());
    let left = rest.len();
    let path = str::from_utf8(&path[..path.len() - left]).unwrap_or("");
    let mut status = [0; 4096];
    let read = File::open(path).and_then(|mut file| file.read(&mut status));
    let status = status.get(..read.unwrap_or(0)).unwrap_or(&[]);
    let has_signal =
        |field| signals_in(status, field).is_some_and(|set| set >> (signal - 1) & 1 != 0);
    has_signal(b"SigBlk:\t") && has_signal(b"SigPnd:\t")
}

/// The signals in a field of a thread's status, a bit each.
fn signals_in(status: &[u8], field: &[u8]) -> Option<u64> {
    let mut lines = status.split(|&byte| byte == b'\n');
    let digits = lines.find_map(|line| line.strip_prefix(field))?;
    u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::sync::mpsc::channel;

    #[test]
    fn the_preemption_signal_is_blocked_again_if_it_was() {
        let signal = SignalMask::empty().with(PREEMPT_SIGNAL);
        let is_blocked = || SignalMask::of_this_thread().blocks(PREEMPT_SIGNAL);
        let before = signal.block();
        drop(PreemptUnblocked::begin());
        assert!(is_blocked());
        let outer = PreemptUnblocked::begin();
        assert!(!is_blocked());
        drop(PreemptUnblocked::begin());
        assert!(!is_blocked());
        drop(outer);
        assert!(is_blocked());
        before.set();
    }

    /// An emulator blocks signals by itself, and the system does not know of it.
    #[cfg(not(baton_portable))]
    #[test]
    fn the_system_says_which_signals_a_thread_blocks() {
        if std::env::var_os("BATON_TESTS_ARE_EMULATED").is_some() {
            return;
        }
        let step = &AtomicU8::new(0);
        let spin_until = |wanted| {
            while step.load(Ordering::SeqCst) != wanted {
                std::hint::spin_loop();
            }
        };
        let (tell, told) = channel();
        let (wake, woken) = channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let signal = SignalMask::empty().with(libc::SIGUSR2);
                let _before = signal.block();
                tell.send(ThreadHandle::current()).expect("it is received");
                spin_until(1);
                // SAFETY: the signal is blocked on this thread, which gets it.
                unsafe { libc::raise(libc::SIGUSR2) };
                step.store(2, Ordering::SeqCst);
                spin_until(3);
                let _ = woken.recv();
                let mut taken = 0;
                // SAFETY: the set is one, and the number can be written.
                unsafe { libc::sigwait(signal.as_set(), &raw mut taken) };
            });
            let thread = told.recv().expect("it begins");
            assert!(!is_blocked_on(thread, libc::SIGUSR2), "nobody has sent it");
            step.store(1, Ordering::SeqCst);
            spin_until(2);
            // It runs, but perhaps not always.
            let blocks = |signal| (0..1000).any(|_| is_blocked_on(thread, signal));
            assert!(blocks(libc::SIGUSR2));
            assert!(!is_blocked_on(thread, libc::SIGUSR1));
            step.store(3, Ordering::SeqCst);
            // It runs no more, as one in a handler that has no processor.
            assert!((0..1000).any(|_| !is_blocked_on(thread, libc::SIGUSR2)));
            drop(wake);
        });
        assert_eq!(signals_in(b"Name:\ta\n", b"SigBlk:\t"), None);
    }
}
