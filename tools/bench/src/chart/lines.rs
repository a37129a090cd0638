//! Draws line charts, whose axes may be linear or logarithmic.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::Lines;
use super::frame::{self, GOAL, GRID, INK, MARGIN, PALE_INK, Sheet, failed};
use super::scale::Ruler;

const HEIGHT: u32 = 400;

impl Lines {
    /// Draws the chart.
    pub(crate) fn to_svg(&self) -> Result<String> {
        let legend: Vec<String> = self.series.iter().map(|line| line.name.clone()).collect();
        frame::draw(&self.title, &legend, HEIGHT, |sheet| self.draw_field(sheet))
    }

    fn draw_field(&self, sheet: &Sheet<'_>) -> Result<()> {
        let points = || self.series.iter().flat_map(|line| &line.points);
        let marks = self.marks.iter().map(|mark| mark.at);
        let x = Ruler::over(self.x.scale, points().map(|point| point.0));
        let y = Ruler::over(self.y.scale, points().map(|point| point.1).chain(marks));
        let mut chart = ChartBuilder::on(sheet)
            .margin_left(MARGIN)
            .margin_right(MARGIN + 30)
            .margin_bottom(8)
            .margin_top(10)
            .x_label_area_size(48)
            .y_label_area_size(62)
            .build_cartesian_2d(x.clone(), y.clone())
            .map_err(failed)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(PALE_INK)
            .label_style(frame::font(12, PALE_INK))
            .axis_desc_style(frame::font(14, INK))
            .x_desc(self.x.label.as_str())
            .y_desc(self.y.label.as_str())
            .draw()
            .map_err(failed)?;
        for mark in &self.marks {
            let Some(level) = y.place(mark.at) else {
                continue;
            };
            let ends = [(x.range().start, level), (x.range().end, level)];
            chart
                .draw_series(LineSeries::new(ends, GOAL.stroke_width(1)))
                .map_err(failed)?;
            let style = frame::placed(&frame::font(12, GOAL), HPos::Right);
            let name = EmptyElement::at(ends[1]) + Text::new(mark.name.clone(), (-6, -9), style);
            chart.plotting_area().draw(&name).map_err(failed)?;
        }
        for (index, line) in self.series.iter().enumerate() {
            let places: Vec<(f64, f64)> = line
                .points
                .iter()
                .filter_map(|point| Some((x.place(point.0)?, y.place(point.1)?)))
                .collect();
            let colour = frame::colour(index);
            let dots = places
                .iter()
                .map(|&place| Circle::new(place, 4, colour.filled()));
            chart.draw_series(dots).map_err(failed)?;
            chart
                .draw_series(LineSeries::new(places, colour.stroke_width(2)))
                .map_err(failed)?;
        }
        Ok(())
    }
}
