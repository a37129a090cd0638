//! What the screen shows, and what keys and answers change in it. Without a terminal, a program or
//! a clock.

use super::answer::{Answer, Rates, Row, number_of};
use super::sort::Sort;
use super::stack::{Room, StackKey, StackShown};
use baton_observe::report::Process;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::VecDeque;
use std::time::Duration;

/// What is said of a process that keeps the VM, if the program does not say more.
pub(super) const KEPT: &str = "a process computes inside the VM, without a safepoint";

/// How many rates of switches are kept for the sparkline.
const HISTORY: usize = 200;

/// The maximal number of rows that are asked for.
const MOST_ROWS: usize = 1000;

/// What is asked of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// A table. With `again`, of the times that were read last.
    Table {
        rows: usize,
        sort: Sort,
        filter: String,
        /// Merges processes of one name.
        group: bool,
        again: bool,
    },
    /// The stacks of a process.
    Stack(u64),
    /// To kill a process.
    Kill(u64),
}

/// What comes back.
#[derive(Debug)]
pub(super) enum News {
    Table {
        answer: Box<Answer>,
        again: bool,
        /// Whether the program lets its processes be killed.
        may_kill: bool,
    },
    /// A process with its stacks; `None`: it has ended.
    Stack(u64, Option<Box<Process>>),
    /// How a kill was taken, as a sentence, or why it was refused.
    Killed(String),
    /// The program cannot answer at the moment, for this reason.
    Held(String),
    /// There will be no more answers, for this reason.
    Over(String),
}

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Action {
    Nothing,
    Ask(Question),
    /// To suspend this command, as a shell's job.
    Suspend,
    Quit,
}

/// What is on the screen beside the lines about the VM.
#[derive(Debug)]
pub(super) enum Mode {
    Table,
    /// The filter is being edited; Esc brings back this one.
    Filter {
        before: String,
    },
    Stack(StackShown),
    /// Whether to kill this process.
    Confirm {
        id: u64,
        title: String,
    },
    Help,
}

/// The chosen process by its key, and its name with its VM, which stands for it in a table of
/// names.
#[derive(Debug)]
struct Followed {
    id: u64,
    name: String,
}

impl Followed {
    fn of(row: &Row) -> Followed {
        Followed {
            id: row.key(),
            name: row.process.name_with_vm().into_owned(),
        }
    }

    fn is(&self, row: &Row) -> bool {
        match row.count {
            Some(_) => row.process.name_with_vm() == self.name,
            None => row.key() == self.id,
        }
    }
}

/// The whole state.
#[derive(Debug)]
pub(super) struct ScreenState {
    pub(super) pid: u32,
    /// Whether processes may be killed.
    pub(super) may_kill: bool,
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// Whether processes of one name are merged.
    pub(super) is_grouped: bool,
    pub(super) mode: Mode,
    pub(super) is_paused: bool,
    pub(super) answer: Option<Answer>,
    /// The last whole answer that rates are reckoned from.
    base: Option<Answer>,
    pub(super) rates: Rates,
    /// Switches in each second, the oldest first.
    pub(super) history: VecDeque<u64>,
    /// The place of the chosen row, and its process once a key has chosen one.
    pub(super) place: usize,
    follows: Option<Followed>,
    /// The first row that is shown.
    pub(super) top: usize,
    room: Room,
    /// A message about the last key.
    pub(super) note: String,
    /// Why the program cannot answer at the moment.
    pub(super) held: Option<String>,
    /// Why there will be no more answers.
    pub(super) over: Option<String>,
    /// For how long an answer is late.
    pub(super) late: Option<Duration>,
}

impl ScreenState {
    pub(super) fn new(pid: u32, sort: Sort, filter: String, may_kill: bool) -> ScreenState {
        ScreenState {
            pid,
            may_kill,
            sort,
            filter,
            is_grouped: false,
            mode: Mode::Table,
            is_paused: false,
            answer: None,
            base: None,
            rates: Rates::default(),
            history: VecDeque::new(),
            place: 0,
            follows: None,
            top: 0,
            room: Room {
                lines: 1,
                columns: 1,
            },
            note: String::new(),
            held: None,
            over: None,
            late: None,
        }
    }

    /// The rows of the last answer.
    pub(super) fn rows(&self) -> &[Row] {
        self.answer.as_ref().map_or(&[], |answer| &answer.rows)
    }

