//! Maps figures to places on an axis, and chooses the round figures of its labels.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use serde::{Deserialize, Serialize};

/// The spacing of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scale {
    /// Figures are spaced evenly.
    Linear,
    /// Figures are spaced by their logarithms. Those that are not positive have no place.
    Log,
}

/// The number of ticks on a linear axis, approximately.
const TICKS: f64 = 6.0;

/// The number of decades from which on a logarithmic axis has ticks at whole decades only.
const FINE_DECADES: f64 = 2.0;

/// The ticks within a decade, which look evenly spaced.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];

/// An axis for certain figures. A *place* is the value that is drawn: the figure itself, or its
/// logarithm.
#[derive(Clone, Debug)]
pub(crate) struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Ruler {
    /// An axis that contains all these figures and ends at round figures.
    pub(crate) fn over(scale: Scale, figures: impl IntoIterator<Item = f64>) -> Self {
        let places: Vec<f64> = figures
            .into_iter()
            .filter_map(|figure| place(scale, figure))
            .collect();
        let low = places.iter().copied().reduce(f64::min).unwrap_or(0.0);
        let high = places.iter().copied().reduce(f64::max).unwrap_or(1.0);
        match scale {
            Scale::Linear => Self::linear(low, high),
            Scale::Log => Self::logarithmic(low, high),
        }
    }

    fn linear(low: f64, high: f64) -> Self {
        let width = if high > low {
            high - low
        } else {
            high.abs().max(1.0)
        };
        let rough = width / TICKS;
        let decade = 10_f64.powf(rough.log10().floor());
        let factor = STEPS
            .into_iter()
            .find(|step| step * decade >= rough)
            .unwrap_or(10.0);
        let step = factor * decade;
        let (first, last) = (
            (low / step).floor(),
            (high / step).ceil().max((low / step).floor() + 1.0),
        );
        let ticks = (0..=(last - first) as u32).map(|tick| (first + f64::from(tick)) * step);
        Self {
            scale: Scale::Linear,
            low: first * step,
            high: last * step,
            ticks: ticks.collect(),
        }
    }

    fn logarithmic(low: f64, high: f64) -> Self {
        let steps: &[f64] = if high - low > FINE_DECADES {
            &STEPS[..1]
        } else {
            &STEPS
        };
        let decades = low.floor() as i32..=high.ceil() as i32;
        let all: Vec<f64> = decades
            .flat_map(|decade| {
                steps
                    .iter()
                    .map(move |step| f64::from(decade) + step.log10())
            })
            .collect();
        // Rounding may move a figure slightly away from its tick.
        let near = 1e-9;
        let first = all
            .iter()
            .rposition(|&tick| tick <= low + near)
            .unwrap_or(0);
        let last = all
            .iter()
            .position(|&tick| tick >= high - near)
            .unwrap_or(all.len() - 1);
        let last = last.max(first + 1).min(all.len() - 1);
        Self {
            scale: Scale::Log,
            low: all[first],
            high: all[last],
            ticks: all[first..=last].to_vec(),
        }
    }

    /// The place of a figure. `None` if it is not a number or has no logarithm.
    pub(crate) fn place(&self, figure: f64) -> Option<f64> {
        place(self.scale, figure)
    }

    /// The position of a figure along the axis, from 0 to 1.
    pub(crate) fn fraction(&self, figure: f64) -> Option<f64> {
        Some((self.place(figure)? - self.low) / (self.high - self.low))
    }

    /// The places of the ticks.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        self.ticks.clone()
    }

    /// The label for a place, as short as possible.
    pub(crate) fn label(&self, place: f64) -> String {
        match self.scale {
            Scale::Linear => short(place),
            Scale::Log => short(10_f64.powf(place)),
        }
    }
}

