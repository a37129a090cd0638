//! Thread-Metric. Coroutines have no priorities. The thread that reads the counters tells them to
//! stop, and they check this after each count.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use may::sync::{Semphore, mpsc};
use may::{coroutine, go};

type Counter = Arc<AtomicU64>;

static STOPPED: AtomicBool = AtomicBool::new(false);

pub fn run(test: &str, seconds: f64) -> Option<()> {
    let interval = Duration::try_from_secs_f64(seconds).ok()?;
    let (begin, cpu) = (Instant::now(), crate::cpu_time());
    std::thread::spawn(move || {
        std::thread::sleep(interval);
        // Relaxed: no other data is read after the flag.
        STOPPED.store(true, Ordering::Relaxed);
    });
    let running = match test {
        "basic" => vec![counting(basic())],
        "cooperative" => in_turn(),
        "message" => vec![counting(message())],
        "synchronization" => vec![counting(synchronization())],
        "memory" => vec![counting(|| drop(black_box(Box::<[u8; 128]>::new_uninit())))],
        _ => return None,
    };
    let mut counts = Vec::new();
    for (handle, counter) in running {
        handle.join().expect("a coroutine that ends well");
        // Relaxed: its writer has ended.
        counts.push(counter.load(Ordering::Relaxed));
    }
    if test == "cooperative" {
        check_turns(&counts);
    }
    let sum: u64 = counts.iter().sum();
    let seconds = begin.elapsed().as_secs_f64();
    let cpu = (crate::cpu_time() - cpu) / 1e9;
    println!("{{\"counts\": {sum}, \"seconds\": {seconds:.6}, \"cpu\": {cpu:.6}}}");
    Some(())
}

/// Starts five coroutines that yield after each count. The worker already runs while they are made,
/// so each waits until all exist.
fn in_turn() -> Vec<(coroutine::JoinHandle<()>, Counter)> {
    let all_are_there = Arc::new(AtomicBool::new(false));
    let coroutines = (0..5).map(|_| {
        let may_begin = all_are_there.clone();
        let mut has_begun = false;
        counting(move || {
            // Relaxed: no other data is read after the flag.
            while !has_begun && !may_begin.load(Ordering::Relaxed) {
                coroutine::yield_now();
            }
            has_begun = true;
            coroutine::yield_now();
        })
    });
    let coroutines = coroutines.collect();
    // Relaxed: as above.
    all_are_there.store(true, Ordering::Relaxed);
    coroutines
}

/// Checks that the counters of coroutines that take turns are within one of their mean.
fn check_turns(counts: &[u64]) {
    let (least, most) = (counts.iter().min(), counts.iter().max());
    let is_fair = least
        .zip(most)
        .is_some_and(|(least, most)| *least > 0 && most - least <= 1);
    assert!(is_fair, "the counters are more than one from each other: {counts:?}");
}

fn counting(mut body: impl FnMut() + Send + 'static) -> (coroutine::JoinHandle<()>, Counter) {
    let counter = Counter::default();
    let own = counter.clone();
    let handle = go!(move || {
        // Relaxed (all): a flag, and a counter with one writer.
        while !STOPPED.load(Ordering::Relaxed) {
            body();
            own.store(own.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    });
    (handle, counter)
}

fn basic() -> impl FnMut() + Send {
    let words: Vec<AtomicU64> = (0..1024).map(|_| AtomicU64::new(0)).collect();
    let mut passes = 0u64;
    move || {
        for word in &words {
            // Relaxed (both): atomics stand for C's volatile here.
            let old = word.load(Ordering::Relaxed);
            word.store(old.wrapping_add(passes) ^ old, Ordering::Relaxed);
        }
        passes += 1;
    }
}

fn message() -> impl FnMut() + Send {
    let (sender, receiver) = mpsc::channel::<[u64; 2]>();
    let mut sent = 0u64;
    move || {
        sender.send([sent, !sent]).expect("a receiver");
        let received = receiver.recv().expect("a sender");
        // The words are read one by one, as they were written; see the runtime's own test.
        let received = received.map(black_box);
        assert!(received[0] == sent && received[1] == !sent, "a message is not what was sent");
        sent += 1;
    }
}

fn synchronization() -> impl FnMut() + Send {
    let semaphore = Semphore::new(1);
    move || {
        semaphore.wait();
        semaphore.post();
    }
}
