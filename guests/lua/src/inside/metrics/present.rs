//! What is in a VM at the moment: its heap, who waits for what, what is in channels, and which
//! calls in C have not returned. Read in looks, when somebody asks; so a program that nobody asks
//! does nothing for it.
//!
//! A look lasts about [`LOOK`](instant::LOOK). With thousands of processes there are several, and
//! the numbers are of several moments.

use super::super::stacks::{self, Collector};
use super::super::{PATIENCE, instant};
use crate::call_times;
use baton_core::sched::{Blocker, ProcessId, SharedKind};
use baton_core::vm::{Times, View, Vm};
use baton_formats::metrics::{Family, FamilyKind, MetricProblem};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::Hash;
use std::thread;
use std::time::{Duration, Instant};

/// The most names of objects and of functions that have values of their own. The others share one.
pub(in crate::inside) const MOST_NAMES: usize = 64;

/// The name that they share.
const OTHERS: &str = "(others)";

/// How many processes a look reads before it looks at the clock.
const AT_ONCE: usize = 64;

/// A call that nobody else has run beside counts from this time on, if others wait for it.
const LONG_CALL: Duration = Duration::from_millis(100);

/// Who waits, or is out in a call: how many processes, and how long the first of them.
#[derive(Clone, Copy, Debug, Default)]
struct Crowd {
    count: u64,
    longest: Option<Duration>,
}

impl Crowd {
    fn add(&mut self, count: u64, longest: Option<Duration>) {
        self.count += count;
        self.longest = self.longest.max(longest);
    }
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Object {
    kind: &'static str,
    /// What for, if an object is waited for in two ways.
    to: &'static str,
    name: String,
}

/// What all channels of one name have.
#[derive(Clone, Copy, Debug, Default)]
struct Fill {
    channels: u64,
    values: u64,
    capacity: u64,
}

/// What is in a VM now.
#[derive(Default)]
pub(super) struct Present {
    heap: Option<u64>,
    collector: Option<Collector>,
    waits: HashMap<Object, Crowd>,
    calls: HashMap<String, Crowd>,
    channels: HashMap<String, Fill>,
}

impl Present {
    /// Reads a VM. `None`: a process keeps it, or it has ended.
    pub(super) fn read(vm: &Vm) -> Option<Present> {
        let mut present = Present::default();
        let mut next = Some(0);
        while let Some(from) = next {
            if from > 0 {
                thread::sleep(instant::BETWEEN_LOOKS);
            }
            let seen = vm.look(PATIENCE, move |view| {
                let next = present.look(view, from);
                (present, next)
            });
            (present, next) = seen.ok()?;
        }
        present.bound_names();
        Some(present)
    }

    /// Reads processes from an index on. Returns where the next look continues.
    fn look(&mut self, view: &View<'_>, from: u32) -> Option<u32> {
        let began = Instant::now();
        if from == 0 {
            self.heap = stacks::heap_size(view);
            self.collector = stacks::collector(view);
            self.read_channels(view);
            self.read_running_call(view);
        }
        // The names stay where they are during the look.
        let mut waits: HashMap<(&'static str, &'static str, &str), Crowd> = HashMap::new();
        let left = view.times().filter(|times| times.process.index() >= from);
        let mut next = None;
        for (number, times) in left.enumerate() {
            if number % AT_ONCE == AT_ONCE - 1 && began.elapsed() >= instant::LOOK {
                next = Some(times.process.index());
                break;
            }
            if view.sched().is_foreign(times.process) {
                self.add_call(view, times);
            } else if let Some(blocker) = view.sched().blocker(times.process) {
                let (kind, to) = words(blocker);
                let name = view.sched().name_of(blocker).unwrap_or_default();
                waits
                    .entry((kind, to, name))
                    .or_default()
                    .add(1, times.idle);
            }
        }
        for ((kind, to, name), crowd) in waits {
            let name = name.to_owned();
            let known = self.waits.entry(Object { kind, to, name }).or_default();
            known.add(crowd.count, crowd.longest);
        }
        next
    }

    fn add_call(&mut self, view: &View<'_>, times: Times) {
        let name = function_of(view, times.process);
        self.calls.entry(name).or_default().add(1, times.idle);
    }

    /// A call of the running process. While others are runnable, it has lasted about as long as the
    /// process has run. Otherwise nobody knows when it began, and only one that waits in the system
    /// is told of.
    fn read_running_call(&mut self, view: &View<'_>) {
        let Some(process) = view.sched().current().filter(|_| view.is_beside_a_call()) else {
            return;
        };
        let lasted = view.run_so_far();
        let keeps_others = view.sched().runnable_count() > 0 && lasted >= LONG_CALL;
        if keeps_others || view.running_call_waits() {
            let calls = self.calls.entry(function_of(view, process)).or_default();
            calls.add(1, keeps_others.then_some(lasted));
        }
    }

