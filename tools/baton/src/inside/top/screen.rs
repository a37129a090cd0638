//! The state as a drawing.

use super::answer::{Row, number_of};
use super::canvas::{Area, Canvas};
use super::plain::{below_head, cells, head, headings};
use super::stack::StackShown;
use super::state::{Mode, ScreenState};
use super::units::{clean, fitting_wait, length, short_length, shortened};
use crossterm::style::{ContentStyle, Stylize};
use std::time::Duration;

/// The number of lines about the VM, if there is room.
const HEAD: u16 = 3;

/// Of the lines below the head, at most a part of the screen: one of so many.
const SHARE_BELOW_HEAD: usize = 4;

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
/             only those with a text in name, wait or place of spawn; Esc undoes
p             pauses, or goes on; Ctrl-Z suspends this command
x, K          kills the chosen process, after a question
h, ?          this text

CPU %         processor time since the last look, of one processor
TOTAL         processor time since the process began
STATE         with an arrow: it computes, and has sunk a level by its decay
IDLE          time since it last ran
NAME          its name, or where it was spawned
WAITS         what it waits for, and who holds that";

/// The parts of the screen, from above. Each may be empty.
struct Parts {
    head: Area,
    /// VMs that are kept, and servers.
    below_head: Area,
    heading: Area,
    body: Area,
    foot: Area,
}

impl Parts {
    /// With so many lines below the head.
    fn of(area: Area, lines: u16) -> Parts {
        let head = area.height.saturating_sub(3).min(HEAD);
        let foot = area.height.min(1);
        let below_head = area.height.saturating_sub(head + foot + 2).min(lines);
        let head_and_foot = head + below_head + foot;
        let heading = area.height.saturating_sub(head_and_foot + 1).min(1);
        let mut below = area.y;
        let mut part = |height| {
            let part = Area {
                y: below,
                height,
                ..area
            };
            below += height;
            part
        };
        Parts {
            head: part(head),
            below_head: part(below_head),
            heading: part(heading),
            body: part(area.height - head_and_foot - heading),
            foot: part(foot),
        }
    }
}

/// The lines about VMs and servers that a screen of this height shows.
fn lines_below_head(height: u16, state: &ScreenState) -> Vec<String> {
    let most = usize::from(height) / SHARE_BELOW_HEAD;
    match (&state.answer, &state.mode) {
        (None, _) | (_, Mode::Stack(_) | Mode::Help) => Vec::new(),
        (Some(answer), _) => below_head(answer, most),
    }
}

/// The parts of a screen, and the lines below its head.
fn parts_of(area: Area, state: &ScreenState) -> (Parts, Vec<String>) {
    let lines = lines_below_head(area.height, state);
    let count = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    (Parts::of(area, count), lines)
}

/// How many rows there is room for on a screen of this height.
pub(super) fn room(height: u16, state: &ScreenState) -> usize {
    let (parts, _) = parts_of(Canvas::new(0, height).area(), state);
    parts.body.height.into()
}

/// Draws everything.
pub(super) fn draw(canvas: &mut Canvas, state: &ScreenState) {
    let (parts, lines) = parts_of(canvas.area(), state);
    draw_head(canvas, parts.head, state);
    for (number, line) in (0..parts.below_head.height).zip(&lines) {
        draw_line(canvas, parts.below_head.line(number), line, plain());
    }
    match &state.mode {
        Mode::Stack(shown) => draw_stack(canvas, &parts, shown),
        Mode::Help => draw_lines(canvas, &parts, "Help: any key leads back", HELP.lines()),
        Mode::Table | Mode::Filter { .. } | Mode::Confirm { .. } => {
            draw_table(canvas, &parts, state);
        }
    }
    draw_foot(canvas, parts.foot, state);
}

fn plain() -> ContentStyle {
    ContentStyle::new()
}

fn bold() -> ContentStyle {
    plain().bold()
}

fn reversed() -> ContentStyle {
    plain().reverse()
}

/// Draws a line, whose style fills the area.
fn draw_line(canvas: &mut Canvas, area: Area, text: &str, style: ContentStyle) {
    canvas.fill(area, style);
    canvas.put(area, text, style);
}

fn draw_head(canvas: &mut Canvas, area: Area, state: &ScreenState) {
    if area.height == 0 {
        return;
    }
    let Some(answer) = &state.answer else {
        let text = format!("baton top {}: awaits the first answer", state.pid);
        return draw_line(canvas, area.line(0), &text, bold());
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
        let style = if number == 0 { bold() } else { plain() };
        draw_line(canvas, area.line(number), text, style);
    }
    if area.height == HEAD {
        draw_history(canvas, area.line(HEAD - 1), &lines[2], state);
    }
}

