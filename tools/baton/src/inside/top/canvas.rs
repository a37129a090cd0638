//! What a screen shows: a grid of cells, onto which texts are put.

use crossterm::style::ContentStyle;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// A rectangle of cells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) x: u16,
    pub(super) y: u16,
    pub(super) width: u16,
    pub(super) height: u16,
}

impl Area {
    /// One line of the area.
    pub(super) fn line(self, number: u16) -> Area {
        Area {
            y: self.y + number,
            height: 1,
            ..self
        }
    }

    /// What is right of the first `used` columns.
    pub(super) fn right_of(self, used: u16) -> Area {
        let used = used.min(self.width);
        Area {
            x: self.x + used,
            width: self.width - used,
            ..self
        }
    }
}

/// The text in a cell: one character as a reader sees it. A cell right of a wide one has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) style: ContentStyle,
}

/// The cells of a screen.
#[derive(Clone, Debug)]
pub(super) struct Canvas {
    pub(super) width: u16,
    pub(super) height: u16,
    cells: Vec<Cell>,
}

impl Canvas {
    /// Blanks.
    pub(super) fn new(width: u16, height: u16) -> Canvas {
        let blank = Cell {
            text: " ".to_owned(),
            style: ContentStyle::new(),
        };
        Canvas {
            width,
            height,
            cells: vec![blank; usize::from(width) * usize::from(height)],
        }
    }

    pub(super) fn area(&self) -> Area {
        Area {
            x: 0,
            y: 0,
            width: self.width,
            height: self.height,
        }
    }

    /// The cells of a line.
    pub(super) fn line(&self, y: u16) -> &[Cell] {
        let width = usize::from(self.width);
        let first = width * usize::from(y);
        self.cells.get(first..first + width).unwrap_or_default()
    }

    fn set(&mut self, x: u16, y: u16, text: &str, style: ContentStyle) {
        if x < self.width {
            let place = usize::from(self.width) * usize::from(y) + usize::from(x);
            if let Some(cell) = self.cells.get_mut(place) {
                text.clone_into(&mut cell.text);
                cell.style = style;
            }
        }
    }

    /// Gives all of an area a style, and makes it blank.
    pub(super) fn fill(&mut self, area: Area, style: ContentStyle) {
        for y in area.y..area.y.saturating_add(area.height) {
            for x in area.x..area.x.saturating_add(area.width) {
                self.set(x, y, " ", style);
            }
        }
    }

    /// Puts a text into the first line of an area, as much as there is room for. Characters that a
    /// terminal would act on are left out.
    pub(super) fn put(&mut self, area: Area, text: &str, style: ContentStyle) {
        if area.height == 0 {
            return;
        }
        let mut used = 0;
        for (part, width) in parts(text) {
            if used + width > area.width {
                return;
            }
            self.set(area.x + used, area.y, part, style);
            for behind in 1..width {
                self.set(area.x + used + behind, area.y, "", style);
            }
            used += width;
        }
    }

    /// Puts a text at the right end of the first line of an area. A longer one begins at the left.
    pub(super) fn put_right(&mut self, area: Area, text: &str, style: ContentStyle) {
        let width = parts(text).fold(0_u16, |sum, (_, width)| sum.saturating_add(width));
        self.put(area.right_of(area.width.saturating_sub(width)), text, style);
    }

    /// Draws a bar for each number in the first line of an area. The largest one fills its cell.
    pub(super) fn put_bars(&mut self, area: Area, numbers: &[u64], style: ContentStyle) {
        const BARS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
        let most = numbers.iter().copied().max().unwrap_or(0).max(1);
        for (x, &number) in (0..area.width).zip(numbers) {
            // 8 at most.
            let eighths = (u128::from(number) * 8 / u128::from(most)) as usize;
            self.put(area.right_of(x), BARS.get(eighths).unwrap_or(&"█"), style);
        }
    }
}

/// The characters of a text as a reader sees them, and their widths in cells.
fn parts(text: &str) -> impl Iterator<Item = (&str, u16)> {
    text.graphemes(true).filter_map(|part| {
        let width = u16::try_from(part.width()).unwrap_or(u16::MAX);
        (width > 0 && !part.contains(char::is_control)).then_some((part, width))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The lines without trailing blanks.
    pub(crate) fn lines(canvas: &Canvas) -> Vec<String> {
        let line = |y| {
            let cells = canvas.line(y).iter().map(|cell| cell.text.as_str());
            cells.collect::<String>().trim_end().to_owned()
        };
        (0..canvas.height).map(line).collect()
    }

    fn plain() -> ContentStyle {
        ContentStyle::new()
    }

    #[test]
    fn a_text_ends_where_its_area_does() {
        let mut canvas = Canvas::new(6, 2);
        let area = Area {
            x: 1,
            y: 1,
            width: 3,
            height: 1,
        };
        canvas.put(area, "abcdef", plain());
        assert_eq!(lines(&canvas), ["", " abc"]);
        canvas.put_right(area, "z", plain());
        assert_eq!(lines(&canvas), ["", " abz"]);
        canvas.put_right(area, "vwxyz", plain());
        assert_eq!(lines(&canvas), ["", " vwx"]);
    }

    #[test]
    fn a_wide_character_takes_two_cells_or_none() {
        let mut canvas = Canvas::new(3, 1);
        canvas.put(canvas.area(), "日本", plain());
        assert_eq!(lines(&canvas), ["日"]);
        assert_eq!(canvas.line(0)[1].text, "");
    }

    #[test]
    fn nothing_that_a_terminal_would_act_on_is_put() {
        let mut canvas = Canvas::new(8, 1);
        canvas.put(canvas.area(), "a\x1b[2J\r\nb", plain());
        assert_eq!(lines(&canvas), ["a[2Jb"]);
    }

    #[test]
    fn what_is_outside_of_the_screen_is_left_out() {
        let mut canvas = Canvas::new(2, 1);
        let outside = Area {
            x: 1,
            y: 0,
            width: 9,
            height: 9,
        };
        canvas.fill(outside, plain());
        canvas.put(outside, "abc", plain());
        canvas.put(outside.line(7), "abc", plain());
        assert_eq!(lines(&canvas), [" a"]);
        Canvas::new(0, 0).put(outside, "abc", plain());
    }

    #[test]
    fn the_largest_bar_fills_its_cell() {
        let mut canvas = Canvas::new(5, 1);
        canvas.put_bars(canvas.area(), &[0, 1, 4, 8, 2, 3], plain());
        assert_eq!(lines(&canvas), [" ▁▄█▂"]);
        canvas.put_bars(canvas.area(), &[u64::MAX, 0], plain());
        assert_eq!(lines(&canvas), ["█ ▄█▂"]);
    }
}
