//! The options of `cluster`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct ClusterOptions {
    /// How often each client is tried in each case
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Jobs of the cases with many in flight; those with one have a tenth
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(10..))]
    pub(crate) jobs: u64,

    /// Bytes of each job
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) bytes: u64,

    /// Have the server write each job to the disk before it acknowledges it
    #[arg(long)]
    pub(crate) sync: bool,
}
