//! Runs a failing seed again, recorded, and shows its last switches, with the fewest preemptions
//! that still fail in the same way.

use super::ended::{Ending, Run};
use super::failure::Failure;
use super::minimize::{Kinds, Trial, minimize};
use super::{Call, RECORD, children, fix_addresses_of_children, table};
use baton_core::recording::{DecisionKind, Recording, RunDecision, Switch};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// The most time that an explanation takes.
const MOST_TIME: Duration = Duration::from_secs(30);

/// A run that takes longer than the failing one by this factor, and than this time, is given up:
/// with other decisions, a program may wait for ever.
const MOST_TIMES: u32 = 10;
const LEAST_LIMIT: Duration = Duration::from_secs(2);

/// The most switches that are all shown. Of more, those around decisions are, and the last ones.
const MOST_SWITCHES: usize = 20;
const LAST_SWITCHES: usize = 6;

/// The most decisions that are told for the command line.
const MOST_TOLD: usize = 20;

/// The largest number of a select that is tried in place of a random one.
const LARGEST_CASE: u32 = 3;

/// The highest number of a process that is tried in place of another one.
const MOST_EXCHANGED: u32 = 12;

/// Explains the run of a search.
pub(super) fn of_run(call: &Call, seed: u64, run: &Run) {
    explain(call, seed, Failure::of(run), None);
}

/// Explains a run of this program that ended with `status`. Its message is not known.
pub(super) fn of_status(call: &Call, status: i32) {
    children::watch();
    fix_addresses_of_children();
    explain(call, call.first, None, Some(Ending::Exited(status)));
}

fn explain(call: &Call, seed: u64, known: Option<Failure>, ending: Option<Ending>) {
    let (file, recording) = match Recording::new() {
        Ok(made) => made,
        Err(error) => {
            eprintln!("baton: cannot record runs: {error}");
            return;
        }
    };
    let record = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    // Recorded runs are slower. So the limit of the search counts only for a run that it has ended.
    let hangs = known
        .as_ref()
        .is_some_and(|known| known.ending == Ending::TookTooLong);
    let mut runs = Runs {
        call,
        seed,
        role: format!("{RECORD}{record}"),
        record,
        recording,
        until: Instant::now() + MOST_TIME,
        limit: call.limit.filter(|_| hangs),
        count: 0,
        _file: file,
    };
    let given = call.given_decisions();
    let recorded = runs.run(given.as_deref());
    let failure = recorded.as_ref().and_then(Failure::of);
    let is_same = |failure: &Failure| {
        known.as_ref().is_none_or(|known| known == failure)
            && ending.is_none_or(|ending| ending == failure.ending)
    };
    let Some(failure) = failure.filter(is_same) else {
        eprintln!(
            "baton: recorded, the run with the seed {seed} ends otherwise: it does not repeat \
             itself, or takes too long"
        );
        return;
    };
    if let Some(run) = recorded {
        runs.expect(run.took);
    }
    let shown = if recording.has_several_vms() {
        eprintln!(
            "baton: the run has several VMs: the seed {seed} repeats it, and its switches are not \
             explained"
        );
        Shown::without_decisions(&recording)
    } else {
        let shown = Shown::of(&recording).minimized(&mut runs, &failure);
        shown.print(seed, &runs);
        shown
    };
    shown.trace(&runs, &failure);
}

/// The runs of an explanation.
struct Runs<'a> {
    call: &'a Call,
    seed: u64,
    role: String,
    /// The path of the recording.
    record: String,
    recording: Recording,
    until: Instant,
    /// The time limit of a run.
    limit: Option<Duration>,
    count: usize,
    /// Children open it by its descriptor.
    _file: File,
}