    fn read_channels(&mut self, view: &View<'_>) {
        for (channel, values, capacity) in view.sched().channels() {
            let name = view.sched().name_of(Blocker::Receive(channel));
            // Most channels have no name, so no text is made for each.
            let name = name.unwrap_or_default();
            let fill = match self.channels.get_mut(name) {
                Some(fill) => fill,
                None => self.channels.entry(name.to_owned()).or_default(),
            };
            fill.channels += 1;
            fill.values += values as u64;
            fill.capacity = fill.capacity.saturating_add(capacity as u64);
        }
    }

    /// Lets all but the most important names share one.
    fn bound_names(&mut self) {
        share_last(
            &mut self.waits,
            |object, crowd| (Reverse(crowd.count), object.name.clone()),
            |object| Object {
                name: OTHERS.to_owned(),
                ..object
            },
            |others, crowd| others.add(crowd.count, crowd.longest),
        );
        share_last(
            &mut self.calls,
            |name, crowd| (Reverse(crowd.count), name.clone()),
            |_| OTHERS.to_owned(),
            |others, crowd| others.add(crowd.count, crowd.longest),
        );
        share_last(
            &mut self.channels,
            |name, fill| (Reverse(fill.values), name.clone()),
            |_| OTHERS.to_owned(),
            |others, fill| {
                others.channels += fill.channels;
                others.values += fill.values;
                others.capacity = others.capacity.saturating_add(fill.capacity);
            },
        );
    }
}

/// Keeps the first [`MOST_NAMES`] entries by `order`, and adds the others to entries of theirs.
fn share_last<K: Eq + Hash, V: Copy + Default, O: Ord>(
    all: &mut HashMap<K, V>,
    order: impl Fn(&K, V) -> O,
    shared: impl Fn(K) -> K,
    add: impl Fn(&mut V, V),
) {
    if all.len() <= MOST_NAMES {
        return;
    }
    let mut sorted: Vec<(K, V)> = all.drain().collect();
    sorted.sort_by_cached_key(|(key, value)| order(key, *value));
    let last = sorted.split_off(MOST_NAMES);
    all.extend(sorted);
    for (key, value) in last {
        add(all.entry(shared(key)).or_default(), value);
    }
}

/// The C function that a process is in.
fn function_of(view: &View<'_>, process: ProcessId) -> String {
    let record = view.sched().user_data(process);
    let name = record.and_then(stacks::call_out);
    name.unwrap_or_else(|| call_times::NAMELESS.to_owned())
}

/// What kind of object is waited for, and what for.
fn words(blocker: Blocker) -> (&'static str, &'static str) {
    match blocker {
        Blocker::Sleep => ("time", ""),
        Blocker::Join(_) => ("end of a process", ""),
        Blocker::Rest => ("end of all others", ""),
        Blocker::Alarm(_) => ("timer", ""),
        Blocker::Semaphore(_) => ("semaphore", ""),
        Blocker::Mutex(_) => ("mutex", ""),
        Blocker::Condition(_) => ("condition", ""),
        Blocker::Event(_) => ("event", ""),
        Blocker::Read(_) => ("lock", "read"),
        Blocker::Write(_) => ("lock", "write"),
        Blocker::Barrier(_) => ("barrier", ""),
        Blocker::Send(_) => ("channel", "send"),
        Blocker::Receive(_) => ("channel", "receive"),
        Blocker::Select(_) => ("select", ""),
        Blocker::Queue(_) => ("file or module in use", ""),
        Blocker::Descriptor(_) | Blocker::Descriptors(_) => ("descriptor", ""),
        Blocker::Shared(_, SharedKind::Send) => ("channel between VMs", "send"),
        Blocker::Shared(_, SharedKind::Receive) => ("channel between VMs", "receive"),
        Blocker::Shared(_, SharedKind::Word) => ("shared word", ""),
        Blocker::Thread(_) => ("native thread", ""),
    }
}

/// The families of what is in a VM now.
pub(super) struct PresentFamilies {
    heap: Family,
    collector: Family,
    collections: Family,
    waiting: Family,
    longest_wait: Family,
    calls: Family,
    longest_call: Family,
    channels: Family,
    values: Family,
    capacity: Family,
}

impl PresentFamilies {
    pub(super) fn new() -> Result<PresentFamilies, MetricProblem> {
        let gauge = |name, help| Family::new(FamilyKind::Gauge, name, help);
        let counter = |name, help| Family::new(FamilyKind::Counter, name, help);
        Ok(PresentFamilies {
            heap: gauge(
                "baton_lua_heap_bytes",
                "bytes of Lua's heap, garbage included",
            )?,
            collector: counter(
                "baton_lua_collector_seconds",
                "time of the garbage collector, finalizers not counted",
            )?,
            collections: counter(
                "baton_lua_collections",
                "garbage collections that have ended, each of a whole heap or of its young objects",
            )?,
            waiting: gauge(
                "baton_waiting_processes",
                "processes that wait now, by what they wait for",
            )?,
            longest_wait: gauge(
                "baton_waiting_longest_seconds",
                "how long the first of them has waited",
            )?,
            calls: gauge(
                "baton_foreign_calls_out",
                "calls in C that have not returned, by the function",
            )?,
            longest_call: gauge(
                "baton_foreign_calls_out_longest_seconds",
                "how long the longest of them lasts, as far as that is known",
            )?,
            channels: gauge("baton_channels", "channels, by name")?,
            values: gauge(
                "baton_channel_values",
                "values in the buffers of these channels",
            )?,
            capacity: gauge(
                "baton_channel_capacity",
                "how many values these channels have room for",
            )?,
        })
    }

