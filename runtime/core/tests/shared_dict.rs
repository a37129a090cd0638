//! The dictionary that VMs share, used by several threads.

use baton_core::shared::dict::{Change, Dict, OVERHEAD, Stored, Value, WhenFull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
struct Sized(u64, Arc<()>);

impl Value for Sized {
    fn size(&self) -> u64 {
        self.0
    }
}

fn sized(size: u64) -> Sized {
    Sized(size, Arc::new(()))
}

fn set(dict: &Dict<Sized>, key: &str, size: u64) -> Stored {
    dict.change(key.as_bytes(), |_| Change::Store(sized(size), None))
}

fn has(dict: &Dict<Sized>, key: &str) -> bool {
    dict.get(key.as_bytes()).is_some()
}

fn nanoseconds() -> u64 {
    baton_sys::clock::Instant::now().as_nanos()
}

const KEY: u64 = 1;

/// Room for three entries of 100 bytes with keys of one byte.
fn for_three(when_full: WhenFull) -> Dict<Sized> {
    Dict::new(3 * (OVERHEAD + KEY + 100), when_full)
}

#[test]
fn keys_values_and_overhead_count() {
    let dict = for_three(WhenFull::Refuse);
    for key in ["a", "b", "c"] {
        assert_eq!(set(&dict, key, 100), Stored::Done);
    }
    assert_eq!(dict.used(), 3 * (OVERHEAD + KEY + 100));
    assert_eq!(set(&dict, "d", 0), Stored::Full);
    assert_eq!(set(&dict, "a", 101), Stored::Full);
    assert_eq!(set(&dict, "a", 40), Stored::Done);
    assert_eq!(set(&dict, "b", 160), Stored::Done);
    assert_eq!(dict.change(b"c", |_| Change::Remove), Stored::Done);
    assert_eq!(set(&dict, "d", 100), Stored::Done);
    assert_eq!((has(&dict, "c"), has(&dict, "d")), (false, true));
    assert_eq!(dict.used(), 3 * (OVERHEAD + KEY + 100));
}

#[test]
fn the_least_recently_used_entry_makes_room() {
    let dict = for_three(WhenFull::Evict);
    for key in ["a", "b", "c"] {
        assert_eq!(set(&dict, key, 100), Stored::Done);
    }
    assert!(has(&dict, "a"));
    assert_eq!(set(&dict, "d", 100), Stored::Done);
    assert!(!has(&dict, "b"));
    // It takes two of them.
    assert_eq!(set(&dict, "e", 200), Stored::Done);
    let left = ["a", "b", "c", "d", "e"].map(|key| has(&dict, key));
    assert_eq!(left, [false, false, false, true, true]);
    // Nothing is evicted for what can never fit.
    assert_eq!(set(&dict, "f", 10_000), Stored::TooLarge);
    assert_eq!(dict.len(), 2);
}

#[test]
fn what_has_expired_is_gone_and_makes_room() {
    let dict = for_three(WhenFull::Refuse);
    let store =
        |key: &str, end: u64| dict.change(key.as_bytes(), |_| Change::Store(sized(100), Some(end)));
    assert_eq!(store("a", nanoseconds()), Stored::Done);
    assert_eq!(store("b", nanoseconds()), Stored::Done);
    assert_eq!(store("c", u64::MAX), Stored::Done);
    assert!(!has(&dict, "a"));
    assert!(dict.keys(10).len() == 1);
    // The room of "b", which nobody has looked for.
    assert_eq!(set(&dict, "d", 100), Stored::Done);
    assert_eq!(set(&dict, "e", 100), Stored::Done);
    assert_eq!(set(&dict, "f", 100), Stored::Full);
    let mut keys = dict.keys(10);
    keys.sort();
    assert_eq!(
        keys,
        [
            b"c".as_slice().into(),
            b"d".as_slice().into(),
            b"e".as_slice().into()
        ]
    );
    assert_eq!(dict.keys(2).len(), 2);
    assert_eq!(dict.keys(0).len(), 0);
}

#[test]
fn a_value_that_is_replaced_keeps_its_end_if_asked_to() {
    let dict = for_three(WhenFull::Refuse);
    let end = nanoseconds() + Duration::from_millis(500).as_nanos() as u64;
    let first = dict.change(b"a", |_| Change::Store(sized(1), Some(end)));
    assert_eq!(first, Stored::Done);
    assert_eq!(set(&dict, "a", 2), Stored::Done);
    while nanoseconds() < end {
        std::thread::yield_now();
    }
    assert!(!has(&dict, "a"));
}

#[derive(Clone)]
struct Count(u64);

impl Value for Count {
    fn size(&self) -> u64 {
        8
    }
}

#[test]
fn changes_of_one_key_by_many_threads_are_one_after_the_other() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 5_000;
    let dict = Arc::new(Dict::<Count>::new(10_000, WhenFull::Refuse));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let dict = Arc::clone(&dict);
            std::thread::spawn(move || {
                for _ in 0..ROUNDS {
                    let more = |count: Option<&Count>| {
                        let count = count.map_or(0, |count| count.0);
                        Change::Store(Count(count + 1), None)
                    };
                    assert_eq!(dict.change(b"n", more), Stored::Done);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(dict.get(b"n").map(|count| count.0), Some(THREADS * ROUNDS));
}

/// Threads that set, get and remove at random keep the bound, and lose no byte of the count.
#[test]
fn the_bound_holds_while_threads_evict_each_others_entries() {
    const LIMIT: u64 = 100 * (OVERHEAD + 100);
    let dict = Arc::new(Dict::<Sized>::new(LIMIT, WhenFull::Evict));
    let most = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (1..=4_u64)
        .map(|seed| {
            let (dict, most) = (Arc::clone(&dict), Arc::clone(&most));
            std::thread::spawn(move || {
                let mut random = seed * 0x9E37_79B9;
                for _ in 0..20_000 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let key = format!("{}", random % 500);
                    match random >> 60 {
                        0 => _ = dict.change(key.as_bytes(), |_| Change::Remove),
                        1..=6 => _ = dict.get(key.as_bytes()),
                        _ => assert_eq!(set(&dict, &key, random >> 32 & 127), Stored::Done),
                    }
                    most.fetch_max(dict.used(), Ordering::Relaxed);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert!(most.load(Ordering::Relaxed) <= LIMIT);
    assert!(dict.len() > 50);
    for key in dict.keys(usize::MAX) {
        assert_eq!(dict.change(&key, |_| Change::Remove), Stored::Done);
    }
    assert_eq!((dict.used(), dict.len()), (0, 0));
}