impl Runs<'_> {
    /// Makes a recorded run with these decisions, or with random ones. `None` if it cannot be made,
    /// or there is no time for it.
    fn run(&mut self, decisions: Option<&[RunDecision]>) -> Option<Run> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() || self.count >= self.call.explain {
            return None;
        }
        self.count += 1;
        self.recording.prepare(decisions);
        let limit = self.limit.map_or(left, |limit| limit.min(left));
        let run = self.call.run(self.seed, &self.role, Some(limit)).ok()?;
        let is_cut = run.ending == Ending::TookTooLong && self.limit.is_none_or(|own| own > limit);
        (!is_cut).then_some(run)
    }

    /// Limits the following runs by the time that a failing one took.
    fn expect(&mut self, took: Duration) {
        let limit = took.saturating_mul(MOST_TIMES).max(LEAST_LIMIT);
        self.limit.get_or_insert(limit);
    }
}

/// A select costs more if it is long to write.
fn cost(decision: &RunDecision) -> usize {
    let is_long = decision.kind == DecisionKind::Select && decision.value > LARGEST_CASE;
    if is_long { 3 } else { 2 }
}

/// Other lists that may do what a short list does.
fn variants(decisions: &[RunDecision]) -> Vec<Vec<RunDecision>> {
    if decisions.len() > MOST_TOLD {
        return Vec::new();
    }
    let mut lists = with_small_cases(decisions);
    lists.extend(with_processes_exchanged(decisions));
    lists
}

/// The lists in which one select has a small number.
fn with_small_cases(decisions: &[RunDecision]) -> Vec<Vec<RunDecision>> {
    let selects =
        (0..decisions.len()).filter(|&index| decisions[index].kind == DecisionKind::Select);
    let with = |index: usize| {
        (1..=LARGEST_CASE).map(move |value| {
            let mut list = decisions.to_vec();
            list[index].value = value;
            list
        })
    };
    selects.flat_map(with).collect()
}

/// The lists without one of the orders, in which the process that was chosen and another one have
/// changed places. Often both processes do the same, and the order only says which one begins.
fn with_processes_exchanged(decisions: &[RunDecision]) -> Vec<Vec<RunDecision>> {
    let named = decisions.iter().flat_map(processes_of);
    let highest = named.max().unwrap_or(0).min(MOST_EXCHANGED);
    let orders = decisions
        .iter()
        .filter(|decision| decision.kind == DecisionKind::Order);
    let exchanged_with = |order: &RunDecision, other: u32| {
        let rest = decisions.iter().filter(|&decision| decision != order);
        let rest = rest.map(|&decision| exchanged(decision, order.value, other));
        let mut rest: Vec<RunDecision> = rest.collect();
        rest.sort_unstable();
        rest
    };
    let with = |order: &RunDecision| {
        let others = (1..=highest).filter(|&other| other != order.value);
        others
            .map(|other| exchanged_with(order, other))
            .collect::<Vec<_>>()
    };
    orders.flat_map(with).collect()
}

/// The processes that a decision names.
fn processes_of(decision: &RunDecision) -> impl Iterator<Item = u32> + use<> {
    let chosen = (decision.kind != DecisionKind::Select).then_some(decision.value);
    std::iter::once(decision.point.process).chain(chosen)
}

fn exchanged(decision: RunDecision, one: u32, other: u32) -> RunDecision {
    let exchange = |process| match process {
        _ if process == one => other,
        _ if process == other => one,
        _ => process,
    };
    let mut result = decision;
    result.point.process = exchange(decision.point.process);
    if decision.kind != DecisionKind::Select {
        result.value = exchange(decision.value);
    }
    result
}

fn switches_of(recording: &Recording) -> Vec<Switch> {
    if recording.switch_count() <= MOST_SWITCHES as u64 {
        return recording.last_switches(MOST_SWITCHES);
    }
    let marked = recording.marked_switches();
    let count = if marked.is_empty() {
        MOST_SWITCHES
    } else {
        LAST_SWITCHES
    };
    let mut switches = marked;
    switches.extend(recording.last_switches(count));
    switches.sort_by_key(|switch| switch.number);
    switches.dedup_by_key(|switch| switch.number);
    switches
}

/// What is shown.
struct Shown {
    /// The decisions of the failing run; `None` if there were too many.
    recorded: Option<Vec<RunDecision>>,
    /// Those that are left.
    decisions: Vec<RunDecision>,
    /// Whether none of them can be left out.
    is_done: bool,
    switches: Vec<Switch>,
    /// The number of all switches.
    count: u64,
}

