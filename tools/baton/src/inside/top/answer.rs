//! What the program answers, and what two answers say together.

use baton_observe::report::{FIRST_VM, Process};
use serde::Deserialize;
use std::collections::BTreeMap;

/// An answer to the question `top`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Answer {
    /// A process computes without a safepoint, so there is nothing but some counters.
    pub(super) kept_inside: bool,
    /// Then why, if the program says so.
    pub(super) why: Option<String>,
    /// Seconds since the program began.
    pub(super) uptime: f64,
    /// Seconds since the last question; 0 for the first one. Shares are of this time.
    pub(super) passed: f64,
    /// The processor time of all processes, as a share.
    pub(super) share: f64,
    /// How many processes there are.
    pub(super) processes: usize,
    /// How many of them the filter fits; `None`: not all were examined.
    pub(super) matching: Option<usize>,
    /// Some of them.
    pub(super) rows: Vec<Row>,
    /// The VM's.
    pub(super) totals: Totals,
    /// VMs of which nothing could be read.
    pub(super) kept: Vec<UnreadVm>,
    /// The servers of `baton.http`.
    pub(super) servers: Vec<Server>,
}

/// A VM that a process keeps.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct UnreadVm {
    pub(super) vm: String,
    pub(super) why: String,
}

/// A server of `baton.http`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Server {
    pub(super) vm: String,
    pub(super) address: String,
    /// How many there are now.
    pub(super) connections: u64,
    pub(super) handlers: u64,
    /// How many there were so far.
    pub(super) refused: u64,
    pub(super) failures: u64,
    pub(super) timeouts: u64,
    /// Requests in each second since the last question.
    pub(super) rate: Option<f64>,
}

/// A process in the table. Or all of one name: then `process` is the first of them, with the sums.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Row {
    #[serde(flatten)]
    pub(super) process: Process,
    /// By what questions name it, if that is not its number: it is in another VM than the first.
    #[serde(default)]
    pub(super) key: Option<u64>,
    /// How many processes have the name.
    #[serde(default)]
    pub(super) count: Option<u64>,
    /// Its processor time since the last question, as a share.
    #[serde(default)]
    pub(super) share: f64,
}

/// Numbers of the VM.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Totals {
    /// Counters by name.
    pub(super) counters: BTreeMap<String, f64>,
    /// Bytes of the guest's heap.
    pub(super) heap: Option<u64>,
    /// How many processes run: one at most.
    pub(super) running: u64,
}

impl Answer {
    /// Whether it is the first one of a connection, which has no shares.
    pub(super) fn is_first(&self) -> bool {
        self.passed == 0.0 && !self.kept_inside
    }
}

impl Server {
    /// Its address, after its VM if that is not the first one: `worker: [::]:8080`.
    pub(super) fn title(&self) -> String {
        match self.vm == FIRST_VM {
            true => self.address.clone(),
            false => format!("{}: {}", self.vm, self.address),
        }
    }
}

/// The number in its VM of the process that questions name by `key`.
pub(super) fn number_of(key: u64) -> u64 {
    key & u64::from(u32::MAX)
}

impl Row {
    /// By what questions name it.
    pub(super) fn key(&self) -> u64 {
        self.key.unwrap_or(self.process.id)
    }
}

impl Totals {
    fn count(&self, name: &str) -> Option<f64> {
        self.counters.get(name).copied()
    }

    /// A present number, as a whole one; 0 if it is not known.
    pub(super) fn number(&self, name: &str) -> u64 {
        self.count(name).map_or(0, |number| number as u64)
    }

    /// The processes that neither run, sleep nor are out in a call.
    pub(super) fn waiting(&self) -> u64 {
        let others = ["runnable", "sleeping", "foreign"].map(|name| self.number(name));
        let others = others.iter().sum::<u64>() + self.running;
        self.number("live").saturating_sub(others)
    }

    fn preemptions(&self) -> Option<f64> {
        let by_slice = self.count("preemptions_by_slice")?;
        Some(by_slice + self.count("preemptions_by_urgency")?)
    }
}

/// Events in each second; `None`: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) switches: Option<f64>,
    pub(super) retakes: Option<f64>,
    pub(super) preemptions: Option<f64>,
}

