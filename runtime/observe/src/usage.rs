//! What the program uses of the system: processor time, memory, descriptors. Read when asked.
//!
//! Without `/proc`, or with `--cfg baton_portable`, only some of it is known.

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::Duration;

/// What the program uses now. `None`: the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// The processor time of all threads so far.
    pub processor_time: Duration,
    /// The memory that is in RAM, in bytes.
    pub resident: Option<u64>,
    /// The address space, in bytes.
    pub address_space: Option<u64>,
    /// How many descriptors are open.
    pub descriptors: Option<u64>,
    /// How many may be open at most. `None` also if there is no limit.
    pub most_descriptors: Option<u64>,
    /// When the program started, as the time since 1970.
    pub started: Option<Duration>,
}

impl Usage {
    /// Reads it. Takes some tens of microseconds, and more with thousands of descriptors.
    #[must_use]
    pub fn read() -> Usage {
        let stat = text("/proc/self/stat");
        let processor_time = clock_gettime(ClockId::ProcessCPUTime);
        Usage {
            processor_time: Duration::try_from(processor_time).unwrap_or_default(),
            resident: field(&stat, 24).map(|pages| pages * rustix::param::page_size() as u64),
            address_space: field(&stat, 23),
            descriptors: open_descriptors(),
            most_descriptors: getrlimit(Resource::Nofile).current,
            started: started(
                &stat,
                &text("/proc/stat"),
                rustix::param::clock_ticks_per_second(),
            ),
        }
    }
}

fn text(path: &str) -> String {
    if cfg!(baton_portable) {
        return String::new();
    }
    fs::read_to_string(path).unwrap_or_default()
}

/// A number of `/proc/self/stat`, as proc(5) counts them. The second one, a name, may contain
/// spaces and parentheses.
fn field(stat: &str, number: usize) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(number - 3)?.parse().ok()
}

/// Without the one that lists them.
fn open_descriptors() -> Option<u64> {
    if cfg!(baton_portable) {
        return None;
    }
    let listed = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    Some(listed.saturating_sub(1))
}

/// The start in ticks since the start of the machine, and the second of that.
fn started(own: &str, machine: &str, ticks_per_second: u64) -> Option<Duration> {
    let booted = machine
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?;
    let booted = Duration::from_secs(booted.trim().parse().ok()?);
    let later = field(own, 22)? as f64 / ticks_per_second as f64;
    Some(booted + Duration::from_secs_f64(later))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "77 (a ) b) S 1 77 77 0 -1 4194304 100 0 0 0 5 6 0 0 20 0 3 0 1250 9000 40 1";

    #[test]
    fn a_name_with_parentheses_moves_no_field() {
        assert_eq!(field(STAT, 22), Some(1250));
        assert_eq!(field(STAT, 23), Some(9000));
        assert_eq!(field(STAT, 24), Some(40));
        assert_eq!(field(STAT, 99), None);
        assert_eq!(field("", 22), None);
    }

    #[test]
    fn the_start_is_counted_from_the_start_of_the_machine() {
        let machine = "cpu 1 2 3\nbtime 1000\nprocesses 4\n";
        assert_eq!(
            started(STAT, machine, 100),
            Some(Duration::from_millis(1_012_500))
        );
        assert_eq!(started(STAT, "cpu 1\n", 100), None);
    }

    #[test]
    fn this_program_uses_something() {
        let usage = Usage::read();
        assert!(!usage.processor_time.is_zero());
        if cfg!(all(target_os = "linux", not(baton_portable))) {
            assert!(usage.resident > Some(1 << 16) && usage.address_space >= usage.resident);
            assert!(usage.descriptors >= Some(3) && usage.descriptors < usage.most_descriptors);
            let now = std::time::SystemTime::now();
            let now = now
                .duration_since(std::time::UNIX_EPOCH)
                .expect("it is later");
            let started = usage.started.expect("it is known");
            // The machine may be adjusting its clock.
            assert!(
                started < now + Duration::from_secs(60),
                "{started:?} {now:?}"
            );
            assert!(
                started + Duration::from_secs(24 * 3600) > now,
                "{started:?} {now:?}"
            );
        }
    }
}
