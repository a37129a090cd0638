//! The screen of `baton top`: keys and answers on one side, what is drawn on the other. Without a
//! program and without a terminal.
#![allow(dead_code)] // the command uses more of these files

#[path = "../src/inside/top/answer.rs"]
mod answer;
#[path = "../src/inside/top/canvas.rs"]
mod canvas;
#[path = "../src/inside/top/plain.rs"]
mod plain;
#[path = "../src/inside/top/screen.rs"]
mod screen;
#[path = "../src/inside/top/sort.rs"]
mod sort;
#[path = "../src/inside/top/stack.rs"]
mod stack;
#[path = "../src/inside/top/state.rs"]
mod state;
#[path = "../src/inside/top/units.rs"]
mod units;

use answer::tests::{answer, row, with_servers};
use baton_observe::report::Process;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;
use sort::Sort;
use state::{Action, Mode, News, Question, ScreenState};
use std::time::Duration;

fn fresh() -> ScreenState {
    ScreenState::new(42, Sort::Cpu, String::new(), true)
}

/// `count` processes, numbered from 1.
fn rows(count: u64) -> Vec<serde_json::Value> {
    (1..=count)
        .map(|id| row(id, &format!("clerk {id}"), 0.1))
        .collect()
}

fn tell(state: &mut ScreenState, answer: answer::Answer) {
    state.take(News::Table {
        answer: Box::new(answer),
        again: false,
        may_kill: true,
    });
}

/// A state with `count` processes on a screen for ten.
fn with_rows(count: u64) -> ScreenState {
    let mut state = fresh();
    state.set_room(10, 80);
    tell(&mut state, answer(10.0, 1000, rows(count)));
    state
}

fn press(state: &mut ScreenState, key: KeyCode) -> Action {
    state.press(KeyEvent::new(key, KeyModifiers::NONE))
}

fn types(state: &mut ScreenState, letters: &str) -> Vec<Action> {
    let keys = letters.chars().map(KeyCode::Char);
    keys.map(|key| press(state, key)).collect()
}

/// What is on a screen of this size, by lines without trailing spaces.
fn screen_of(state: &mut ScreenState, width: u16, height: u16) -> Vec<String> {
    let mut canvas = canvas::Canvas::new(width, height);
    let room = screen::room(height, state);
    state.set_room(room, width);
    screen::draw(&mut canvas, state);
    canvas::tests::lines(&canvas)
}

fn table(rows: usize, sort: Sort, filter: &str, again: bool) -> Question {
    Question::Table {
        rows,
        sort,
        filter: filter.to_owned(),
        group: false,
        again,
    }
}

#[test]
fn the_table_has_the_vm_above_and_a_line_for_each_process() {
    let mut state = with_rows(2);
    tell(&mut state, answer(12.0, 5000, rows(2)));
    let lines = screen_of(&mut state, 80, 24);
    assert_eq!(
        lines[0],
        "baton top 42  up 12.00s  CPU 93.0 %  heap 12.3 MiB  threads 3"
    );
    assert_eq!(
        lines[1],
        "2 processes: 1 running, 2 runnable, 5 sleeping, 1 foreign, 3 waiting"
    );
    assert!(
        lines[2].starts_with("switches 2.00 k/s  retakes 0/s  preemptions 200/s  █"),
        "{lines:#?}"
    );
    assert_eq!(lines[3], "   ID CPU %↓ STATE        IDLE NAME    WAITS");
    assert_eq!(
        lines[4],
        "    1   10.0 waiting     0.25s clerk 1 mutex 'accounts' held by 1 'main'"
    );
    assert_eq!(lines[6], "");
    assert!(lines[23].starts_with("q quit"), "{lines:#?}");
}

#[test]
fn servers_are_between_the_head_and_the_processes() {
    let mut state = fresh();
    tell(&mut state, with_servers(answer(12.0, 5000, rows(30)), 2));
    let lines = screen_of(&mut state, 80, 24);
    assert!(lines[3].starts_with("SERVER "), "{lines:#?}");
    assert!(lines[4].starts_with("127.0.0.1:8080 "), "{lines:#?}");
    assert!(
        lines[5].starts_with("worker: 127.0.0.1:8081 "),
        "{lines:#?}"
    );
    assert!(lines[6].ends_with(" WAITS"), "{lines:#?}");
    assert_eq!(state.lines(), 16);
}

