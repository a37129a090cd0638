//! The common parts of all charts: the sheet, the title, the legend, the fonts and the colours.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A drawing whose coordinates are pixels.
pub(crate) type Sheet<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The width of every chart in pixels. It is the same for all, so that the charts of a page line
/// up.
pub(crate) const WIDTH: u32 = 880;

/// The distance of the drawing from the sheet's edge, in pixels.
pub(crate) const MARGIN: i32 = 18;

/// The height of an axis with its labels and its name, in pixels.
pub(crate) const AXIS_HEIGHT: u32 = 54;

const TITLE_HEIGHT: u32 = 42;
const LEGEND_HEIGHT: u32 = 26;

/// The colours of important text and lines, of less important text, and of guide lines.
pub(crate) const INK: RGBColor = RGBColor(0x1f, 0x29, 0x37);
pub(crate) const PALE_INK: RGBColor = RGBColor(0x5b, 0x65, 0x73);
pub(crate) const GRID: RGBColor = RGBColor(0xe3, 0xe7, 0xec);

/// The colour of a goal's line.
pub(crate) const GOAL: RGBColor = RGBColor(0xb4, 0x23, 0x18);

/// The colours of the series, in order; Baton comes first. Readers who cannot tell red from green
/// can distinguish them.
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

/// The ratio of a line's height to the height of its letters. The SVG backend takes the former as
/// the font's size, and writes the latter.
const LINE: f64 = 1.24;

/// A font of `size` pixels in a colour.
pub(crate) fn font(size: u32, colour: RGBColor) -> TextStyle<'static> {
    ("sans-serif", f64::from(size) * LINE)
        .into_font()
        .color(&colour)
}

/// The font, positioned by its left end, centre or right end, and at half its height.
pub(crate) fn placed(style: &TextStyle<'static>, across: HPos) -> TextStyle<'static> {
    style.pos(Pos::new(across, VPos::Center))
}

/// The estimated width of a text at this font size, in pixels. SVG leaves the font to the viewer,
/// so this uses the average of a common font.
pub(crate) fn text_width(text: &str, size: u32) -> i32 {
    (text.chars().count() as f64 * f64::from(size) * 0.56).ceil() as i32
}

/// The width of the widest label, in pixels.
pub(crate) fn widest<'a>(labels: impl IntoIterator<Item = &'a String>, size: u32) -> i32 {
    labels
        .into_iter()
        .map(|label| text_width(label, size))
        .max()
        .unwrap_or(0)
}

/// Draws a chart: a sheet with a title and a legend. `body` draws the area below them, which is
/// `height` pixels high.
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

/// The names, divided into lines that fit the sheet. A single series needs no legend.
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
        let square = Rectangle::new(
            [(x, y - 6), (x + 12, y + 6)],
            colour(first + index).filled(),
        );
        sheet.draw(&square).map_err(failed)?;
        let label = Text::new(
            name.as_str(),
            (x + 19, y),
            placed(&font(14, INK), HPos::Left),
        );
        sheet.draw(&label).map_err(failed)?;
        x += entry_width(name);
    }
    Ok(())
}

/// Converts the drawing library's errors, whose type depends on the backend, into our own.
pub(crate) fn failed<E: std::error::Error + Send + Sync>(
    error: DrawingAreaErrorKind<E>,
) -> anyhow::Error {
    anyhow!("cannot draw the chart: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_legend_is_broken_into_lines_and_one_of_a_single_name_is_left_out() {
        let names: Vec<String> = (0..12)
            .map(|number| format!("system number {number}"))
            .collect();
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
