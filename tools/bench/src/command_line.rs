//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Measures Baton beside its peers, on this machine, in one run.
///
/// Absolute times mean little on another machine; the ratios between arms that ran interleaved are the result.
/// The exit status is 1 if an experiment fails, if a goal could not be tried, or, with --check, if one was missed.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 120)]
pub(crate) struct CommandLine {
    /// The `baton` to measure [default: the release build of this tree]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) baton: Option<PathBuf>,

    /// The stock Lua from the same sources [default: the one built along with this program]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) stock: Option<PathBuf>,

    /// The distribution's Lua
    #[arg(long, global = true, value_name = "PATH", default_value = "lua5.4")]
    pub(crate) debian: PathBuf,

    /// Write machine facts, verdicts and all samples to this file
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Exit with status 1 when a goal is missed
    #[arg(long, global = true)]
    pub(crate) check: bool,

    #[command(subcommand)]
    pub(crate) experiment: Experiment,
}

/// One experiment.
#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    /// The price of plain Lua: programs of our own under baton, stock Lua and the distribution's Lua
    Lua(LuaOptions),
    /// The price of a switch: yield, channel, semaphore, spawn and join, beside stock Lua's coroutines
    Switch(SwitchOptions),
    /// Up to a million sleeping processes: time and memory each, longest collector pause
    Scale(ScaleOptions),
    /// How late an urgent process wakes that sleeps 1 ms at a time, alone and beside busy and blocking ones
    Latency(LatencyOptions),
    /// How seven endless loops inside different parts of Lua share the CPU
    Fairness(FairnessOptions),
    /// What a program costs that only sleeps: context switches and CPU time
    Idle(IdleOptions),
    /// Blocking C calls beside each other and beside a ticking process
    Blocking(BlockingOptions),
}

impl Experiment {
    /// The name it was called by.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Lua(_) => "lua",
            Self::Switch(_) => "switch",
            Self::Scale(_) => "scale",
            Self::Latency(_) => "latency",
            Self::Fairness(_) => "fairness",
            Self::Idle(_) => "idle",
            Self::Blocking(_) => "blocking",
        }
    }
}

/// Which clock the ratios of `lua` come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Clock {
    /// User and system CPU time together, of all threads
    Cpu,
    /// User CPU time of all threads (the kernel samples the split)
    User,
    /// Elapsed time
    Wall,
}

impl Clock {
    /// What a table's head calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::User => "user CPU",
            Self::Wall => "elapsed",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct LuaOptions {
    /// How often each program runs under each interpreter
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Only these programs, by name, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) programs: Vec<String>,

    /// The clock that the ratios come from
    #[arg(long, value_enum, default_value_t = Clock::Cpu)]
    pub(crate) clock: Clock,

    /// Count instructions of one smaller run each (perf, else valgrind) instead of measuring time
    #[arg(long)]
    pub(crate) count: bool,

    /// List the programs and end
    #[arg(long)]
    pub(crate) list: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SwitchOptions {
    /// How often each case runs
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Operations per run; spawn and join takes a tenth
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    pub(crate) iterations: u64,
}

#[derive(Debug, Args)]
pub(crate) struct ScaleOptions {
    /// The largest number of processes; the steps are 1000, 10,000, 100,000, 1,000,000 up to it, and it
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max: u64,
}

#[derive(Debug, Args)]
pub(crate) struct LatencyOptions {
    /// Seconds per variant
    #[arg(long, default_value_t = 5.0)]
    pub(crate) seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct FairnessOptions {
    /// Seconds that the loops run
    #[arg(long, default_value_t = 3.0)]
    pub(crate) seconds: f64,

    /// How often it is done; the worst round counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
}

#[derive(Debug, Args)]
pub(crate) struct IdleOptions {
    /// Seconds before the first look
    #[arg(long, default_value_t = 5.0)]
    pub(crate) settle: f64,

    /// Seconds between the two looks
    #[arg(long, default_value_t = 40.0)]
    pub(crate) seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct BlockingOptions {
    /// How many processes block at a time
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) processes: u32,
}
