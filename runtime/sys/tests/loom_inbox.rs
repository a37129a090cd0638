//! Explores the inbox: two posters, one taker.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p baton-sys --release --test loom_inbox`.
#![cfg(loom)]

use baton_sys::inbox::{Inbox, Posted};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// Takers yield between two checks (`yield_now`). Otherwise they would spin. Also, loom's reduction
/// remembers only the last access to an atomic. So a poster's own load would hide from it that a
/// taker's earlier load could have come later.
fn explore(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(body);
}

#[test]
fn nothing_is_lost_and_each_posters_order_is_kept() {
    explore(|| {
        let inbox = Arc::new(Inbox::new());
        let posters: Vec<_> = (0..2)
            .map(|poster| {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || {
                    for number in 0..2 {
                        let _ = inbox.post((poster, number));
                    }
                })
            })
            .collect();
        let mut next = [0, 0];
        while next != [2, 2] {
            for (poster, number) in inbox.take_all() {
                assert_eq!(number, next[poster], "out of order or lost");
                next[poster] += 1;
            }
            thread::yield_now();
        }
        for poster in posters {
            poster.join().expect("posters do not panic");
        }
        assert!(inbox.is_empty());
    });
}

#[test]
fn every_batch_has_exactly_one_first() {
    explore(|| {
        let inbox = Arc::new(Inbox::new());
        let firsts = Arc::new(AtomicUsize::new(0));
        let posters: Vec<_> = (0..2)
            .map(|poster| {
                let (inbox, firsts) = (Arc::clone(&inbox), Arc::clone(&firsts));
                thread::spawn(move || {
                    if inbox.post(poster) == Posted::First {
                        firsts.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let (mut batches, mut messages) = (0, 0);
        while messages < 2 {
            let taken = inbox.take_all().count();
            messages += taken;
            batches += usize::from(taken > 0);
            thread::yield_now();
        }
        for poster in posters {
            poster.join().expect("posters do not panic");
        }
        assert_eq!(firsts.load(Ordering::Relaxed), batches);
    });
}

#[test]
fn writes_before_a_post_are_visible_to_the_taker() {
    explore(|| {
        let inbox = Arc::new(Inbox::new());
        let posters: Vec<_> = (1..3)
            .map(|number| {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || {
                    let cell = UnsafeCell::new(0);
                    // SAFETY: the cell is this thread's alone until it is posted.
                    cell.with_mut(|inside| unsafe { *inside = number });
                    let _ = inbox.post(cell);
                })
            })
            .collect();
        let mut seen = 0;
        while seen < 2 {
            for cell in inbox.take_all() {
                // Loom reports a race unless posting and taking order the two accesses. SAFETY: the
                // message belongs to the taker.
                assert!(cell.with(|inside| unsafe { *inside }) > 0);
                seen += 1;
            }
            thread::yield_now();
        }
        for poster in posters {
            poster.join().expect("posters do not panic");
        }
    });
}

#[test]
fn messages_that_are_never_taken_are_freed() {
    explore(|| {
        let inbox = Arc::new(Inbox::new());
        let poster = {
            let inbox = Arc::clone(&inbox);
            // Loom reports an `Arc` that is never freed.
            thread::spawn(move || {
                let _ = inbox.post(Arc::new(1));
                let _ = inbox.post(Arc::new(2));
            })
        };
        thread::yield_now();
        drop(inbox.take_all().next());
        drop(inbox);
        poster.join().expect("the poster does not panic");
    });
}
