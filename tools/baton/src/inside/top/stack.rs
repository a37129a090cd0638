//! The stacks of one process on the screen.

use baton_observe::report::Process;
use crossterm::event::KeyCode;

/// By how many columns a key moves sideways.
const SIDEWAYS: usize = 8;

/// The stacks of one process.
#[derive(Debug)]
pub(super) struct StackShown {
    pub(super) id: u64,
    /// Its lines; none before the first answer.
    pub(super) lines: Vec<String>,
    /// The first line and the first column that are shown.
    pub(super) top: usize,
    pub(super) left: usize,
}

/// How many lines and columns there is room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) lines: usize,
    pub(super) columns: usize,
}

/// What a key asks for that is not about the lines.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum StackKey {
    Nothing,
    Back,
    Pause,
}

impl StackShown {
    pub(super) fn new(id: u64) -> StackShown {
        StackShown {
            id,
            lines: Vec::new(),
            top: 0,
            left: 0,
        }
    }

    /// Takes in an answer of the program.
    pub(super) fn take(&mut self, process: &Process) {
        let text = process.to_string();
        let lines = text.lines().map(|line| line.replace('\t', "    "));
        self.lines = lines.collect();
    }

    /// Whether a line goes on at the right of the screen.
    pub(super) fn goes_on(&self, columns: usize) -> bool {
        self.width() > self.left + columns
    }

    fn width(&self) -> usize {
        let widths = self.lines.iter().map(|line| line.chars().count());
        widths.max().unwrap_or(0)
    }

    /// Carries out a key.
    pub(super) fn press(&mut self, key: KeyCode, room: Room) -> StackKey {
        let last = self.lines.len().saturating_sub(room.lines);
        let rightmost = self.width().saturating_sub(room.columns);
        match key {
            KeyCode::Char('q') | KeyCode::Esc | KeyCode::Enter => return StackKey::Back,
            KeyCode::Char('p') => return StackKey::Pause,
            KeyCode::Left => self.left = self.left.saturating_sub(SIDEWAYS),
            KeyCode::Right => self.left = (self.left + SIDEWAYS).min(rightmost),
            KeyCode::Up | KeyCode::Char('k') => self.top = self.top.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.top += 1,
            KeyCode::PageUp => self.top = self.top.saturating_sub(room.lines),
            KeyCode::PageDown => self.top += room.lines,
            KeyCode::Home | KeyCode::Char('g') => (self.top, self.left) = (0, 0),
            KeyCode::End | KeyCode::Char('G') => self.top = last,
            _ => {}
        }
        self.top = self.top.min(last);
        StackKey::Nothing
    }
}
