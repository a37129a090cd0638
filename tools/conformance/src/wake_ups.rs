//! Counts how often the threads of a program have waited.

use std::fs;

/// The line of `/proc/PID/task/TID/status` with the number of waits of a thread (proc(5)).
const WAITS: &str = "voluntary_ctxt_switches:";

/// How often the threads of a process have waited so far; `None` where the system does not tell.
pub(crate) fn count(process: u32) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let mut sum = 0;
    for thread in threads.flatten() {
        // A thread that has ended meanwhile has no status any more.
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        sum += waits_in(&status);
    }
    Some(sum)
}

fn waits_in(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(WAITS));
    line.and_then(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn the_line_is_found() {
        let status = "Name:\tguest\nvoluntary_ctxt_switches:\t41\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(waits_in(status), 41);
        assert_eq!(waits_in("Name:\tguest\n"), 0);
    }
}
