//! The orders of the rows.

use clap::ValueEnum;

/// What the first rows have most of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
    /// Processor time since the last look
    #[default]
    Cpu,
    /// Processor time in all
    Total,
    /// Time since it last ran
    Idle,
}

impl Sort {
    /// Its name in the protocol.
    pub(super) fn name(self) -> &'static str {
        match self {
            Sort::Cpu => "cpu",
            Sort::Total => "total",
            Sort::Idle => "idle",
        }
    }

    /// The place of its column in the table.
    pub(super) fn column(self) -> usize {
        match self {
            Sort::Cpu => 1,
            Sort::Total => 2,
            Sort::Idle => 4,
        }
    }

    /// The order after it, for the key that goes through them.
    pub(super) fn next(self) -> Sort {
        match self {
            Sort::Cpu => Sort::Total,
            Sort::Total => Sort::Idle,
            Sort::Idle => Sort::Cpu,
        }
    }
}
