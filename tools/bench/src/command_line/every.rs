//! The list of experiments that `baton-bench all` runs.

/// The experiments in the order of `all`. Each is a command line: its name, and options that
/// make it quick.
const EVERY_EXPERIMENT: [&str; 21] = [
    "lua --rounds 1 --programs n_queens,pcall_loop --small",
    "switch --rounds 1 --iterations 1000",
    "gate --rounds 1 --pairs 1000",
    "thread-metric --rounds 1 --seconds 0.05",
    "scale --rounds 1 --max 200",
    "latency --seconds 0.2",
    "fairness --runs 1 --work 0.02 --most 2 --rounds 1 --seconds 0.5",
    "philosophers --rounds 1 --seconds 0.05",
    "idle --settle 0.2 --seconds 0.5 --cases nothing,second --sleeps 3",
    "blocking --processes 2 --seconds 0.2",
    "spin --rounds 1 --seconds 0.2",
    "delay --rounds 1 --sleeps 3",
    "gilda --rounds 1 --turns 100000 --seconds 0.05 --calls 1000 --price 1000",
    "window --rounds 1 --seconds 0.002 --longest 0.001",
    "threads --rounds 1 --largest 3 --milliseconds 5 --crowd-milliseconds 5",
    "timers --rounds 1 --largest 1500",
    "net --rounds 1 --seconds 0.1 --most 1",
    "slow --requests 10 --waiting 2",
    "observe --rounds 1 --pairs 1 --seconds 0.1 --connections 1 --programs n_queens",
    "cores --rounds 1 --work 0.01 --seconds 0.001 --largest 64 --heap 1000000 --vms 10 --idle 0.1 \
     --connections 1 --load 0.1",
    "cluster --rounds 1 --jobs 20",
];

/// The command line of every experiment, without the program's name.
pub(crate) fn every_experiment(quick: bool) -> impl Iterator<Item = Vec<&'static str>> {
    let words = if quick { usize::MAX } else { 1 };
    EVERY_EXPERIMENT
        .into_iter()
        .map(move |line| line.split(' ').take(words).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::CommandLine;
    use clap::{CommandFactory, Parser};

    #[test]
    fn every_experiment_is_in_all_in_quick_and_in_full() {
        for line in [true, false].into_iter().flat_map(every_experiment) {
            CommandLine::try_parse_from([&["baton-bench"], &line[..]].concat()).unwrap();
        }
        let command = CommandLine::command();
        let names = command.get_subcommands().map(clap::Command::get_name);
        let names: Vec<&str> = names
            .filter(|name| !["all", "report"].contains(name))
            .collect();
        assert_eq!(every_experiment(false).collect::<Vec<_>>().concat(), names);
    }
}
