//! Killing a process from outside.
//!
//! The kill is noted in a look, so no process runs meanwhile. The process raises it when it runs
//! again, as any kill: at its wait, at its next instruction, or when its foreign call is back.

use super::stacks;
use crate::vms::list;
use baton_core::sched::{KillOutcome, ProcessId};
use baton_core::vm::{NoLook, View};
use serde_json::{Value, json};
use std::ffi::{c_int, c_void};
use std::time::Duration;

unsafe extern "C" {
    fn baton_lua_note_kill(process: *mut c_void) -> c_int;
}

/// How long a process may keep the VM before the kill is given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Kills a process, by its key ([`list::ObservedVm::key_of`]). Returns how it was taken.
pub(super) fn answer(with: &Value) -> Result<Value, String> {
    let id = with.get("id").and_then(Value::as_u64);
    let id = id.ok_or("the number of a process expected in 'id'")?;
    let mut all = list::observed().into_iter();
    let found = all.find_map(|seen| Some((seen.number_of(id)?, seen.vm)));
    let (number, vm) = found.ok_or("the VM of the process has ended")?;
    let outcome = vm
        .look(PATIENCE, move |view| kill(view, number))
        .map_err(|why| match why {
            NoLook::Ended => "the program is ending".to_owned(),
            NoLook::KeptInside => {
                "a process keeps the VM, and does not let others run; nothing was killed".to_owned()
            }
        })?;
    let outcome = outcome.ok_or_else(|| format!("process {number} has ended"))?;
    Ok(json!({ "id": id, "outcome": outcome }))
}

/// How a kill was taken; `None` if there is no such process.
fn kill(view: &mut View<'_>, id: u64) -> Option<&'static str> {
    let process = find(view, id)?;
    let record = view.sched().user_data(process)?;
    // SAFETY: the user data of a process that is in the scheduler is its record, and no process
    // runs during the view.
    let holds = match unsafe { baton_lua_note_kill(record as *mut c_void) } {
        0 => false,
        1 => true,
        _ => return None,
    };
    match view.kill(process, holds) {
        KillOutcome::Woken => Some("woken"),
        KillOutcome::Pending | KillOutcome::IsCurrent => Some("pending"),
        KillOutcome::Held => Some("held"),
        KillOutcome::AlreadyDead => None,
    }
}

fn find(view: &View<'_>, id: u64) -> Option<ProcessId> {
    let sched = view.sched();
    let mut all = sched.iter();
    all.find(|&process| sched.user_data(process).map(stacks::number) == Some(id))
}
