//! Explores parking: posters with an inbox, and an owner that sleeps in a model of the poller.
//! A lost wake-up shows as a deadlock, which loom reports.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p baton-sys --release --test loom_parking`.
#![cfg(loom)]

use baton_sys::inbox::Inbox;
use baton_sys::parking::{Notify, Park, Prepared};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// The poller's event counter: a kick is kept until a wait takes it.
struct Kicks {
    pending: Mutex<bool>,
    changed: Condvar,
}

struct Owner {
    inbox: Inbox<usize>,
    park: Park,
    kicks: Kicks,
}

impl Owner {
    fn new() -> Owner {
        let kicks = Kicks {
            pending: Mutex::new(false),
            changed: Condvar::new(),
        };
        Owner {
            inbox: Inbox::new(),
            park: Park::new(),
            kicks,
        }
    }

    fn post(&self, message: usize) -> Notify {
        let _ = self.inbox.post(message);
        let notify = self.park.notify();
        if notify == Notify::MustKick {
            *self.kicks.pending.lock().expect("no panics") = true;
            self.kicks.changed.notify_one();
        }
        notify
    }

    /// One wait without a deadline: returns only after a kick.
    fn sleep(&self) {
        let mut pending = self.kicks.pending.lock().expect("no panics");
        while !*pending {
            pending = self.kicks.changed.wait(pending).expect("no panics");
        }
        *pending = false;
    }

    fn run_until_received(&self, count: usize, wait: fn(&Owner)) {
        let mut received = 0;
        loop {
            received += self.inbox.take_all().count();
            if received == count {
                return;
            }
            wait(self);
        }
    }

    fn look_and_sleep(&self) {
        if self.park.prepare() == Prepared::MaySleep {
            if self.inbox.is_empty() {
                self.sleep();
            }
            self.park.finish();
        }
    }

    fn sleep_without_looking(&self) {
        if self.park.prepare() == Prepared::MaySleep {
            self.sleep();
            self.park.finish();
        }
    }

    /// The limit of the spin is two checks. Loom may suspend the owner anywhere, so this explores
    /// short and long spins together.
    fn spin_and_sleep(&self) {
        if self.park.prepare_to_spin() == Prepared::MaySleep {
            for _ in 0..2 {
                if self.park.is_notified() {
                    break;
                }
                thread::yield_now();
            }
            if self.park.stop_spinning() == Prepared::MaySleep {
                self.sleep();
                self.park.finish();
            }
        }
    }
}

/// An owner whose thread is a host's loop: it is called when the descriptor is readable.
impl Owner {
    /// One call by the host: polls the poller, and takes the inbox until it is empty or `budget`
    /// looks were made. Returns how many messages came.
    fn stint(&self, budget: usize) -> usize {
        self.park.finish();
        *self.kicks.pending.lock().expect("no panics") = false;
        let mut received = 0;
        for _ in 0..budget {
            self.park.acknowledge();
            received += self.inbox.take_all().count();
            if self.park.prepare() == Prepared::MaySleep {
                if self.inbox.is_empty() {
                    return received;
                }
                self.park.finish();
            }
        }
        // The time is used up, and there may be work.
        if self.park.hand_to_host() == Prepared::AlreadyNotified || !self.inbox.is_empty() {
            *self.kicks.pending.lock().expect("no panics") = true;
        }
        received
    }

    /// The host's loop. It calls the owner first without being asked, as hosts do.
    fn host(&self, count: usize, budget: usize) {
        let mut received = self.stint(budget);
        while received < count {
            let mut pending = self.kicks.pending.lock().expect("no panics");
            while !*pending {
                pending = self.kicks.changed.wait(pending).expect("no panics");
            }
            drop(pending);
            received += self.stint(budget);
        }
    }
}

fn explore_host(posters: usize, budget: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let owner = Arc::new(Owner::new());
        let threads: Vec<_> = (0..posters)
            .map(|number| {
                let owner = Arc::clone(&owner);
                thread::spawn(move || {
                    let _ = owner.post(number);
                })
            })
            .collect();
        owner.host(posters, budget);
        for thread in threads {
            thread.join().expect("posters do not panic");
        }
    });
}

#[test]
fn a_host_hears_of_one_post() {
    explore_host(1, 2);
}

