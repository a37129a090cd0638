//! Explores the inbox: two posters, one taker.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p baton-sys --release --test loom_inbox`.
#![cfg(loom)]

use baton_sys::inbox::{Inbox, Posted};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

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
        let mut look = |inbox: &Inbox<(usize, usize)>| {
            for (poster, number) in inbox.take_all() {
                assert_eq!(number, next[poster], "out of order or lost");
                next[poster] += 1;
            }
        };
        look(&inbox);
        for poster in posters {
            poster.join().expect("posters do not panic");
        }
        look(&inbox);
        assert_eq!(next, [2, 2]);
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
        let mut batches = usize::from(inbox.take_all().count() > 0);
        for poster in posters {
            poster.join().expect("posters do not panic");
        }
        batches += usize::from(inbox.take_all().count() > 0);
        assert_eq!(firsts.load(Ordering::Relaxed), batches);
    });
}

#[test]
fn what_a_poster_wrote_before_is_seen_and_the_rest_is_freed() {
    explore(|| {
        let inbox = Arc::new(Inbox::new());
        let written = Arc::new(AtomicUsize::new(0));
        let poster = {
            let (inbox, written) = (Arc::clone(&inbox), Arc::clone(&written));
            thread::spawn(move || {
                written.store(1, Ordering::Relaxed);
                // Loom reports a box or an `Arc` that nobody frees.
                let _ = inbox.post(Arc::new(1));
                let _ = inbox.post(Arc::new(2));
            })
        };
        if inbox.take_all().next().is_some() {
            assert_eq!(written.load(Ordering::Relaxed), 1);
        }
        poster.join().expect("the poster does not panic");
    });
}
