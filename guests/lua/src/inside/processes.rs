//! Processes as reports show them.

use super::objects;
use super::stacks::{self, context, name_of, number, of_record, spawned_at};
use crate::wording::WORDING;
use baton_core::sched::{CensusRow, ProcessId, ThreadNames, describe_row};
use baton_core::vm::View;
use baton_observe::report::Process;
use std::ffi::c_int;
use std::time::Duration;

/// A process as it is now, with at most `most` frames of each stack. `None` if it was forgotten.
pub(crate) fn process(
    view: &View<'_>,
    names: &ThreadNames,
    process: ProcessId,
    most: c_int,
) -> Option<Process> {
    let row = view.sched().census_row(place_of(process))?;
    process_of(view, names, &row, view.idle_for(process), most)
}

/// The process of a row, which has not run for some time. What it waits for is of the instant of
/// the row, and its stacks are of now.
pub(super) fn process_of(
    view: &View<'_>,
    names: &ThreadNames,
    row: &CensusRow,
    idle: Option<Duration>,
    most: c_int,
) -> Option<Process> {
    let sched = view.sched();
    let record = sched.user_data(row.process)?;
    let used = view.time_used(row.process);
    Some(Process {
        vm: String::new(), // added outside of the look
        id: number(record),
        title: stacks::title(record),
        state: name_of(row.state).to_owned(),
        waits: describe_row(sched, &WORDING, names, row),
        object: objects::label(view, names, row),
        has_moved_on: false,
        has_sunk: sched.has_sunk(row.process),
        since: idle.map(|idle| idle.as_secs_f64()),
        spawned_at: spawned_at(record),
        context: context(record).into_iter().collect(),
        running: used.running.as_secs_f64(),
        cpu: used.cpu.as_secs_f64(),
        stacks: of_record(record, most),
    })
}

/// The place of a process in the scheduler.
pub(super) fn place_of(process: ProcessId) -> u32 {
    process.to_bits() as u32
}
