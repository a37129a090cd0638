//! Explores the fence-free VM lock on a machine with store buffers: all interleavings of a native
//! thread that leaves and enters, and of a watchdog that takes the VM from it, step by step as in
//! `baton_sys::gate` and `vm/lock/enter.rs`.
//!
//! Each plain store waits in the thread's own buffer, and becomes visible to the other thread at
//! any later moment; the thread itself reads its newest store. Read-modify-write operations and the
//! mutex empty the buffer first. `membarrier` empties the *other* thread's buffer at any moment
//! between its call and its return. Two machines:
//!
//! - *in order* (x86-TSO: Owens, Sarkar, Sewell, "A better x86 memory model", 2009): the buffer is
//!   a queue;
//! - *out of order*: stores to different places may overtake each other, but a release store
//!   overtakes nothing.
//!
//! What is proven for each machine: never are both threads inside; whoever is inside sees the last
//! write to the guest's state; whoever has the VM while the thread is in a call knows what that
//! call is about, from when it does it; and wherever the two get to, the thread can finish all its
//! rounds. The model must fail when one of the protocol's parts is left out, or it would prove
//! nothing: the membarrier, either check of `REVOKED`, or the release of the store that leaves.

mod store_buffer_model;

use store_buffer_model::{EVERYTHING, Forbidden, Protocol, Violation, explore};

const SOUND: Protocol = Protocol {
    membarrier: true,
    checks_revoked: true,
    checks_noted: true,
    leave_is_release: true,
    stores_in_order: true,
    calls: 3,
};

#[test]
fn the_protocol_is_sound_when_stores_stay_in_order() {
    let states = states_of(SOUND, EVERYTHING);
    assert!(
        states > 1000,
        "the model explores next to nothing: {states} states"
    );
}

#[test]
fn the_protocol_is_sound_when_stores_overtake_each_other() {
    let out_of_order = Protocol {
        stores_in_order: false,
        ..SOUND
    };
    assert!(states_of(out_of_order, EVERYTHING) > states_of(SOUND, EVERYTHING));
}

#[test]
fn without_the_membarrier_both_get_inside_and_notes_are_missed() {
    let without = Protocol {
        membarrier: false,
        ..SOUND
    };
    for what in [Forbidden::BothInside, Forbidden::UsedUnnoticed] {
        assert_eq!(violation_of(without, &[what]).what, what);
    }
}

#[test]
fn without_the_check_of_revoked_both_get_inside() {
    let violation = violation_of(
        Protocol {
            checks_revoked: false,
            ..SOUND
        },
        EVERYTHING,
    );
    assert_eq!(violation.what, Forbidden::BothInside);
}

/// A file is closed while another process reads it: whoever has the VM was told of the file that
/// the reader's last call was about.
#[test]
fn without_the_check_after_the_note_a_call_is_made_that_nobody_knows_of() {
    let violation = violation_of(
        Protocol {
            checks_noted: false,
            ..SOUND
        },
        EVERYTHING,
    );
    assert_eq!(violation.what, Forbidden::UsedUnnoticed);
}

/// What the release is for: a gate that is seen odd says that the writes before it can be seen as
/// well. The membarrier would do that too, so it has to be left out to see it, and with it all
/// calls but one, for a second one could then be mistaken for the first; the compare-and-swap
/// variant, which has no membarrier, rests on the release.
#[test]
fn the_release_of_leave_shows_the_guest_state_to_the_new_owner() {
    let released = Protocol {
        membarrier: false,
        stores_in_order: false,
        calls: 1,
        ..SOUND
    };
    let plain = Protocol {
        leave_is_release: false,
        ..released
    };
    let forbidden = &[Forbidden::HeirSeesOldState];
    states_of(released, forbidden);
    let violation = violation_of(plain, forbidden);
    assert_eq!(violation.what, Forbidden::HeirSeesOldState);
}

#[test]
fn the_membarrier_shows_the_guest_state_to_the_new_owner_even_after_a_plain_leave() {
    states_of(
        Protocol {
            leave_is_release: false,
            stores_in_order: false,
            ..SOUND
        },
        EVERYTHING,
    );
}

/// How many states there are, none of them forbidden.
fn states_of(protocol: Protocol, forbidden: &[Forbidden]) -> usize {
    match explore(protocol, forbidden) {
        Ok(states) => {
            println!("{protocol:?}: {states} states");
            states
        }
        Err(violation) => panic!("{protocol:?}\n{violation}"),
    }
}

fn violation_of(protocol: Protocol, forbidden: &[Forbidden]) -> Violation {
    match explore(protocol, forbidden) {
        Ok(states) => panic!("{protocol:?} has no violation in {states} states"),
        Err(violation) => {
            println!("{protocol:?}\n{violation}");
            violation
        }
    }
}
