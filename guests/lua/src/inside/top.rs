//! The processes that use most, and totals: for a table that is shown again and again.
//!
//! | step | in a look | cost for each process |
//! |---|---|---|
//! | the times of all processes, and the totals | yes | about 10 ns |
//! | what each has used since the last question, and the first rows | no | about 10 ns |
//! | the description of the rows | yes | only for rows: about 2 us |
//!
//! Each VM is read by itself, and servers of `baton.http` without a look (`top/servers.rs`). With a
//! filter, processes are described until there are enough rows: in several looks, as all processes
//! wait during one. Where rows are merged by name, all are described.

mod names;
mod servers;

use super::metrics::Counters;
use super::{PATIENCE, instant, nanos, processes, stacks, uptime, why_kept};
use crate::vms::list::{self, ObservedVm};
use baton_capi::settings::{Count, NamedCount, counters, of_executor};
use baton_core::sched::ProcessId;
use baton_core::vm::{NoLook, Times, View};
use baton_observe::observer::answer_text;
use baton_observe::report::{FIRST_VM, Process};
use baton_sys::clock;
use names::Names;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use servers::{LastServers, ServerRow};
use std::cmp::{Ordering, Reverse};
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

/// What was read last, of all VMs. A client has its own.
#[derive(Default)]
pub(super) struct LastTables {
    at: Option<Instant>,
    /// The time since the question before.
    passed: Duration,
    /// The program's processor time, and what it has used since the question before.
    cpu: Duration,
    used: Duration,
    vms: Vec<LastTable>,
    servers: LastServers,
}

/// What was read last of one VM.
struct LastTable {
    seen: ObservedVm,
    at: Option<Instant>,
    /// The time since the question before.
    passed: Duration,
    /// All processes, by index.
    accounts: Vec<Account>,
    /// What `accounts` was before: only its memory is of use.
    spare: Vec<Account>,
    totals: Option<Totals>,
    /// Why nothing could be read, if a process keeps the VM.
    why_kept: Option<String>,
}

/// The counters of the VM, and more about the whole.
#[derive(Clone, Serialize)]
struct Totals {
    counters: Counters,
    /// Whether these are all counters, and not only those that any thread can read.
    is_whole: bool,
    /// Bytes of the Lua heap.
    #[serde(skip_serializing_if = "Option::is_none")]
    heap: Option<u64>,
    /// How many processes run: one in each VM at most.
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
    totals: Option<Totals>,
    /// The VMs of which nothing could be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept: Vec<KeptRow<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    servers: &'a [ServerRow],
}

/// A VM that a process keeps, and why.
#[derive(Serialize)]
struct KeptRow<'a> {
    vm: &'a str,
    why: &'a str,
}

/// What there is to say while a process keeps the VM.
#[derive(Serialize)]
struct KeptTable<'a> {
    kept_inside: bool,
    why: &'a str,
    uptime: f64,
    totals: Option<Totals>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    servers: &'a [ServerRow],
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
    /// By what other questions name it, if that is not its number ([`ObservedVm::key_of`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<u64>,
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

pub(super) use servers::renew_in_child;

pub(super) fn answer(with: &Value, seen: &mut LastTables) -> Result<Box<RawValue>, String> {
    let wanted = TopWanted::deserialize(with).map_err(|error| {
        format!("'rows' and 'sort' expected, the latter cpu, total or idle: {error}")
    })?;
    let is_known = wanted.again && seen.at.is_some();
    if !is_known {
        seen.read()?;
    }
    let kept = seen
        .vms
        .iter()
        .filter_map(LastTable::kept)
        .collect::<Vec<_>>();
    let totals = seen.totals();
    if kept.len() == seen.vms.len()
        && let Some(KeptRow { why, .. }) = kept.first()
    {
        return answer_text(&KeptTable {
            kept_inside: true,
            why,
            uptime: uptime().as_secs_f64(),
            totals,
            servers: seen.servers.rows(),
        });
    }
    let (rows, matching) = seen.rows(&wanted);
    answer_text(&Table {
        kept_inside: false,
        uptime: uptime().as_secs_f64(),
        passed: seen.passed.as_secs_f64(),
        share: share(nanos(seen.used), seen.passed),
        processes: seen.vms.iter().map(|table| table.accounts.len()).sum(),
        matching,
        rows,
        totals,
        kept,
        servers: seen.servers.rows(),
    })
}

impl LastTables {
    /// Reads the times of all processes of all VMs.
    fn read(&mut self) -> Result<(), String> {
        let now = Instant::now();
        self.passed = self.at.map_or(Duration::ZERO, |at| now - at);
        let cpu = clock::program_cpu_time();
        self.used = match self.at {
            Some(_) => cpu.saturating_sub(self.cpu),
            None => Duration::ZERO,
        };
        let passed = self.at.is_some().then_some(self.passed);
        (self.at, self.cpu) = (Some(now), cpu);
        let mut before = std::mem::take(&mut self.vms);
        for observed in list::observed() {
            let known = before.iter().position(|table| table.seen.id == observed.id);
            let mut table = match known {
                Some(place) => before.swap_remove(place),
                None => LastTable::of(observed),
            };
            match table.read() {
                Ok(()) => self.vms.push(table),
                Err(NoLook::Ended) if table.seen.name != FIRST_VM => {}
                Err(_) => return Err("the program is ending".to_owned()),
            }
        }
        self.servers.read(passed);
        Ok(())
    }

