//! How long foreign calls took that others ran beside, by the name of the function.
//!
//! Such a call was retaken, or offloaded from its start. Its time is from then to its return. So
//! calls that nobody noticed are not measured, and cost nothing.

use baton_core::time_buckets::TimeBuckets;
use baton_sys::forking::ForkMutex;
use std::ffi::{CStr, c_char};

/// The most functions with times of their own. Those that come later share one.
pub(crate) const MOST_FUNCTIONS: usize = 64;

/// The name that they share.
const OTHERS: &str = "(others)";

/// The name of a function whose caller gives it none.
pub(crate) const NAMELESS: &str = "?";

/// By function, in the order of their first calls.
static TIMES: ForkMutex<Vec<(String, TimeBuckets)>> = ForkMutex::new(Vec::new());

/// The times so far.
pub(crate) fn all() -> Vec<(String, TimeBuckets)> {
    TIMES.lock().clone()
}

/// Forgets the times, which were the parent's.
///
/// # Safety
/// The caller is the only thread, in a fork's child, and not in a function of this file.
pub(crate) unsafe fn renew_in_child() {
    // SAFETY: the caller's conditions. Only this file locks the mutex.
    unsafe { TIMES.renew(Vec::new()) };
}

fn add(times: &mut Vec<(String, TimeBuckets)>, name: &str, nanos: u64) {
    let is_known = times.iter().any(|(known, _)| known == name);
    let name = if is_known || times.len() < MOST_FUNCTIONS {
        name
    } else {
        OTHERS
    };
    match times.iter_mut().find(|(known, _)| known == name) {
        Some((_, buckets)) => buckets.add(nanos),
        None => {
            let mut buckets = TimeBuckets::new();
            buckets.add(nanos);
            times.push((name.to_owned(), buckets));
        }
    }
}

/// Notes a call that has returned.
///
/// # Safety
/// `name` is a C string, or null.
// SAFETY: the only definition of this symbol, with the signature of `c/seam/guest.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_note_call(name: *const c_char, nanos: u64) {
    let name = match name.is_null() {
        true => NAMELESS.into(),
        // SAFETY: the caller's condition.
        false => unsafe { CStr::from_ptr(name) }.to_string_lossy(),
    };
    add(&mut TIMES.lock(), &name, nanos);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_beyond_the_bound_share_one_name() {
        let mut times = Vec::new();
        for _ in 0..2 {
            for number in 0..100 {
                add(&mut times, &format!("f{number}"), 1_000);
            }
        }
        assert_eq!(times.len(), MOST_FUNCTIONS + 1);
        let (last, shared) = times.last().expect("there are some");
        assert_eq!((last.as_str(), shared.counts()[0]), (OTHERS, 2 * 36));
        assert_eq!(times[0].1.counts()[0], 2);
    }
}
