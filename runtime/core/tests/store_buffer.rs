//! Explores the fence-free VM lock on a machine with store buffers. It covers all interleavings of
//! a native thread that leaves and enters, and of a watchdog that takes the VM from it, step by
//! step as in `baton_sys::gate` and `vm/lock/enter.rs`.
//!
//! Each plain store waits in the thread's own buffer. It becomes visible to the other thread at any
//! later moment; the thread itself reads its newest store. Read-modify-write operations and the
//! mutex empty the buffer first. `membarrier` empties the *other* thread's buffer at any moment
//! between its call and its return. It also makes it repeat loads that it has made before their
//! turn. There are three machines:
//!
//! - *in order* (x86-TSO: Owens, Sarkar, Sewell, "A better x86 memory model", 2009): the buffer is
//!   a queue;
//! - *out of order*: stores to different places may overtake each other, but a release store
//!   overtakes nothing;
//! - *with early loads* (as ARM, if the load of `slow` were a plain one): the thread may also read
//!   the guest's state at any moment since it left, before it has read `REVOKED`.
//!
//! The tests prove for each machine:
//!
//! - The two threads are never both inside.
//! - A thread that is inside sees the last write to the guest's state.
//! - While the thread acts in a call, a thread that has the VM knows the object of that call.
//! - From every state, the thread can finish all its rounds.
//!
//! The model must fail when one part of the protocol is left out, or it would prove nothing: the
//! membarrier, either check of `REVOKED`, or the release of the store that leaves.

mod store_buffer_model;

use store_buffer_model::{EVERYTHING, Forbidden, Protocol, Violation, explore};

const SOUND: Protocol = Protocol {
    membarrier: true,
    checks_revoked: true,
    checks_noted: true,
    leave_is_release: true,
    stores_in_order: true,
    slow_is_acquire: true,
    lock_is_acquire: true,
    calls: 3,
};

/// Stores and loads in any order, as far as nothing forbids it.
const OUT_OF_ORDER: Protocol = Protocol {
    stores_in_order: false,
    slow_is_acquire: false,
    ..SOUND
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

/// An acquire when the thread enters is not necessary. What it has read early is used only if it
/// then does not see `REVOKED`: then nobody had the VM in the meantime.
#[test]
fn the_protocol_is_sound_when_loads_are_made_early() {
    let without_early_loads = Protocol {
        slow_is_acquire: true,
        ..OUT_OF_ORDER
    };
    assert!(states_of(OUT_OF_ORDER, EVERYTHING) > states_of(without_early_loads, EVERYTHING));
}

#[test]
fn without_the_acquire_of_the_mutex_a_thread_uses_what_it_has_read_early() {
    let violation = violation_of(
        Protocol {
            lock_is_acquire: false,
            ..OUT_OF_ORDER
        },
        EVERYTHING,
    );
    assert_eq!(violation.what, Forbidden::ThreadSeesOldState);
}

#[test]
fn with_early_loads_each_part_of_the_protocol_is_still_needed() {
    for (without, what) in [
        (
            Protocol {
                membarrier: false,
                ..OUT_OF_ORDER
            },
            Forbidden::BothInside,
        ),
        (
            Protocol {
                checks_revoked: false,
                ..OUT_OF_ORDER
            },
            Forbidden::BothInside,
        ),
        (
            Protocol {
                checks_noted: false,
                ..OUT_OF_ORDER
            },
            Forbidden::UsedUnnoticed,
        ),
    ] {
        assert_eq!(violation_of(without, &[what]).what, what);
    }
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

/// A file is closed while another process reads it: the thread that has the VM knows the file of
/// the reader's last call.
#[test]
fn without_the_check_after_the_note_a_call_is_made_unnoticed() {
    let violation = violation_of(
        Protocol {
            checks_noted: false,
            ..SOUND
        },
        EVERYTHING,
    );
    assert_eq!(violation.what, Forbidden::UsedUnnoticed);
}

/// The purpose of the release: if the gate is seen odd, the writes before it are visible as well.
/// The membarrier has the same effect, so this test omits it. It also makes only one call, as
/// without the membarrier a second call could be mistaken for the first. The compare-and-swap
/// variant, which has no membarrier, needs the release.
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

/// The number of states; fails if one of them is forbidden.
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
