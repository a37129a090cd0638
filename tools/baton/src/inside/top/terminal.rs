//! A terminal that shows a [`Canvas`].

use super::canvas::Canvas;
use crossterm::style::{Attribute, Print, SetAttribute, SetStyle};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{cursor, execute, queue};
use std::io::{self, Stdout, Write};

/// The terminal on standard output.
pub(super) struct Terminal {
    to: io::BufWriter<Stdout>,
    /// What it shows. None: that is not known yet.
    shown: Option<Canvas>,
}

impl Terminal {
    /// Takes the terminal over: keys come at once and unseen, on a screen of their own. The caller
    /// ends with [`put_back`].
    ///
    /// # Errors
    /// The system's.
    pub(super) fn take() -> io::Result<Terminal> {
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
        Ok(Terminal {
            to: io::BufWriter::new(io::stdout()),
            shown: None,
        })
    }

    /// An empty canvas of the terminal's size.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn canvas(&self) -> io::Result<Canvas> {
        let (width, height) = size()?;
        Ok(Canvas::new(width, height))
    }

    /// Shows a canvas. Only the cells that differ from what is shown are written.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn show(&mut self, canvas: Canvas) -> io::Result<()> {
        let is_fitting =
            |shown: &Canvas| (shown.width, shown.height) == (canvas.width, canvas.height);
        let shown = match self.shown.take().filter(is_fitting) {
            Some(shown) => shown,
            None => {
                queue!(self.to, Clear(ClearType::All))?;
                Canvas::new(canvas.width, canvas.height)
            }
        };
        write_changes(&mut self.to, &shown, &canvas)?;
        self.to.flush()?;
        self.shown = Some(canvas);
        Ok(())
    }
}

/// Puts the terminal back as it was before [`Terminal::take`].
///
/// # Errors
/// The system's.
pub(super) fn put_back() -> io::Result<()> {
    // If one fails, the other may not.
    let mode = disable_raw_mode();
    execute!(io::stdout(), LeaveAlternateScreen, cursor::Show)?;
    mode
}

fn write_changes(to: &mut impl Write, shown: &Canvas, canvas: &Canvas) -> io::Result<()> {
    let mut used = None;
    for y in 0..canvas.height {
        // Whether the cursor is at the next cell. Terminals differ in the width of rare characters.
        let mut is_there = false;
        let cells = canvas.line(y).iter().zip(shown.line(y));
        for (x, (cell, before)) in (0..canvas.width).zip(cells) {
            if cell == before || cell.text.is_empty() {
                is_there = false;
                continue;
            }
            if !is_there {
                queue!(to, cursor::MoveTo(x, y))?;
            }
            if used != Some(cell.style) {
                queue!(to, SetAttribute(Attribute::Reset), SetStyle(cell.style))?;
                used = Some(cell.style);
            }
            queue!(to, Print(&cell.text))?;
            is_there = cell.text.is_ascii();
        }
    }
    match used {
        Some(_) => queue!(to, SetAttribute(Attribute::Reset)),
        None => Ok(()),
    }
}
