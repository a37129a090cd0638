//! Shows GildaVM's tables as tables and charts.

use crate::calls::BARE_C;
use crate::chart::{Bars, Chart};
use crate::command_line::GildaOptions;
use crate::contest::Results;
use crate::stats;
use crate::table::{Table, figure};

use super::{LONG, SHORT, SWITCHING, WATCHDOG_OFF};

/// A row for each system. For each way of switching it has mean and median, and the CPU time
/// relative to that without a watchdog.
pub(super) fn of_switching(results: &Results, rounds: u32) -> Table {
    let caption = format!(
        "switching between two processes that compute: elapsed ms, mean and median of {rounds}; \
         CPU as a ratio to that without a watchdog"
    );
    let titles = SWITCHING
        .map(|(_, title)| [&format!("{title}: mean"), "median", "CPU / off"].map(str::to_string));
    let off = results.arm(WATCHDOG_OFF).unwrap_or_default();
    by_arm(results, &caption, titles.concat(), |arm| {
        let of_case = |case| {
            let [mean, median] = mean_and_median(results, arm, case);
            let ratio = results.ratio((arm, case), (off, case), "cpu_ms");
            [mean, median, figure(ratio, 3)]
        };
        results.all_cases().flat_map(of_case).collect()
    })
}

/// A row for each system: elapsed time of two long calls.
pub(super) fn of_long_calls(results: &Results, options: &GildaOptions) -> Table {
    let (seconds, rounds) = (options.seconds, options.rounds);
    let caption = format!("two calls of {seconds} s: elapsed ms, mean and median of {rounds}");
    let titles = LONG.map(|(_, title)| [format!("{title}: mean"), "median".to_string()]);
    by_arm(results, &caption, titles.concat(), |arm| {
        let cases = LONG.iter().filter_map(|(name, _)| results.case(name));
        cases
            .flat_map(|case| mean_and_median(results, arm, case))
            .collect()
    })
}

/// A row for each system: elapsed time of many short calls, the time that each adds to the loop in
/// C, and the number of retaken calls.
pub(super) fn of_short_calls(results: &Results, options: &GildaOptions) -> Table {
    let (calls, rounds) = (options.calls, options.rounds);
    let caption = format!(
        "{calls} calls of 0.6 us: elapsed ms, mean and median of {rounds}; calls taken and calls \
         moved are the most of a round"
    );
    let [(_, alone), (_, together)] = SHORT;
    let titles = [
        &format!("{alone}: mean"),
        "median",
        "/ C",
        &format!("{together}: mean"),
        "median",
        "/ one",
        "taken",
        "moved",
    ];
    let [one, two] = SHORT.map(|(name, _)| results.case(name).unwrap_or_default());
    let bare = results.arm(BARE_C).unwrap_or_default();
    by_arm(
        results,
        &caption,
        titles.map(str::to_string).into(),
        |arm| {
            let mut row = mean_and_median(results, arm, one).to_vec();
            row.push(figure(results.ratio((arm, one), (bare, one), "ms"), 3));
            row.extend(mean_and_median(results, arm, two));
            row.push(figure(results.ratio((arm, two), (arm, one), "ms"), 3));
            let most = |name| stats::maximum(&results.values(arm, two, name));
            row.extend(["retakes", "moves"].map(|name| figure(most(name), 0)));
            row
        },
    )
}

fn by_arm(
    results: &Results,
    caption: &str,
    titles: Vec<String>,
    row: impl Fn(usize) -> Vec<String>,
) -> Table {
    let mut table = Table::new(caption, ["system".to_string()].into_iter().chain(titles));
    for (arm, of_arm) in results.arms.iter().enumerate() {
        table.named(of_arm.name, row(arm));
    }
    table
}

fn mean_and_median(results: &Results, arm: usize, case: usize) -> [String; 2] {
    match results.mean(arm, case, "ms") {
        None => [results.gap(arm, case).to_string(), "-".to_string()],
        mean => [mean, results.median(arm, case, "ms")].map(|milliseconds| figure(milliseconds, 2)),
    }
}

/// A chart of the watchdog's cost, by the way of switching.
pub(super) fn chart_of_switching(results: &Results) -> Chart {
    let title = "Switching beside a watchdog";
    let goal = super::goals::WATCHDOG_GOAL.limit();
    let mut chart = Bars::new(title, "CPU, as a ratio to that without a watchdog")
        .from(1.0)
        .mark("goal", goal)
        .digits(3)
        .rows(SWITCHING.map(|(_, title)| title));
    let off = results.arm(WATCHDOG_OFF).unwrap_or_default();
    for (arm, of_arm) in results.arms.iter().enumerate() {
        let ratio = |case| results.ratio((arm, case), (off, case), "cpu_ms");
        if arm != off {
            chart = chart.series(of_arm.name, results.all_cases().map(ratio));
        }
    }
    chart.into()
}

/// A chart of the elapsed time of some cases, by system.
pub(super) fn chart_of_calls(results: &Results, cases: &[(&str, &str)], title: &str) -> Chart {
    let mut chart = Bars::new(title, "elapsed ms, median; less is better")
        .digits(1)
        .rows(cases.iter().map(|(_, title)| title));
    for (arm, of_arm) in results.arms.iter().enumerate() {
        let places = cases.iter().filter_map(|(name, _)| results.case(name));
        chart = chart.series(
            of_arm.name,
            places.map(|case| results.median(arm, case, "ms")),
        );
    }
    chart.into()
}