    /// The rows that are wanted, and how many processes the filter fits, if all were examined.
    /// Without those of a VM that a process keeps.
    fn rows(&self, wanted: &TopWanted) -> (Vec<Row>, Option<usize>) {
        let (mut rows, mut matching) = (Vec::new(), Some(0));
        for table in &self.vms {
            let (some, found) = table.rows(wanted);
            rows.extend(some);
            matching = matching.zip(found).map(|(all, more)| all + more);
        }
        // Those of each VM are in order.
        rows.sort_by(|one, other| {
            let most = |row: &Row| match wanted.sort {
                Sort::Cpu => (row.share, row.process.cpu),
                Sort::Total => (row.process.cpu, row.share),
                Sort::Idle => (row.process.since.unwrap_or_default(), 0.0),
            };
            most(other)
                .partial_cmp(&most(one))
                .unwrap_or(Ordering::Equal)
        });
        rows.truncate(wanted.rows.min(MOST_ROWS));
        (rows, matching)
    }

    /// The sums of all VMs. Times, as of spinning, are the first one's.
    fn totals(&self) -> Option<Totals> {
        let mut all = self.vms.iter().filter_map(|table| table.totals.as_ref());
        let first = all.next()?.clone();
        Some(all.fold(first, Totals::and))
    }
}

impl Totals {
    fn and(mut self, more: &Totals) -> Totals {
        for (name, count) in &mut self.counters.0 {
            let same = more.counters.0.iter().find(|(other, _)| other == name);
            match (count, same) {
                (Count::Number(sum), Some((_, Count::Number(more))))
                | (Count::OfThreads(sum), Some((_, Count::OfThreads(more)))) => *sum += more,
                _ => {}
            }
        }
        self.heap = self.heap.zip(more.heap).map(|(one, other)| one + other);
        self.is_whole &= more.is_whole;
        self.running = self
            .running
            .zip(more.running)
            .map(|(one, other)| one + other);
        self
    }
}

impl LastTable {
    fn of(observed: ObservedVm) -> LastTable {
        LastTable {
            seen: observed,
            at: None,
            passed: Duration::ZERO,
            accounts: Vec::new(),
            spare: Vec::new(),
            totals: None,
            why_kept: None,
        }
    }

    fn kept(&self) -> Option<KeptRow<'_>> {
        let why = self.why_kept.as_deref()?;
        Some(KeptRow {
            vm: &self.seen.name,
            why,
        })
    }

    /// Reads the times of all processes, if no process keeps the VM.
    fn read(&mut self) -> Result<(), NoLook> {
        let threads = self.seen.vm.threads();
        let mut accounts = std::mem::take(&mut self.spare);
        accounts.clear();
        accounts.reserve(self.accounts.len() + 64);
        let seen = self
            .seen
            .vm
            .look(PATIENCE, move |view| look(view, threads, accounts));
        let read = match seen {
            Ok(read) => read,
            Err(NoLook::Ended) => return Err(NoLook::Ended),
            Err(NoLook::KeptInside) => {
                self.why_kept = Some(why_kept(&self.seen.vm));
                self.totals = Some(Totals {
                    counters: Counters(of_executor(&self.seen.vm)),
                    is_whole: false,
                    heap: None,
                    running: None,
                });
                return Ok(());
            }
        };
        self.why_kept = None;
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
        Ok(())
    }

    /// The rows that are wanted, and how many processes the filter fits, if all were examined.
    /// Without any row if a process keeps the VM.
    fn rows(&self, wanted: &TopWanted) -> (Vec<Row>, Option<usize>) {
        if self.why_kept.is_some() {
            return (Vec::new(), None);
        }
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
            let (vm, room) = (self.seen.name.clone(), limit - found);
            let look = move |view: &mut View<'_>| describe(view, &vm, &left, &filter, room);
            let Ok((some, examined)) = self.seen.vm.look(PATIENCE, look) else {
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
        for row in &mut rows {
            let (number, key) = (row.process.id, self.seen.key_of(row.process.id));
            row.key = (key != number).then_some(key);
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
    vm: &str,
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
        let in_vm = found.map(|process| Process {
            vm: vm.to_owned(),
            ..process
        });
        if let Some(process) = in_vm.filter(|process| has(process, filter)) {
            rows.push(Row {
                process,
                key: None,
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

/// Whether its title, its name with its VM, its wait or its place of spawn has `part`, which is in
/// lower case.
fn has(process: &Process, part: &str) -> bool {
    let name = process.name_with_vm();
    let texts = [&process.title, &*name, &process.waits, &process.spawned_at];
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
            vm: "main".into(),
            id: 7,
            title: "process 7 'Clerk'".into(),
            state: "waiting".into(),
            waits: "for the mutex 'accounts'".into(),
            object: String::new(),
            has_moved_on: false,
            has_sunk: false,
            since: None,
            spawned_at: "bank.lua:3".into(),
            context: std::collections::BTreeMap::new(),
            running: 0.0,
            cpu: 0.0,
            stacks: Vec::new(),
        };
        for part in ["", "clerk", "mutex", "bank.lua"] {
            assert!(has(&process, part), "{part}");
        }
        assert!(!has(&process, "timer"));
        let beside = Process {
            vm: "worker".into(),
            ..process.clone()
        };
        assert!(has(&beside, "worker: clerk") && !has(&process, "worker: clerk"));
    }
}
