//! The processors that this program may use: the system's statistics of them, and binding a thread
//! to one.

use std::fs;
use std::io;
use std::thread;

/// One reading. Takes some tens of microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// CPUs that this program may use.
    pub cpus: usize,
    /// CPUs of the machine, at least as many.
    pub machine: usize,
    /// Whether a control group limits its CPU time.
    pub quota: bool,
    /// Share of the last ten seconds, from 0 to 1, in which some thread of the machine waited for a
    /// CPU. Without kernel support for that: 1 if more threads are runnable now than there are
    /// CPUs, and 0 otherwise.
    pub pressure: f64,
    /// Time that the hypervisor took away, in ticks since the start of the machine; sum of all
    /// CPUs.
    pub stolen: u64,
    /// All time of all CPUs, in ticks since the start of the machine.
    pub total: u64,
}

/// Reads the system's statistics. Missing ones (no control groups, no `/proc`, or `--cfg
/// baton_portable`) count as zero or absent.
#[must_use]
pub fn read() -> Reading {
    let stat = text("/proc/stat");
    let (stolen, total) = stolen_and_total(&stat);
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    Reading {
        cpus,
        machine: cpus_in(&stat).max(cpus),
        quota: quota_in(text).is_some(),
        pressure: pressure(&text("/proc/pressure/cpu")).unwrap_or_else(|| pressure_now(&stat)),
        stolen,
        total,
    }
}

/// How many CPUs have a line of their own in `/proc/stat`.
fn cpus_in(stat: &str) -> usize {
    let numbers = stat.lines().filter_map(|line| line.strip_prefix("cpu"));
    let is_one = |rest: &&str| rest.starts_with(|letter: char| letter.is_ascii_digit());
    numbers.filter(is_one).count()
}

fn text(path: &str) -> String {
    if cfg!(baton_portable) {
        return String::new();
    }
    fs::read_to_string(path).unwrap_or_default()
}

/// How many CPUs' time the control groups of the program allow: the smallest quota of all groups
/// around it, which may be a fraction. `None` without a quota, or with `--cfg baton_portable`.
#[must_use]
pub fn quota() -> Option<f64> {
    quota_in(text)
}

