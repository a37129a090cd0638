//! Turns: one VM at a time calls into a C module whose calls may not overlap.

use super::deadline;
use baton_core::shared::SharedChannel;
use baton_core::shared::channel::{Message, Received, Sent};
use baton_core::vm::{Inside, Sleeper, Vm, wake_from_outside};
use std::ffi::{CStr, c_char, c_int};
use std::time::Duration;

/// The right to call into the module. It is in the channel while no VM has it.
pub(crate) struct Right;

impl Message for Right {
    fn size(&self) -> u64 {
        0
    }
}

type Turn = SharedChannel<Right, Sleeper>;

/// A turn that nobody has, for the module of this name. It is never freed.
///
/// # Safety
/// `name` is a string that ends with a zero byte.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_turn_new(name: *const c_char) -> *const Turn {
    // SAFETY: the caller's condition.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let name = format!("turns of the module {name}");
    let turn = Box::leak(Box::new(Turn::new(1, 0, &name)));
    baton_turn_give(turn);
    turn
}

/// Takes the turn if nobody has it. Returns whether it did.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_turn_try(turn: &Turn) -> c_int {
    match turn.try_receive() {
        Received::Done(Right, nobody) => {
            drop(nobody); // nobody waits to give it
            1
        }
        Received::Empty | Received::Closed => 0,
    }
}

/// Waits for the turn. Returns why the wait ended: the process has the turn if it is `Done`.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_turn_take(vm: &Vm, turn: &Turn, timeout: i64) -> u32 {
    // SAFETY: the C half calls this inside the VM (`baton.h`).
    let vm = &unsafe { Inside::assume(vm) };
    vm.receive_shared(turn, deadline(timeout)).0 as u32
}

/// In a simulated run: a pause for a thread that waits for another VM's turn to end, while its own
/// VM lets no other process run.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_turn_pause(vm: &Vm, nanoseconds: u64) {
    // SAFETY: as in `baton_turn_take`.
    unsafe { Inside::assume(vm) }.pause_among_vms(Duration::from_nanos(nanoseconds));
}

/// Ends the turn.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_turn_give(turn: &Turn) {
    match turn.try_send(Right) {
        Sent::Done(wakes) => wake_from_outside(wakes, || turn.pass_on()),
        Sent::Full(_) | Sent::Closed(_) => unreachable!("only who has the turn gives it"),
    }
}
