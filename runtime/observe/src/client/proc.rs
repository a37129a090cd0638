//! What `/proc` says of another process.

use crate::quit::VARIABLE;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, geteuid, test_kill_process};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The name of the thread that receives observers' signals.
const MONITOR: &str = "baton-monitor";

/// The thread of a program that receives observers' signals, if it has one. It runs no code of the
/// program. On other threads, the signal would end a wait of a library, such as `poll`, with EINTR.
pub(super) fn receiver_of(pid: u32) -> Option<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    threads.flatten().find_map(|thread| {
        let name = fs::read(thread.path().join("comm")).ok()?;
        let number = thread.file_name().to_str()?.parse().ok()?;
        (name.trim_ascii_end() == MONITOR.as_bytes()).then_some(number)
    })
}

/// Whether the program's executable, or a library that it has loaded, is Baton's. Others may end at
/// a SIGQUIT.
pub(super) fn is_of_baton(pid: u32) -> bool {
    if has_marker(Path::new(&format!("/proc/{pid}/exe"))) {
        return true;
    }
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    loaded(&maps).any(|path| has_marker(Path::new(&format!("/proc/{pid}/root{path}"))))
}

/// The executable and the libraries that a process has loaded, by its /proc/PID/maps. Their code
/// may be executed. An emulator translates the code, and maps it to be read. So the data tells,
/// too: the process may write it, and the file does not change. What only reads a file, or writes
/// it, has not loaded it.
fn loaded(maps: &str) -> impl Iterator<Item = &str> {
    let mut last = "";
    maps.lines()
        .filter(|line| {
            let rights = line.split(' ').nth(1);
            rights.is_some_and(|rights| rights.contains('x') || rights == "rw-p")
        })
        .filter_map(|line| line.find('/').and_then(|at| line.get(at..)))
        .filter(move |&path| std::mem::replace(&mut last, path) != path)
}

/// Whether a program has given its memory back: it is ending, or its parent has not asked how it
/// ended.
pub(super) fn is_ending(pid: u32) -> bool {
    match fs::read(format!("/proc/{pid}/maps")) {
        Ok(maps) => maps.is_empty(),
        Err(error) => error.raw_os_error() == Some(Errno::SRCH.raw_os_error()),
    }
}

/// Whether a file contains the name of our variable, as each program and library of ours does.
fn has_marker(path: &Path) -> bool {
    let found = |bytes: Vec<u8>| memchr::memmem::find(&bytes, VARIABLE.as_bytes()).is_some();
    fs::read(path).is_ok_and(found)
}

/// Whether a program sees the same files by the same paths as this one. It does not if it has
/// another root, or mounts of its own: as in a container, or a service with its own `/tmp`.
pub(super) fn has_our_files(pid: u32) -> bool {
    let root = |path: &Path| {
        let found = rustix::fs::stat(path).ok()?;
        Some((found.st_dev, found.st_ino))
    };
    let mounts = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).ok();
    let theirs = root(Path::new(&format!("/proc/{pid}/root")));
    theirs.is_some() && theirs == root(Path::new("/")) && mounts(&pid.to_string()) == mounts("self")
}

/// Whether a signal waits until some thread of a program takes it.
pub(super) fn is_pending(pid: u32, signal: Signal) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    threads.into_iter().flatten().flatten().any(|thread| {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let pending = ["SigPnd:", "ShdPnd:"];
        pending.iter().any(|field| {
            let mask = status.lines().find_map(|line| line.strip_prefix(field));
            let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
            mask.is_some_and(|mask| mask & 1 << (signal.as_raw() - 1) != 0)
        })
    })
}

/// Whether no process has this number. The kernel says so even where `/proc` hides processes.
pub(super) fn is_gone(pid: u32) -> bool {
    test(pid) == Err(Errno::SRCH)
}

/// Whether this user may signal a process.
fn test(pid: u32) -> Result<(), Errno> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    number.map_or(Err(Errno::SRCH), test_kill_process)
}

