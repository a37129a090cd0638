//! The command line: all experiments and their options. The doc comments here are the text of
//! `--help`.

mod blocking;
mod cluster;
mod cores;
mod every;

pub(crate) use blocking::{Beside, BlockingOptions, Caller, Transport};
pub(crate) use cluster::ClusterOptions;
pub(crate) use cores::{CoresOptions, CoresPart};
pub(crate) use every::every_experiment;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::interpreters::Paths;

const EXAMPLES: &str = "\
Examples:
  baton-bench lua --rounds 9 --json lua.json     one experiment, its samples kept
  baton-bench switch --charts charts             its charts as SVG files
  baton-bench report lua.json scale.json --html page.html
                                                 one page of what was measured before
  baton-bench all --html page.html               everything, as one page; takes about two hours";

/// Measures Baton and its peers on this machine, in one run.
///
/// Absolute times mean little on another machine. The result is the ratios between systems that
/// took turns in the same run. The exit status is 1 if an experiment fails, if a goal could not be
/// tried, or, with --check, if a goal was missed.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 120, after_help = EXAMPLES)]
pub(crate) struct CommandLine {
    #[command(flatten)]
    pub(crate) paths: Paths,

    /// Write machine facts, tables, charts, verdicts and all samples to this file
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write every chart as an SVG file into this directory
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub(crate) charts: Option<PathBuf>,

    /// Write one self-contained page with verdicts, charts and tables
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Exit with status 1 if a goal is missed
    #[arg(long, global = true)]
    pub(crate) check: bool,

    #[command(subcommand)]
    pub(crate) experiment: Experiment,
}

/// One experiment.
#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    /// The speed of plain Lua: the same programs under baton, stock Lua and the distribution's Lua
    Lua(LuaOptions),
    /// The time of a switch: yield, channel, semaphore, spawn and join; compared with Lua's
    /// coroutines, Go, Erlang, may, Boost.Fiber
    Switch(SwitchOptions),
    /// The time to leave a VM and to enter it again, by a guest in C: with the shared and the
    /// static library
    Gate(GateOptions),
    /// Thread-Metric, eight tests of a scheduler: in Rust and from Lua; compared with the bare
    /// stack switch and with peers
    ThreadMetric(ThreadMetricOptions),
    /// Up to a million sleeping processes: time and memory of each, longest pause of the collector;
    /// compared with Go, Erlang, coroutines
    Scale(ScaleOptions),
    /// The lateness of an urgent process that sleeps 1 ms at a time, alone and beside busy or
    /// blocking processes
    Latency(LatencyOptions),
    /// How processes share the CPU: a calculation beside an event loop as in 1997, 2 to 1000 equal
    /// processes, and endless loops in different parts of Lua
    Fairness(FairnessOptions),
    /// The CPU time and latency that another program loses beside forty or forty thousand dining
    /// philosophers
    Philosophers(PhilosophersOptions),
    /// The cost of programs that only wait, in seven ways: wake-ups, CPU time, energy; compared
    /// with asyncio, Node, Go, Java, Erlang, OpenSmalltalk
    Idle(IdleOptions),
    /// Blocking C calls at the same time, and beside a ticking process; with --beside sockets,
    /// beside clients of an echo server
    Blocking(BlockingOptions),
    /// The cost of each spin policy: computed for recorded waits, and measured with threads,
    /// programs, frames and timers
    Spin(SpinOptions),
    /// The lateness of sleeps of 50 us to 10 ms; compared with a bare timer, asyncio, Node, Go,
    /// Java, Erlang
    Delay(DelayOptions),
    /// GildaVM's tables: switching beside a watchdog, long and short calls by one process and by
    /// two; compared with C, Python, Go, Ruby, LuaJIT
    Gilda(GildaOptions),
    /// The throughput of two processes that call C, by the length of the calls and by the
    /// watchdog's window
    Window(WindowOptions),
    /// Bursts of blocking calls: native threads made on demand or in advance, and limits on their
    /// number
    Threads(ThreadsOptions),
    /// The time to set, cancel and expire a timer, beside a thousand others and beside a million
    Timers(TimersOptions),
    /// A simple server at up to 10,000 connections, echo and HTTP; compared with Copas, cqueues,
    /// luv, nginx, Tarantool, Node, Go
    Net(NetOptions),
    /// A thousand HTTP requests to a slow server at once, and the lateness of waiting processes
    /// beside C calls of one second
    Slow(SlowOptions),
    /// The cost of being looked at: profiles, traces, the flight recorder and top, of an echo
    /// server, plain Lua and 10,000 processes
    Observe(ObserveOptions),
    /// Several VMs in one program, one core each: work, messages, references, starts, servers;
    /// compared with Node, Python, Go, Erlang
    Cores(CoresOptions),
    /// Durable queues over a NATS server: rates and times of jobs, and calls; compared with clients
    /// of Go and Python
    Cluster(ClusterOptions),
    /// Runs every experiment above, one after another
    All(AllOptions),
    /// Prints what earlier runs wrote with --json; with --html, several of them as one page
    Report(ReportOptions),
}

