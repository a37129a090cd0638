//! Signals: notes of handlers, actions, names.

use baton_sys::owner_cell::OwnerCell;
use baton_sys::signals::actions::{Handler, WatchedSignals};
use baton_sys::signals::arrivals::{Arrivals, MOST_SIGNALS};
use baton_sys::signals::names::{NameError, number_of};
use std::ffi::{CStr, c_char, c_int};

static ARRIVALS: Arrivals = Arrivals::new();

static WATCHED: OwnerCell<WatchedSignals> = OwnerCell::new(WatchedSignals::new());

/// Notes that a signal has arrived. In a handler, too.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_note_signal(signal: c_int) {
    ARRIVALS.note(signal);
}

/// Forgets the signals that have arrived. In a handler, too.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_forget_signals() {
    ARRIVALS.clear_all();
}

/// Takes the signals that have arrived, the earliest first. Returns their number.
///
/// # Safety
/// `list` has room for that many, at most [`MOST_SIGNALS`].
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_take_signals(list: *mut c_int) -> usize {
    let taken = ARRIVALS.take();
    let signals = taken.signals().take(MOST_SIGNALS).enumerate();
    // SAFETY: the caller's condition.
    signals
        .map(|(place, signal)| unsafe { list.add(place).write(signal) })
        .count()
}

/// Has a handler called for a signal. Returns 0, or the system's error.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_watch_signal(signal: c_int, handler: Handler) -> c_int {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let begun = unsafe {
        WATCHED.with(|watched| {
            if !watched.is_watched(signal) {
                ARRIVALS.clear(signal); // the note of a late handler
            }
            watched.begin(signal, handler)
        })
    };
    begun.map_or_else(|error| error.raw_os_error().unwrap_or(libc::EINVAL), |()| 0)
}

/// Ends what `baton_watch_signal` began.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_unwatch_signal(signal: c_int) {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    unsafe { WATCHED.with(|watched| watched.end(signal)) };
}

/// Sets the action of a signal for the time when nobody watches it; null: the default action.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_set_signal_action(signal: c_int, handler: Option<Handler>) {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    unsafe { WATCHED.with(|watched| watched.set_action(signal, handler)) };
}

/// The number of a signal by its name. 0: unknown. -1: it cannot be caught.
///
/// # Safety
/// `name` is a string that ends with a zero byte.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_signal_number(name: *const c_char) -> c_int {
    // SAFETY: the caller's condition.
    let name = unsafe { CStr::from_ptr(name) }.to_str();
    match name.map_or(Err(NameError::Unknown), number_of) {
        Ok(number) => number,
        Err(NameError::Unknown) => 0,
        Err(NameError::NotCaught) => -1,
    }
}
