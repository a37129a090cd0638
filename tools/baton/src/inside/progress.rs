//! A bar for commands that last for a known time.

use indicatif::{ProgressBar, ProgressStyle};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Shows on a terminal how much of `time` has passed while `work` runs. `doing` is one word for it,
/// such as "profiling".
pub(super) fn during<R>(doing: &str, time: Duration, work: impl FnOnce() -> R) -> R {
    const STEP: Duration = Duration::from_millis(100);
    let done = AtomicBool::new(false);
    let steps = (time.as_secs_f64() / STEP.as_secs_f64()).ceil() as u64;
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template(&format!("{doing} {{wide_bar}} {{eta}} left")) {
        bar.set_style(style);
    }
    thread::scope(|threads| {
        threads.spawn(|| {
            // Relaxed: only the end of a display.
            while !done.load(Ordering::Relaxed) {
                thread::sleep(STEP);
                bar.inc(1);
            }
            bar.finish_and_clear();
        });
        let result = work();
        // Relaxed: as above.
        done.store(true, Ordering::Relaxed);
        result
    })
}