#[derive(Debug, Args)]
pub(crate) struct LuaOptions {
    /// How often each program runs under each interpreter
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Only these programs, by name, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) programs: Vec<String>,

    /// Count the instructions of one smaller run each (perf, else valgrind) instead of measuring
    /// time
    #[arg(long)]
    pub(crate) count: bool,

    /// Run the smaller sizes of --count, to try the programs rather than to measure
    #[arg(long)]
    pub(crate) small: bool,

    /// List the programs and end
    #[arg(long)]
    pub(crate) list: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SwitchOptions {
    /// How often each case runs
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Operations per run; spawn and join makes a tenth
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    pub(crate) iterations: u64,
}

#[derive(Debug, Args)]
pub(crate) struct GateOptions {
    /// How often each program runs
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Pairs of leave and enter per run
    #[arg(long, default_value_t = 9_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    pub(crate) pairs: u64,

    /// Where the library is installed
    #[arg(long, default_value = "target/libbaton", value_name = "DIRECTORY")]
    pub(crate) prefix: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ThreadMetricOptions {
    /// How often each test runs
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Seconds for which each test counts; the original counts for 30
    #[arg(long, default_value_t = 3.0)]
    pub(crate) seconds: f64,

    /// Count the instructions of the runtime's operations (valgrind) instead
    #[arg(long)]
    pub(crate) count: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ScaleOptions {
    /// How often each number is tried
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// The largest number of processes; the steps are 1000, 10,000, 100,000, 1,000,000 and this
    /// number
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
    /// Seconds that the calculation takes alone
    #[arg(long, default_value = "5", value_parser = some_seconds)]
    pub(crate) work: f64,

    /// How often the calculation runs in each way, after a first run that is discarded
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,

    /// The largest number of equal processes; the steps are 2, 10, 50, 200, 1000 up to it; a number
    /// below 10 only tries the programs
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) most: u32,

    /// Seconds that the seven endless loops run
    #[arg(long, default_value_t = 3.0)]
    pub(crate) seconds: f64,

    /// How often the loops run; the worst round counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
}

#[derive(Debug, Args)]
pub(crate) struct PhilosophersOptions {
    /// How often each case is tried
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Seconds of each measurement of the other program: while it computes, and while it sleeps and
    /// wakes
    #[arg(long, default_value = "3", value_parser = some_seconds)]
    pub(crate) seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct IdleOptions {
    /// Seconds before the first snapshot of the usage
    #[arg(long, default_value = "5", value_parser = seconds)]
    pub(crate) settle: f64,

    /// Seconds between the first snapshot and the last
    #[arg(long, default_value = "60", value_parser = seconds)]
    pub(crate) seconds: f64,

    /// What the programs wait for, separated by commas
    #[arg(long, value_enum, value_delimiter = ',',
        default_values_t = IdleCase::value_variants().to_vec(), hide_default_value = true)]
    pub(crate) cases: Vec<IdleCase>,

    /// Run one program at a time instead of all together, so that the machine's energy is that
    /// program's
    #[arg(long)]
    pub(crate) apart: bool,

    /// Sleeps of 50 us and of 1 ms in the same run, whose lateness is measured; 500 and 1,000 if
    /// not given
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) sleeps: Option<u32>,
}

/// What a program waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IdleCase {
    /// Nothing
    Nothing,
    /// A timer that fires once a second
    Second,
    /// A listening socket to which nothing connects
    Listen,
    /// 10,000 processes that wait for each other
    Crowd,
    /// A timer that is set to an hour from now
    Hour,
    /// Nothing, right after a calculation
    Busy,
    /// A timer that fires a thousand times a second
    Kilohertz,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|seconds| (0.0..=86_400.0).contains(seconds));
    number.ok_or_else(|| "from 0 to 86400 seconds expected".to_string())
}

