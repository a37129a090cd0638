//! Draws bar charts. The names are to the left of the bars, and the figures at their ends.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::frame::{self, AXIS_HEIGHT, GOAL, GRID, INK, MARGIN, PALE_INK, Sheet, failed};
use super::scale::{Ruler, Scale};
use super::{Bars, Mark};

const LABEL_SIZE: u32 = 14;
const FIGURE_SIZE: u32 = 12;
const BAR_HEIGHT: u32 = 15;
const GROUP_GAP: u32 = 11;
/// The height of the area above the bars that names the marks, in pixels.
const MARKS_HEIGHT: u32 = 22;

/// The positions of the parts of the chart.
struct Layout {
    ruler: Ruler,
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

impl Layout {
    fn x(&self, figure: f64) -> Option<i32> {
        Some(
            self.ruler
                .map(&self.ruler.place(figure)?, (self.left, self.right)),
        )
    }
}

impl Bars {
    /// Draws the chart.
    pub(crate) fn to_svg(&self) -> Result<String> {
        let legend: Vec<String> = self
            .series
            .iter()
            .map(|series| series.name.clone())
            .collect();
        let group = BAR_HEIGHT * self.series.len().max(1) as u32 + GROUP_GAP;
        let marks = if self.marks.is_empty() {
            6
        } else {
            MARKS_HEIGHT
        };
        let field = group * self.rows.len() as u32;
        let layout = Layout {
            ruler: self.ruler(),
            left: MARGIN + frame::widest(&self.rows, LABEL_SIZE) + 12,
            // There is room on the right for the figure of the longest bar.
            right: frame::WIDTH as i32 - MARGIN - 56,
            top: marks as i32,
            bottom: (marks + field) as i32,
        };
        frame::draw(&self.title, &legend, marks + field + AXIS_HEIGHT, |sheet| {
            layout.draw_axis(sheet, &self.label)?;
            self.marks
                .iter()
                .try_for_each(|mark| layout.draw_mark(sheet, mark))?;
            for row in 0..self.rows.len() {
                self.draw_group(
                    sheet,
                    &layout,
                    row,
                    layout.top + (group * row as u32) as i32,
                )?;
            }
            Ok(())
        })
    }

    fn ruler(&self) -> Ruler {
        let figures = self
            .series
            .iter()
            .flat_map(|series| series.values.iter().flatten().copied());
        let marks = self.marks.iter().map(|mark| mark.at);
        let beginning = match (self.baseline, self.scale) {
            (Some(baseline), _) => Some(baseline),
            (None, Scale::Linear) => Some(0.0),
            (None, Scale::Log) => None,
        };
        Ruler::over(self.scale, figures.chain(marks).chain(beginning))
    }

    fn draw_group(&self, sheet: &Sheet<'_>, layout: &Layout, row: usize, top: i32) -> Result<()> {
        let height = (BAR_HEIGHT * self.series.len().max(1) as u32) as i32;
        let top = top + GROUP_GAP as i32 / 2;
        let style = frame::placed(&frame::font(LABEL_SIZE, INK), HPos::Right);
        let name = Text::new(
            self.rows[row].as_str(),
            (layout.left - 10, top + height / 2),
            style,
        );
        sheet.draw(&name).map_err(failed)?;
        let start = self
            .baseline
            .and_then(|baseline| layout.x(baseline))
            .unwrap_or(layout.left);
        for (index, series) in self.series.iter().enumerate() {
            let y = top + (BAR_HEIGHT * index as u32) as i32;
            let Some(figure) = series.values.get(row).copied().flatten() else {
                continue;
            };
            let Some(end) = layout.x(figure) else {
                continue;
            };
            // A bar of no length would look like a missing one.
            let end = if end == start { start + 1 } else { end };
            let corners = [
                (start.min(end), y + 1),
                (start.max(end), y + BAR_HEIGHT as i32 - 1),
            ];
            let bar = Rectangle::new(corners, frame::colour(index).filled());
            sheet.draw(&bar).map_err(failed)?;
            let digits = self.digits;
            let style = frame::placed(&frame::font(FIGURE_SIZE, PALE_INK), HPos::Left);
            let at = (start.max(end) + 5, y + BAR_HEIGHT as i32 / 2);
            sheet
                .draw(&Text::new(format!("{figure:.digits$}"), at, style))
                .map_err(failed)?;
        }
        Ok(())
    }
}

impl Layout {
    fn draw_axis(&self, sheet: &Sheet<'_>, label: &str) -> Result<()> {
        let style = frame::placed(&frame::font(FIGURE_SIZE, PALE_INK), HPos::Center);
        for tick in self.ruler.ticks() {
            let x = self.ruler.map(&tick, (self.left, self.right));
            let line = PathElement::new([(x, self.top), (x, self.bottom)], GRID);
            sheet.draw(&line).map_err(failed)?;
            let figure = Text::new(self.ruler.label(tick), (x, self.bottom + 13), style.clone());
            sheet.draw(&figure).map_err(failed)?;
        }
        let middle = ((self.left + self.right) / 2, self.bottom + 36);
        let style = frame::placed(&frame::font(LABEL_SIZE, INK), HPos::Center);
        sheet.draw(&Text::new(label, middle, style)).map_err(failed)
    }

    fn draw_mark(&self, sheet: &Sheet<'_>, mark: &Mark) -> Result<()> {
        let Some(x) = self.x(mark.at) else {
            return Ok(());
        };
        let line = PathElement::new([(x, self.top), (x, self.bottom)], GOAL.stroke_width(1));
        sheet.draw(&line).map_err(failed)?;
        let style = frame::placed(&frame::font(FIGURE_SIZE, GOAL), HPos::Center);
        sheet
            .draw(&Text::new(mark.name.as_str(), (x, self.top - 10), style))
            .map_err(failed)
    }
}
