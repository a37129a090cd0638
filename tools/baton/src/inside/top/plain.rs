//! The texts of the table: lines about the VM, and the cells of each row. And the table as plain
//! text.

use super::answer::{Answer, Rates, Row, UnreadVm};
use super::units::{bytes, clean, count, duration, percent, shortened};
use std::fmt::Write;

/// The headings of the columns.
const HEADINGS: [&str; 7] = ["ID", "CPU %", "TOTAL", "STATE", "IDLE", "NAME", "WAITS"];

/// Behind the state of a process that has used up a slice and runs a level below its own.
const SUNK: &str = "\u{2193}";

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
        clean(&process.state) + if process.has_sunk { SUNK } else { "" },
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

/// The lines about VMs that a process keeps, and about servers with a heading above: at most
/// `most` lines, the last of which counts what is left out.
pub(super) fn below_head(answer: &Answer, most: usize) -> Vec<String> {
    let kept = |vm: &UnreadVm| format!("VM '{}' is kept: {}", clean(&vm.vm), clean(&vm.why));
    let mut lines: Vec<String> = answer.kept.iter().map(kept).collect();
    if !answer.servers.is_empty() {
        let heading = [
            "SERVER", "OPEN", "REQ/S", "HANDLERS", "REFUSED", "FAILED", "TIMEOUTS",
        ];
        lines.push(server_line(heading.map(str::to_owned)));
        lines.extend(answer.servers.iter().map(|server| {
            server_line([
                shortened(&clean(&server.title()), 28),
                server.connections.to_string(),
                server.rate.map_or_else(|| "-".to_owned(), count),
                server.handlers.to_string(),
                count(server.refused as f64),
                count(server.failures as f64),
                count(server.timeouts as f64),
            ])
        }));
    }
    if lines.len() > most {
        let left_out = lines.len() - most.saturating_sub(1);
        lines.truncate(most.saturating_sub(1));
        if most > 0 {
            lines.push(format!("... and {left_out} more lines on VMs and servers"));
        }
    }
    lines
}

fn server_line([server, open, rate, handlers, refused, failed, timeouts]: [String; 7]) -> String {
    format!("{server:<28} {open:>5} {rate:>7} {handlers:>8} {refused:>8} {failed:>8} {timeouts:>8}")
}

/// The table as plain text.
pub(super) fn table(pid: u32, answer: &Answer, rates: &Rates) -> String {
    let mut text = head(pid, answer, rates).join("\n") + "\n";
    for line in below_head(answer, usize::MAX) {
        text += &(line + "\n");
    }
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
    use super::super::answer::tests::{answer, row, with_servers};
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
    fn servers_and_kept_vms_are_above_the_processes() {
        let mut now = with_servers(answer(1.0, 5, vec![row(7, "clerk", 0.0)]), 2);
        let kept = serde_json::json!([{ "vm": "worker", "why": "a process computes" }]);
        now.kept = serde_json::from_value(kept).expect("a VM");
        let text = table(42, &now, &Rates::default());
        let lines: Vec<&str> = text.lines().skip(3).take(4).collect();
        let expected = [
            "VM 'worker' is kept: a process computes",
            "SERVER                        OPEN   REQ/S HANDLERS  REFUSED   FAILED TIMEOUTS",
            "127.0.0.1:8080                  12  1.25 k        3        5        2        1",
            "worker: 127.0.0.1:8081          12  1.25 k        3        5        2        1",
        ];
        assert_eq!(lines, expected, "{text}");
    }

    #[test]
    fn lines_without_room_are_counted() {
        let now = with_servers(answer(1.0, 5, vec![]), 9);
        let lines = below_head(&now, 4);
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[3], "... and 7 more lines on VMs and servers");
        assert!(below_head(&now, 0).is_empty());
        assert!(below_head(&answer(1.0, 5, vec![]), 4).is_empty());
    }

    #[test]
    fn a_process_that_has_sunk_has_an_arrow_behind_its_state() {
        let mut sunk = row(7, "clerk", 0.0);
        sunk["state"] = "runnable".into();
        sunk["has_sunk"] = true.into();
        let text = table(42, &answer(1.0, 5, vec![sunk]), &Rates::default());
        assert!(text.contains(" runnable\u{2193} "), "{text}");
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
