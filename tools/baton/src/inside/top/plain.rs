//! The texts of the table: lines about the VM, and the cells of each row. And the table as plain
//! text.

use super::answer::{Answer, Rates, Row};
use super::units::{bytes, clean, count, duration, percent};
use std::fmt::Write;

/// The headings of the columns.
const HEADINGS: [&str; 7] = ["ID", "CPU %", "TOTAL", "STATE", "IDLE", "NAME", "WAITS"];

/// The headings of the columns. Rows of names begin with the number of their processes.
pub(super) fn headings(has_names: bool) -> [String; 7] {
    let mut headings = HEADINGS.map(str::to_owned);
    if has_names {
        headings[0] = "COUNT".to_owned();
    }
    headings
}

/// The cells of a row, under [`headings`]. `is_first`: there is no share yet.
pub(super) fn cells(row: &Row, is_first: bool) -> [String; 7] {
    let process = &row.process;
    [
        row.count.unwrap_or(process.id).to_string(),
        match is_first {
            true => "-".to_owned(),
            false => percent(row.share),
        },
        duration(process.cpu),
        clean(&process.state),
        process.since.map(duration).unwrap_or_default(),
        clean(&process.name_with_vm()),
        clean(&process.waits),
    ]
}

/// The lines about the VM.
pub(super) fn head(pid: u32, answer: &Answer, rates: &Rates) -> [String; 3] {
    let totals = &answer.totals;
    let share = match answer.passed > 0.0 {
        true => percent(answer.share),
        false => "-".to_owned(),
    };
    let heap = totals.heap.map_or_else(|| "-".to_owned(), bytes);
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), count);
    [
        format!(
            "baton top {pid}  up {}  CPU {share} %  heap {heap}  threads {}",
            duration(answer.uptime),
            totals.number("threads"),
        ),
        format!(
            "{} processes: {} running, {} runnable, {} sleeping, {} foreign, {} waiting",
            answer.processes,
            totals.running,
            totals.number("runnable"),
            totals.number("sleeping"),
            totals.number("foreign"),
            totals.waiting(),
        ),
        format!(
            "switches {}/s  retakes {}/s  preemptions {}/s",
            rate(rates.switches),
            rate(rates.retakes),
            rate(rates.preemptions),
        ),
    ]
}

/// The table as plain text.
pub(super) fn table(pid: u32, answer: &Answer, rates: &Rates) -> String {
    let mut text = head(pid, answer, rates).join("\n") + "\n";
    let has_names = answer.rows.iter().any(|row| row.count.is_some());
    write_line(&mut text, &headings(has_names));
    for row in &answer.rows {
        write_line(&mut text, &cells(row, answer.passed == 0.0));
    }
    text
}

fn write_line(text: &mut String, cells: &[String; 7]) {
    let [id, share, total, state, idle, name, waits] = cells;
    let line = format!("{id:>7} {share:>6} {total:>8} {state:<9} {idle:>8}  {name:<22} {waits}");
    // A string takes all that is written to it.
    let _ = writeln!(text, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::super::answer::tests::{answer, row};
    use super::*;

    #[test]
    fn the_text_has_a_line_for_each_process() {
        let rows = vec![row(7, "clerk", 0.613), row(2, "reader", 0.02)];
        let now = answer(7384.0, 5000, rows);
        let rates = Rates::between(&answer(7382.0, 1000, vec![]), &now);
        let expected = "\
baton top 42  up 2h03m  CPU 93.0 %  heap 12.3 MiB  threads 3
2 processes: 1 running, 2 runnable, 5 sleeping, 1 foreign, 3 waiting
switches 2.00 k/s  retakes 0/s  preemptions 200/s
     ID  CPU %    TOTAL STATE         IDLE  NAME                   WAITS
      7   61.3    1.25s waiting      0.25s  clerk                  for the mutex 'accounts', held \
by process 1 'main'
      2    2.0    1.25s waiting      0.25s  reader                 for the mutex 'accounts', held \
by process 1 'main'
";
        assert_eq!(table(42, &now, &rates), expected);
    }

    #[test]
    fn before_the_second_answer_there_are_no_shares() {
        let first = Answer {
            passed: 0.0,
            ..answer(1.0, 5, vec![row(7, "clerk", 0.0)])
        };
        let text = table(42, &first, &Rates::default());
        assert!(text.contains("CPU - %"), "{text}");
        assert!(text.contains("switches -/s"), "{text}");
        assert!(text.contains("      7      -    1.25s"), "{text}");
    }
}
