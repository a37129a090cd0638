//! The command line.

mod every;

pub(crate) use every::every_experiment;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  baton-bench lua --rounds 9 --json lua.json     one experiment, its samples kept
  baton-bench switch --charts charts             its charts as SVG files
  baton-bench report lua.json scale.json --html page.html
                                                 one page of what was measured before
  baton-bench all --html page.html               everything, as one page; takes about two hours";

/// Measures Baton beside its peers, on this machine, in one run.
///
/// Absolute times mean little on another machine; the ratios between arms that ran interleaved are the result.
/// The exit status is 1 if an experiment fails, if a goal could not be tried, or, with --check, if one was missed.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 120, after_help = EXAMPLES)]
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

    /// The directory of the peers that are not Lua [default: where `cargo xtask peers` builds them]
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub(crate) peers: Option<PathBuf>,

    /// Write machine facts, tables, charts, verdicts and all samples to this file
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write every chart as an SVG file into this directory
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub(crate) charts: Option<PathBuf>,

    /// Write a page with verdicts, charts and tables, complete in one file
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

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
    /// The price of a switch: yield, channel, semaphore, spawn and join, beside Lua's coroutines, Go, Erlang, may, Boost.Fiber
    Switch(SwitchOptions),
    /// Thread-Metric: eight tests of a kernel, at the runtime's own interface and from Lua, beside the bare stack switch and peers
    ThreadMetric(ThreadMetricOptions),
    /// Up to a million sleeping processes: time and memory each, longest collector pause; beside Go, Erlang, coroutines
    Scale(ScaleOptions),
    /// How late an urgent process wakes that sleeps 1 ms at a time, alone and beside busy and blocking ones
    Latency(LatencyOptions),
    /// A calculation beside an event loop as in 1997, shares of 2 to 1000 processes, and endless loops in different parts of Lua
    Fairness(FairnessOptions),
    /// What another program on the machine loses to forty dining philosophers, and to forty thousand
    Philosophers(PhilosophersOptions),
    /// What programs cost that only wait, in seven ways: wake-ups, CPU time, energy; beside asyncio, Node, Go, Java, Erlang, OpenSmalltalk
    Idle(IdleOptions),
    /// Blocking C calls beside each other and beside a ticking process
    Blocking(BlockingOptions),
    /// One test of Thread-Metric at the runtime's interface, for `thread-metric` to run
    #[command(hide = true)]
    Runtime(RuntimeOptions),
    /// One operation of the runtime so many times, for `thread-metric --count` to run
    #[command(hide = true)]
    Operation(OperationOptions),
    /// What each spin policy pays: computed for traces of waits, and measured at waits for threads, programs, frames, timers
    Spin(SpinOptions),
    /// How late sleeps of 50 us to 10 ms end, beside a bare timer, asyncio, Node, Go, Java, Erlang
    Delay(DelayOptions),
    /// GildaVM's tables: switching beside a watchdog, long and short calls by one process and two; beside C, Python, Go, Ruby, LuaJIT
    Gilda(GildaOptions),
    /// What two processes get done that call C, by length of the calls and by the watchdog's window
    Window(WindowOptions),
    /// Bursts of blocking calls: native threads made lazily or eagerly, and bounds on their number
    Threads(ThreadsOptions),
    /// What a timer costs to set, to cancel and to meet, beside a thousand others and beside a million
    Timers(TimersOptions),
    /// A textbook server at up to 10,000 connections, echo and HTTP; beside Copas, cqueues, luv, nginx, Tarantool, Node, Go
    Net(NetOptions),
    /// A thousand HTTP requests to a slow server at once, and how late parked processes are beside calls of C that last a second
    Slow(SlowOptions),
    /// Every experiment above, one after another
    All(AllOptions),
    /// Print what earlier runs wrote with --json; with --html, several of them as one page
    Report(ReportOptions),
    /// The bare loop that `delay` compares with
    #[command(hide = true)]
    BareTimer(BareTimerOptions),
    /// One server under load, for `net` to run
    #[command(hide = true)]
    Drive(DriveOptions),
    /// One program that waits, for `spin` to run
    #[command(hide = true)]
    Waits(WaitsOptions),
    /// Another program on the machine, for `fairness` and `philosophers` to run
    #[command(hide = true)]
    Neighbour(NeighbourOptions),
    /// Processes with slices of their own, for `fairness` to run
    #[command(hide = true)]
    Slices(SlicesOptions),
}

