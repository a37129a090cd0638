//! The processes that use most, and totals: for a table that is shown again and again.
//!
//! | step | in a look | cost for each process |
//! |---|---|---|
//! | the times of all processes, and the totals | yes | about 10 ns |
//! | what each has used since the last question, and the first rows | no | about 10 ns |
//! | the description of the rows | yes | only for rows: about 2 us |
//!
//! With a filter, processes are described until there are enough rows: in several looks, as all
//! processes wait during one. Where rows are merged by name, all are described.

mod names;

use super::metrics::Counters;
use super::{PATIENCE, instant, nanos, processes, stacks, uptime, why_kept};
use baton_capi::settings::{NamedCount, counters, of_executor};
use baton_core::sched::ProcessId;
use baton_core::vm::{NoLook, Times, View, Vm};
use baton_observe::observer::answer_text;
use baton_observe::report::Process;
use names::Names;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::thread;
use std::time::{Duration, Instant};

/// The maximal number of rows.
const MOST_ROWS: usize = 1000;

/// The details of the question.
#[derive(Deserialize)]
struct TopWanted {
    rows: usize,
    sort: Sort,
    /// A part of the title or of the wait; empty: all processes.
    #[serde(default)]
    filter: String,
    /// Merges processes of one name.
    #[serde(default)]
    group: bool,
    /// Asks for other rows of the last answer's times.
    #[serde(default)]
    again: bool,
}

/// What the first rows have most of.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Sort {
    /// Processor time since the last question.
    Cpu,
    /// Processor time in all.
    Total,
    /// The time since it last ran.
    Idle,
}

/// What was read last. A client has its own.
#[derive(Default)]
pub(super) struct LastTable {
    at: Option<Instant>,
    /// The time since the question before.
    passed: Duration,
    /// All processes, by index.
    accounts: Vec<Account>,
    /// What `accounts` was before: only its memory is of use.
    spare: Vec<Account>,
    totals: Option<Totals>,
}

/// The counters of the VM, and more about the whole.
#[derive(Serialize)]
struct Totals {
    counters: Counters,
    /// Whether these are all counters, and not only those that any thread can read.
    is_whole: bool,
    /// Bytes of the Lua heap.
    #[serde(skip_serializing_if = "Option::is_none")]
    heap: Option<u64>,
    /// How many processes run: one at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<u32>,
}

/// A table.
#[derive(Serialize)]
struct Table<'a> {
    kept_inside: bool,
    uptime: f64,
    passed: f64,
    share: f64,
    processes: usize,
    /// How many processes the filter fits, if all were examined.
    matching: Option<usize>,
    rows: Vec<Row>,
    totals: &'a Option<Totals>,
}

/// What there is to say while a process keeps the VM.
#[derive(Serialize)]
struct KeptTable {
    kept_inside: bool,
    why: String,
    uptime: f64,
    totals: Totals,
}

/// The times of a process, in nanoseconds. Half the size of durations: with ten thousand processes,
/// a look is as slow as memory.
#[derive(Clone, Copy)]
struct Account {
    process: ProcessId,
    cpu: u64,
    idle: u64,
    /// The processor time since the question before.
    used: u64,
}

/// A row of the table.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    process: Process,
    /// Processor time since the last question, as a share of the time that has passed.
    share: f64,
    /// How many processes have the name, if rows are merged by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
}

/// What the first look reads.
struct Read {
    accounts: Vec<Account>,
    counters: Vec<NamedCount>,
    heap: Option<u64>,
    /// How many processes run: one at most.
    running: u32,
}

pub(super) fn answer(vm: &Vm, with: &Value, seen: &mut LastTable) -> Result<Box<RawValue>, String> {
    let wanted = TopWanted::deserialize(with).map_err(|error| {
        format!("'rows' and 'sort' expected, the latter cpu, total or idle: {error}")
    })?;
    let is_known = wanted.again && seen.at.is_some();
    if !is_known && !seen.read(vm)? {
        return answer_text(&KeptTable {
            kept_inside: true,
            why: why_kept(vm),
            uptime: uptime().as_secs_f64(),
            totals: Totals {
                counters: Counters(of_executor(vm)),
                is_whole: false,
                heap: None,
                running: None,
            },
        });
    }
    let (rows, matching) = seen.rows(vm, &wanted);
    let used: u64 = seen.accounts.iter().map(|account| account.used).sum();
    answer_text(&Table {
        kept_inside: false,
        uptime: uptime().as_secs_f64(),
        passed: seen.passed.as_secs_f64(),
        share: share(used, seen.passed),
        processes: seen.accounts.len(),
        matching,
        rows,
        totals: &seen.totals,
    })
}

