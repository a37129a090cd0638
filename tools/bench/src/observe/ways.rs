//! The ways in which a program is looked at.

use crate::verdict::Goal;

/// The name of the way that looks at ten thousand processes.
pub(super) const TOP: &str = "top";

/// A way to look at a program.
pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// What it looks at, besides the echo server.
    pub(super) beside: AlsoSeen,
    /// The cost that it may have, in percent.
    pub(super) goal: Option<Goal>,
    /// How it looks.
    pub(super) by: By,
}

/// What else is looked at in some way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AlsoSeen {
    Nothing,
    PlainLua,
    Crowd,
}

/// How a program is looked at.
pub(super) enum By {
    /// Not at all: the cost is that of chance.
    Nobody,
    /// By a command of Baton, which is given the process id, a time in seconds and a file. They
    /// stand for `PID`, `SECONDS` and `FILE`.
    Command(&'static [&'static str]),
    /// By a parameter of the program, with this value; otherwise it is 0.
    Parameter(&'static str, &'static str),
}

const ONE_PERCENT: Option<Goal> = Some(Goal::at_most(1.0, " %", 2));

pub(super) const WAYS: [Way; 7] = [
    Way {
        name: "nobody",
        title: "nobody",
        beside: AlsoSeen::PlainLua,
        goal: None,
        by: By::Nobody,
    },
    Way {
        name: "cpu",
        title: "profile --cpu",
        beside: AlsoSeen::PlainLua,
        goal: ONE_PERCENT,
        by: By::Command(&[
            "profile",
            "--cpu",
            "-d",
            "SECONDS",
            "-o",
            "FILE.folded",
            "PID",
        ]),
    },
    Way {
        name: "waits",
        title: "profile --waits",
        beside: AlsoSeen::Nothing,
        goal: Some(Goal::at_most(3.0, " %", 2)),
        by: By::Command(&[
            "profile",
            "--waits",
            "-d",
            "SECONDS",
            "-o",
            "FILE.folded",
            "PID",
        ]),
    },
    Way {
        name: "alloc",
        title: "profile --alloc",
        beside: AlsoSeen::PlainLua,
        goal: Some(Goal::at_most(2.0, " %", 2)),
        by: By::Command(&[
            "profile",
            "--alloc",
            "-d",
            "SECONDS",
            "-o",
            "FILE.folded",
            "PID",
        ]),
    },
    Way {
        name: "flight",
        title: "the flight recorder",
        beside: AlsoSeen::PlainLua,
        goal: ONE_PERCENT,
        by: By::Parameter("flight", "5"),
    },
    Way {
        name: "trace",
        title: "trace",
        beside: AlsoSeen::Nothing,
        goal: None,
        by: By::Command(&["trace", "-d", "SECONDS", "-o", "FILE.pftrace", "PID"]),
    },
    Way {
        name: TOP,
        title: "top",
        beside: AlsoSeen::Crowd,
        goal: None,
        by: By::Command(&["top", "-d", "1", "-n", "3600", "PID"]),
    },
];

impl Way {
    /// The way with this name.
    pub(super) fn named(name: &str) -> Option<&'static Way> {
        WAYS.iter().find(|way| way.name == name)
    }
}