impl Experiment {
    /// The name it was called by.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Lua(_) => "lua",
            Self::Switch(_) => "switch",
            Self::ThreadMetric(_) => "thread-metric",
            Self::Runtime(_) => "runtime",
            Self::Operation(_) => "operation",
            Self::Scale(_) => "scale",
            Self::Latency(_) => "latency",
            Self::Fairness(_) => "fairness",
            Self::Philosophers(_) => "philosophers",
            Self::Idle(_) => "idle",
            Self::Blocking(_) => "blocking",
            Self::Spin(_) => "spin",
            Self::Delay(_) => "delay",
            Self::BareTimer(_) => "bare-timer",
            Self::Waits(_) => "waits",
            Self::Neighbour(_) => "neighbour",
            Self::Slices(_) => "slices",
            Self::Gilda(_) => "gilda",
            Self::Window(_) => "window",
            Self::Threads(_) => "threads",
            Self::Timers(_) => "timers",
            Self::Net(_) => "net",
            Self::Slow(_) => "slow",
            Self::Drive(_) => "drive",
            Self::All(_) => "all",
            Self::Report(_) => "report",
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

    /// Run the smaller sizes that --count runs: to see that all works, not to measure
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

    /// Operations per run; spawn and join takes a tenth
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(1000..))]
    pub(crate) iterations: u64,
}

#[derive(Debug, Args)]
pub(crate) struct ThreadMetricOptions {
    /// How often each test runs
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Seconds that each counts; the original counts for 30
    #[arg(long, default_value_t = 3.0)]
    pub(crate) seconds: f64,

    /// Count the instructions of the runtime's operations (valgrind) instead
    #[arg(long)]
    pub(crate) count: bool,
}

#[derive(Debug, Args)]
pub(crate) struct OperationOptions {
    /// The operation
    pub(crate) name: String,

    /// How often it is done
    pub(crate) times: u64,
}

#[derive(Debug, Args)]
pub(crate) struct RuntimeOptions {
    /// The test
    pub(crate) test: String,

    /// Seconds that it counts
    pub(crate) seconds: f64,

    /// Switch stacks there and back, whatever the test is
    #[arg(long)]
    pub(crate) bare: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ScaleOptions {
    /// How often each number is tried
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

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
    /// Seconds that the calculation takes by itself
    #[arg(long, default_value = "5", value_parser = some_seconds)]
    pub(crate) work: f64,

    /// How often it is done in each way, after a first time that is discarded
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,

    /// The most equal processes; the steps are 2, 10, 50, 200, 1000 up to it; below 10, only to see that all works
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(2..))]
    pub(crate) most: u32,

    /// Seconds that the seven endless loops run
    #[arg(long, default_value_t = 3.0)]
    pub(crate) seconds: f64,

    /// How often they do; the worst round counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
}

#[derive(Debug, Args)]
pub(crate) struct PhilosophersOptions {
    /// How often each case is tried
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Seconds that the other program computes, and that it sleeps and wakes in each of two ways, beside each
    #[arg(long, default_value = "3", value_parser = some_seconds)]
    pub(crate) seconds: f64,
}

/// Another program on the machine, for `fairness` and `philosophers` to run.
#[derive(Debug, Args)]
pub(crate) struct NeighbourOptions {
    /// What it does: `events`, `compute` or `wake`
    pub(crate) way: String,
}

/// Processes with slices of their own, for `fairness` to run.
#[derive(Debug, Args)]
pub(crate) struct SlicesOptions {
    /// How often each has its slice
    pub(crate) rounds: u32,
}

#[derive(Debug, Args)]
pub(crate) struct IdleOptions {
    /// Seconds before the first look
    #[arg(long, default_value = "5", value_parser = seconds)]
    pub(crate) settle: f64,

    /// Seconds between the first look and the last
    #[arg(long, default_value = "60", value_parser = seconds)]
    pub(crate) seconds: f64,

    /// What the programs wait for, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = IdleCase::value_variants().to_vec(), hide_default_value = true)]
    pub(crate) cases: Vec<IdleCase>,

