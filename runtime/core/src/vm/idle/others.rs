//! Whether the VMs of a program can only wait for each other.
//!
//! A VM in which no process can run may still be woken by another VM, if a process of it waits for
//! an object that several VMs share. It is *stuck* then: it waits until another VM acts. If all VMs
//! are stuck, that is a deadlock of all.
//!
//! Each VM counts its turns: the count is odd while the VM is stuck.
//!
//! | count | edge | made by |
//! |---|---|---|
//! | even -> odd | its owner has nothing to run, and no deadline | [`Vm::wait_for_others`] |
//! | odd -> even | its owner's wait has ended, before it takes posts in | [`Vm::end_wait_for_others`] |
//!
//! **No false deadlock.** A VM that has become stuck reads, in this order, all counts, all inboxes,
//! and all counts again. It reports a deadlock if all counts were odd, all inboxes empty, and no
//! count has changed. What a VM has posted before it became stuck is visible after its count was
//! read. So the inbox it was posted to is not empty, or its owner has taken the post. That owner
//! has changed its count before it did. The fences make the change visible to the last reading.
//! Nor has a VM been made, begun or ended from before the first reading until after the last one:
//! a VM may make another one, which is to act, and become stuck.
//!
//! **No deadlock is missed.** Of the VMs that become stuck, the one whose change of the count is
//! the last in the order of the fences sees all others stuck. If a VM ends instead, one that is
//! stuck is woken, and looks again.

use crate::vm::Vm;
use baton_sys::forking::{Child, ForkMutex};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};

/// The VMs of the program.
struct AllVms {
    running: Vec<Weak<Vm>>,
    /// How many exist that have not run yet: they may act.
    expected: usize,
    /// How often one was made, or has begun or ended.
    changes: u64,
}

static VMS: ForkMutex<AllVms> = ForkMutex::new(AllVms {
    running: Vec::new(),
    expected: 0,
    changes: 0,
});

/// What other VMs can do for one that is stuck.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// One of them may act.
    MayAct,
    /// All are stuck, or there is none.
    AreStuck,
}

/// In a fork's child, where `vm` is the only one.
pub(in crate::vm) fn renew_in_child(child: &Child, vm: &Arc<Vm>) {
    let running = vec![Arc::downgrade(vm)];
    let (expected, changes) = (0, 0);
    let all = AllVms {
        running,
        expected,
        changes,
    };
    VMS.renew_in_child(child, all);
}

/// Notes that one more VM exists, which has not run yet.
pub(in crate::vm) fn expect_one_more() {
    let mut vms = VMS.lock();
    vms.expected += 1;
    vms.changes += 1;
}

/// The VMs that run. The lock is not held when one of them is dropped.
fn running() -> Vec<Arc<Vm>> {
    let vms = VMS.lock();
    vms.running.iter().filter_map(Weak::upgrade).collect()
}

/// Wakes a VM that is stuck, as another one acts no more.
fn have_one_look_again() {
    // SeqCst: pairs with the fence of a VM that becomes stuck. It sees the list without the VM that
    // is gone, or is seen stuck here.
    fence(Ordering::SeqCst);
    let stuck = running().into_iter().find(|vm| vm.is_stuck());
    if let Some(vm) = stuck {
        vm.kick();
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        if *self.is_expected.get_mut() {
            let mut vms = VMS.lock();
            // In a fork's child it is not counted any more.
            vms.expected = vms.expected.saturating_sub(1);
        }
        have_one_look_again();
    }
}

impl Vm {
    /// Notes that the VM runs.
    pub(in crate::vm) fn begins_to_run(self: &Arc<Vm>) {
        let mut vms = VMS.lock();
        vms.changes += 1;
        vms.running.push(Arc::downgrade(self));
        // Relaxed: guarded by the lock; otherwise read only when the VM is dropped.
        if self.is_expected.swap(false, Ordering::Relaxed) {
            vms.expected = vms.expected.saturating_sub(1);
        }
    }

    /// Notes that the VM runs no more.
    pub(in crate::vm) fn runs_no_more(self: &Arc<Vm>) {
        {
            let mut vms = VMS.lock();
            vms.changes += 1;
            // A VM that was halted before it began is not removed when it ends.
            vms.running.retain(|listed| {
                listed.strong_count() > 0 && !std::ptr::eq(listed.as_ptr(), Arc::as_ptr(self))
            });
        }
        have_one_look_again();
    }

    fn turns_of_others(&self) -> u64 {
        // Relaxed: ordered by the fences of the readers and of the owner.
        self.turns_of_others.load(Ordering::Relaxed)
    }

    fn is_stuck(&self) -> bool {
        self.turns_of_others() % 2 == 1
    }

    /// The VM becomes stuck. Returns whether another VM may act. The owner.
    pub(super) fn wait_for_others(&self) -> Others {
        // Relaxed: only the owner writes it.
        self.turns_of_others.fetch_add(1, Ordering::Relaxed);
        // SeqCst (all three): pairs with those of other VMs, and with the fence of a VM whose wait
        // ends.
        fence(Ordering::SeqCst);
        let (is_expected, changes) = {
            let vms = VMS.lock();
            (vms.expected > 0, vms.changes)
        };
        let living = running();
        let turns: Vec<u64> = living.iter().map(|vm| vm.turns_of_others()).collect();
        // SeqCst: pairs with the first one, of other VMs.
        fence(Ordering::SeqCst);
        let is_idle = |vm: &Arc<Vm>| vm.inbox.is_empty() && !vm.signal_is_due();
        let may_act =
            is_expected || turns.iter().any(|turn| turn % 2 == 0) || !living.iter().all(is_idle);
        // SeqCst: pairs with the fence in `end_wait_for_others`.
        fence(Ordering::SeqCst);
        let changed = |(vm, &turn): (&Arc<Vm>, &u64)| vm.turns_of_others() != turn;
        if may_act || living.iter().zip(&turns).any(changed) || VMS.lock().changes != changes {
            Others::MayAct
        } else {
            Others::AreStuck
        }
    }

    /// The owner's wait has ended.
    pub(super) fn end_wait_for_others(&self) {
        if !self.is_stuck() {
            return;
        }
        // Relaxed: as in `wait_for_others`.
        self.turns_of_others.fetch_add(1, Ordering::Relaxed);
        // SeqCst: pairs with the last fence in `wait_for_others`. Who has seen that the owner took
        // a post in sees the count.
        fence(Ordering::SeqCst);
    }
}
