//! The last switches of a run as a table.

use baton_core::recording::{Switch, SwitchCause};

const HEADINGS: [&str; 5] = ["switch", "left", "at", "because", "next"];

/// Returns the lines of the table. Dots stand for switches that are left out.
pub(super) fn lines(switches: &[Switch]) -> Vec<String> {
    let rows = switches.iter().map(row);
    let rows: Vec<[String; 5]> = std::iter::once(HEADINGS.map(String::from))
        .chain(rows)
        .collect();
    let width = |column: usize| {
        let lengths = rows.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let widths: [usize; 5] = std::array::from_fn(width);
    let line = |row: &[String; 5]| {
        let mut line = format!("  {:>1$}", row[0], widths[0]);
        for (cell, width) in row.iter().zip(widths).skip(1) {
            line += &format!("  {cell:<width$}");
        }
        line.trim_end().to_owned()
    };
    let mut lines = vec![line(&rows[0])];
    let mut expected = 1;
    for (switch, row) in switches.iter().zip(&rows[1..]) {
        if switch.number != expected {
            lines.push(format!("  {:>1$}", "...", widths[0]));
        }
        expected = switch.number + 1;
        lines.push(line(row));
    }
    lines
}

fn row(switch: &Switch) -> [String; 5] {
    let next = match (switch.next.as_str(), switch.is_before_its_turn) {
        ("", _) => "none".to_owned(),
        (next, false) => next.to_owned(),
        (next, true) => format!("{next}, before its turn"),
    };
    [
        switch.number.to_string(),
        switch.process.clone(),
        switch.place.clone(),
        because(switch),
        next,
    ]
}

fn because(switch: &Switch) -> String {
    let cause = match switch.cause {
        SwitchCause::Preempted => "it is preempted",
        SwitchCause::SliceOver => "its slice is over",
        SwitchCause::Outranked => "a more urgent one can run",
        SwitchCause::StepsAside => "it gives way",
        SwitchCause::Yields => "it yields",
        SwitchCause::Waits => {
            return format!("it waits {}", switch.waits_for)
                .trim_end()
                .to_owned();
        }
        SwitchCause::Suspended => "it is suspended",
        SwitchCause::Ended => "it has ended",
    };
    cause.to_owned()
}

#[cfg(test)]
mod checks {
    use super::*;

    fn switch(number: u64, cause: SwitchCause, process: &str) -> Switch {
        Switch {
            number,
            cause,
            process: process.into(),
            place: "a.lua:7".into(),
            waits_for: String::new(),
            next: "process 1".into(),
            is_before_its_turn: false,
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let waits = Switch {
            waits_for: "for a mutex".into(),
            next: String::new(),
            ..switch(10, SwitchCause::Waits, "process 1")
        };
        let early = Switch {
            is_before_its_turn: true,
            place: String::new(),
            next: "process".into(),
            ..switch(9, SwitchCause::Ended, "process 2 'ö'")
        };
        assert_eq!(
            lines(&[early, waits]),
            [
                "  switch  left           at       because               next",
                "     ...",
                "       9  process 2 'ö'           it has ended          process, before its turn",
                "      10  process 1      a.lua:7  it waits for a mutex  none",
            ]
        );
    }
}