#[test]
fn many_servers_leave_room_for_processes() {
    let mut state = fresh();
    tell(&mut state, with_servers(answer(12.0, 5000, rows(30)), 50));
    let lines = screen_of(&mut state, 80, 24);
    let expected = "... and 46 more lines on VMs and servers";
    assert_eq!(lines[8], expected, "{lines:#?}");
    assert!(lines[9].ends_with(" WAITS"), "{lines:#?}");
    for height in 0..12 {
        let _ = screen_of(&mut state, 80, height);
    }
}

#[test]
fn narrow_screens_leave_columns_out() {
    let lines = screen_of(&mut with_rows(1), 50, 10);
    assert_eq!(lines[3], "   ID CPU %↓ STATE     NAME    WAITS");
    assert_eq!(
        lines[4],
        "    1   10.0 waiting   clerk 1 mut… held by 1 'ma…"
    );
    let lines = screen_of(&mut with_rows(1), 30, 10);
    assert_eq!(lines[3], "   ID CPU %↓ NAME");
    assert_eq!(lines[4], "    1   10.0 clerk 1");
}

#[test]
fn wide_screens_show_all_columns_and_whole_waits() {
    let lines = screen_of(&mut with_rows(1), 120, 10);
    assert_eq!(
        lines[3],
        "     ID CPU %↓   TOTAL STATE        IDLE NAME    WAITS"
    );
    let waits = "for the mutex 'accounts', held by process 1 'main'";
    assert!(lines[4].ends_with(waits), "{lines:#?}");
}

/// The holder is what one looks for. A long name gives way to it.
#[test]
fn the_holder_is_not_cut_for_a_long_name() {
    let mut state = fresh();
    let name = "a worker with quite a long name";
    tell(&mut state, answer(10.0, 1000, vec![row(7, name, 0.1)]));
    let lines = screen_of(&mut state, 80, 10);
    assert!(lines[4].contains(" a worker with q… "), "{lines:#?}");
    assert!(lines[4].ends_with(" held by 1 'main'"), "{lines:#?}");
}

#[test]
fn the_column_of_the_order_is_shown_and_marked() {
    for (sort, marked) in [
        (Sort::Cpu, "CPU %↓"),
        (Sort::Total, "TOTAL↓"),
        (Sort::Idle, "IDLE↓"),
    ] {
        let mut state = ScreenState::new(42, sort, String::new(), true);
        for width in [30, 50, 80, 120] {
            let heading = &screen_of(&mut state, width, 10)[3];
            assert!(heading.contains(marked), "{heading}");
            assert_eq!(heading.matches('↓').count(), 1, "{heading}");
        }
    }
}

/// Two names, of three processes and of one.
fn with_names() -> ScreenState {
    let mut rows = rows(2);
    rows[0]["title"] = "process 1 'clerk'".into();
    rows[0]["count"] = 3.into();
    rows[1]["count"] = 1.into();
    let mut state = fresh();
    state.set_room(10, 80);
    let asked = types(&mut state, "n");
    let Action::Ask(Question::Table { group, .. }) = asked[0] else {
        panic!("{asked:?}");
    };
    assert!(group);
    tell(&mut state, answer(10.0, 1000, rows));
    state
}

#[test]
fn n_merges_names_and_enter_shows_those_of_one() {
    let mut state = with_names();
    let lines = screen_of(&mut state, 80, 24);
    assert!(lines[3].starts_with("COUNT CPU %↓ "), "{lines:#?}");
    assert!(lines[4].starts_with("    3   10.0 "), "{lines:#?}");
    let _ = types(&mut state, "x");
    assert!(state.note.contains("Enter shows those"), "{}", state.note);
    let asked = press(&mut state, KeyCode::Enter);
    let Action::Ask(Question::Table { filter, group, .. }) = asked else {
        panic!("{asked:?}");
    };
    assert_eq!((filter.as_str(), group), ("clerk", false));
    assert!(!state.is_grouped);
}

