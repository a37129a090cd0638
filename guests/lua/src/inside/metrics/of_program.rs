//! Metrics of the program as a process of the system, by the names that Prometheus' libraries use;
//! and which build it is.

use baton_formats::metrics::{Family, FamilyKind, MetricProblem, Number};
use baton_observe::usage::Usage;

/// The version of Lua that is linked in.
const LUA: &str = "5.4";

/// What the system knows of the program, and its build.
pub(super) fn families() -> Result<Vec<Family>, MetricProblem> {
    let usage = Usage::read();
    let seconds = |time: std::time::Duration| Number::Real(time.as_secs_f64());
    let natural = |number: Option<u64>| number.map(Number::Natural);
    let all = [
        (
            FamilyKind::Counter,
            "process_cpu_seconds",
            "processor time of all threads, of the user and the system",
            Some(seconds(usage.processor_time)),
        ),
        (
            FamilyKind::Gauge,
            "process_resident_memory_bytes",
            "memory of the program that is in RAM",
            natural(usage.resident),
        ),
        (
            FamilyKind::Gauge,
            "process_virtual_memory_bytes",
            "address space of the program",
            natural(usage.address_space),
        ),
        (
            FamilyKind::Gauge,
            "process_open_fds",
            "open descriptors",
            natural(usage.descriptors),
        ),
        (
            FamilyKind::Gauge,
            "process_max_fds",
            "the most descriptors that may be open",
            natural(usage.most_descriptors),
        ),
        (
            FamilyKind::Gauge,
            "process_start_time_seconds",
            "when the program started, in seconds since 1970",
            usage.started.map(seconds),
        ),
    ];
    let mut families = vec![build()?];
    for (kind, name, help, value) in all {
        let Some(value) = value else { continue };
        let mut family = Family::new(kind, name, help)?;
        family.add(&[], value)?;
        families.push(family);
    }
    Ok(families)
}

fn build() -> Result<Family, MetricProblem> {
    let help = "always 1; the labels say which Baton this is";
    let mut family = Family::new(FamilyKind::Gauge, "baton_build_info", help)?;
    let checks = match cfg!(debug_assertions) {
        true => "on",
        false => "off",
    };
    family.add(
        &[
            ("version", env!("CARGO_PKG_VERSION").as_bytes()),
            ("lua", LUA.as_bytes()),
            ("architecture", std::env::consts::ARCH.as_bytes()),
            ("assertions", checks.as_bytes()),
        ],
        1_u64,
    )?;
    Ok(family)
}