/// Draws the history of switches to the right of a text.
fn draw_history(canvas: &mut Canvas, area: Area, text: &str, state: &ScreenState) {
    let used = u16::try_from(text.len() + 2).unwrap_or(u16::MAX);
    let area = area.right_of(used);
    let hidden = state.history.len().saturating_sub(area.width.into());
    let newest: Vec<u64> = state.history.iter().skip(hidden).copied().collect();
    canvas.put_bars(area, &newest, plain().dark_cyan());
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
    let name = longest(state, &|row| length(&row.process.name_with_vm()));
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

/// Draws a row of the table. Its style fills the line.
fn draw_row(
    canvas: &mut Canvas,
    line: Area,
    columns: &[(usize, u16)],
    cells: &[String; 7],
    style: ContentStyle,
) {
    canvas.fill(line, style);
    let mut rest = line;
    for &(place, width) in columns {
        let area = Area {
            width: width.min(rest.width),
            ..rest
        };
        let width = usize::from(width);
        match place {
            WAITS => canvas.put(area, &fitting_wait(&cells[place], width), style),
            NAME => canvas.put(area, &shortened(&cells[place], width), style),
            _ if NUMBERS.contains(&place) => canvas.put_right(area, &cells[place], style),
            _ => canvas.put(area, &cells[place], style),
        }
        rest = rest.right_of(area.width + 1);
    }
}

fn draw_table(canvas: &mut Canvas, parts: &Parts, state: &ScreenState) {
    let columns = columns(parts.body.width, state);
    let has_names = state.rows().iter().any(|row| row.count.is_some());
    let mut headings = headings(has_names);
    headings[state.sort.column()] += "\u{2193}";
    draw_row(canvas, parts.heading, &columns, &headings, reversed());
    let is_first = state
        .answer
        .as_ref()
        .is_none_or(|answer| answer.passed == 0.0);
    let shown = state.rows().iter().enumerate().skip(state.top);
    for (number, (place, row)) in (0..parts.body.height).zip(shown) {
        let style = match place == state.place {
            true => plain().black().on_dark_cyan(),
            false => style_of(&row.process.state),
        };
        let line = parts.body.line(number);
        draw_row(canvas, line, &columns, &cells(row, is_first), style);
    }
}

fn style_of(state: &str) -> ContentStyle {
    match state {
        "running" | "runnable" => plain().dark_green(),
        "foreign" => plain().dark_yellow(),
        _ => plain(),
    }
}

fn draw_lines<'a>(
    canvas: &mut Canvas,
    parts: &Parts,
    title: &str,
    lines: impl Iterator<Item = &'a str>,
) {
    draw_line(canvas, parts.heading, title, reversed());
    for (number, line) in (0..parts.body.height).zip(lines) {
        canvas.put(parts.body.line(number), line, plain());
    }
}

fn draw_stack(canvas: &mut Canvas, parts: &Parts, shown: &StackShown) {
    let goes_on = match shown.goes_on(parts.body.width.into()) {
        true => "  (Right: the rest of the lines)",
        false => "",
    };
    let title = format!("Stack of process {}{goes_on}", number_of(shown.id));
    let from_left = |line: &String| clean(line).chars().skip(shown.left).collect();
    let mut lines: Vec<String> = shown.lines.iter().skip(shown.top).map(from_left).collect();
    if shown.lines.is_empty() {
        lines.push("...".to_owned());
    }
    draw_lines(canvas, parts, &title, lines.iter().map(String::as_str));
}

fn draw_foot(canvas: &mut Canvas, area: Area, state: &ScreenState) {
    let warning = plain().black().on_dark_yellow();
    let (text, style) = match (&state.mode, &state.over, &state.held) {
        (Mode::Confirm { title, .. }, _, _) => (
            format!("Kill {}? y: yes, any other key: no", clean(title)),
            warning,
        ),
        (Mode::Filter { .. }, _, _) => (
            format!("/{}_  {}", clean(&state.filter), state.matching()),
            bold(),
        ),
        (_, Some(why), _) => (format!("{}; q: quit", clean(why)), warning),
        (_, _, Some(why)) => (format!("held: {}", clean(why)), warning),
        _ if !state.note.is_empty() => (clean(&state.note), bold()),
        (Mode::Stack(_), _, _) => ("Esc back  arrows scroll  p pause".to_owned(), plain()),
        _ if !state.filter.is_empty() => (
            format!(
                "filter: {}  {}  (/ changes it)  {KEYS}",
                clean(&state.filter),
                state.matching()
            ),
            plain(),
        ),
        _ => (KEYS.to_owned(), plain()),
    };
    draw_line(canvas, area, &text, style);
}
