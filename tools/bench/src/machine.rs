//! Describes the machine that the figures come from.

use std::fs;
use std::str::FromStr;
use std::time::SystemTime;

use serde_json::{Value, json};

/// CPU, kernel, memory, load and time of day, as far as the system provides them.
pub(crate) fn facts() -> Value {
    let cpus = std::thread::available_parallelism()
        .map(|cpus| cpus.get())
        .ok();
    json!({
        "cpu_model": field("/proc/cpuinfo", "model name"),
        "cpus": cpus,
        "kernel": line("/proc/sys/kernel/osrelease"),
        "memory_kib": memory_kib("MemTotal"),
        "load_average": line("/proc/loadavg"),
        "governor": line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "time": humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        "bench_version": env!("CARGO_PKG_VERSION"),
    })
}

/// A line of `/proc/meminfo`, in KiB.
pub(crate) fn memory_kib(name: &str) -> Option<u64> {
    number("/proc/meminfo", name)
}

/// The number in the first line `name: number` in a file under `/proc`.
pub(crate) fn number<N: FromStr>(path: &str, name: &str) -> Option<N> {
    field(path, name)?.split_whitespace().next()?.parse().ok()
}

fn line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next()?.to_string())
}

/// The value of the first line `name: value` in a file under `/proc`.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let value = |line: &str| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_string())
    };
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory_a_kernel_and_a_process_status() {
        assert!(memory_kib("MemTotal").is_some_and(|kib| kib > 0));
        assert!(line("/proc/sys/kernel/osrelease").is_some());
        assert_eq!(
            field("/proc/self/status", "Pid"),
            Some(std::process::id().to_string())
        );
        assert_eq!(field("/proc/self/status", "No such field"), None);
    }
}
