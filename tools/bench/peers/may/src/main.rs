//! The peer `may`. See ../../README.md.

#![forbid(unsafe_code)]

mod metric;

use std::env;
use std::process::ExitCode;
use std::sync::Arc;

use may::sync::{Semphore, mpsc};
use may::{coroutine, go};
use rustix::time::{ClockId, clock_gettime};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    may::config().set_workers(1);
    let done = match words[..] {
        ["version"] => {
            println!("may {}", env!("CARGO_PKG_VERSION"));
            Some(())
        }
        ["switch", case, count] => count.parse().ok().and_then(|count| switch(case, count)),
        ["thread-metric", test, seconds] => {
            seconds.parse().ok().and_then(|seconds| metric::run(test, seconds))
        }
        _ => None,
    };
    match done {
        Some(()) => ExitCode::SUCCESS,
        None => {
            eprintln!("usage: peer version | switch CASE COUNT | thread-metric TEST SECONDS");
            ExitCode::FAILURE
        }
    }
}

/// Runs a case and prints the time per operation. Each case returns the number of its operations.
fn switch(case: &str, count: u64) -> Option<()> {
    let run: fn(u64) -> u64 = match case {
        "yield" => yield_in_turn,
        "channel" => channel,
        "semaphore" => semaphore,
        "spawn_join" => spawn_join,
        _ => return None,
    };
    let start = cpu_time();
    let operations = run(count);
    println!("{{\"ns\": {:.3}}}", (cpu_time() - start) / operations as f64);
    Some(())
}

/// The CPU time of all threads of this program, in nanoseconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn together(first: coroutine::JoinHandle<()>, second: coroutine::JoinHandle<()>) {
    first.join().expect("the first coroutine ends well");
    second.join().expect("the second coroutine ends well");
}

fn yield_in_turn(count: u64) -> u64 {
    let turns = count / 2;
    let body = move || (0..turns).for_each(|_| coroutine::yield_now());
    together(go!(body), go!(body));
    turns * 2
}

/// Passes values through channels. The library's channels have no limit, so the receiver returns a
/// receipt.
fn channel(count: u64) -> u64 {
    let (values, taken) = mpsc::channel::<u64>();
    let (receipts, received) = mpsc::channel::<()>();
    let receiver = go!(move || {
        let mut sum = 0;
        for _ in 0..count {
            sum += taken.recv().expect("a value");
            receipts.send(()).expect("a sender that waits");
        }
        assert_eq!(sum, count * (count + 1) / 2, "values were lost");
    });
    let sender = go!(move || {
        for value in 1..=count {
            values.send(value).expect("a receiver that waits");
            received.recv().expect("a receipt");
        }
    });
    together(receiver, sender);
    count
}

fn semaphore(count: u64) -> u64 {
    let (mine, yours, turns) = (Arc::new(Semphore::new(1)), Arc::new(Semphore::new(0)), count / 2);
    let (others_mine, others_yours) = (mine.clone(), yours.clone());
    let first = go!(move || {
        for _ in 0..turns {
            mine.wait();
            yours.post();
        }
    });
    let second = go!(move || {
        for _ in 0..turns {
            others_yours.wait();
            others_mine.post();
        }
    });
    together(first, second);
    turns * 2
}

/// Joins coroutines from a coroutine, as the other peers do. Joining from a thread would measure
/// the thread.
fn spawn_join(count: u64) -> u64 {
    let parent = go!(move || {
        let mut sum = 0;
        for value in 1..=count {
            sum += go!(move || value).join().expect("a coroutine that ends well");
        }
        assert_eq!(sum, count * (count + 1) / 2, "results were lost");
    });
    parent.join().expect("the parent ends well");
    count
}
