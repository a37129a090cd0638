//! The state as widgets.

use super::plain::{HEADINGS, cells, head};
use super::state::{Mode, ScreenState, StackShown};
use super::units::clean;
use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Row as TableRow, Sparkline, Table};
use std::time::Duration;

/// The number of lines about the VM, if there is room.
const HEAD: u16 = 3;

/// An answer that is late by less is not mentioned.
const LATE: Duration = Duration::from_secs(2);

const KEYS: &str = "q quit  Enter stack  s sort  / filter  p pause  x kill  h help";

const HELP: &str = "\
q, Esc        quit; in a stack: back to the table
Up, k         the row above; also PageUp, and Home or g for the first
Down, j       the row below; also PageDown, and End or G for the last
Enter         the stack of the chosen process
s             sorts by: processor time since the last look, in all,
              or the time since a process last ran
/             shows only processes with a text in their name, their wait
              or their place of spawn; Enter keeps it, Esc brings back
              the one before
p             pauses, or goes on
x, K          kills the chosen process, after a question (with --write)
h, ?          this text

CPU %         processor time since the last look, of one processor
TOTAL         processor time since the process began
IDLE          time since it last ran
NAME          its name, or where it was spawned
WAITS         what it waits for, and who holds that";

/// The parts of the screen, from above. Each may be empty.
struct Parts {
    head: Rect,
    heading: Rect,
    body: Rect,
    foot: Rect,
}

impl Parts {
    fn of(area: Rect) -> Parts {
        let head = area.height.saturating_sub(3).min(HEAD);
        let foot = area.height.min(1);
        let heading = area.height.saturating_sub(head + foot + 1).min(1);
        let mut below = area.y;
        let mut part = |height| {
            let part = Rect {
                y: below,
                height,
                ..area
            };
            below += height;
            part
        };
        Parts {
            head: part(head),
            heading: part(heading),
            body: part(area.height - head - heading - foot),
            foot: part(foot),
        }
    }
}

/// How many rows there is room for on a screen of this height.
pub(super) fn room(height: u16) -> usize {
    Parts::of(Rect::new(0, 0, 1, height)).body.height.into()
}

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, state: &ScreenState) {
    let parts = Parts::of(frame.area());
    draw_head(frame, parts.head, state);
    match &state.mode {
        Mode::Stack(shown) => draw_stack(frame, &parts, shown),
        Mode::Help => draw_lines(frame, &parts, "Help: any key leads back", Text::raw(HELP)),
        Mode::Table | Mode::Filter { .. } | Mode::Confirm { .. } => {
            draw_table(frame, &parts, state);
        }
    }
    draw_foot(frame, parts.foot, state);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn reversed() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

/// One line of an area.
fn line_of(area: Rect, line: u16) -> Rect {
    Rect {
        y: area.y + line,
        height: 1,
        ..area
    }
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, state: &ScreenState) {
    if area.height == 0 {
        return;
    }
    let Some(answer) = &state.answer else {
        let text = format!("baton top {}: awaits the first answer", state.pid);
        return frame.render_widget(Line::styled(text, bold()), line_of(area, 0));
    };
    let mut lines = head(state.pid, answer, &state.rates);
    if let Some(late) = state
        .late
        .filter(|&late| late >= LATE && state.over.is_none())
    {
        lines[0] += &format!("  no answer for {} s", late.as_secs());
    } else if state.is_paused {
        lines[0] += "  PAUSED";
    }
    for (number, text) in (0..area.height).zip(&lines) {
        let style = if number == 0 { bold() } else { Style::new() };
        frame.render_widget(Line::styled(text.as_str(), style), line_of(area, number));
    }
    if area.height == HEAD {
        draw_history(frame, line_of(area, HEAD - 1), &lines[2], state);
    }
}

/// Draws the history of switches to the right of a text.
fn draw_history(frame: &mut Frame<'_>, area: Rect, text: &str, state: &ScreenState) {
    let used = u16::try_from(text.len() + 2).unwrap_or(u16::MAX);
    let width = area.width.saturating_sub(used);
    if width == 0 {
        return;
    }
    let area = Rect {
        x: area.x + used,
        width,
        ..area
    };
    let hidden = state.history.len().saturating_sub(width.into());
    let newest: Vec<u64> = state.history.iter().skip(hidden).copied().collect();
    let style = Style::new().fg(Color::Cyan);
    frame.render_widget(Sparkline::default().data(&newest).style(style), area);
}

/// Which columns there is room for, by their place in [`HEADINGS`], and their widths.
fn columns(width: u16) -> &'static [(usize, Constraint)] {
    use Constraint::{Fill, Length};
    match width {
        0..40 => &[(0, Length(5)), (1, Length(5)), (5, Fill(1))],
        40..70 => &[
            (0, Length(6)),
            (1, Length(5)),
            (3, Length(9)),
            (5, Fill(1)),
            (6, Fill(1)),
        ],
        _ => &[
            (0, Length(7)),
            (1, Length(6)),
            (2, Length(7)),
            (3, Length(9)),
            (4, Length(7)),
            (5, Fill(2)),
            (6, Fill(3)),
        ],
    }
}

