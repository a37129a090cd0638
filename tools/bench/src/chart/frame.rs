//! What all charts have in common: the sheet, the title, the legend, the fonts and the colours.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A drawing on which pixels are the coordinates.
pub(crate) type Sheet<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The width of every chart in pixels, so that a page of them lines up.
pub(crate) const WIDTH: u32 = 880;

/// Distance to the sheet's edge.
pub(crate) const MARGIN: i32 = 18;

/// The height of an axis with its labels and its name.
pub(crate) const AXIS_HEIGHT: u32 = 54;

const TITLE_HEIGHT: u32 = 42;
const LEGEND_HEIGHT: u32 = 26;

/// Text and lines that carry meaning, text that is less important, and lines that guide the eye.
pub(crate) const INK: RGBColor = RGBColor(0x1f, 0x29, 0x37);
pub(crate) const PALE_INK: RGBColor = RGBColor(0x5b, 0x65, 0x73);
pub(crate) const GRID: RGBColor = RGBColor(0xe3, 0xe7, 0xec);

/// A line for a goal.
pub(crate) const GOAL: RGBColor = RGBColor(0xb4, 0x23, 0x18);

/// Colours of the series in their order; told apart by eyes that do not tell red from green. Baton comes first.
const COLOURS: [RGBColor; 10] = [
    RGBColor(0x1d, 0x5f, 0xa8),
    RGBColor(0xe0, 0x8a, 0x2e),
    RGBColor(0x2f, 0x9e, 0x83),
    RGBColor(0xa8, 0x5c, 0x9c),
    RGBColor(0xc9, 0xb0, 0x37),
    RGBColor(0x6f, 0xb3, 0xdf),
    RGBColor(0x8a, 0x5a, 0x3b),
    RGBColor(0x7b, 0x84, 0x90),
    RGBColor(0x14, 0x20, 0x33),
    RGBColor(0xe6, 0xa6, 0xb8),
];

/// The colour of a series.
pub(crate) fn colour(series: usize) -> RGBColor {
    COLOURS[series % COLOURS.len()]
}

/// The SVG backend takes a size for the height of a line and writes that of the letters, which is less by this factor.
const LINE: f64 = 1.24;

/// A font of so many pixels in a colour.
pub(crate) fn font(size: u32, colour: RGBColor) -> TextStyle<'static> {
    ("sans-serif", f64::from(size) * LINE).into_font().color(&colour)
}

/// The font, with the text's point at its left, centre or right, and half way up.
pub(crate) fn placed(style: &TextStyle<'static>, across: HPos) -> TextStyle<'static> {
    style.pos(Pos::new(across, VPos::Center))
}

/// How wide a text of that font size comes out. SVG leaves the font to the viewer: this is a common one's average.
pub(crate) fn text_width(text: &str, size: u32) -> i32 {
    (text.chars().count() as f64 * f64::from(size) * 0.56).ceil() as i32
}

/// The widest of some labels.
pub(crate) fn widest<'a>(labels: impl IntoIterator<Item = &'a String>, size: u32) -> i32 {
    labels
        .into_iter()
        .map(|label| text_width(label, size))
        .max()
        .unwrap_or(0)
}

/// Draws a chart: a sheet with a title and a legend, and below them, `height` pixels high, what `body` draws.
pub(crate) fn draw(
    title: &str,
    legend: &[String],
    height: u32,
    body: impl FnOnce(&Sheet<'_>) -> Result<()>,
) -> Result<String> {
    let lines = legend_lines(legend);
    let head = TITLE_HEIGHT + LEGEND_HEIGHT * lines.len() as u32;
    let mut svg = String::new();
    {
        let sheet = SVGBackend::with_string(&mut svg, (WIDTH, head + height)).into_drawing_area();
        sheet.fill(&WHITE).map_err(failed)?;
        let mut bold = font(18, INK);
        bold.font = bold.font.style(FontStyle::Bold);
        sheet
            .draw(&Text::new(title, (MARGIN, 24), placed(&bold, HPos::Left)))
            .map_err(failed)?;
        let mut series = 0;
        for (line, names) in lines.iter().enumerate() {
            let y = (TITLE_HEIGHT + LEGEND_HEIGHT * line as u32) as i32 + 8;
            draw_legend_line(&sheet, names, series, y)?;
            series += names.len();
        }
        let (_, below) = sheet.split_vertically(head);
        body(&below)?;
        sheet.present().map_err(failed)?;
    }
    Ok(svg)
}

fn entry_width(name: &str) -> i32 {
    text_width(name, 14) + 44
}

/// The names divided into lines that fit the sheet; a single series needs no legend.
fn legend_lines(names: &[String]) -> Vec<&[String]> {
    let (mut lines, mut start, mut width) = (Vec::new(), 0, 0);
    if names.len() < 2 {
        return lines;
    }
    for (index, name) in names.iter().enumerate() {
        width += entry_width(name);
        if width > WIDTH as i32 - 2 * MARGIN && index > start {
            lines.push(&names[start..index]);
            (start, width) = (index, entry_width(name));
        }
    }
    lines.push(&names[start..]);
    lines
}

fn draw_legend_line(sheet: &Sheet<'_>, names: &[String], first: usize, y: i32) -> Result<()> {
    let mut x = MARGIN;
    for (index, name) in names.iter().enumerate() {
        let square = Rectangle::new([(x, y - 6), (x + 12, y + 6)], colour(first + index).filled());
        sheet.draw(&square).map_err(failed)?;
        let label = Text::new(name.as_str(), (x + 19, y), placed(&font(14, INK), HPos::Left));
        sheet.draw(&label).map_err(failed)?;
        x += entry_width(name);
    }
    Ok(())
}

/// The library's errors are generic over the backend's; one of ours for all.
pub(crate) fn failed<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> anyhow::Error {
    anyhow!("cannot draw the chart: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_legend_is_broken_into_lines_and_one_of_a_single_name_is_left_out() {
        let names: Vec<String> = (0..12).map(|number| format!("system number {number}")).collect();
        let lines = legend_lines(&names);
        assert!(lines.len() > 1);
        assert_eq!(lines.concat(), names);
        assert!(legend_lines(&names[..1]).is_empty());
    }

    #[test]
    fn neighbouring_series_differ_in_colour() {
        assert!((0..20).all(|series| colour(series) != colour(series + 1)));
    }
}
