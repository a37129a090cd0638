//! Runs the program with each seed of a range, several at once, up to the first seed that fails.
//!
//! The result does not depend on how many run at once: the lowest seed that fails is the result.
//! When a seed has failed, the runs of higher ones are killed, and lower ones are awaited.

use super::ended::{Ending, Run};
use super::{Call, RUN, children, explanation, fix_addresses_of_children};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::ffi::c_int;
use std::io::Write;
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// What the threads share.
struct Search<'a> {
    call: &'a Call,
    seeds: Mutex<RangeInclusive<u64>>,
    /// The lowest seed that did not succeed, and its run or why there was none.
    found: Mutex<Option<(u64, std::io::Result<Run>)>>,
    /// The output of a successful run, if there is only one seed.
    succeeded: Mutex<Option<Run>>,
    progress: ProgressBar,
}

/// Returns the exit status.
pub(super) fn run(call: &Call) -> c_int {
    children::watch();
    fix_addresses_of_children();
    let search = Search {
        call,
        seeds: Mutex::new(call.first..=call.last),
        found: Mutex::new(None),
        succeeded: Mutex::new(None),
        progress: progress(call.count()),
    };
    thread::scope(|scope| {
        for _ in 0..call.count().min(call.jobs as u128) {
            scope.spawn(|| search.work());
        }
    });
    search.progress.finish_and_clear();
    let found = search.found.into_inner();
    let succeeded = search.succeeded.into_inner();
    match found.unwrap_or_else(PoisonError::into_inner) {
        Some((seed, Ok(run))) => report(call, seed, &run),
        Some((seed, Err(error))) => {
            eprintln!("baton: cannot run the program with the seed {seed}: {error}");
            1
        }
        None => {
            if let Ok(Some(run)) = succeeded {
                write(&run);
            } else {
                eprintln!("baton: {} seeds, none failed", call.count());
            }
            0
        }
    }
}

impl Search<'_> {
    /// Runs seeds until there are none, or one has failed.
    fn work(&self) {
        let is_only = self.call.first == self.call.last;
        let traced = self.call.trace_role("").filter(|_| is_only);
        let role = traced.as_deref().unwrap_or(RUN);
        while let Some(seed) = self.next() {
            let run = self.call.run(seed, role, self.call.limit);
            match run {
                Ok(run) if run.ending == Ending::NotNeeded => return,
                Ok(run) if run.ending == Ending::Exited(0) => {
                    self.progress.inc(1);
                    if is_only {
                        *lock(&self.succeeded) = Some(run);
                    }
                }
                other => self.note_failure(seed, other),
            }
        }
    }

    fn next(&self) -> Option<u64> {
        if lock(&self.found).is_some() {
            return None;
        }
        lock(&self.seeds).next()
    }

    /// Seeds are begun in their order, so all lower ones have been begun.
    fn note_failure(&self, seed: u64, run: std::io::Result<Run>) {
        let mut found = lock(&self.found);
        if found.as_ref().is_none_or(|(lowest, _)| seed < *lowest) {
            *found = Some((seed, run));
            children::kill_above(seed);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A bar on stderr, if that is a terminal.
fn progress(count: u128) -> ProgressBar {
    let bar = ProgressBar::new(u64::try_from(count).unwrap_or(u64::MAX));
    let template = "{wide_bar} {human_pos} of {human_len} seeds, {rate} each second, {eta} left";
    let rate = |state: &ProgressState, text: &mut dyn std::fmt::Write| {
        // An error would be the bar's, which has nobody to tell.
        let _ = write!(text, "{:.0}", state.per_sec());
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.with_key("rate", rate));
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

/// Writes what the program wrote, and explains why it failed. Returns the exit status.
fn report(call: &Call, seed: u64, run: &Run) -> c_int {
    write(run);
    let status = match run.ending {
        Ending::Exited(status) => status,
        Ending::Signalled(signal) => {
            eprintln!(
                "baton: the run with the seed {seed} ended by the signal {}; --simulate {seed} \
                 repeats it",
                name_of(signal)
            );
            1
        }
        Ending::TookTooLong | Ending::NotNeeded => {
            let limit = call.limit.unwrap_or_default().as_secs_f64();
            eprintln!(
                "baton: the run with the seed {seed} did not end within {limit} s; --simulate \
                 {seed} repeats it"
            );
            1
        }
    };
    if call.may_explain() {
        explanation::of_run(call, seed, run);
    } else if call.first < call.last
        && let Some(role) = call.trace_role("")
        && let Err(error) = call.run(seed, &role, call.limit)
    {
        eprintln!("baton: cannot trace the run with the seed {seed}: {error}");
    }
    status
}

fn name_of(signal: i32) -> String {
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(known) => known.to_string(),
        Err(_) => signal.to_string(),
    }
}

/// An error of these writes cannot be reported.
fn write(run: &Run) {
    let _ = std::io::stdout().write_all(&run.stdout);
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().write_all(&run.stderr);
}
