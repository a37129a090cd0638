//! What the monitor costs. One test a program: the monitor serves all VMs of a program, and its time is measured.

mod mock_guest;

use baton_core::kernel::SpawnOptions;
use mock_guest::{Process, run_with};
use std::time::Duration;

/// Time on the processor of the thread with this name; `None` if there is none.
fn time_of_thread(name: &str) -> Option<Duration> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the system lists threads");
    let mut directories = tasks.flatten().map(|task| task.path());
    let wanted = directories
        .find(|directory| std::fs::read_to_string(directory.join("comm")).is_ok_and(|comm| comm.trim() == name))?;
    // The first number: nanoseconds on the processor.
    let times = std::fs::read_to_string(wanted.join("schedstat")).expect("a thread has times");
    let nanoseconds = times.split(' ').next().and_then(|first| first.parse().ok());
    nanoseconds.map(Duration::from_nanos)
}

/// Processes that cannot be preempted have used up their slices, and others wait: nothing can be done about it, and so nothing is
/// done. Processor times are compared, so that the machine's load does not matter.
#[test]
fn the_monitor_rests_while_a_process_cannot_be_preempted() {
    const BUSY: Duration = Duration::from_millis(100);
    let short_slices = |vm: &baton_core::vm::Vm| vm.parameters.slice.set(Duration::from_micros(100));
    run_with(short_slices, |main| {
        let options = SpawnOptions {
            preemptible: false,
            ..SpawnOptions::default()
        };
        let cooperative = main.spawn_with(options, |process| {
            // Its thread starts with the first need.
            let before = time_of_thread("baton-monitor").unwrap_or_default();
            let begin = baton_sys::clock::thread_cpu_time();
            let used = || baton_sys::clock::thread_cpu_time() - begin;
            process.spin_until(|| used() >= BUSY)?;
            // A busy machine may not have let it begin.
            process.spin_until(|| time_of_thread("baton-monitor").is_some())?;
            let after = time_of_thread("baton-monitor").expect("it does not end");
            let spent = after - before;
            assert!(spent < BUSY / 4, "the monitor took {spent:?} beside {BUSY:?}");
            Ok(())
        });
        let rival = main.spawn(Process::checkpoint);
        main.join_all([cooperative, rival])
    });
}
