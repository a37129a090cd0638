//! The state as widgets.

use super::answer::Row;
use super::plain::{cells, head, headings};
use super::stack::StackShown;
use super::state::{Mode, ScreenState};
use super::units::{clean, fitting_wait, length, short_length, shortened};
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

const KEYS: &str = "q quit  Enter stack  s sort  n names  / filter  p pause  x kill  h help";

const HELP: &str = "\
q, Esc        quit; in a stack: back to the table
Up, k         the row above; also PageUp, and Home or g for the first
Down, j       the row below; also PageDown, and End or G for the last
Left, Right   in a stack: the rest of long lines
Enter         the stack of the chosen process; of a name: its processes
s             sorts by: processor time since the last look, in all,
              or the time since a process last ran
n             merges processes of one name, or shows them again
/             shows only those with a text in their name, their wait or
              place of spawn; Enter keeps it, Esc brings back the last
p             pauses, or goes on; Ctrl-Z suspends this command
x, K          kills the chosen process, after a question
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
        Mode::Help => draw_lines(
            frame,
            &parts,
            "Help: any key leads back",
            Text::raw(HELP),
            0,
        ),
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

/// The places of the columns with texts.
const NAME: usize = 5;
const WAITS: usize = 6;

/// The width of the column NAME if all of WAITS needs the room.
const NARROW_NAME: u16 = 16;

/// Which columns there is room for, by their place in [`headings`], and their widths. One of them
/// is the column of the order. NAME takes what it needs, and at most what WAITS leaves.
fn columns(width: u16, state: &ScreenState) -> Vec<(usize, u16)> {
    let sorted = state.sort.column();
    let time = if sorted == 2 { 2 } else { 4 };
    let id = |row: &Row| length(&row.count.unwrap_or(row.process.id).to_string());
    let id = longest(state, &id).max(5);
    let mut columns = match width {
        0..40 => vec![(0, id), (sorted, if sorted == 1 { 6 } else { 7 })],
        40..70 => vec![(0, id), (sorted, if sorted == 1 { 6 } else { 7 }), (3, 9)],
        70..100 => vec![(0, id), (1, 6), (3, 9), (time, 7)],
        _ => vec![(0, id.max(7)), (1, 6), (2, 7), (3, 9), (4, 7)],
    };
    let used: u16 = columns.iter().map(|&(_, width)| width + 1).sum();
    let rest = width.saturating_sub(used);
    if width < 40 {
        columns.push((NAME, rest));
        return columns;
    }
    let waits = longest(state, &|row| short_length(&row.process.waits));
    let most = rest.saturating_sub(waits.saturating_add(1));
    let most = most.max(NARROW_NAME.min(rest / 3));
    let name = longest(state, &|row| length(row.process.name()));
    let name = name.max(4).min(most);
    columns.push((NAME, name));
    columns.push((WAITS, rest.saturating_sub(name + 1)));
    columns
}

/// The longest of some texts of the rows on the screen.
fn longest(state: &ScreenState, of: &dyn Fn(&Row) -> usize) -> u16 {
    let shown = state.rows().iter().skip(state.top).take(state.lines());
    u16::try_from(shown.map(of).max().unwrap_or(0)).unwrap_or(u16::MAX)
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
    let columns = columns(parts.body.width, state);
    let to_row = |cells: [String; 7]| {
        let shown = columns.iter().map(|&(place, width)| {
            let text = match place {
                WAITS => fitting_wait(&cells[place], width.into()),
                _ => shortened(&cells[place], width.into()),
            };
            cell(place, text)
        });
        TableRow::new(shown.collect::<Vec<_>>())
    };
    let widths = || columns.iter().map(|&(_, width)| Constraint::Length(width));
    let has_names = state.rows().iter().any(|row| row.count.is_some());
    let mut headings = headings(has_names);
    headings[state.sort.column()] += "\u{2193}";
    let headings = to_row(headings).style(reversed());
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

fn draw_lines(frame: &mut Frame<'_>, parts: &Parts, title: &str, text: Text<'_>, left: usize) {
    frame.render_widget(
        Paragraph::new(title.to_owned()).style(reversed()),
        parts.heading,
    );
    let left = u16::try_from(left).unwrap_or(u16::MAX);
    frame.render_widget(Paragraph::new(text).scroll((0, left)), parts.body);
}

fn draw_stack(frame: &mut Frame<'_>, parts: &Parts, shown: &StackShown) {
    let goes_on = match shown.goes_on(parts.body.width.into()) {
        true => "  (Right: the rest of the lines)",
        false => "",
    };
    let title = format!("Stack of process {}{goes_on}", shown.id);
    let most = parts.body.height.into();
    let lines = shown.lines.iter().skip(shown.top).take(most);
    let text: Text<'_> = match shown.lines.is_empty() {
        true => Text::raw("..."),
        false => lines.map(|line| Line::raw(clean(line))).collect(),
    };
    draw_lines(frame, parts, &title, text, shown.left);
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, state: &ScreenState) {
    let warning = Style::new().fg(Color::Black).bg(Color::Yellow);
    let line = match (&state.mode, &state.over, &state.held) {
        (Mode::Confirm { title, .. }, _, _) => Line::styled(
            format!("Kill {}? y: yes, any other key: no", clean(title)),
            warning,
        ),
        (Mode::Filter { .. }, _, _) => Line::styled(
            format!("/{}_  {}", clean(&state.filter), state.matching()),
            bold(),
        ),
        (_, Some(why), _) => Line::styled(format!("{}; q: quit", clean(why)), warning),
        (_, _, Some(why)) => Line::styled(format!("held: {}", clean(why)), warning),
        _ if !state.note.is_empty() => Line::styled(clean(&state.note), bold()),
        (Mode::Stack(_), _, _) => Line::raw("Esc back  arrows scroll  p pause"),
        _ if !state.filter.is_empty() => Line::raw(format!(
            "filter: {}  {}  (/ changes it)  {KEYS}",
            clean(&state.filter),
            state.matching()
        )),
        _ => Line::raw(KEYS),
    };
    frame.render_widget(line, area);
}