/// The interface through which the drawing library uses an axis. Its values are our places.
impl Ranged for Ruler {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (start, end): (i32, i32)) -> i32 {
        let along = (place - self.low) / (self.high - self.low);
        start + (along * f64::from(end - start)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Ruler {
    fn format_ext(&self, place: &f64) -> String {
        self.label(*place)
    }
}

fn place(scale: Scale, figure: f64) -> Option<f64> {
    match scale {
        Scale::Linear => figure.is_finite().then_some(figure),
        Scale::Log => (figure.is_finite() && figure > 0.0).then(|| figure.log10()),
    }
}

/// A figure with three significant digits, and a letter for thousands and millions: `1k`, `2.5M`,
/// `0.05`.
fn short(figure: f64) -> String {
    let (scaled, letter) = match figure.abs() {
        size if size >= 0.9995e9 => (figure / 1e9, "G"),
        size if size >= 0.9995e6 => (figure / 1e6, "M"),
        size if size >= 999.5 => (figure / 1e3, "k"),
        _ => (figure, ""),
    };
    if scaled.abs() < 1e-12 {
        return "0".to_string();
    }
    let digits = (2 - scaled.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{scaled:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: Scale, figures: &[f64]) -> Vec<String> {
        let ruler = Ruler::over(scale, figures.iter().copied());
        ruler
            .ticks()
            .into_iter()
            .map(|tick| ruler.label(tick))
            .collect()
    }

    #[test]
    fn a_linear_axis_ends_at_round_figures_around_all() {
        assert_eq!(
            labels(Scale::Linear, &[0.0, 103.0]),
            ["0", "20", "40", "60", "80", "100", "120"]
        );
        assert_eq!(
            labels(Scale::Linear, &[0.96, 1.14]),
            ["0.95", "1", "1.05", "1.1", "1.15"]
        );
    }

    #[test]
    fn a_log_axis_has_ticks_at_decades_or_within_few_decades() {
        assert_eq!(labels(Scale::Log, &[1e3, 1e6]), ["1k", "10k", "100k", "1M"]);
        assert_eq!(
            labels(Scale::Log, &[0.3, 7.0]),
            ["0.2", "0.5", "1", "2", "5", "10"]
        );
        assert_eq!(labels(Scale::Log, &[10.0, 10.0]), ["10", "20"]);
    }

    #[test]
    fn figures_without_a_place_are_ignored() {
        assert_eq!(
            labels(Scale::Log, &[0.0, -5.0, f64::NAN, 1.0, 10.0]),
            ["1", "2", "5", "10"]
        );
        assert_eq!(Ruler::over(Scale::Log, [1.0, 10.0]).place(0.0), None);
        assert_eq!(
            Ruler::over(Scale::Linear, [0.0, 1.0]).place(f64::INFINITY),
            None
        );
    }

    #[test]
    fn an_axis_without_figures_or_with_equal_ones_still_has_two_ends() {
        for figures in [&[][..], &[0.0], &[7.0, 7.0], &[-3.0]] {
            for scale in [Scale::Linear, Scale::Log] {
                let ruler = Ruler::over(scale, figures.iter().copied());
                assert!(ruler.high > ruler.low, "{scale:?} {figures:?} {ruler:?}");
            }
        }
    }

    #[test]
    fn fractions_go_from_one_end_to_the_other() {
        let ruler = Ruler::over(Scale::Log, [1.0, 10.0, 10_000.0]);
        assert_eq!(ruler.fraction(1.0), Some(0.0));
        assert_eq!(ruler.fraction(100.0), Some(0.5));
        assert_eq!(ruler.fraction(10_000.0), Some(1.0));
    }

    #[test]
    fn figures_are_shown_short() {
        let shown: Vec<String> = [0.0, 0.05, 1.0, 12.5, 999.6, 1234.0, 2.5e6, 3e9, -20.0]
            .map(short)
            .to_vec();
        assert_eq!(
            shown,
            ["0", "0.05", "1", "12.5", "1k", "1.23k", "2.5M", "3G", "-20"]
        );
    }
}
