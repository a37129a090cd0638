//! The goals for GildaVM's tables.

use crate::calls::{BATON_FFI, BATON_MODULE, STOCK_MODULE};
use crate::contest::Results;
use crate::stats;
use crate::verdict::{Goal, Verdict};

use super::{SWITCHING, WATCHDOG_OFF, WATCHDOG_ON};

pub(super) const WATCHDOG_GOAL: Goal = Goal::at_most(1.01, "", 3);
/// The seconds allowed for two calls of one second each: by one process, by two in a new program,
/// and by two after the runtime has learned the function.
const LONG_GOALS: [(&str, &str, f64); 3] = [
    ("long_sequential", "one process", 2.002),
    ("long_together", "two processes, at first", 1.02),
    ("long_learned", "two processes, once learned", 1.005),
];
const SEQUENTIAL_GOAL: Goal = Goal::at_most(1.05, "", 3);
const TOGETHER_GOAL: Goal = Goal::at_most(1.10, "", 3);
const RETAKES_GOAL: Goal = Goal::at_most(0.1, " %", 3);

/// The two ways in which a Lua program calls C.
const OURS: [&str; 2] = [BATON_MODULE, BATON_FFI];

/// The verdicts on switching: the watchdog costs nothing if there is nothing to retake.
pub(super) fn of_switching(results: &Results) -> Vec<Verdict> {
    let verdict = |(name, title): (&str, &str)| {
        let what = format!("CPU of switching, {title}: watchdog on / off");
        let place = |arm| results.place(arm, name);
        let ratio = || results.ratio(place(WATCHDOG_ON)?, place(WATCHDOG_OFF)?, "cpu_ms");
        WATCHDOG_GOAL.judge(&what, ratio())
    };
    SWITCHING.map(verdict).to_vec()
}

/// The verdicts on two calls of `seconds` each. The goals are for one second, and the figures are
/// scaled to that.
pub(super) fn of_long_calls(results: &Results, seconds: f64) -> Vec<Verdict> {
    let verdict = |arm: &str, (case, title, limit): (&str, &str, f64)| {
        let what = format!("{arm}: two long calls by {title}, in lengths of a call");
        let median = || results.median(results.arm(arm)?, results.case(case)?, "ms");
        Goal::at_most(limit, "", 4).judge(&what, median().map(|of_case| of_case / 1e3 / seconds))
    };
    let of_arm = |arm| LONG_GOALS.map(|goal| verdict(arm, goal));
    OURS.into_iter().flat_map(of_arm).collect()
}

/// The verdicts on short calls. They must cost no more when other processes could run, and must not
/// be retaken.
pub(super) fn of_short_calls(results: &Results, calls: u64) -> Vec<Verdict> {
    let of_arm = |arm: &str| {
        let one = |arm: &str| results.place(arm, "short_sequential");
        let two = results.place(arm, "short_together");
        let alone = || results.ratio(one(arm)?, one(STOCK_MODULE)?, "ms");
        let together = || results.ratio(two?, one(arm)?, "ms");
        let retaken = || share_retaken(results, two?, calls);
        let judge = |goal: Goal, what, measured| {
            goal.judge(&format!("{arm}: short calls {what}"), measured)
        };
        [
            judge(SEQUENTIAL_GOAL, "by one process / by stock Lua", alone()),
            judge(TOGETHER_GOAL, "by two processes / by one", together()),
            judge(
                RETAKES_GOAL,
                "that the VM was taken from, worst round",
                retaken(),
            ),
        ]
    };
    OURS.into_iter().flat_map(of_arm).collect()
}

/// The largest share of retaken calls in any round, in percent.
fn share_retaken(results: &Results, (arm, case): (usize, usize), calls: u64) -> Option<f64> {
    let worst = stats::maximum(&results.values(arm, case, "retakes"))?;
    Some(worst / calls as f64 * 100.0)
}