    /// Let one program wait at a time, in place of all together, so that the machine's energy is that program's
    #[arg(long)]
    pub(crate) apart: bool,

    /// Sleeps of 50 us and of 1 ms whose lateness is measured in the same run; if not given, 500 and 1,000
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) sleeps: Option<u32>,
}

/// What a program waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IdleCase {
    /// Nothing is due
    Nothing,
    /// A timer that fires once a second
    Second,
    /// A listening socket that nobody connects to
    Listen,
    /// 10,000 processes that wait for each other
    Crowd,
    /// A timer set to an hour from now
    Hour,
    /// Nothing, right after it has computed
    Busy,
    /// A timer that fires a thousand times a second
    Kilohertz,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    number.ok_or_else(|| "from 0 to 86400 seconds expected".to_string())
}

#[derive(Debug, Args)]
pub(crate) struct BlockingOptions {
    /// Seconds that a ticking process runs beside each blocking one
    #[arg(long, default_value_t = 2.0)]
    pub(crate) seconds: f64,

    /// How many processes block at a time
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) processes: u32,
}

#[derive(Debug, Args)]
pub(crate) struct SlowOptions {
    /// Requests that wait at a time; each takes a descriptor here and one in the server
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) requests: u32,

    /// Parked processes whose lateness is measured
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) parked: u32,
}

#[derive(Debug, Args)]
pub(crate) struct SpinOptions {
    /// A trace in place of the five: microseconds of a wait on each line, then `timer` if a deadline ended it
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// Microseconds that a park costs
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(2..=200))]
    pub(crate) park_cost: u64,

    /// How often each way to wait is tried under each policy
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Seconds that a program waits for
    #[arg(long, default_value = "1", value_parser = some_seconds)]
    pub(crate) seconds: f64,
}

/// One program that waits, for `spin` to run.
#[derive(Debug, Args)]
pub(crate) struct WaitsOptions {
    pub(crate) policy: String,
    pub(crate) way: String,
    pub(crate) microseconds: u64,
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

    /// Sleeps in each run; if not given, 500, and of 1 ms with nothing beside them a thousand
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) sleeps: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct BareTimerOptions {
    pub(crate) seconds: f64,
    pub(crate) sleeps: u32,
}

#[derive(Debug, Args)]
pub(crate) struct GildaOptions {
    /// How often each case runs
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Turns of a loop that the processes compute for which switch
    #[arg(long, default_value_t = 20_000_000, value_parser = clap::value_parser!(u64).range(10_000..))]
    pub(crate) turns: u64,

    /// Seconds that a long call lasts
    #[arg(long, default_value_t = 1.0)]
    pub(crate) seconds: f64,

    /// How many short calls are made
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..))]
    pub(crate) calls: u64,

    /// How many calls that do nothing are made, for their price
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(100..))]
    pub(crate) price: u64,
}

#[derive(Debug, Args)]
pub(crate) struct WindowOptions {
    /// How often each length of calls is tried under each window
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Seconds that one process takes for its calls, five times in a run
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

    /// The most calls at once; the steps are 1, 3, 10, 30, 100, 300, 1000 up to it
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) largest: u64,

    /// Milliseconds that a call lasts
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) milliseconds: u64,

    /// Milliseconds that each call of the crowd lasts: ten times as many processes as there may be threads, each with one call
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) crowd_milliseconds: u64,
}

#[derive(Debug, Args)]
pub(crate) struct TimersOptions {
    /// How often each number is tried
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// The most timers at once; the steps are 1,000, 10,000, 100,000, 1,000,000 up to it
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
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

    /// The most connections; the steps are 1, 100, 1000, 10,000 up to it
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) most: u64,
}

/// One server under load, for `net` to run.
#[derive(Debug, Args)]
pub(crate) struct DriveOptions {
    /// The server's command line, as a list in JSON; protocol, address and port are added to it
    pub(crate) server: String,

    /// `echo`, `http`, or `wrk` for HTTP from that program
    pub(crate) protocol: String,

    /// How many
    pub(crate) connections: usize,

    /// Seconds of load
    pub(crate) seconds: f64,
}

#[derive(Debug, Args)]
pub(crate) struct AllOptions {
    /// As little of everything as shows that it works; the figures mean nothing
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