/// Makes the calling thread, and the threads that it starts from now on, run on one processor only.
/// Its number is the system's, counted from 0.
///
/// # Errors
/// `EINVAL` if there is no such processor or the program may not use it. `Unsupported` where the
/// system has no such call, or with `--cfg baton_portable`.
///
/// ```
/// use baton_sys::processors::bind_this_thread;
///
/// std::thread::spawn(|| assert!(bind_this_thread(1 << 20).is_err())).join().unwrap();
/// ```
pub fn bind_this_thread(processor: usize) -> io::Result<()> {
    #[cfg(all(target_os = "linux", not(baton_portable)))]
    {
        if processor >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: all-zero bytes are an empty set; the set has room for the number, which was
        // checked; the call reads the set.
        let refused = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(processor, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
        };
        if refused == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
    #[cfg(not(all(target_os = "linux", not(baton_portable))))]
    {
        let _ = processor;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The processor that the calling thread runs on at this moment, by its number as in
/// [`bind_this_thread`]. Takes about 10 ns. `None` where the system does not tell, or with `--cfg
/// baton_portable`.
///
/// ```
/// use baton_sys::processors::{bind_this_thread, of_this_thread};
///
/// std::thread::spawn(|| {
///     if let Some(here) = of_this_thread()
///         && bind_this_thread(here).is_ok()
///     {
///         assert_eq!(of_this_thread(), Some(here));
///     }
/// })
/// .join()
/// .unwrap();
/// ```
#[must_use]
pub fn of_this_thread() -> Option<usize> {
    #[cfg(all(target_os = "linux", not(baton_portable)))]
    {
        // SAFETY: the call takes nothing and writes nothing.
        usize::try_from(unsafe { libc::sched_getcpu() }).ok()
    }
    #[cfg(not(all(target_os = "linux", not(baton_portable))))]
    {
        None
    }
}

/// Lets the calling thread, and the threads that it starts from now on, run on all processors that
/// the program's first thread may use.
///
/// # Errors
/// `Unsupported` where the system has no such call, or with `--cfg baton_portable`.
///
/// ```
/// use baton_sys::processors::{bind_this_thread, free_this_thread};
///
/// std::thread::spawn(|| {
///     if free_this_thread().is_ok() {
///         let before = std::thread::available_parallelism().unwrap();
///         let _ = bind_this_thread(0);
///         free_this_thread().unwrap();
///         assert_eq!(std::thread::available_parallelism().unwrap(), before);
///     }
/// })
/// .join()
/// .unwrap();
/// ```
pub fn free_this_thread() -> io::Result<()> {
    #[cfg(all(target_os = "linux", not(baton_portable)))]
    {
        const SIZE: usize = size_of::<libc::cpu_set_t>();
        // SAFETY: all-zero bytes are an empty set; the first call writes at most its size, and the
        // second one reads it.
        let refused = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            // The id of the program is that of its first thread.
            libc::sched_getaffinity(libc::getpid(), SIZE, &raw mut set) != 0
                || libc::sched_setaffinity(0, SIZE, &raw const set) != 0
        };
        if refused {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }
    #[cfg(not(all(target_os = "linux", not(baton_portable))))]
    {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// As [`quota`], with the texts of files.
fn quota_in(text: impl Fn(&str) -> String) -> Option<f64> {
    let files = quota_files(&text("/proc/self/cgroup"));
    let quotas = files.iter().filter_map(|file| {
        // The first version has the period in a file of its own.
        let period = match file.strip_suffix("quota_us") {
            Some(stem) => text(&format!("{stem}period_us")),
            None => String::new(),
        };
        cpus_of(&format!("{} {period}", text(file)))
    });
    quotas.min_by(f64::total_cmp)
}

/// The files that may contain a quota: one for each control group of the program, from the
/// innermost outwards (man cgroups).
fn quota_files(cgroups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in cgroups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) =
            (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (root, file) = match controllers {
            "" if number == "0" => ("/sys/fs/cgroup", "cpu.max"),
            _ if controllers.split(',').any(|name| name == "cpu") => {
                ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us")
            }
            _ => continue,
        };
        let mut group = path.trim_end_matches('/');
        loop {
            files.push(format!("{root}{group}/{file}"));
            match group.rfind('/') {
                Some(end) => group = &group[..end],
                None => break,
            }
        }
    }
    files
}

/// The number of CPUs of a quota and its period, in microseconds: a half of `50000 100000`, none of
/// `max 100000` and `-1 100000`.
fn cpus_of(quota: &str) -> Option<f64> {
    const USUAL_PERIOD: f64 = 100_000.0;
    let mut words = quota.split_ascii_whitespace().map(str::parse::<f64>);
    let quota = words.next()?.ok().filter(|&quota| quota >= 0.0)?;
    let period = words.next().and_then(Result::ok);
    Some(
        quota
            / period
                .filter(|&period| period > 0.0)
                .unwrap_or(USUAL_PERIOD),
    )
}

/// The ten-second average of the line `some` of `/proc/pressure/cpu`, in percent
/// (Documentation/accounting/psi.rst of the kernel).
fn pressure(cpu: &str) -> Option<f64> {
    let average = cpu
        .lines()
        .find_map(|line| line.strip_prefix("some avg10="))?;
    let percent: f64 = average.split_ascii_whitespace().next()?.parse().ok()?;
    Some(percent / 100.0)
}

/// The pressure from `/proc/stat`: it has one line for each CPU, and `procs_running`, which
/// includes this thread.
fn pressure_now(stat: &str) -> f64 {
    let running = stat
        .lines()
        .find_map(|line| line.strip_prefix("procs_running "));
    let running: usize = running
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0);
    let cpus = stat.lines().filter(|line| line.starts_with("cpu")).count();
    // One more line is the sum of all.
    if running > cpus.saturating_sub(1).max(1) {
        1.0
    } else {
        0.0
    }
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; guest
/// time is in user time already.
fn stolen_and_total(stat: &str) -> (u64, u64) {
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line
        .split_ascii_whitespace()
        .skip(1)
        .map_while(|word| word.parse().ok())
        .collect();
    let counted = &ticks[..ticks.len().min(8)];
    (counted.get(7).copied().unwrap_or(0), counted.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_processors_and_its_time_goes_on() {
        let reading = read();
        assert!(reading.cpus >= 1);
        assert!(reading.stolen <= reading.total);
        assert_eq!(reading.total > 0, !cfg!(baton_portable));
    }

    #[test]
    fn every_group_around_the_program_is_asked() {
        let expected = [
            "/sys/fs/cgroup/a/b/cpu.max",
            "/sys/fs/cgroup/a/cpu.max",
            "/sys/fs/cgroup/cpu.max",
        ];
        assert_eq!(quota_files("0::/a/b\n"), expected);
        assert_eq!(quota_files("0::/\n"), ["/sys/fs/cgroup/cpu.max"]);
    }

    #[test]
    fn groups_of_the_first_version_are_asked_too() {
        let files = quota_files("7:memory:/x\n3:cpu,cpuacct:/x\n1:name=systemd:/x\n");
        assert_eq!(
            files,
            [
                "/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us",
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"
            ]
        );
        assert!(quota_files("nonsense\n").is_empty());
    }

    #[test]
    fn a_number_is_a_quota_and_max_is_none() {
        assert_eq!(cpus_of("50000 100000\n"), Some(0.5));
        assert_eq!(cpus_of("50000\n 20000\n"), Some(2.5));
        assert_eq!(cpus_of("50000\n "), Some(0.5));
        for none in ["max 100000\n", "-1\n 100000\n", "", " "] {
            assert_eq!(cpus_of(none), None);
        }
    }

    #[test]
    fn the_smallest_quota_of_all_groups_counts() {
        let second = |path: &str| {
            let text = match path {
                "/proc/self/cgroup" => "0::/a/b\n",
                "/sys/fs/cgroup/a/b/cpu.max" => "max 100000\n",
                "/sys/fs/cgroup/a/cpu.max" => "150000 100000\n",
                "/sys/fs/cgroup/cpu.max" => "400000 100000\n",
                _ => "",
            };
            text.to_owned()
        };
        assert_eq!(quota_in(second), Some(1.5));
        let first = |path: &str| {
            let text = match path {
                "/proc/self/cgroup" => "3:cpu,cpuacct:/x\n",
                "/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us" => "30000\n",
                "/sys/fs/cgroup/cpu/x/cpu.cfs_period_us" => "10000\n",
                "/sys/fs/cgroup/cpu/cpu.cfs_quota_us" => "-1\n",
                _ => "",
            };
            text.to_owned()
        };
        assert_eq!(quota_in(first), Some(3.0));
        assert_eq!(quota_in(|_| String::new()), None);
    }

    #[test]
    fn pressure_is_the_average_of_the_last_ten_seconds() {
        let cpu = "some avg10=22.50 avg60=27.53 avg300=14.63 total=2166046165\nfull avg10=0.00 \
                   avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(pressure(cpu), Some(0.225));
        assert_eq!(pressure(""), None);
    }

    #[test]
    fn without_an_account_of_pressure_runnable_threads_are_counted() {
        let stat =
            |running| format!("cpu 1 2\ncpu0 1 2\ncpu1 1 2\nintr 5\nprocs_running {running}\n");
        assert_eq!(
            [1, 2, 3].map(|running| pressure_now(&stat(running))),
            [0.0, 0.0, 1.0]
        );
        assert_eq!(pressure_now(""), 0.0);
    }

    #[test]
    fn stolen_time_is_the_eighth_figure_and_guest_time_is_not_counted_twice() {
        let stat = "cpu  10 1 20 300 4 5 6 7 10 1\ncpu0 1 2 3\n";
        assert_eq!(stolen_and_total(stat), (7, 353));
        assert_eq!(stolen_and_total("cpu 1 2 3 4\n"), (0, 10));
        assert_eq!(stolen_and_total(""), (0, 0));
    }
}