/// Why `/proc` does not show a process: there is none, or `/proc` was mounted with `hidepid`.
pub(super) fn why_not_shown(pid: u32) -> String {
    match test(pid) {
        Err(Errno::SRCH) => format!("there is no process {pid}"),
        Err(_) => format!(
            "process {pid} belongs to another user, and /proc does not show whose it is (hidepid): \
             only that user and root may attach, and this is the user {}",
            geteuid().as_raw()
        ),
        Ok(()) => format!(
            "/proc does not show process {pid}, which exists: /proc is not mounted here, or the \
             program may not be looked into (prctl PR_SET_DUMPABLE)"
        ),
    }
}

/// The value of a variable in the bytes of /proc/PID/environ.
pub(super) fn value_of(environment: &[u8], name: &str) -> Option<OsString> {
    let name = OsStr::new(name).as_bytes();
    let value = environment
        .split(|&byte| byte == 0)
        .find_map(|variable| variable.strip_prefix(name)?.strip_prefix(b"="));
    value.map(|value| OsString::from_vec(value.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        let environment = b"XDG_RUNTIME_DIRS=/wrong\0A=b\0XDG_RUNTIME_DIR=/run/user/7\0";
        let value = value_of(environment, "XDG_RUNTIME_DIR");
        assert_eq!(value.as_deref(), Some(OsStr::new("/run/user/7")));
        assert_eq!(value_of(b"", "A"), None);
    }

    #[test]
    fn what_is_loaded_has_code_or_data_of_its_own() {
        let maps = "\
5500000000-5502378000 r--p 00000000 fe:00 65  /bin/emulated
5502383000-5502470000 r--p 02383000 fe:00 65  /bin/emulated
5502470000-5502473000 rw-p 02470000 fe:00 65  /bin/emulated
5502473000-5502500000 rw-p 00000000 00:00 0  [heap]
7f0000000000-7f0000001000 r--p 00000000 fe:00 66  /only/read
7f0000001000-7f0000002000 rw-s 00000000 fe:00 67  /only/written
7f0000002000-7f0000003000 r-xp 00000000 fe:00 68  /lib/native
7f0000003000-7f0000004000 rw-p 00001000 fe:00 68  /lib/native
";
        let found: Vec<_> = loaded(maps).collect();
        assert_eq!(found, ["/bin/emulated", "/lib/native"]);
    }

    /// A child that can be stopped. It is killed when this is dropped.
    struct Sleeping(Child);

    impl Sleeping {
        fn start() -> Sleeping {
            let child = Command::new("sleep").arg("60").spawn();
            Sleeping(child.expect("it starts"))
        }

        fn signal(&self, signal: Signal) {
            let pid = Pid::from_child(&self.0);
            rustix::process::kill_process(pid, signal).expect("it lives");
        }
    }

    impl Drop for Sleeping {
        fn drop(&mut self) {
            self.0.kill().expect("it can be killed");
            self.0.wait().expect("it ends");
        }
    }

    #[test]
    fn a_signal_that_no_thread_has_taken_is_pending() {
        let child = Sleeping::start();
        child.signal(Signal::STOP);
        // Shells have background commands ignore SIGQUIT, so this is another one.
        assert!(!is_pending(child.0.id(), Signal::USR1));
        child.signal(Signal::USR1);
        assert!(is_pending(child.0.id(), Signal::USR1));
    }

    #[test]
    fn a_process_that_is_not_shown_is_told_apart_from_none() {
        let child = Sleeping::start();
        let pid = child.0.id();
        assert!(!is_gone(pid));
        assert!(why_not_shown(pid).contains("which exists"));
        drop(child);
        assert!(is_gone(pid));
        assert_eq!(why_not_shown(pid), format!("there is no process {pid}"));
        assert!(is_gone(0) && is_gone(u32::MAX));
    }
}
