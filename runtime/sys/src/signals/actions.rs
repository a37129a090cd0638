//! Signals that several parts of a program watch, and their actions while none does.

use std::ffi::{c_int, c_void};
use std::io;

use super::arrivals::MOST_SIGNALS;

/// A handler: it gets the signal's number, what the system says of it (a `siginfo_t`), and the
/// interrupted context.
pub type Handler = extern "C" fn(c_int, *const c_void, *const c_void);

/// How many watch each signal, and its action while there are none.
pub struct WatchedSignals {
    watched: [Watched; MOST_SIGNALS + 1],
}

#[derive(Clone, Copy)]
struct Watched {
    count: usize,
    former: libc::sigaction,
}

impl WatchedSignals {
    /// Nobody watches a signal.
    #[allow(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> WatchedSignals {
        // SAFETY: all-zero bytes are a valid sigaction.
        let former = unsafe { std::mem::zeroed() };
        WatchedSignals {
            watched: [Watched { count: 0, former }; MOST_SIGNALS + 1],
        }
    }

    /// Whether somebody watches the signal.
    pub fn is_watched(&self, signal: c_int) -> bool {
        let index = usize::try_from(signal).unwrap_or(0);
        self.watched
            .get(index)
            .is_some_and(|watched| watched.count > 0)
    }

    /// Begins to watch a signal: `handler` is called on whichever thread gets it. It must be
    /// async-signal-safe, preserve `errno` and not unwind. All who watch the same signal have the
    /// same handler.
    ///
    /// # Errors
    /// `EINVAL` for a number that is no signal or that cannot be caught.
    pub fn begin(&mut self, signal: c_int, handler: Handler) -> io::Result<()> {
        let watched = self.of(signal)?;
        if watched.count == 0 {
            let action = action(handler as *const () as libc::sighandler_t);
            // SAFETY: the action is initialised, with a handler of the type that its flags ask for;
            // the former one is valid for writes.
            let result =
                unsafe { libc::sigaction(signal, &raw const action, &raw mut watched.former) };
            if result != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        watched.count += 1;
        Ok(())
    }

    /// Ends what [`begin`](Self::begin) began. After the last end, the signal has its former
    /// action.
    pub fn end(&mut self, signal: c_int) {
        if let Ok(watched) = self.of(signal)
            && watched.count > 0
        {
            watched.count -= 1;
            if watched.count == 0 {
                set(signal, &watched.former);
            }
        }
    }

    /// Sets the action of a signal for the time when nobody watches it: a handler, as for
    /// [`begin`](Self::begin), or the default action.
    pub fn set_action(&mut self, signal: c_int, handler: Option<Handler>) {
        let Ok(watched) = self.of(signal) else { return };
        let action = action(handler.map_or(libc::SIG_DFL, |handler| {
            handler as *const () as libc::sighandler_t
        }));
        if watched.count > 0 {
            watched.former = action;
        } else {
            set(signal, &action);
        }
    }

    fn of(&mut self, signal: c_int) -> io::Result<&mut Watched> {
        let index = usize::try_from(signal).unwrap_or(0);
        match self.watched.get_mut(index) {
            Some(watched) if index > 0 => Ok(watched),
            _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        }
    }
}

fn action(handler: libc::sighandler_t) -> libc::sigaction {
    // SAFETY: all-zero bytes are a valid sigaction: an empty mask on Linux.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK | libc::SA_SIGINFO;
    action
}

/// Sets an action that the system has accepted before.
fn set(signal: c_int, action: &libc::sigaction) {
    // SAFETY: the action came from `action` or from the system.
    unsafe { libc::sigaction(signal, action, std::ptr::null_mut()) };
}