#[test]
fn a_host_hears_of_two_posts() {
    explore_host(2, 2);
}

#[test]
fn a_host_hears_of_posts_to_an_owner_whose_time_is_used_up() {
    explore_host(2, 1);
}

#[test]
fn a_host_that_gives_no_time_is_asked_again() {
    loom::model(|| {
        let owner = Arc::new(Owner::new());
        let poster = {
            let owner = Arc::clone(&owner);
            thread::spawn(move || {
                let _ = owner.post(1);
            })
        };
        assert_eq!(owner.stint(0), 0);
        poster.join().expect("the poster does not panic");
        assert!(*owner.kicks.pending.lock().expect("no panics"));
        owner.host(1, 2);
    });
}

fn explore(posters: usize, wait: fn(&Owner)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let owner = Arc::new(Owner::new());
        let threads: Vec<_> = (0..posters)
            .map(|number| {
                let owner = Arc::clone(&owner);
                thread::spawn(move || {
                    let _ = owner.post(number);
                })
            })
            .collect();
        owner.run_until_received(posters, wait);
        for thread in threads {
            thread.join().expect("posters do not panic");
        }
    });
}

#[test]
fn one_poster_always_wakes_the_owner() {
    explore(1, Owner::look_and_sleep);
}

#[test]
fn two_posters_always_wake_the_owner() {
    explore(2, Owner::look_and_sleep);
}

#[test]
fn the_owner_wakes_even_without_a_check_before_sleeping() {
    explore(2, Owner::sleep_without_looking);
}

#[test]
fn one_poster_always_reaches_an_owner_that_spins() {
    explore(1, Owner::spin_and_sleep);
}

#[test]
fn two_posters_always_reach_an_owner_that_spins() {
    explore(2, Owner::spin_and_sleep);
}

/// A kick for an owner that has seen the post itself would be a needless system call.
#[test]
fn there_is_no_kick_while_the_owner_spins() {
    static WAS_SPARED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    loom::model(|| {
        let owner = Arc::new(Owner::new());
        let poster = {
            let owner = Arc::clone(&owner);
            thread::spawn(move || owner.post(1))
        };
        let slept = owner.park.prepare_to_spin() == Prepared::MaySleep
            && owner.park.stop_spinning() == Prepared::MaySleep
            && {
                owner.sleep();
                owner.park.finish();
                true
            };
        let notify = poster.join().expect("the poster does not panic");
        assert_eq!(slept, notify == Notify::MustKick);
        assert_eq!(owner.inbox.take_all().count(), 1);
        if notify == Notify::OwnerSpins {
            WAS_SPARED.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    assert!(WAS_SPARED.load(std::sync::atomic::Ordering::Relaxed));
}

#[test]
fn a_post_after_an_acknowledged_harvest_alerts_again() {
    loom::model(|| {
        let owner = Arc::new(Owner::new());
        let poster = {
            let owner = Arc::clone(&owner);
            thread::spawn(move || owner.post(1))
        };
        owner.park.acknowledge();
        let harvested = owner.inbox.take_all().count();
        let notify = poster.join().expect("the poster does not panic");
        assert_eq!(notify, Notify::OwnerIsRunning);
        // Either the owner has seen the message, or its next attempt to sleep is refused.
        if harvested == 0 {
            assert_eq!(owner.park.prepare(), Prepared::AlreadyNotified);
            assert_eq!(owner.inbox.take_all().count(), 1);
        }
    });
}

/// The reason why a notifier that finds the owner notified must still alert the monitor: the
/// notification may have been for a message that was taken before it.
#[test]
fn a_notification_can_be_for_a_message_that_was_taken_before_it() {
    static WAS_FOUND: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    loom::model(|| {
        let owner = Arc::new(Owner::new());
        let poster = {
            let owner = Arc::clone(&owner);
            thread::spawn(move || {
                let _ = owner.post(1);
            })
        };
        owner.park.acknowledge();
        let harvested = owner.inbox.take_all().count();
        poster.join().expect("the poster does not panic");
        if harvested == 1 && owner.post(2) == Notify::AlreadyNotified {
            WAS_FOUND.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    assert!(WAS_FOUND.load(std::sync::atomic::Ordering::Relaxed));
}