#[test]
fn a_chosen_name_stays_chosen_when_its_first_process_changes() {
    let mut state = with_names();
    let _ = types(&mut state, "j");
    let mut others = rows(2);
    others[0]["title"] = "process 9 'clerk 2'".into();
    others[0]["id"] = 9.into();
    others[1]["title"] = "process 1 'clerk'".into();
    for row in &mut others {
        row["count"] = 2.into();
    }
    tell(&mut state, answer(11.0, 2000, others));
    assert_eq!(state.place, 0);
}

#[test]
fn control_z_suspends_whatever_is_shown() {
    let mut state = with_rows(3);
    let suspend = KeyEvent::new(KeyCode::Char('z'), KeyModifiers::CONTROL);
    for keys in ["", "/", "h"] {
        let _ = types(&mut state, keys);
        assert_eq!(state.press(suspend), Action::Suspend);
    }
}

#[test]
fn long_lines_of_a_stack_are_seen_by_moving_sideways() {
    let mut state = with_rows(1);
    let _ = press(&mut state, KeyCode::Enter);
    state.take(News::Stack(1, Some(Box::new(process(1)))));
    let lines = screen_of(&mut state, 40, 10);
    assert!(!lines[4].contains("spawned at"), "{lines:#?}");
    assert!(lines[3].contains("(Right: the"), "{lines:#?}");
    for _ in 0..20 {
        let _ = press(&mut state, KeyCode::Right);
    }
    let lines = screen_of(&mut state, 40, 10);
    assert!(lines[4].ends_with("(spawned at bank.lua:12)"), "{lines:#?}");
    assert_eq!(lines[3], "Stack of process 1");
    let _ = press(&mut state, KeyCode::Home);
    let lines = screen_of(&mut state, 40, 10);
    assert!(lines[4].starts_with("process 1 "), "{lines:#?}");
}

#[test]
fn a_filter_says_how_many_it_fits() {
    let mut state = with_rows(3);
    state.filter = "clerk".to_owned();
    let mut some = answer(11.0, 2000, rows(3));
    some.processes = 10_000;
    tell(&mut state, some.clone());
    let foot = &screen_of(&mut state, 80, 24)[23];
    assert!(foot.starts_with("filter: clerk  3 of 10000  "), "{foot}");
    some.matching = None;
    tell(&mut state, some);
    let foot = &screen_of(&mut state, 80, 24)[23];
    assert!(foot.contains("  3 or more of 10000  "), "{foot}");
}

#[test]
fn before_the_first_answer_the_screen_says_so() {
    let lines = screen_of(&mut fresh(), 80, 24);
    assert_eq!(lines[0], "baton top 42: awaits the first answer");
}

