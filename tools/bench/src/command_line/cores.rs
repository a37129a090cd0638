//! The options of the experiment `cores`.

use clap::{Args, ValueEnum};

use super::some_seconds;

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CoresPart {
    /// Work for the processor by one worker and by two
    Map,
    /// Messages of 11 B to 64 MB
    Message,
    /// Frozen values and moved buffers
    Reference,
    /// The start, memory and idle wake-ups of VMs
    Spawn,
    /// Servers in one VM and in two
    Serve,
}

impl CoresPart {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::Message => "message",
            Self::Reference => "reference",
            Self::Spawn => "spawn",
            Self::Serve => "serve",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CoresOptions {
    /// How often each system is tried in each case
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Only these parts, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PARTS",
        default_values_t = CoresPart::value_variants().to_vec(), hide_default_value = true)]
    pub(crate) only: Vec<CoresPart>,

    /// Seconds that the work takes one worker at least
    #[arg(long, default_value = "0.3", value_parser = some_seconds)]
    pub(crate) work: f64,

    /// Seconds in which messages and references are passed at least
    #[arg(long, default_value = "0.1", value_parser = some_seconds)]
    pub(crate) seconds: f64,

    /// Bytes of the largest message; the steps are 11, 64, 1024, 65,536, 3,000,000, 64,000,000
    #[arg(long, default_value_t = 64_000_000)]
    pub(crate) largest: u64,

    /// Bytes of the larger heap from which a message is sent
    #[arg(long, default_value_t = 500_000_000)]
    pub(crate) heap: u64,

    /// The number of VMs that are started at once; other systems start a tenth
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) vms: u32,

    /// Seconds in which the wake-ups of idle VMs are counted
    #[arg(long, default_value = "2", value_parser = some_seconds)]
    pub(crate) idle: f64,

    /// Connections of the servers
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) connections: u64,

    /// Seconds of load on the servers
    #[arg(long, default_value = "2", value_parser = some_seconds)]
    pub(crate) load: f64,

    /// Start the servers by `chrt --batch 0`: they do not preempt the client that loads them
    #[arg(long)]
    pub(crate) batch: bool,
}

#[cfg(test)]
impl CoresOptions {
    /// Options for a quick run.
    pub(crate) fn quick() -> Self {
        Self {
            rounds: 1,
            only: CoresPart::value_variants().to_vec(),
            work: 0.01,
            seconds: 0.001,
            largest: u64::MAX,
            heap: 1_000_000,
            vms: 10,
            idle: 0.1,
            connections: 1,
            load: 0.1,
            batch: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_its_name_on_the_command_line() {
        for part in CoresPart::value_variants() {
            let name = part.to_possible_value().unwrap();
            assert_eq!(name.get_name(), part.name());
        }
    }
}
