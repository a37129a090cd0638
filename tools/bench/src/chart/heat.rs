//! Draws heat maps. A cell with a larger figure is darker.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::Heat;
use super::frame::{self, INK, MARGIN, PALE_INK, Sheet, WIDTH, failed};
use super::scale::Ruler;

const CELL_HEIGHT: i32 = 34;
const HEAD: i32 = 26;
const FOOT: u32 = 44;

/// The colours of the smallest and the largest figure.
const LOW: RGBColor = RGBColor(0xf1, 0xf6, 0xfb);
const HIGH: RGBColor = RGBColor(0x0f, 0x3f, 0x78);

/// The depth from which on the text is white, because the colour is dark.
const DARK: f64 = 0.55;

impl Heat {
    /// Draws the chart.
    pub(crate) fn to_svg(&self) -> Result<String> {
        let height = HEAD as u32 + FOOT + (CELL_HEIGHT * self.rows.len() as i32) as u32;
        frame::draw(&self.title, &[], height, |sheet| self.draw_field(sheet))
    }

    fn draw_field(&self, sheet: &Sheet<'_>) -> Result<()> {
        let ruler = Ruler::over(self.scale, self.cells.iter().flatten().flatten().copied());
        let left = MARGIN + frame::widest(&self.rows, 14) + 12;
        let width = (WIDTH as i32 - MARGIN - left) / self.columns.len().max(1) as i32;
        let centred = |size, colour| frame::placed(&frame::font(size, colour), HPos::Center);
        for (index, column) in self.columns.iter().enumerate() {
            let at = (left + width * index as i32 + width / 2, HEAD / 2);
            sheet
                .draw(&Text::new(column.as_str(), at, centred(13, PALE_INK)))
                .map_err(failed)?;
        }
        for (index, row) in self.rows.iter().enumerate() {
            let top = HEAD + CELL_HEIGHT * index as i32;
            let style = frame::placed(&frame::font(14, INK), HPos::Right);
            let name = Text::new(row.as_str(), (left - 10, top + CELL_HEIGHT / 2), style);
            sheet.draw(&name).map_err(failed)?;
            for (column, cell) in self.cells.get(index).into_iter().flatten().enumerate() {
                let Some(figure) = *cell else { continue };
                let Some(depth) = ruler.fraction(figure) else {
                    continue;
                };
                let corner = (left + width * column as i32, top);
                draw_cell(
                    sheet,
                    corner,
                    width,
                    depth,
                    &format!("{figure:.*}", self.digits),
                )?;
            }
        }
        let bottom = HEAD + CELL_HEIGHT * self.rows.len() as i32;
        let caption = format!("{}; {}", self.columns_label, self.label);
        let middle = (left + width * self.columns.len() as i32 / 2, bottom + 22);
        sheet
            .draw(&Text::new(caption, middle, centred(14, INK)))
            .map_err(failed)
    }
}

fn draw_cell(
    sheet: &Sheet<'_>,
    (x, y): (i32, i32),
    width: i32,
    depth: f64,
    figure: &str,
) -> Result<()> {
    let corners = [(x + 1, y + 1), (x + width - 1, y + CELL_HEIGHT - 1)];
    sheet
        .draw(&Rectangle::new(corners, mixed(depth).filled()))
        .map_err(failed)?;
    let ink = if depth > DARK { WHITE } else { INK };
    let style = frame::placed(&frame::font(13, ink), HPos::Center);
    sheet
        .draw(&Text::new(
            figure.to_string(),
            (x + width / 2, y + CELL_HEIGHT / 2),
            style,
        ))
        .map_err(failed)
}

/// The colour for a depth from 0 to 1.
fn mixed(depth: f64) -> RGBColor {
    let part = |low: u8, high: u8| {
        (f64::from(low) + (f64::from(high) - f64::from(low)) * depth).round() as u8
    };
    RGBColor(
        part(LOW.0, HIGH.0),
        part(LOW.1, HIGH.1),
        part(LOW.2, HIGH.2),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go_from_pale_to_dark() {
        assert_eq!(mixed(0.0), LOW);
        assert_eq!(mixed(1.0), HIGH);
        assert!(mixed(0.5).0 < LOW.0 && mixed(0.5).0 > HIGH.0);
    }
}
