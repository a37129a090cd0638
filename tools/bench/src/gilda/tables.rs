//! Shows GildaVM's tables as tables and charts.

use crate::calls::BARE_C;
use crate::chart::{Bars, Chart, Mark, Scale, Series};
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
    let titles: Vec<[String; 3]> = SWITCHING
        .iter()
        .map(|(_, title)| {
            [
                format!("{title}: mean"),
                "median".to_string(),
                "CPU / off".to_string(),
            ]
        })
        .collect();
    let mut table = headed(&caption, &titles.concat());
    let off = results.arm(WATCHDOG_OFF).unwrap_or_default();
    for (arm, of_arm) in results.arms.iter().enumerate() {
        let mut row = vec![of_arm.name.to_string()];
        for case in 0..results.cases.len() {
            row.extend(mean_and_median(results, arm, case));
            row.push(figure(
                results.ratio((arm, case), (off, case), "cpu_ms"),
                3,
                "",
            ));
        }
        table.row(row);
    }
    table
}

/// A row for each system: elapsed time of two long calls.
pub(super) fn of_long_calls(results: &Results, options: &GildaOptions) -> Table {
    let (seconds, rounds) = (options.seconds, options.rounds);
    let caption = format!("two calls of {seconds} s: elapsed ms, mean and median of {rounds}");
    let titles: Vec<[String; 2]> = LONG
        .iter()
        .map(|(_, title)| [format!("{title}: mean"), "median".to_string()])
        .collect();
    let mut table = headed(&caption, &titles.concat());
    for (arm, of_arm) in results.arms.iter().enumerate() {
        let cases = LONG.iter().filter_map(|(name, _)| results.case(name));
        let cells = cases.flat_map(|case| mean_and_median(results, arm, case));
        table.row([of_arm.name.to_string()].into_iter().chain(cells));
    }
    table
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
    let mut table = headed(&caption, &titles.map(str::to_string));
    let [Some(one), Some(two)] = SHORT.map(|(name, _)| results.case(name)) else {
        return table;
    };
    let bare = results.arm(BARE_C).unwrap_or_default();
    for (arm, of_arm) in results.arms.iter().enumerate() {
        let mut row = vec![of_arm.name.to_string()];
        row.extend(mean_and_median(results, arm, one));
        row.push(figure(results.ratio((arm, one), (bare, one), "ms"), 3, ""));
        row.extend(mean_and_median(results, arm, two));
        row.push(figure(results.ratio((arm, two), (arm, one), "ms"), 3, ""));
        let most = |name| stats::maximum(&results.values(arm, two, name));
        row.extend(["retakes", "moves"].map(|name| figure(most(name), 0, "")));
        table.row(row);
    }
    table
}

fn headed(caption: &str, titles: &[String]) -> Table {
    let header: Vec<&str> = ["system"]
        .into_iter()
        .chain(titles.iter().map(String::as_str))
        .collect();
    Table::new(caption, &header)
}

fn mean_and_median(results: &Results, arm: usize, case: usize) -> [String; 2] {
    match results.mean(arm, case, "ms") {
        None => [results.gap(arm, case).to_string(), "-".to_string()],
        mean => {
            [mean, results.median(arm, case, "ms")].map(|milliseconds| figure(milliseconds, 2, ""))
        }
    }
}

/// A chart of the watchdog's cost, by the way of switching.
pub(super) fn chart_of_switching(results: &Results) -> Chart {
    let off = results.arm(WATCHDOG_OFF).unwrap_or_default();
    let others = results
        .arms
        .iter()
        .enumerate()
        .filter(|(arm, _)| *arm != off);
    let series = others.map(|(arm, of_arm)| Series {
        name: of_arm.name.to_string(),
        values: (0..results.cases.len())
            .map(|case| results.ratio((arm, case), (off, case), "cpu_ms"))
            .collect(),
    });
    Chart::Bars(Bars {
        title: "Switching beside a watchdog".to_string(),
        label: "CPU, as a ratio to that without a watchdog".to_string(),
        scale: Scale::Linear,
        baseline: Some(1.0),
        marks: vec![Mark {
            name: "goal".to_string(),
            at: super::goals::WATCHDOG_GOAL.limit(),
        }],
        digits: 3,
        rows: results
            .cases
            .iter()
            .map(|case| case.title.clone())
            .collect(),
        series: series.collect(),
    })
}

/// A chart of the elapsed time of some cases, by system.
pub(super) fn chart_of_calls(results: &Results, cases: &[(&str, &str)], title: &str) -> Chart {
    let places: Vec<usize> = cases
        .iter()
        .filter_map(|(name, _)| results.case(name))
        .collect();
    let of_arm = |(arm, name): (usize, &'static str)| Series {
        name: name.to_string(),
        values: places
            .iter()
            .map(|&case| results.median(arm, case, "ms"))
            .collect(),
    };
    let names = results.arms.iter().map(|arm| arm.name).enumerate();
    Chart::Bars(Bars {
        title: title.to_string(),
        label: "elapsed ms, median; less is better".to_string(),
        scale: Scale::Linear,
        baseline: None,
        marks: Vec::new(),
        digits: 1,
        rows: cases.iter().map(|(_, title)| title.to_string()).collect(),
        series: names.map(of_arm).collect(),
    })
}