impl Rates {
    /// The rates between two answers.
    pub(super) fn between(before: &Answer, now: &Answer) -> Rates {
        let seconds = now.uptime - before.uptime;
        let rate = |of: &dyn Fn(&Totals) -> Option<f64>| {
            let more = of(&now.totals)? - of(&before.totals)?;
            (seconds > 0.0 && more >= 0.0).then(|| more / seconds)
        };
        Rates {
            switches: rate(&|totals| totals.count("switches")),
            retakes: rate(&|totals| totals.count("retakes")),
            preemptions: rate(&Totals::preemptions),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A row as the program sends it.
    pub(crate) fn row(id: u64, name: &str, share: f64) -> Value {
        json!({
            "id": id,
            "title": format!("process {id} '{name}'"),
            "state": "waiting",
            "waits": "for the mutex 'accounts', held by process 1 'main'",
            "since": 0.25,
            "spawned_at": "bank.lua:12",
            "running": 1.5,
            "cpu": 1.25,
            "stacks": [[]],
            "share": share,
        })
    }

    /// An answer with these rows, `switches` after `uptime` seconds.
    pub(crate) fn answer(uptime: f64, switches: u64, rows: Vec<Value>) -> Answer {
        let count = rows.len();
        serde_json::from_value(json!({
            "kept_inside": false,
            "uptime": uptime,
            "passed": 1.0,
            "share": 0.93,
            "processes": count,
            "matching": count,
            "rows": rows,
            "totals": {
                "heap": 12_900_000,
                "running": 1,
                "counters": {
                    "switches": switches,
                    "retakes": 3,
                    "preemptions_by_slice": switches / 10,
                    "preemptions_by_urgency": 0,
                    "live": 12,
                    "runnable": 2,
                    "sleeping": 5,
                    "foreign": 1,
                    "threads": 3,
                    "spin_time": 0.5,
                },
                "is_whole": true,
            },
        }))
        .expect("an answer")
    }

    /// Servers as the program sends them.
    pub(crate) fn with_servers(mut answer: Answer, count: u64) -> Answer {
        let server = |number: u64| {
            json!({
                "id": number,
                "vm": if number == 2 { "worker" } else { "main" },
                "name": "http",
                "address": format!("127.0.0.1:{}", 8079 + number),
                "connections": 12,
                "handlers": 3,
                "accepted": 400,
                "requests": 70_000,
                "refused": 5,
                "timeouts": 1,
                "failures": 2,
                "rate": 1250.0,
            })
        };
        let servers = (1..=count).map(server);
        let servers = servers.map(|server| serde_json::from_value(server).expect("a server"));
        answer.servers = servers.collect();
        answer
    }

    #[test]
    fn rates_are_the_difference_of_two_answers() {
        let rates = Rates::between(&answer(10.0, 1000, vec![]), &answer(12.0, 5000, vec![]));
        assert_eq!(rates.switches, Some(2000.0));
        assert_eq!(rates.retakes, Some(0.0));
        assert_eq!(rates.preemptions, Some(200.0));
    }

    #[test]
    fn a_rate_is_not_known_without_its_counter_or_without_time() {
        let (first, second) = (answer(10.0, 1, vec![]), answer(10.0, 2, vec![]));
        assert_eq!(Rates::between(&first, &second), Rates::default());
        let kept = Answer {
            uptime: 11.0,
            ..Answer::default()
        };
        assert_eq!(Rates::between(&first, &kept).switches, None);
    }

    #[test]
    fn a_row_is_named_by_its_name_or_its_place() {
        let name = |row: Value| {
            let row: Row = serde_json::from_value(row).expect("a row");
            row.process.name_with_vm().into_owned()
        };
        let mut unnamed = row(7, "", 0.0);
        unnamed["title"] = "process 7".into();
        assert_eq!(name(row(7, "clerk", 0.0)), "clerk");
        assert_eq!(name(unnamed.clone()), "bank.lua:12");
        unnamed["spawned_at"] = "".into();
        assert_eq!(name(unnamed), "process 7");
        assert_eq!(name(row(7, "o'clock", 0.0)), "o'clock");
        let mut beside = row(7, "clerk", 0.0);
        beside["vm"] = "worker".into();
        assert_eq!(name(beside), "worker: clerk");
    }

    #[test]
    fn those_that_neither_run_nor_sleep_nor_are_out_wait() {
        assert_eq!(answer(1.0, 1, vec![]).totals.waiting(), 3);
    }
}