#[derive(Debug, Args)]
pub(crate) struct SlowOptions {
    /// The number of simultaneous requests; each needs a descriptor here and one in the server
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) requests: u32,

    /// The number of waiting processes whose lateness is measured
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) waiting: u32,
}

#[derive(Debug, Args)]
pub(crate) struct SpinOptions {
    /// A trace instead of the five: on each line the microseconds of a wait, then `timer` if a
    /// deadline ended it
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// How often each way of waiting is tried under each policy
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Seconds for which a program waits
    #[arg(long, default_value = "1", value_parser = some_seconds)]
    pub(crate) seconds: f64,
}

fn some_seconds(text: &str) -> Result<f64, String> {
    seconds(text).and_then(|number| match number > 0.0 {
        true => Ok(number),
        false => Err("more than 0 seconds expected".to_string()),
    })
}

#[derive(Debug, Args)]
pub(crate) struct DelayOptions {
    /// How often each case runs
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Sleeps in each run; if not given, 1000 for sleeps of 1 ms with nothing beside them, else 500
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) sleeps: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct GildaOptions {
    /// How often each case runs
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Turns of the loop in the processes that compute and switch
    #[arg(long, default_value_t = 20_000_000,
        value_parser = clap::value_parser!(u64).range(10_000..))]
    pub(crate) turns: u64,

    /// Seconds of a long call
    #[arg(long, default_value_t = 1.0)]
    pub(crate) seconds: f64,

    /// The number of short calls
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..))]
    pub(crate) calls: u64,

    /// The number of calls that do nothing, which give the cost of a call
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(100..))]
    pub(crate) price: u64,
}

#[derive(Debug, Args)]
pub(crate) struct WindowOptions {
    /// How often each length of calls is tried under each window
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Seconds of calls by one process, five times in a run
    #[arg(long, default_value_t = 0.05)]
    pub(crate) seconds: f64,

    /// The longest calls, in seconds
    #[arg(long, default_value_t = 0.1)]
    pub(crate) longest: f64,
}

#[derive(Debug, Args)]
pub(crate) struct ThreadsOptions {
    /// How often each burst is tried
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// The largest number of calls at once; the steps are 1, 3, 10, 30, 100, 300, 1000 up to it
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) largest: u64,

    /// Milliseconds of each call
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) milliseconds: u64,

    /// Milliseconds of each call of the crowd, which has ten processes with one call each for every
    /// thread
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) crowd_milliseconds: u64,
}

#[derive(Debug, Args)]
pub(crate) struct TimersOptions {
    /// How often each number is tried
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// The largest number of timers at once; the steps are 1,000, 10,000, 100,000, 1,000,000 up to
    /// it
    #[arg(long, default_value_t = 1_000_000,
        value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) largest: u64,
}

#[derive(Debug, Args)]
pub(crate) struct NetOptions {
    /// How often each server is tried in each case
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Seconds of load
    #[arg(long, default_value = "2", value_parser = some_seconds)]
    pub(crate) seconds: f64,

    /// The largest number of connections; the steps are 1, 100, 1000, 10,000 up to it
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) most: u64,

    /// Only this protocol: echo, http, wrk, json, or work (JSON beside handlers that compute)
    #[arg(long, value_parser = ["echo", "http", "wrk", "json", "work"])]
    pub(crate) only: Option<String>,

    /// Count the system calls of each answer instead, with strace
    #[arg(long)]
    pub(crate) calls: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ObserveOptions {
    /// How often each program is tried with each observer
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Pairs of intervals in each run of the server: one with an observer, one without
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pairs: u32,

    /// Seconds of an interval
    #[arg(long, default_value = "1", value_parser = some_seconds)]
    pub(crate) seconds: f64,

    /// Only these observers, by name, separated by commas: nobody, cpu, waits, alloc, flight,
    /// trace, top
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) observers: Vec<String>,

    /// Connections of the echo server
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) connections: u64,

    /// Only these programs in plain Lua, by name, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) programs: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AllOptions {
    /// Run everything as small as possible, to try the programs; the figures mean nothing
    #[arg(long)]
    pub(crate) quick: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    /// Files that --json wrote
    #[arg(required = true, value_name = "FILES")]
    pub(crate) files: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_of_the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }
}
