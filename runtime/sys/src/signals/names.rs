//! Signals by name, without "SIG": `"TERM"`, `"RTMIN+2"`.

use std::ffi::c_int;

/// Names of signals that a program may catch.
const NAMES: &[(&str, c_int)] = &[
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("CHLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    #[cfg(target_os = "linux")]
    ("PWR", libc::SIGPWR),
];

/// Signals that cannot be caught. The system forbids it for the first two. Faults cannot be handled
/// later. The last one preempts processes.
const NOT_CAUGHT: [&str; 10] = [
    "KILL", "STOP", "SEGV", "BUS", "FPE", "ILL", "TRAP", "ABRT", "SYS", "URG",
];

/// Why a name is of no use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameError {
    /// The signal cannot be caught.
    NotCaught,
    /// There is no such signal.
    Unknown,
}

/// The number of a signal that a program may catch.
///
/// # Errors
/// Why the program cannot catch it.
///
/// ```
/// use baton_sys::signals::names::{NameError, number_of};
///
/// assert_eq!(number_of("TERM"), Ok(15));
/// assert_eq!(number_of("KILL"), Err(NameError::NotCaught));
/// assert_eq!(number_of("SIGTERM"), Err(NameError::Unknown));
/// ```
pub fn number_of(name: &str) -> Result<c_int, NameError> {
    if let Some(&(_, number)) = NAMES.iter().find(|(known, _)| *known == name) {
        return Ok(number);
    }
    if NOT_CAUGHT.contains(&name) {
        return Err(NameError::NotCaught);
    }
    real_time(name).ok_or(NameError::Unknown)
}

/// The number of "RTMIN", "RTMIN+n", "RTMAX" or "RTMAX-n".
#[cfg(target_os = "linux")]
fn real_time(name: &str) -> Option<c_int> {
    let (first, last) = (libc::SIGRTMIN(), libc::SIGRTMAX());
    let offset = |rest: &str, sign| match rest.strip_prefix(sign) {
        None => rest.is_empty().then_some(0),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
        Some(_) => None,
    };
    let number = match name.strip_prefix("RTMAX") {
        Some(rest) => last.checked_sub(offset(rest, '-')?)?,
        None => first.checked_add(offset(name.strip_prefix("RTMIN")?, '+')?)?,
    };
    (first..=last).contains(&number).then_some(number)
}

#[cfg(not(target_os = "linux"))]
fn real_time(_name: &str) -> Option<c_int> {
    None
}

#[cfg(test)]
mod tests {
    use super::NameError::{NotCaught, Unknown};
    use super::{NAMES, NOT_CAUGHT, number_of};

    #[test]
    fn each_name_has_its_number_or_is_not_caught() {
        for &(name, number) in NAMES {
            assert_eq!(number_of(name), Ok(number));
        }
        for name in NOT_CAUGHT {
            assert_eq!(number_of(name), Err(NotCaught), "{name}");
        }
    }

    #[test]
    fn real_time_signals_count_from_either_end() {
        let (first, last) = (libc::SIGRTMIN(), libc::SIGRTMAX());
        assert_eq!(number_of("RTMIN"), Ok(first));
        assert_eq!(number_of("RTMIN+1"), Ok(first + 1));
        assert_eq!(number_of("RTMAX"), Ok(last));
        assert_eq!(number_of("RTMAX-2"), Ok(last - 2));
        let whole = last - first;
        assert_eq!(number_of(&format!("RTMIN+{whole}")), Ok(last));
        assert_eq!(number_of(&format!("RTMAX-{whole}")), Ok(first));
    }

    #[test]
    fn other_texts_are_unknown() {
        for name in [
            "",
            "term",
            "SIGTERM",
            "TERM ",
            "RT",
            "RTMIN-1",
            "RTMAX+1",
            "RTMIN+",
            "RTMIN+x",
            "RTMIN+1x",
            "RTMIN+-1",
            "RTMIN+65",
            "RTMAX-65",
            "RTMIN+99999999999",
        ] {
            assert_eq!(number_of(name), Err(Unknown), "{name}");
        }
    }
}
