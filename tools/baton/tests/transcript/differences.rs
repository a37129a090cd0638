//! All differences between Debian's `lua5.4` and `baton` that a transcript has, each with the
//! reason why it is right. Debian 12 has Lua 5.4.4; `baton` is 5.4.9. Lua's own list has the
//! changes in between: <https://www.lua.org/bugs.html#5.4.4>.

/// One difference.
pub(crate) struct Difference {
    /// The name that cases use.
    pub(crate) name: &'static str,
    /// The reason why it is right.
    pub(crate) reason: &'static str,
    pub(crate) effect: Effect,
}

/// How the output differs.
pub(crate) enum Effect {
    /// The line with the release differs.
    Release,
    /// The text that was read appears on stdout after the prompt.
    Echo,
    /// The system's program prints `old` where ours prints `new`.
    Text {
        old: &'static str,
        new: &'static str,
    },
}

/// All differences.
pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        name: "release",
        reason: "the copyright line names the release of Lua, and the next one is baton's own",
        effect: Effect::Release,
    },
    Difference {
        name: "echo",
        reason: "Debian links readline, which repeats on stdout what it reads from a pipe; baton \
                 reads as lua without it does",
        effect: Effect::Echo,
    },
    Difference {
        name: "lost-message",
        reason: "5.4.4's lua forgets the message when the input ends inside a statement; 5.4.5 and \
                 later show it",
        effect: Effect::Text {
            old: "(null)\n",
            new: "stdin:1: 'end' expected near <eof>\n",
        },
    },
    Difference {
        name: "simulate",
        reason: "the usage names baton's own options, too",
        effect: Effect::Text {
            old: "  --        stop handling options\n",
            new: "  --simulate seed  run in virtual time, as the seed says\n  --jobs n         \
                  simulate n seeds at once\n  --limit s        a simulated run fails after s \
                  seconds\n  --explain n      explain a failing seed by n runs at most\n  \
                  --trace file     write the simulated run, or the failing one\n  \
                  --        stop handling options\n",
        },
    },
    Difference {
        name: "hyphen",
        reason: "since 5.4.5 the global that -l sets has no version suffix: -l name-2 sets name",
        effect: Effect::Text {
            old: "nil\n",
            new: "table\n",
        },
    },
    Difference {
        name: "remove-argument",
        reason: "since 5.4.5 table.remove counts the position as its second argument when that is \
                 out of bounds",
        effect: Effect::Text {
            old: "#1 to 'table.remove'",
            new: "#2 to 'table.remove'",
        },
    },
    Difference {
        name: "searcher-frame",
        reason: "the searchers for C modules stand inside ones of baton's own, which let a \
                 module's loader run on a state that \
                 lasts: one frame more in the traceback of an error in the searcher itself",
        effect: Effect::Text {
            old: "\t[C]: in ?\n\t[C]: in function 'require'\n",
            new: "\t[C]: in ?\n\t[C]: in ?\n\t[C]: in function 'require'\n",
        },
    },
    Difference {
        name: "require-slot",
        reason: "baton's require does not keep the table of searchers on its stack while a module \
                 loads: recursion from there \
                 can use one slot more",
        effect: Effect::Text {
            old: "999978\n",
            new: "999979\n",
        },
    },
];

/// Returns the difference of this name.
pub(crate) fn named(name: &str) -> Option<&'static Difference> {
    DIFFERENCES
        .iter()
        .find(|difference| difference.name == name)
}
