//! The options of `blocking`.

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct BlockingOptions {
    /// Seconds that a ticking process runs beside each blocking one
    #[arg(long, default_value_t = 2.0)]
    pub(crate) seconds: f64,

    /// The number of processes that block at the same time
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) processes: u32,

    /// Only measure the longest delay of something else, beside calls of --seconds each
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) beside: Option<Beside>,

    /// Only these calls, by name, separated by commas (with --beside)
    #[arg(long, value_delimiter = ',', value_name = "NAMES", requires = "beside")]
    pub(crate) only: Vec<String>,

    /// The numbers of connections, separated by commas (with --beside sockets)
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS", requires = "beside",
        default_values_t = [1, 100, 10_000],
        value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub(crate) connections: Vec<u64>,

    /// LuaSocket's plain connections, or LuaSec's; both if not given (with --beside sockets)
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAMES", requires = "beside",
        default_values_t = Transport::value_variants().to_vec(), hide_default_value = true)]
    pub(crate) transport: Vec<Transport>,

    /// The program that makes the call: the server's or the clients'; both if not given (with
    /// --beside sockets)
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAMES", requires = "beside",
        default_values_t = Caller::value_variants().to_vec(), hide_default_value = true)]
    pub(crate) place: Vec<Caller>,

    /// How often each case is tried; the worst run counts (with --beside)
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..),
        requires = "beside")]
    pub(crate) runs: u32,
}

/// What runs beside the long calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Beside {
    /// Clients of an echo server, which repeat their requests
    Sockets,
    /// A process that waits in a callback of C
    Callbacks,
}

/// The library for connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// LuaSocket
    Plain,
    /// LuaSec
    Tls,
}

/// The program that makes the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Caller {
    /// The server
    Server,
    /// The clients
    Clients,
}

/// Displays values by their names on the command line.
macro_rules! show_by_name {
    ($($kind:ty)*) => {$(
        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let value = self.to_possible_value();
                f.write_str(value.as_ref().map_or("", |value| value.get_name()))
            }
        }
    )*};
}

show_by_name!(Transport Caller);
