//! The kernel's view of native threads. It tells a thread that blocks or computes from one that
//! does not get a processor, and counts the program's threads.
//!
//! The monitor asks at any time, also when there is no memory left. So nothing here allocates.

use crate::signals::ThreadHandle;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

/// The kernel's view of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// It runs or is ready to run; otherwise it waits for something.
    pub is_runnable: bool,
    /// Its processor time since it began.
    pub cpu: Duration,
}

impl ThreadHandle {
    /// The thread's processor time; `None` if the system does not report it, and with `--cfg
    /// baton_portable`. Takes a fraction of a microsecond.
    ///
    /// Source: clock_getcpuclockid(3); the number of a thread's clock is part of Linux's interface
    /// (`include/linux/posix-timers.h`).
    #[must_use]
    pub fn cpu_time(self) -> Option<Duration> {
        if cfg!(any(baton_portable, not(target_os = "linux"))) {
            return None;
        }
        const CLOCK_OF_THREAD: i32 = 4 | 2;
        let clock = !self.id() << 3 | CLOCK_OF_THREAD;
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the kernel writes one timespec, or refuses a thread that is gone.
        let result = unsafe { libc::clock_gettime(clock as libc::clockid_t, &raw mut time) };
        (result == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    /// Whether the thread waits for something; `None` as for [`ThreadHandle::activity`]. Costs half
    /// as much.
    #[must_use]
    pub fn is_waiting(self) -> Option<bool> {
        if cfg!(baton_portable) {
            return None;
        }
        let mut room = [0; LONGEST_LINE];
        let state = read_line(self, "stat", &mut room)?;
        Some(state_of(state)? != b'R')
    }

    /// The thread's present activity; `None` if the system does not report it (no `/proc`, or the
    /// thread is gone), and with `--cfg baton_portable`.
    ///
    /// Source: proc(5), `/proc/pid/task/tid/stat` and `schedstat`. Reads two small files, which
    /// takes about ten microseconds.
    #[must_use]
    pub fn activity(self) -> Option<Activity> {
        if cfg!(baton_portable) {
            return None;
        }
        let mut room = [0; LONGEST_LINE];
        let is_runnable = state_of(read_line(self, "stat", &mut room)?)? == b'R';
        let times = std::str::from_utf8(read_line(self, "schedstat", &mut room)?).ok()?;
        Some(Activity {
            is_runnable,
            cpu: Duration::from_nanos(times.split_ascii_whitespace().next()?.parse().ok()?),
        })
    }
}

/// How many native threads this program has. A thread that is ending may count for a moment. `None`
/// as for [`ThreadHandle::activity`].
///
/// Source: Linux, `fs/proc/base.c`: the directory of threads has one link for each thread, besides
/// its own two. Costs one system call.
#[must_use]
pub fn threads_of_this_program() -> Option<usize> {
    if cfg!(baton_portable) {
        return None;
    }
    let links = fs::metadata("/proc/self/task").ok()?.nlink();
    usize::try_from(links)
        .ok()?
        .checked_sub(2)
        .filter(|&threads| threads > 0)
}

/// Bytes that the line of a file of a thread has at most: some fifty numbers and a short name.
const LONGEST_LINE: usize = 1024;

/// Bytes of the path of such a file, at most.
const LONGEST_PATH: usize = 64;

/// Reads a kernel file of one line about a thread, in as few system calls as possible: the first
/// read with enough room returns all of it.
fn read_line<'r>(thread: ThreadHandle, name: &str, room: &'r mut [u8]) -> Option<&'r [u8]> {
    let mut path = [0; LONGEST_PATH];
    let length = {
        let mut rest = &mut path[..];
        write!(rest, "/proc/self/task/{}/{name}", thread.id()).ok()?;
        LONGEST_PATH - rest.len()
    };
    // A path as short as this is made a C string on the stack.
    let mut file = File::open(std::str::from_utf8(&path[..length]).ok()?).ok()?;
    loop {
        match file.read(room) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            answer => return room.get(..answer.ok()?),
        }
    }
}

/// The state letter. It follows the name, which is in parentheses and may contain some itself.
fn state_of(stat: &[u8]) -> Option<u8> {
    let end_of_name = stat.iter().rposition(|&byte| byte == b')')?;
    let mut rest = stat[end_of_name + 1..].iter();
    rest.find(|byte| !byte.is_ascii_whitespace()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_found_behind_a_name_with_parentheses() {
        assert_eq!(state_of(b"12 (a) (b c) S 1 2 3"), Some(b'S'));
        assert_eq!(state_of(b"12 baton"), None);
    }

    #[cfg(baton_portable)]
    #[test]
    fn a_system_without_proc_says_nothing() {
        let me = ThreadHandle::current();
        assert_eq!(
            (me.activity(), me.cpu_time(), me.is_waiting()),
            (None, None, None)
        );
    }

    #[cfg(not(baton_portable))]
    #[test]
    fn a_running_thread_is_runnable_and_its_time_grows() {
        let me = ThreadHandle::current();
        let before = me.activity().expect("/proc is mounted");
        assert!(before.is_runnable);
        while me.activity().expect("/proc is mounted").cpu <= before.cpu {}
        let before = me.cpu_time().expect("Linux says it");
        while me.cpu_time().expect("Linux says it") <= before {}
        assert_eq!(me.is_waiting(), Some(false));
    }

    #[cfg(not(baton_portable))]
    #[test]
    fn a_thread_that_waits_is_not_runnable() {
        let (tell, told) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || {
            tell.send(ThreadHandle::current())
                .expect("the test listens");
            let _ = released.recv();
        });
        let handle = told.recv().expect("the thread runs");
        while handle.activity().expect("the thread lives").is_runnable {
            std::thread::yield_now();
        }
        assert_eq!(handle.is_waiting(), Some(true));
        drop(release);
        waiting.join().expect("the thread ended");
    }
}