    /// Notes how many rows and columns there is room for.
    pub(super) fn set_room(&mut self, lines: usize, columns: u16) {
        self.room = Room {
            lines: lines.max(1),
            columns: columns.into(),
        };
        self.scroll();
    }

    /// How many rows there is room for.
    pub(super) fn lines(&self) -> usize {
        self.room.lines
    }

    /// How many processes the filter fits, and of how many.
    pub(super) fn matching(&self) -> String {
        let Some(answer) = &self.answer else {
            return String::new();
        };
        let all = answer.processes;
        match answer.matching {
            Some(some) => format!("{some} of {all}"),
            None => format!("{} or more of {all}", answer.rows.len()),
        }
    }

    /// The questions of each round.
    pub(super) fn questions(&self) -> Vec<Question> {
        let mut questions = Vec::new();
        if self.over.is_none() && !self.is_paused {
            questions.push(self.table(false));
            if let Mode::Stack(shown) = &self.mode {
                questions.push(Question::Stack(shown.id));
            }
        }
        questions
    }

    fn table(&self, again: bool) -> Question {
        Question::Table {
            // Some rows more than there are on the screen, for the keys that move down.
            rows: (self.top.max(self.place) + 2 * self.room.lines).min(MOST_ROWS),
            sort: self.sort,
            filter: self.filter.clone(),
            group: self.is_grouped,
            again,
        }
    }

    fn ask_again(&self) -> Action {
        match self.over {
            None => Action::Ask(self.table(true)),
            Some(_) => Action::Nothing,
        }
    }

    /// Takes in what comes from the program.
    pub(super) fn take(&mut self, news: News) {
        self.late = None;
        match news {
            News::Table {
                answer,
                again,
                may_kill,
            } => {
                self.may_kill = may_kill;
                self.take_table(*answer, again);
            }
            News::Stack(id, process) => self.take_stack(id, process.as_deref()),
            News::Killed(note) => self.note = note,
            News::Held(why) => self.held = Some(why),
            News::Over(why) => self.over = Some(why),
        }
    }

    fn take_table(&mut self, answer: Answer, again: bool) {
        if answer.kept_inside {
            self.held = Some(answer.why.unwrap_or_else(|| KEPT.to_owned()));
            return;
        }
        self.held = None;
        if !again {
            if let Some(base) = &self.base {
                self.rates = Rates::between(base, &answer);
                self.history
                    .extend(self.rates.switches.map(|rate| rate as u64));
                let surplus = self.history.len().saturating_sub(HISTORY);
                self.history.drain(..surplus);
            }
            self.base = Some(Answer {
                rows: Vec::new(),
                ..answer.clone()
            });
        }
        let follows = self.follows.as_ref();
        let followed = follows.and_then(|it| answer.rows.iter().position(|row| it.is(row)));
        self.place = followed.unwrap_or(self.place);
        self.answer = Some(answer);
        self.scroll();
    }

    fn take_stack(&mut self, id: u64, process: Option<&Process>) {
        let Mode::Stack(shown) = &mut self.mode else {
            return;
        };
        if shown.id != id {
            return; // of a process that was left meanwhile
        }
        match process {
            Some(process) => shown.take(process),
            None => {
                self.note = format!("process {} has ended", number_of(id));
                self.mode = Mode::Table;
            }
        }
    }

    /// Keeps the chosen row among the rows, and on the screen.
    fn scroll(&mut self) {
        let count = self.rows().len();
        self.place = self.place.min(count.saturating_sub(1));
        let lowest = (self.place + 1).saturating_sub(self.room.lines);
        let highest = self.place.min(count.saturating_sub(self.room.lines));
        self.top = self.top.clamp(lowest, highest);
    }

    fn chosen(&self) -> Option<&Row> {
        self.rows().get(self.place)
    }

