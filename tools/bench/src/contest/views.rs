//! The tables, charts and report of a contest's results.

use super::{Arm, Results};
use crate::chart::{Bars, Chart, Lines};
use crate::report::Report;
use crate::table::{Table, figure};

impl Results {
    /// The median of a figure in a table, or the text in its place.
    pub(crate) fn shown(&self, arm: usize, case: usize, name: &str, digits: usize) -> String {
        let median = self.median(arm, case, name);
        median.map_or_else(|| self.gap(arm, case).to_string(), |it| figure(it, digits))
    }

    /// A table with a row for each arm, and a column for each case. `corner` is the header of the
    /// first column. Without a cell, there is the text in its place.
    pub(crate) fn by_arm(
        &self,
        caption: impl Into<String>,
        corner: &str,
        cell: impl Fn(usize, usize) -> Option<String>,
    ) -> Table {
        let titles = self.cases.iter().map(|case| case.title.as_str());
        let mut table = Table::new(caption, [corner].into_iter().chain(titles));
        for (arm, of_arm) in self.arms.iter().enumerate() {
            let cells = (0..self.cases.len())
                .map(|case| cell(arm, case).unwrap_or_else(|| self.gap(arm, case).to_string()));
            table.named(of_arm.name, cells);
        }
        table
    }

    /// A table with a row for each of these cases, and a column for each arm.
    pub(crate) fn by_case(
        &self,
        caption: impl Into<String>,
        corner: &str,
        cases: impl IntoIterator<Item = usize>,
        cell: impl Fn(usize, usize) -> Option<String>,
    ) -> Table {
        let names = self.arms.iter().map(|arm| arm.name);
        let mut table = Table::new(caption, [corner].into_iter().chain(names));
        for case in cases {
            let cells = (0..self.arms.len())
                .map(|arm| cell(arm, case).unwrap_or_else(|| self.gap(arm, case).to_string()));
            table.named(&self.cases[case].title, cells);
        }
        table
    }

    /// A chart with a row for each of these cases, and a series for each arm.
    pub(crate) fn bars(
        &self,
        chart: Bars,
        cases: impl IntoIterator<Item = usize>,
        value: impl Fn(usize, usize) -> Option<f64>,
    ) -> Chart {
        let cases: Vec<usize> = cases.into_iter().collect();
        let chart = chart.rows(cases.iter().map(|&case| &self.cases[case].title));
        let arms = self.arms.iter().enumerate();
        let add = |chart: Bars, (arm, of_arm): (usize, &Arm)| {
            chart.series(of_arm.name, cases.iter().map(|&case| value(arm, case)))
        };
        arms.fold(chart, add).into()
    }

    /// A chart with a line for each of these arms, through the cases. Their names are numbers.
    pub(crate) fn lines(
        &self,
        chart: Lines,
        arms: &[usize],
        value: impl Fn(usize, usize) -> Option<f64>,
    ) -> Chart {
        let point =
            |arm, case: usize| Some((self.cases[case].name.parse().ok()?, value(arm, case)?));
        let add = |chart: Lines, &arm: &usize| {
            let points = self.all_cases().filter_map(|case| point(arm, case));
            chart.line(self.arms[arm].name, points)
        };
        arms.iter().fold(chart, add).into()
    }

    /// The report with the systems, the failures and the samples added.
    pub(crate) fn complete(&self, mut report: Report) -> Report {
        report.verdicts.extend(self.failures());
        Report {
            arms: self.found(),
            samples: self.to_json(),
            ..report
        }
    }
}