/// The places of numbers, which are set to the right.
const NUMBERS: [usize; 4] = [0, 1, 2, 4];

fn cell(place: usize, text: String) -> Text<'static> {
    match NUMBERS.contains(&place) {
        true => Text::from(text).right_aligned(),
        false => Text::from(text),
    }
}

fn draw_table(frame: &mut Frame<'_>, parts: &Parts, state: &ScreenState) {
    let columns = columns(parts.body.width);
    let to_row = |mut cells: [String; 7]| {
        let shown = columns.iter().filter_map(|&(place, _)| {
            let text = cells.get_mut(place).map(std::mem::take)?;
            Some(cell(place, text))
        });
        TableRow::new(shown.collect::<Vec<_>>())
    };
    let widths = || columns.iter().map(|&(_, width)| width);
    let headings = to_row(HEADINGS.map(str::to_owned)).style(reversed());
    frame.render_widget(
        Table::new([headings], widths()).style(reversed()),
        parts.heading,
    );
    let is_first = state
        .answer
        .as_ref()
        .is_none_or(|answer| answer.passed == 0.0);
    let chosen = Style::new().fg(Color::Black).bg(Color::Cyan);
    let rows = state
        .rows()
        .iter()
        .enumerate()
        .skip(state.top)
        .take(parts.body.height.into())
        .map(|(place, row)| {
            let style = match place == state.place {
                true => chosen,
                false => style_of(&row.process.state),
            };
            to_row(cells(row, is_first)).style(style)
        });
    frame.render_widget(Table::new(rows, widths()), parts.body);
}

fn style_of(state: &str) -> Style {
    match state {
        "running" | "runnable" => Style::new().fg(Color::Green),
        "foreign" => Style::new().fg(Color::Yellow),
        _ => Style::new(),
    }
}

fn draw_lines(frame: &mut Frame<'_>, parts: &Parts, title: &str, text: Text<'_>) {
    frame.render_widget(
        Paragraph::new(title.to_owned()).style(reversed()),
        parts.heading,
    );
    frame.render_widget(Paragraph::new(text), parts.body);
}

fn draw_stack(frame: &mut Frame<'_>, parts: &Parts, shown: &StackShown) {
    let title = format!("Stack of process {}", shown.id);
    let most = parts.body.height.into();
    let lines = shown.lines.iter().skip(shown.top).take(most);
    let text: Text<'_> = match shown.lines.is_empty() {
        true => Text::raw("..."),
        false => lines.map(|line| Line::raw(clean(line))).collect(),
    };
    draw_lines(frame, parts, &title, text);
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, state: &ScreenState) {
    let warning = Style::new().fg(Color::Black).bg(Color::Yellow);
    let line = match (&state.mode, &state.over, &state.held) {
        (Mode::Confirm { title, .. }, _, _) => Line::styled(
            format!("Kill {}? y: yes, any other key: no", clean(title)),
            warning,
        ),
        (Mode::Filter { .. }, _, _) => Line::styled(format!("/{}_", clean(&state.filter)), bold()),
        (_, Some(why), _) => Line::styled(format!("{}; q: quit", clean(why)), warning),
        (_, _, Some(why)) => Line::styled(format!("held: {}", clean(why)), warning),
        _ if !state.note.is_empty() => Line::styled(clean(&state.note), bold()),
        (Mode::Stack(_), _, _) => Line::raw("Esc back  Up, Down scroll  p pause"),
        _ if !state.filter.is_empty() => Line::raw(format!(
            "filter: {}  (/ changes it)  {KEYS}",
            clean(&state.filter)
        )),
        _ => Line::raw(KEYS),
    };
    frame.render_widget(line, area);
}