#[test]
fn q_escape_and_control_c_quit() {
    let mut state = with_rows(3);
    assert_eq!(press(&mut state, KeyCode::Char('q')), Action::Quit);
    assert_eq!(press(&mut state, KeyCode::Esc), Action::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    for _ in 0..2 {
        assert_eq!(state.press(interrupt), Action::Quit);
        state.mode = Mode::Help;
    }
}

#[test]
fn the_chosen_row_moves_and_stays_on_the_screen() {
    let mut state = with_rows(30);
    let _ = types(&mut state, "jjjk");
    assert_eq!((state.place, state.top), (2, 0));
    let _ = press(&mut state, KeyCode::PageDown);
    assert_eq!((state.place, state.top), (12, 3));
    let _ = press(&mut state, KeyCode::End);
    assert_eq!((state.place, state.top), (29, 20));
    let _ = press(&mut state, KeyCode::Down);
    assert_eq!(state.place, 29);
    let _ = press(&mut state, KeyCode::Home);
    assert_eq!((state.place, state.top), (0, 0));
    let _ = press(&mut state, KeyCode::Up);
    assert_eq!(state.place, 0);
}

#[test]
fn a_chosen_process_stays_chosen_when_the_order_changes() {
    let mut state = with_rows(5);
    let _ = types(&mut state, "j");
    let mut others = rows(5);
    others.reverse();
    tell(&mut state, answer(11.0, 2000, others));
    assert_eq!(state.place, 3);
    assert_eq!(state.rows()[state.place].process.id, 2);
}

#[test]
fn the_first_row_stays_chosen_until_a_key_moves() {
    let mut state = with_rows(5);
    let mut others = rows(5);
    others.reverse();
    tell(&mut state, answer(11.0, 2000, others));
    assert_eq!(state.place, 0);
}

#[test]
fn the_place_stays_among_fewer_rows() {
    let mut state = with_rows(30);
    let _ = press(&mut state, KeyCode::End);
    tell(&mut state, answer(11.0, 2000, rows(4)));
    assert_eq!((state.place, state.top), (3, 0));
    tell(&mut state, answer(12.0, 2000, rows(0)));
    assert_eq!((state.place, state.top), (0, 0));
    for key in [KeyCode::Enter, KeyCode::Char('x'), KeyCode::Down] {
        assert_eq!(press(&mut state, key), Action::Nothing);
    }
}

#[test]
fn each_round_asks_for_more_rows_than_are_shown() {
    let mut state = fresh();
    state.set_room(10, 80);
    assert_eq!(state.questions(), [table(20, Sort::Cpu, "", false)]);
    let mut answer = answer(10.0, 1000, rows(20));
    answer.processes = 10_000;
    tell(&mut state, answer);
    // The last of the known rows: more of them are asked for before the next key.
    let more = press(&mut state, KeyCode::End);
    assert_eq!(more, Action::Ask(table(39, Sort::Cpu, "", true)));
}

#[test]
fn s_cycles_the_order_without_a_new_interval() {
    let mut state = with_rows(3);
    let asked = types(&mut state, "sss");
    let orders = [Sort::Total, Sort::Idle, Sort::Cpu];
    let expected = orders.map(|sort| Action::Ask(table(20, sort, "", true)));
    assert_eq!(asked, expected);
    assert_eq!(state.note, "sorted by cpu");
}

#[test]
fn a_filter_is_typed_kept_and_taken_back() {
    let mut state = with_rows(3);
    let asked = types(&mut state, "/ab");
    assert_eq!(asked[2], Action::Ask(table(20, Sort::Cpu, "ab", true)));
    let lines = screen_of(&mut state, 80, 24);
    assert_eq!(lines[23], "/ab_  3 of 3");
    let _ = press(&mut state, KeyCode::Backspace);
    let _ = press(&mut state, KeyCode::Enter);
    assert_eq!(state.filter, "a");
    assert!(screen_of(&mut state, 80, 24)[23].starts_with("filter: a  "));
    let _ = types(&mut state, "/qs");
    assert_eq!(state.filter, "aqs");
    let _ = press(&mut state, KeyCode::Esc);
    assert_eq!(state.filter, "a");
    assert!(matches!(state.mode, Mode::Table));
    let _ = types(&mut state, "/");
    let _ = press(&mut state, KeyCode::Backspace);
    assert_eq!(state.filter, "");
    let _ = press(&mut state, KeyCode::Backspace); // of nothing: back to the filter before
    assert_eq!(state.filter, "a");
}

#[test]
fn a_pause_asks_nothing_and_is_seen() {
    let mut state = with_rows(3);
    let _ = types(&mut state, "p");
    assert_eq!(state.questions(), []);
    assert!(screen_of(&mut state, 80, 24)[0].ends_with("  PAUSED"));
    let _ = types(&mut state, "p");
    assert_eq!(state.questions().len(), 1);
}

fn process(id: u64) -> Process {
    let mut row = row(id, "clerk", 0.0);
    let frame = serde_json::json!({
        "source": "bank.lua", "line": 5, "defined": 3, "kind": "guest",
        "called_as": "upvalue", "name": "transfer",
    });
    row["stacks"] = serde_json::json!([vec![frame; 20]]);
    serde_json::from_value(row).expect("a process")
}

#[test]
fn enter_opens_the_stack_of_the_chosen_process() {
    let mut state = with_rows(3);
    let _ = types(&mut state, "j");
    let asked = press(&mut state, KeyCode::Enter);
    assert_eq!(asked, Action::Ask(Question::Stack(2)));
    assert_eq!(state.questions().last(), Some(&Question::Stack(2)));
    state.take(News::Stack(1, Some(Box::new(process(1))))); // of another one: not shown
    assert_eq!(screen_of(&mut state, 80, 10)[4], "...");
    state.take(News::Stack(2, Some(Box::new(process(2)))));
    let lines = screen_of(&mut state, 80, 10);
    assert!(lines[3].starts_with("Stack of process 2"), "{lines:#?}");
    assert!(lines[4].starts_with("process 2 'clerk': waiting, for the mutex"));
    assert_eq!(lines[6], "    bank.lua:5: in upvalue 'transfer'");
    let _ = press(&mut state, KeyCode::End);
    let lines = screen_of(&mut state, 80, 10);
    assert_eq!(lines[8], "    bank.lua:5: in upvalue 'transfer'");
    assert_eq!(press(&mut state, KeyCode::Esc), Action::Nothing);
    assert!(matches!(state.mode, Mode::Table));
}

/// Guards against the stack, or the kill, of the first VM's process with the same number.
#[test]
fn a_process_of_another_vm_is_asked_for_by_its_key() {
    let mut beside = row(2, "clerk", 0.5);
    (beside["vm"], beside["key"]) = ("worker".into(), (2_u64 << 32 | 2).into());
    let mut state = fresh();
    state.set_room(10, 80);
    tell(
        &mut state,
        answer(10.0, 1000, vec![row(2, "clerk", 0.1), beside]),
    );
    let line = &screen_of(&mut state, 80, 24)[5];
    assert!(line.contains("worker: clerk"), "{line}");
    let _ = types(&mut state, "jx");
    let question = "Kill process 2 'clerk' of VM 'worker'? y: yes, any other key: no";
    assert_eq!(screen_of(&mut state, 80, 24)[23], question);
    let asked = press(&mut state, KeyCode::Char('y'));
    assert_eq!(asked, Action::Ask(Question::Kill(2 << 32 | 2)));
    let asked = press(&mut state, KeyCode::Enter);
    assert_eq!(asked, Action::Ask(Question::Stack(2 << 32 | 2)));
    assert_eq!(screen_of(&mut state, 80, 24)[3], "Stack of process 2");
}

#[test]
fn a_stack_whose_process_has_ended_is_closed() {
    let mut state = with_rows(3);
    let _ = press(&mut state, KeyCode::Enter);
    state.take(News::Stack(1, None));
    assert!(matches!(state.mode, Mode::Table));
    assert_eq!(screen_of(&mut state, 80, 24)[23], "process 1 has ended");
}

#[test]
fn a_kill_is_confirmed_by_y_alone() {
    let mut state = with_rows(3);
    assert_eq!(types(&mut state, "jx"), [Action::Nothing, Action::Nothing]);
    let question = "Kill process 2 'clerk 2'? y: yes, any other key: no";
    assert_eq!(screen_of(&mut state, 80, 24)[23], question);
    assert_eq!(press(&mut state, KeyCode::Enter), Action::Nothing);
    assert_eq!(state.note, "not killed");
    let _ = types(&mut state, "K");
    let asked = press(&mut state, KeyCode::Char('y'));
    assert_eq!(asked, Action::Ask(Question::Kill(2)));
    state.take(News::Killed(
        "process 2 is killed, and ends when it runs".into(),
    ));
    assert!(screen_of(&mut state, 80, 24)[23].starts_with("process 2 is killed"));
}

#[test]
fn without_write_nothing_is_killed() {
    let mut state = with_rows(3);
    state.take(News::Table {
        answer: Box::new(answer(11.0, 2000, rows(3))),
        again: false,
        may_kill: false,
    });
    assert_eq!(types(&mut state, "xy"), [Action::Nothing, Action::Nothing]);
    let _ = types(&mut state, "x");
    assert!(screen_of(&mut state, 80, 24)[23].contains("--write"));
}

#[test]
fn the_help_fits_a_usual_screen_and_any_key_leaves_it() {
    let mut state = with_rows(3);
    let _ = types(&mut state, "h");
    let lines = screen_of(&mut state, 80, 24);
    assert!(
        lines[22].is_empty() || lines[22].starts_with("WAITS"),
        "{lines:#?}"
    );
    assert!(
        lines.iter().any(|line| line.starts_with("WAITS ")),
        "{lines:#?}"
    );
    assert_eq!(press(&mut state, KeyCode::Char('q')), Action::Nothing);
    assert!(matches!(state.mode, Mode::Table));
}

#[test]
fn the_last_table_stays_when_the_program_has_ended() {
    let mut state = with_rows(3);
    state.take(News::Over("process 42 has ended".into()));
    let lines = screen_of(&mut state, 80, 24);
    assert!(lines[4].contains("clerk 1"), "{lines:#?}");
    assert_eq!(lines[23], "process 42 has ended; q: quit");
    assert_eq!(state.questions(), []);
    for key in [
        KeyCode::Enter,
        KeyCode::Char('s'),
        KeyCode::Char('x'),
        KeyCode::End,
    ] {
        assert_eq!(press(&mut state, key), Action::Nothing);
    }
    assert_eq!(press(&mut state, KeyCode::Char('q')), Action::Quit);
}

#[test]
fn a_program_that_is_held_keeps_its_table_and_comes_back() {
    let mut state = with_rows(3);
    state.take(News::Held("process 1 'main' is in 'block'".into()));
    let lines = screen_of(&mut state, 80, 24);
    assert!(lines[4].contains("clerk 1"), "{lines:#?}");
    assert_eq!(lines[23], "held: process 1 'main' is in 'block'");
    tell(&mut state, answer(13.0, 2000, rows(3)));
    assert!(screen_of(&mut state, 80, 24)[23].starts_with("q quit"));
}

#[test]
fn a_late_answer_is_mentioned() {
    let mut state = with_rows(3);
    state.late = Some(Duration::from_secs(7));
    assert!(screen_of(&mut state, 80, 24)[0].ends_with("  no answer for 7 s"));
}

#[test]
fn texts_of_the_program_do_not_reach_the_terminal_as_commands() {
    let mut state = fresh();
    tell(&mut state, answer(1.0, 1, vec![row(1, "a\x1b[2Jb", 0.0)]));
    let lines = screen_of(&mut state, 80, 24);
    assert!(lines[4].contains("a?[2Jb"), "{lines:#?}");
}

fn any_key() -> impl Strategy<Value = KeyCode> {
    prop_oneof![
        any::<char>().prop_map(KeyCode::Char),
        prop::sample::select("qjkgGspxKyhn?/".chars().collect::<Vec<_>>()).prop_map(KeyCode::Char),
        prop::sample::select(vec![
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Backspace,
            KeyCode::Left,
            KeyCode::Right,
        ]),
    ]
}

/// What may happen to a screen.
#[derive(Clone, Debug)]
enum Happens {
    Key(KeyCode),
    Rows(u64),
    Stack(bool),
    Size(u16, u16),
    Held,
}

fn any_event() -> impl Strategy<Value = Happens> {
    prop_oneof![
        6 => any_key().prop_map(Happens::Key),
        2 => (0..40_u64).prop_map(Happens::Rows),
        1 => any::<bool>().prop_map(Happens::Stack),
        2 => (0..120_u16, 0..40_u16).prop_map(|(width, height)| Happens::Size(width, height)),
        1 => Just(Happens::Held),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn nothing_that_happens_makes_the_screen_panic(
        events in prop::collection::vec(any_event(), 1..50),
    ) {
        let mut state = fresh();
        let (mut width, mut height, mut uptime) = (80, 24, 1.0);
        for event in events {
            uptime += 1.0;
            match event {
                Happens::Key(key) => {
                    let _ = press(&mut state, key);
                }
                Happens::Rows(count) => tell(&mut state, answer(uptime, 7, rows(count))),
                Happens::Stack(lives) => {
                    if let Mode::Stack(shown) = &state.mode {
                        let id = shown.id;
                        state.take(News::Stack(id, lives.then(|| Box::new(process(id)))));
                    }
                }
                Happens::Size(new_width, new_height) => (width, height) = (new_width, new_height),
                Happens::Held => state.take(News::Held("in a call".into())),
            }
            let lines = screen_of(&mut state, width, height);
            prop_assert_eq!(lines.len(), usize::from(height));
            prop_assert!(state.rows().is_empty() || state.place < state.rows().len());
        }
    }
}
