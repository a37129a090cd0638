//! Charts as data. An experiment describes a chart, JSON stores it, and [`Chart::to_svg`] draws it.

mod bars;
mod frame;
mod heat;
mod lines;
mod scale;

use anyhow::Result;
use serde::{Deserialize, Serialize};

pub(crate) use scale::Scale;

/// A chart of one of three kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Chart {
    /// Horizontal bars: figures of named things.
    Bars(Bars),
    /// Lines: figures that depend on a number.
    Lines(Lines),
    /// A heat map: figures that depend on two named things.
    Heat(Heat),
}

/// Groups of horizontal bars. Each row is a group, and each series has one bar in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bars {
    pub(crate) title: String,
    /// The meaning of the figures, with their unit.
    pub(crate) label: String,
    pub(crate) scale: Scale,
    /// The value at which the bars begin, if it is not the axis; 1 for ratios.
    pub(crate) baseline: Option<f64>,
    pub(crate) marks: Vec<Mark>,
    /// The number of decimals of the figure at a bar's end.
    pub(crate) digits: usize,
    pub(crate) rows: Vec<String>,
    /// The series; each has one figure for each row.
    pub(crate) series: Vec<Series>,
}

/// The figures of one system, by row. A missing figure leaves a gap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) values: Vec<Option<f64>>,
}

/// A line across the chart at a figure, such as a goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) name: String,
    pub(crate) at: f64,
}

/// A chart of lines through points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lines {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// Marks at values of y.
    pub(crate) marks: Vec<Mark>,
    pub(crate) series: Vec<Line>,
}

/// The name of an axis with its unit, and its scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) scale: Scale,
}

/// The points of one system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A heat map: coloured cells that show their figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Heat {
    pub(crate) title: String,
    /// The meaning of the figures, with their unit. Darker cells have larger figures.
    pub(crate) label: String,
    pub(crate) scale: Scale,
    pub(crate) digits: usize,
    pub(crate) columns_label: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<String>,
    /// The figures by row, then by column.
    pub(crate) cells: Vec<Vec<Option<f64>>>,
}

impl Bars {
    /// Bars without rows yet, on a linear axis, with whole figures at their ends.
    pub(crate) fn new(title: impl Into<String>, label: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            label: label.into(),
            scale: Scale::Linear,
            baseline: None,
            marks: Vec::new(),
            digits: 0,
            rows: Vec::new(),
            series: Vec::new(),
        }
    }

    /// The same chart on a logarithmic axis.
    pub(crate) fn log(self) -> Self {
        Self {
            scale: Scale::Log,
            ..self
        }
    }

    /// The same chart, with bars that begin at this value.
    pub(crate) fn from(self, baseline: f64) -> Self {
        Self {
            baseline: Some(baseline),
            ..self
        }
    }

    /// The same chart, with this number of decimals.
    pub(crate) fn digits(self, digits: usize) -> Self {
        Self { digits, ..self }
    }

    /// The same chart with one more mark.
    pub(crate) fn mark(mut self, name: &str, at: f64) -> Self {
        self.marks.push(Mark::new(name, at));
        self
    }

    /// The same chart with these names of rows.
    pub(crate) fn rows(self, names: impl IntoIterator<Item: ToString>) -> Self {
        let rows = names.into_iter().map(|name| name.to_string()).collect();
        Self { rows, ..self }
    }

    /// The same chart with one more series.
    pub(crate) fn series(
        mut self,
        name: impl ToString,
        values: impl IntoIterator<Item = Option<f64>>,
    ) -> Self {
        self.series.push(Series {
            name: name.to_string(),
            values: values.into_iter().collect(),
        });
        self
    }
}

impl Mark {
    fn new(name: &str, at: f64) -> Self {
        Self {
            name: name.to_string(),
            at,
        }
    }
}

impl Lines {
    /// The same chart with figures on a linear axis.
    pub(crate) fn linear(mut self) -> Self {
        self.y.scale = Scale::Linear;
        self
    }

    /// A chart without lines yet, on two logarithmic axes with these names.
    pub(crate) fn log(title: impl Into<String>, x: &str, y: &str) -> Self {
        let axis = |label: &str| Axis {
            label: label.to_string(),
            scale: Scale::Log,
        };
        Self {
            title: title.into(),
            x: axis(x),
            y: axis(y),
            marks: Vec::new(),
            series: Vec::new(),
        }
    }