impl LastTable {
    /// Reads the times of all processes. Returns `false` if a process keeps the VM.
    fn read(&mut self, vm: &Vm) -> Result<bool, String> {
        let threads = vm.threads();
        let mut accounts = std::mem::take(&mut self.spare);
        accounts.clear();
        accounts.reserve(self.accounts.len() + 64);
        let read = match vm.look(PATIENCE, move |view| look(view, threads, accounts)) {
            Ok(read) => read,
            Err(NoLook::Ended) => return Err("the program is ending".to_owned()),
            Err(NoLook::KeptInside) => return Ok(false),
        };
        let now = Instant::now();
        self.passed = self.at.map_or(Duration::ZERO, |at| now - at);
        self.spare = std::mem::replace(&mut self.accounts, read.accounts);
        if self.at.is_some() {
            compare(&mut self.accounts, &self.spare);
        }
        self.at = Some(now);
        self.totals = Some(Totals {
            counters: Counters(read.counters),
            is_whole: true,
            heap: read.heap,
            running: Some(read.running),
        });
        Ok(true)
    }

    /// The rows that are wanted, and how many processes the filter fits, if all were examined.
    /// Without any row if a process keeps the VM.
    fn rows(&self, vm: &Vm, wanted: &TopWanted) -> (Vec<Row>, Option<usize>) {
        let most = wanted.rows.min(MOST_ROWS);
        let mut names = wanted.group.then(Names::default);
        let limit = if wanted.group { usize::MAX } else { most };
        let count = match wanted.filter.is_empty() && !wanted.group {
            true => most,
            false => self.accounts.len(),
        };
        let chosen: Vec<(ProcessId, f64)> = first(&self.accounts, wanted.sort, count)
            .into_iter()
            .map(|account| (account.process, share(account.used, self.passed)))
            .collect();
        let filter = wanted.filter.to_lowercase();
        let (mut rows, mut from, mut found) = (Vec::new(), 0, 0);
        while found < limit && from < chosen.len() {
            if from > 0 {
                thread::sleep(instant::BETWEEN_LOOKS);
            }
            let (left, filter) = (chosen[from..].to_vec(), filter.clone());
            let room = limit - found;
            let described = vm.look(PATIENCE, move |view| describe(view, &left, &filter, room));
            let Ok((some, examined)) = described else {
                break;
            };
            found += some.len();
            match &mut names {
                Some(names) => names.add(some),
                None => rows.extend(some),
            }
            from += examined;
        }
        if let Some(names) = names {
            rows = names.into_rows(wanted.sort, most);
        }
        (rows, (from == self.accounts.len()).then_some(found))
    }
}

/// Nanoseconds as a share of a time.
fn share(used: u64, passed: Duration) -> f64 {
    match passed.is_zero() {
        true => 0.0,
        false => Duration::from_nanos(used).as_secs_f64() / passed.as_secs_f64(),
    }
}

fn look(view: &mut View<'_>, threads: usize, mut accounts: Vec<Account>) -> Read {
    let account = |times: Times| Account {
        process: times.process,
        cpu: nanos(times.used.cpu),
        idle: nanos(times.idle.unwrap_or_default()),
        used: 0,
    };
    accounts.extend(view.times().map(account));
    Read {
        accounts,
        counters: counters(view, threads),
        heap: stacks::heap_size(view),
        running: view.sched().current().is_some().into(),
    }
}

/// Sets what each process has used since `before`. Both lists are by index.
fn compare(accounts: &mut [Account], before: &[Account]) {
    let mut old = before.iter().peekable();
    for account in accounts {
        let index = account.process.index();
        while old.next_if(|old| old.process.index() < index).is_some() {}
        let same = old.next_if(|old| old.process == account.process);
        account.used = match same {
            Some(old) => account.cpu.saturating_sub(old.cpu),
            None => account.cpu, // it is new
        };
    }
}