    /// Carries out a key.
    pub(super) fn press(&mut self, key: KeyEvent) -> Action {
        self.note.clear();
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                // What Ctrl-\ is, is told by some terminals as Ctrl-4.
                KeyCode::Char('c' | '\\' | '4') => return Action::Quit,
                KeyCode::Char('z') => return Action::Suspend,
                _ => {}
            }
        }
        match &self.mode {
            Mode::Table => self.press_in_table(key.code),
            Mode::Filter { .. } => self.press_in_filter(key.code),
            Mode::Stack(_) => self.press_in_stack(key.code),
            Mode::Confirm { .. } => self.press_in_confirmation(key.code),
            Mode::Help => {
                self.mode = Mode::Table;
                Action::Nothing
            }
        }
    }

    fn press_in_table(&mut self, key: KeyCode) -> Action {
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Up | KeyCode::Char('k') => return self.go(self.place.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => return self.go(self.place + 1),
            KeyCode::PageUp => return self.go(self.place.saturating_sub(self.room.lines)),
            KeyCode::PageDown => return self.go(self.place + self.room.lines),
            KeyCode::End | KeyCode::Char('G') => return self.go(usize::MAX),
            KeyCode::Home | KeyCode::Char('g') => {
                self.follows = None;
                self.place = 0;
                self.scroll();
            }
            KeyCode::Enter => return self.open(),
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.note = format!("sorted by {}", self.sort.name());
                return self.ask_again();
            }
            KeyCode::Char('n') => {
                self.is_grouped = !self.is_grouped;
                return self.ask_again();
            }
            KeyCode::Char('/') => {
                let before = self.filter.clone();
                self.mode = Mode::Filter { before };
            }
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Char('x' | 'K') => self.confirm_kill(),
            KeyCode::Char('h' | '?') => self.mode = Mode::Help,
            _ => {}
        }
        Action::Nothing
    }

    /// Chooses the row at a place.
    fn go(&mut self, place: usize) -> Action {
        self.place = place;
        self.scroll();
        self.follows = self.chosen().map(Followed::of);
        let known = self.rows().len();
        let all = self.answer.as_ref().map_or(0, |answer| answer.processes);
        // More rows, before the next key needs them.
        match self.place + self.room.lines > known && known < all.min(MOST_ROWS) {
            true if self.filter.is_empty() => self.ask_again(),
            _ => Action::Nothing,
        }
    }

    /// Opens the stack of the chosen process, or the processes of the chosen name.
    fn open(&mut self) -> Action {
        let Some(row) = self.chosen() else {
            return Action::Nothing;
        };
        let (follows, has_count) = (Followed::of(row), row.count.is_some());
        if self.over.is_some() {
            self.note = "the program has ended, and its stacks with it".to_owned();
            return Action::Nothing;
        }
        if has_count {
            self.filter = follows.name;
            self.is_grouped = false;
            (self.place, self.top, self.follows) = (0, 0, None);
            return self.ask_again();
        }
        let id = follows.id;
        self.follows = Some(follows);
        self.mode = Mode::Stack(StackShown::new(id));
        Action::Ask(Question::Stack(id))
    }

    fn confirm_kill(&mut self) {
        let Some(row) = self.chosen() else {
            return;
        };
        if self.over.is_some() {
            return;
        }
        if row.count.is_some() {
            self.note = "x kills one process: Enter shows those of this name".to_owned();
            return;
        }
        if !self.may_kill {
            self.note = "start top with --write to kill processes, or the program with \
                         BATON_ATTACH=all"
                .to_owned();
            return;
        }
        let (id, title) = (row.key(), row.process.full_title());
        self.mode = Mode::Confirm { id, title };
    }

    fn press_in_confirmation(&mut self, key: KeyCode) -> Action {
        let Mode::Confirm { id, .. } = self.mode else {
            return Action::Nothing;
        };
        self.mode = Mode::Table;
        match key {
            KeyCode::Char('y' | 'Y') => Action::Ask(Question::Kill(id)),
            _ => {
                self.note = "not killed".to_owned();
                Action::Nothing
            }
        }
    }

    fn press_in_filter(&mut self, key: KeyCode) -> Action {
        match key {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace if self.filter.pop().is_some() => {}
            KeyCode::Enter => {
                self.mode = Mode::Table;
                return Action::Nothing;
            }
            KeyCode::Esc | KeyCode::Backspace => {
                if let Mode::Filter { before } = std::mem::replace(&mut self.mode, Mode::Table) {
                    self.filter = before;
                }
            }
            _ => return Action::Nothing,
        }
        (self.place, self.top, self.follows) = (0, 0, None);
        self.ask_again()
    }

    fn press_in_stack(&mut self, key: KeyCode) -> Action {
        let room = self.room;
        let Mode::Stack(shown) = &mut self.mode else {
            return Action::Nothing;
        };
        match shown.press(key, room) {
            StackKey::Nothing => {}
            StackKey::Back => self.mode = Mode::Table,
            StackKey::Pause => self.is_paused = !self.is_paused,
        }
        Action::Nothing
    }
}