    /// The same chart with one more mark.
    pub(crate) fn mark(mut self, name: &str, at: f64) -> Self {
        self.marks.push(Mark::new(name, at));
        self
    }

    /// The same chart with one more line.
    pub(crate) fn line(
        mut self,
        name: impl ToString,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        self.series.push(Line {
            name: name.to_string(),
            points: points.into_iter().collect(),
        });
        self
    }
}

impl From<Bars> for Chart {
    fn from(bars: Bars) -> Self {
        Self::Bars(bars)
    }
}

impl From<Lines> for Chart {
    fn from(lines: Lines) -> Self {
        Self::Lines(lines)
    }
}

impl Chart {
    /// The title.
    pub(crate) fn title(&self) -> &str {
        match self {
            Self::Bars(bars) => &bars.title,
            Self::Lines(lines) => &lines.title,
            Self::Heat(heat) => &heat.title,
        }
    }

    /// The title in the form of a file name without extension.
    pub(crate) fn file_stem(&self) -> String {
        let words: Vec<String> = self
            .title()
            .split(|character: char| !character.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_ascii_lowercase)
            .collect();
        words.join("-")
    }

    /// The drawing, as the text of an SVG file.
    pub(crate) fn to_svg(&self) -> Result<String> {
        match self {
            Self::Bars(bars) => bars.to_svg(),
            Self::Lines(lines) => lines.to_svg(),
            Self::Heat(heat) => heat.to_svg(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars() -> Bars {
        Bars::new("Price of Lua & more: 1 < 2", "ratio")
            .from(1.0)
            .mark("goal", 1.05)
            .digits(2)
            .rows(["sort", "gsub"])
            .series("to stock", [Some(1.25), None])
            .series("to another", [None, Some(0.9)])
    }

    fn lines() -> Lines {
        Lines::log("Memory", "processes", "KiB each")
            .line("baton", [(1e3, 9.5), (1e4, 9.0), (1e6, 8.8)])
            .line("another", [(1e3, 2.5)])
    }

    fn heat() -> Heat {
        Heat {
            title: "Lateness".to_string(),
            label: "ms".to_string(),
            scale: Scale::Log,
            digits: 1,
            columns_label: "percentile".to_string(),
            columns: vec!["p50".to_string(), "max".to_string()],
            rows: vec!["nothing".to_string()],
            cells: vec![vec![Some(0.5), None]],
        }
    }

    #[test]
    fn bars_are_drawn_with_names_figures_and_goal() {
        let svg = Chart::Bars(bars()).to_svg().unwrap();
        assert!(
            svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"),
            "{svg}"
        );
        for text in [
            "Price of Lua &amp; more: 1 &lt; 2",
            "sort",
            "gsub",
            "1.25",
            "goal",
            "to stock",
        ] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
    }

    #[test]
    fn lines_are_drawn_on_labelled_decades() {
        let svg = Chart::Lines(lines()).to_svg().unwrap();
        for text in [
            "Memory",
            "1k",
            "10k",
            "1M",
            "baton",
            "KiB each",
            "processes",
        ] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
        assert!(svg.contains("<polyline"), "{svg}");
    }

    #[test]
    fn cells_that_have_no_figure_are_left_blank() {
        let svg = Chart::Heat(heat()).to_svg().unwrap();
        assert!(
            svg.contains("0.5") && svg.contains("p50") && svg.contains("nothing"),
            "{svg}"
        );
    }

    #[test]
    fn charts_without_any_figure_are_drawn_all_the_same() {
        let (mut bars, mut lines, mut heat) = (bars(), lines(), heat());
        bars.series.truncate(1);
        bars.series[0].values = vec![None, None];
        lines.series.clear();
        heat.cells = vec![vec![None, None]];
        for chart in [Chart::Bars(bars), Chart::Lines(lines), Chart::Heat(heat)] {
            assert!(
                chart
                    .to_svg()
                    .unwrap()
                    .contains(chart.title().split(' ').next().unwrap())
            );
        }
    }

    #[test]
    fn a_chart_survives_json() {
        for chart in [
            Chart::Bars(bars()),
            Chart::Lines(lines()),
            Chart::Heat(heat()),
        ] {
            let text = serde_json::to_string(&chart).unwrap();
            assert_eq!(serde_json::from_str::<Chart>(&text).unwrap(), chart);
        }
    }

    #[test]
    fn a_file_is_named_after_the_title() {
        assert_eq!(Chart::Bars(bars()).file_stem(), "price-of-lua-more-1-2");
    }
}
