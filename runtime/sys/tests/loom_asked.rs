//! Explores what other threads ask of an owner.
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p baton-sys --release --test loom_asked`.
#![cfg(loom)]

use baton_sys::asked::Asked;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use loom::thread;

const BIT: u32 = 1;

/// The list, the bit, and how many requests were carried out.
#[derive(Default)]
struct Shared {
    asked: Asked<usize>,
    bits: AtomicU32,
    done: AtomicUsize,
}

impl Shared {
    /// The owner's check. Returns how many requests it has carried out.
    fn check(&self) -> usize {
        if self.bits.load(Ordering::Acquire) & BIT == 0 {
            return 0;
        }
        self.bits.fetch_and(!BIT, Ordering::AcqRel);
        let count = self.asked.take().into_iter().sum();
        self.done.fetch_add(count, Ordering::Relaxed);
        count
    }
}

fn explore(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(body);
}

#[test]
fn an_owner_that_looks_at_the_bit_carries_out_all() {
    explore(|| {
        let shared = Arc::new(Shared::default());
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.asked.list(1);
                    shared.bits.fetch_or(BIT, Ordering::Release);
                })
            })
            .collect();
        let mut done = 0;
        while done < 2 {
            done += shared.check();
            thread::yield_now();
        }
        for thread in threads {
            thread.join().expect("it does not panic");
        }
        assert_eq!(done, 2);
    });
}

/// One thread gives up, another one asks. Either request is carried out or withdrawn, and what is
/// listed at the end has its bit set.
#[test]
fn who_withdraws_takes_nothing_from_others() {
    explore(|| {
        let shared = Arc::new(Shared::default());
        let withdraws = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let number = shared.asked.list(1);
                shared.bits.fetch_or(BIT, Ordering::Release);
                shared
                    .asked
                    .withdraw(number, &shared.bits, BIT)
                    .unwrap_or(0)
            })
        };
        let asks = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.asked.list(1);
                shared.bits.fetch_or(BIT, Ordering::Release);
            })
        };
        shared.check();
        let withdrawn = withdraws.join().expect("it does not panic");
        asks.join().expect("it does not panic");
        // Nobody asks any more, so one check carries out the rest.
        shared.check();
        assert_eq!(shared.done.load(Ordering::Relaxed) + withdrawn, 2);
    });
}
