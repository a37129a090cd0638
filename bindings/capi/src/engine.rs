//! Whose state a guest's engine has.
//!
//! An engine keeps some things once, though each process has its own: a current frame, a pending
//! exception. The guest's `switched` puts them away for the process `from` and brings back those of
//! `to`. Here is decided which processes it is told. What the runtime says of a switch is not
//! enough: a process whose foreign call loses the VM is left without a switch.
//!
//! | `holder` | meaning |
//! |---|---|
//! | 0 | nobody's: no process has run yet, the last one has ended, or its state was put away |
//! | P, not `is_retaken` | P runs, or is in a foreign call that has the VM |
//! | P, `is_retaken` | P's call has lost the VM, and nobody has come inside since |
//!
//! | edge | made by |
//! |---|---|
//! | 0 -> P, P -> Q, P -> 0 | [`Engine::switch`], at a switch |
//! | P -> 0 | [`Engine::process_has_ended`] |
//! | P -> P, `is_retaken` | [`Engine::call_has_lost_vm`] |
//! | P, `is_retaken` -> 0 | [`Engine::settle`], before the guest is called inside without a switch |
//!
//! All of them but the third are made by the VM's owner, inside. The third is made under the VM's
//! mutex while nobody is inside, and the next owner comes after it by that mutex. So the mutex
//! orders them, and all accesses are relaxed.
//!
//! Rejected: to put the state away on the monitor's thread, within `retake_policy`. The guest would
//! be called on a thread that never runs its VM, where what it keeps per thread is not there. The
//! core does not do all this for every guest, since the Lua guest keeps errno with a process, and
//! that of a call is on the thread of the call.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What a guest's engine has. 0 stands for no process, as in `baton/guest.h`.
#[derive(Default)]
pub(crate) struct Engine {
    holder: AtomicUsize,
    is_retaken: AtomicBool,
}

impl Engine {
    /// A switch to the process `to`, or to a thread's loop. `exchange` puts away the state of its
    /// first argument, and brings back that of the second. They are never the same process.
    #[inline]
    pub(crate) fn switch(&self, to: usize, exchange: impl Fn(usize, usize)) {
        // Relaxed (all): see the module's text.
        let from = self.holder.load(Ordering::Relaxed);
        if self.is_retaken.load(Ordering::Relaxed) {
            self.is_retaken.store(false, Ordering::Relaxed);
        }
        self.holder.store(to, Ordering::Relaxed);
        if from == to && from != 0 {
            // It was retaken, and nobody ran beside its call.
            exchange(from, 0);
            exchange(0, to);
        } else {
            exchange(from, to);
        }
    }

    /// Nobody needs the state of the process that runs any more.
    pub(crate) fn process_has_ended(&self) {
        // Relaxed: see the module's text.
        self.holder.store(0, Ordering::Relaxed);
    }

    /// The VM was taken from the foreign call of the process whose state the engine has.
    pub(crate) fn call_has_lost_vm(&self) {
        // Relaxed: see the module's text.
        self.is_retaken.store(true, Ordering::Relaxed);
    }

    /// Puts away the state of a process whose call has lost the VM, if the engine still has it.
    #[inline]
    pub(crate) fn settle(&self, exchange: impl Fn(usize, usize)) {
        // Relaxed: see the module's text.
        if self.is_retaken.load(Ordering::Relaxed) {
            self.switch(0, exchange);
        }
    }

    /// In a fork's child, `survivor` goes on, in its call. The state of all others is lost.
    pub(crate) fn keep_only(&self, survivor: usize, exchange: impl Fn(usize, usize)) {
        // Relaxed (all): there is no other thread.
        self.is_retaken.store(false, Ordering::Relaxed);
        if self.holder.swap(survivor, Ordering::Relaxed) != survivor {
            exchange(0, survivor);
        }
    }

    /// A process has other user data.
    pub(crate) fn rename(&self, before: usize, after: usize) {
        // Relaxed (both): see the module's text.
        if before != 0 && self.holder.load(Ordering::Relaxed) == before {
            self.holder.store(after, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod checks {
    use super::*;
    use std::cell::RefCell;

    /// An engine, and what the guest was told.
    #[derive(Default)]
    struct Scene {
        engine: Engine,
        told: RefCell<Vec<(usize, usize)>>,
    }

    impl Scene {
        fn told(&self) -> Vec<(usize, usize)> {
            self.told.take()
        }

        fn switch(&self, to: usize) {
            self.engine.switch(to, |from, to| self.exchange(from, to));
        }

        fn settle(&self) {
            self.engine.settle(|from, to| self.exchange(from, to));
        }

        fn exchange(&self, from: usize, to: usize) {
            self.told.borrow_mut().push((from, to));
        }
    }

    #[test]
    fn the_predecessor_is_the_process_whose_call_has_lost_the_vm() {
        let scene = Scene::default();
        scene.switch(1);
        scene.engine.call_has_lost_vm();
        scene.switch(2);
        scene.switch(0);
        scene.switch(1);
        assert_eq!(scene.told(), [(0, 1), (1, 2), (2, 0), (0, 1)]);
    }

    #[test]
    fn a_process_that_has_ended_is_no_predecessor() {
        let scene = Scene::default();
        scene.switch(1);
        scene.engine.process_has_ended();
        scene.switch(2);
        scene.engine.process_has_ended();
        scene.switch(0);
        assert_eq!(scene.told(), [(0, 1), (0, 2), (0, 0)]);
    }

    #[test]
    fn a_call_that_nobody_ran_beside_is_put_away_and_brought_back() {
        let scene = Scene::default();
        scene.switch(1);
        scene.engine.call_has_lost_vm();
        scene.switch(1);
        assert_eq!(scene.told(), [(0, 1), (1, 0), (0, 1)]);
    }

    #[test]
    fn the_guest_is_called_inside_only_after_the_state_was_put_away() {
        let scene = Scene::default();
        scene.switch(1);
        scene.settle();
        assert_eq!(scene.told(), [(0, 1)], "its process runs");
        scene.engine.call_has_lost_vm();
        scene.settle();
        scene.settle();
        scene.switch(2);
        assert_eq!(scene.told(), [(1, 0), (0, 2)]);
    }

    #[test]
    fn a_forks_child_has_the_state_of_the_process_that_forked() {
        let scene = Scene::default();
        let keep = |survivor| {
            let exchange = |from, to| scene.exchange(from, to);
            scene.engine.keep_only(survivor, exchange);
        };
        scene.switch(1);
        keep(1);
        assert_eq!(scene.told(), [(0, 1)], "the engine has it still");
        scene.engine.call_has_lost_vm();
        keep(1);
        assert_eq!(scene.told(), [], "nobody has put it away");
        scene.engine.call_has_lost_vm();
        scene.switch(2);
        keep(1);
        assert_eq!(scene.told(), [(1, 2), (0, 1)]);
        scene.switch(0);
        assert_eq!(scene.told(), [(1, 0)]);
    }

    #[test]
    fn a_process_is_put_away_under_its_present_user_data() {
        let scene = Scene::default();
        scene.switch(1);
        scene.engine.rename(1, 11);
        scene.engine.rename(2, 22);
        scene.switch(22);
        assert_eq!(scene.told(), [(0, 1), (11, 22)]);
    }
}