impl Shown {
    /// The last run.
    fn of(recording: &Recording) -> Shown {
        let recorded = recording.decisions();
        Shown {
            decisions: recorded.clone().unwrap_or_default(),
            recorded,
            is_done: false,
            switches: switches_of(recording),
            count: recording.switch_count(),
        }
    }

    /// The last run, which is not repeated by its decisions alone.
    fn without_decisions(recording: &Recording) -> Shown {
        Shown {
            recorded: None,
            ..Shown::of(recording)
        }
    }

    fn minimized(mut self, runs: &mut Runs<'_>, failure: &Failure) -> Shown {
        let Some(recorded) = self.recorded.clone() else {
            return self;
        };
        let kinds = Kinds {
            may_go: |decision: &RunDecision| decision.kind != DecisionKind::Preempt,
            variants,
            cost,
        };
        let mut best = None;
        let result = minimize(recorded, &kinds, |decisions: &[RunDecision]| {
            let Some(run) = runs.run(Some(decisions)) else {
                return Trial::OutOfTime;
            };
            if Failure::of(&run).as_ref() != Some(failure) {
                return Trial::Differs;
            }
            let shown = Shown::of(&runs.recording);
            let effective = shown.decisions.clone();
            best = Some(shown);
            Trial::Fails(effective)
        });
        if let Some(best) = best {
            (self.switches, self.count) = (best.switches, best.count);
        }
        (self.decisions, self.is_done) = (result.decisions, result.is_done);
        self
    }

    /// Makes the run with the decisions that are left once more, and writes it as a trace, if that
    /// is wanted.
    fn trace(&self, runs: &Runs<'_>, failure: &Failure) {
        let Some((role, file)) = runs
            .call
            .trace_role(&runs.record)
            .zip(runs.call.trace.as_ref())
        else {
            return;
        };
        runs.recording
            .prepare(self.recorded.as_ref().map(|_| &self.decisions[..]));
        let run = runs.call.run(runs.seed, &role, runs.limit);
        let failed = run.as_ref().ok().and_then(Failure::of);
        match failed {
            Some(failed) if failed == *failure && failed.ending == Ending::TookTooLong => {
                eprintln!("baton: a run that is killed leaves no trace");
            }
            Some(failed) if failed == *failure => {
                eprintln!("baton: {} has this run, in virtual time", file.display());
            }
            _ => eprintln!("baton: traced, the run ends otherwise: it does not repeat itself"),
        }
    }

    fn print(&self, seed: u64, runs: &Runs<'_>) {
        let preemptions = |decisions: &[RunDecision]| {
            let of_kind = |decision: &&RunDecision| decision.kind == DecisionKind::Preempt;
            decisions.iter().filter(of_kind).count()
        };
        let (shown, count) = (self.switches.len(), self.count);
        if shown as u64 == count {
            eprintln!("\nbaton: the run's {count} switches:");
        } else {
            eprintln!("\nbaton: {shown} of the run's {count} switches:");
        }
        for line in table::lines(&self.switches) {
            eprintln!("{line}");
        }
        let Some(recorded) = &self.recorded else {
            eprintln!("baton: the run has too many switches to find out which ones matter");
            return;
        };
        let (few, all) = (preemptions(&self.decisions), preemptions(recorded));
        let others = self.decisions.len() - few;
        let others = match others {
            0 => String::new(),
            1 => ", and with 1 choice of another order".to_owned(),
            _ => format!(", and with {others} choices of another order"),
        };
        let plural = if few == 1 { "" } else { "s" };
        let least = if self.is_done {
            "none can be left out"
        } else {
            "fewer may suffice"
        };
        eprintln!(
            "baton: it fails so with {few} preemption{plural} instead of {all}{others}; {least} \
             ({} runs)",
            runs.count
        );
        if self.decisions.len() <= MOST_TOLD {
            let told: Vec<String> = self.decisions.iter().map(RunDecision::to_string).collect();
            eprintln!(
                "baton: --simulate {seed}:{} repeats these switches",
                told.join(",")
            );
        }
    }
}