/// The first `count` accounts of the order. Equals are by index.
fn first(accounts: &[Account], sort: Sort, count: usize) -> Vec<&Account> {
    // Least is what has most.
    let rank = |place: usize| {
        let account = &accounts[place];
        let most = match sort {
            // Before there is a share, the total decides.
            Sort::Cpu => (account.used, account.cpu),
            Sort::Total => (account.cpu, account.used),
            Sort::Idle => (account.idle, 0),
        };
        (Reverse(most), place)
    };
    let mut order: Vec<_> = (0..accounts.len().min(count)).map(rank).collect();
    if count < accounts.len() {
        // The last of the first ones is on top. Few of the others take its place.
        let mut heap = BinaryHeap::from(order);
        for place in count..accounts.len() {
            if let Some(mut last) = heap.peek_mut() {
                let next = rank(place);
                if next < *last {
                    *last = next;
                }
            }
        }
        order = heap.into_vec();
    }
    order.sort_unstable();
    order
        .into_iter()
        .map(|(_, place)| &accounts[place])
        .collect()
}

/// Describes processes until there are `room` rows, or the look has lasted long enough. Returns the
/// rows, and how many processes were examined.
fn describe(
    view: &View<'_>,
    left: &[(ProcessId, f64)],
    filter: &str,
    room: usize,
) -> (Vec<Row>, usize) {
    let began = Instant::now();
    let names = view.thread_names();
    let (mut rows, mut examined) = (Vec::new(), 0);
    for &(process, share) in left {
        examined += 1;
        let alive = Some(process).filter(|&process| view.sched().is_alive(process));
        let found = alive.and_then(|process| processes::process(view, &names, process, 1));
        if let Some(process) = found.filter(|process| has(process, filter)) {
            rows.push(Row {
                process,
                share,
                count: None,
            });
        }
        if rows.len() == room || began.elapsed() >= instant::LOOK {
            break;
        }
    }
    (rows, examined)
}

/// Whether its title, its wait or its place of spawn has `part`, which is in lower case.
fn has(process: &Process, part: &str) -> bool {
    let texts = [&process.title, &process.waits, &process.spawned_at];
    part.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times are in nanoseconds.
    fn account(index: u64, generation: u64, cpu: u64, idle: u64) -> Account {
        Account {
            process: ProcessId::from_bits(generation << 32 | index).expect("an id"),
            cpu,
            idle,
            used: 0,
        }
    }

    fn indexes(accounts: &[&Account]) -> Vec<u32> {
        let indexes = accounts.iter().map(|account| account.process.index());
        indexes.collect()
    }

    #[test]
    fn what_was_used_is_the_difference_and_all_of_a_new_process() {
        let before = [
            account(0, 1, 10, 0),
            account(1, 1, 20, 0),
            account(3, 1, 5, 0),
        ];
        let mut now = [
            account(0, 1, 14, 0),
            account(1, 2, 7, 0), // another process has its index
            account(2, 1, 3, 0),
            account(3, 1, 5, 0),
            account(4, 1, 1, 0),
        ];
        compare(&mut now, &before);
        let used: Vec<u64> = now.iter().map(|account| account.used).collect();
        assert_eq!(used, [4, 7, 3, 0, 1]);
    }

    #[test]
    fn each_order_has_its_first_and_equals_stay_by_index() {
        let mut all = [
            account(0, 1, 10, 7),
            account(1, 1, 20, 0),
            account(2, 1, 5, 9),
            account(3, 1, 5, 9),
        ];
        all[2].used = 2;
        let order = |sort, count| indexes(&first(&all, sort, count));
        assert_eq!(order(Sort::Cpu, 4), [2, 1, 0, 3]);
        assert_eq!(order(Sort::Total, 4), [1, 0, 2, 3]);
        assert_eq!(order(Sort::Idle, 3), [2, 3, 0]);
        assert_eq!(order(Sort::Cpu, 2), [2, 1]);
        assert_eq!(order(Sort::Idle, 1), [2]);
        assert!(order(Sort::Total, 0).is_empty());
        assert_eq!(order(Sort::Total, 100).len(), 4);
    }

    #[test]
    fn a_filter_finds_parts_of_titles_and_waits() {
        let process = Process {
            id: 7,
            title: "process 7 'Clerk'".into(),
            state: "waiting".into(),
            waits: "for the mutex 'accounts'".into(),
            object: String::new(),
            has_moved_on: false,
            since: None,
            spawned_at: "bank.lua:3".into(),
            running: 0.0,
            cpu: 0.0,
            stacks: Vec::new(),
        };
        for part in ["", "clerk", "mutex", "bank.lua"] {
            assert!(has(&process, part), "{part}");
        }
        assert!(!has(&process, "timer"));
    }
}