    /// Adds what is in a VM. The labels are the VM's.
    pub(super) fn add(
        &mut self,
        vm: &[(&str, &[u8])],
        present: &Present,
    ) -> Result<(), MetricProblem> {
        if let Some(heap) = present.heap {
            self.heap.add(vm, heap)?;
        }
        if let Some(Collector { time, collections }) = present.collector {
            self.collector.add(vm, time.as_secs_f64())?;
            self.collections.add(vm, collections)?;
        }
        for (Object { kind, to, name }, crowd) in
            sorted(&present.waits, |o| (o.kind, o.to, &o.name))
        {
            let own: [(&str, &[u8]); 3] = [
                ("kind", kind.as_bytes()),
                ("to", to.as_bytes()),
                ("name", name.as_bytes()),
            ];
            add_crowd(&mut self.waiting, &mut self.longest_wait, vm, &own, *crowd)?;
        }
        for (function, crowd) in sorted(&present.calls, |name| name) {
            let own: [(&str, &[u8]); 1] = [("function", function.as_bytes())];
            add_crowd(&mut self.calls, &mut self.longest_call, vm, &own, *crowd)?;
        }
        for (name, fill) in sorted(&present.channels, |name| name) {
            let labels = joined(vm, &[("name", name.as_bytes())]);
            self.channels.add(&labels, fill.channels)?;
            self.values.add(&labels, fill.values)?;
            self.capacity.add(&labels, fill.capacity)?;
        }
        Ok(())
    }

    pub(super) fn into_families(self) -> impl Iterator<Item = Family> {
        [
            self.heap,
            self.collector,
            self.collections,
            self.waiting,
            self.longest_wait,
            self.calls,
            self.longest_call,
            self.channels,
            self.values,
            self.capacity,
        ]
        .into_iter()
    }
}

fn add_crowd(
    counts: &mut Family,
    longest: &mut Family,
    vm: &[(&str, &[u8])],
    own: &[(&str, &[u8])],
    crowd: Crowd,
) -> Result<(), MetricProblem> {
    let labels = joined(vm, own);
    counts.add(&labels, crowd.count)?;
    match crowd.longest {
        Some(time) => longest.add(&labels, time.as_secs_f64()),
        None => Ok(()),
    }
}

fn joined<'a>(vm: &[(&'a str, &'a [u8])], own: &[(&'a str, &'a [u8])]) -> Vec<(&'a str, &'a [u8])> {
    // An empty label is none.
    let is_set = |(_, value): &(&str, &[u8])| !value.is_empty();
    vm.iter().chain(own).copied().filter(is_set).collect()
}

/// The entries by their keys: a text is the same for the same metrics.
fn sorted<'a, K, V, O: Ord>(
    all: &'a HashMap<K, V>,
    order: impl Fn(&'a K) -> O,
) -> Vec<(&'a K, &'a V)> {
    let mut entries: Vec<_> = all.iter().collect();
    entries.sort_by_key(|(key, _)| order(key));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_bound_share_one() {
        let mut calls: HashMap<String, u64> = (0..100)
            .map(|number| (format!("f{number:03}"), number))
            .collect();
        share_last(
            &mut calls,
            |_, count| Reverse(count),
            |_| OTHERS.to_owned(),
            |others, count| *others += count,
        );
        assert_eq!(calls.len(), MOST_NAMES + 1);
        assert_eq!(calls[OTHERS], (0..36_u64).sum::<u64>());
        assert_eq!(calls["f099"], 99);
        assert!(!calls.contains_key("f035"));
    }
}
