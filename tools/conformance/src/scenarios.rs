//! What a guest does in each scenario, and what must come of it.

use crate::session::{Failure, Session, wrong};
use crate::wake_ups;
use std::thread;
use std::time::Duration;

/// A scenario.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// What the guest's program does.
    pub(crate) task: &'static str,
    /// Whether a guest may leave it out, by the line `unsupported`.
    pub(crate) is_optional: bool,
    /// Whether its sleeps grow with the limit.
    pub(crate) stretches: bool,
    /// What the variable `SEED` says to the guest; `None`: there is no such variable.
    pub(crate) seed: Option<u64>,
    pub(crate) play: fn(&mut Session) -> Result<(), Failure>,
}

const fn scenario(
    name: &'static str,
    task: &'static str,
    play: fn(&mut Session) -> Result<(), Failure>,
) -> Scenario {
    Scenario {
        name,
        task,
        is_optional: false,
        stretches: true,
        seed: None,
        play,
    }
}

const fn optional(
    name: &'static str,
    task: &'static str,
    play: fn(&mut Session) -> Result<(), Failure>,
) -> Scenario {
    Scenario {
        is_optional: true,
        ..scenario(name, task, play)
    }
}

/// All scenarios, in the order in which a guest learns them.
pub(crate) static SCENARIOS: [Scenario; 20] = [
    scenario("hello", "Prints `hello`.", hello),
    scenario(
        "turns",
        "A shared number n is 0. Starts two processes. Three times, the first one sets n to 10n + \
         1 and yields, the second one sets n to 10n + 2 and yields. Waits for both, and prints n.",
        turns,
    ),
    scenario(
        "many",
        "Starts 1,000 processes. Each yields once, adds 1 to a shared number, and ends. Waits for \
         all, and prints the number.",
        many,
    ),
    scenario(
        "sleep",
        "Starts three processes. They sleep for 500, 100 and 300 ms, and print `500`, `100` and \
         `300`. Waits for all.",
        sleep,
    ),
    Scenario {
        stretches: false,
        ..scenario(
            "idle",
            "Prints `ready`, sleeps for 3 s, and prints `done`.",
            idle,
        )
    },
    scenario(
        "deadlock",
        "Prints `waiting`, and waits for what never comes. The program ends with a message on \
         standard error and a status that is not 0.",
        deadlock,
    ),
    scenario(
        "preempt",
        "Starts a process that sets a shared flag. Looks at the flag in a loop, without any wait, \
         until it is set. Prints `done`.",
        preempt,
    ),
    scenario(
        "urgent",
        "Starts a process of the priority 20, which prints `low`. Starts one of the priority 60, \
         which sleeps for 50 ms, prints `high`, and sets a shared flag. Looks at the flag in a \
         loop, without any wait, until it is set. Prints `main`, and waits for both.",
        urgent,
    ),
    scenario(
        "kill_wait",
        "Starts a process that sleeps for an hour, and then prints `slept`. Sleeps for 100 ms, \
         kills it, waits for its end, and prints `ended`.",
        kill_wait,
    ),
    scenario(
        "kill_loop",
        "Starts a process that prints `looping`, and loops for ever without any wait. Sleeps for \
         100 ms, kills it, waits for its end, and prints `ended`.",
        kill_loop,
    ),
    scenario(
        "call",
        "Starts a process that reads one byte of standard input by a system call that blocks, \
         prints the byte's number, and sets a shared flag. Yields once, and prints `beside`. Looks \
         at the flag in a loop, without any wait, until it is set. Prints `done`.",
        call,
    ),
    scenario(
        "calls",
        "Starts four processes. Each prints `in`, reads one byte as in `call`, and prints its \
         number. Waits for all, and prints `done`.",
        calls,
    ),
    scenario(
        "churn",
        "Starts eight processes. Each makes 500 times a foreign call that sleeps for 20 us, and \
         adds 1 to a shared number. Waits for all, and prints the number.",
        churn,
    ),
    scenario(
        "levels",
        "Starts a process that loops for ever without any wait. Starts four more. Ten times, each \
         calls a function of the guest 2, 4, 6 or 8 levels deep, makes a foreign call there that \
         sleeps for 5 ms, leaves all levels by an error (or by returns if there are no errors), \
         and adds 1 to a shared number. Waits for the four, prints the number, and ends the \
         program.",
        levels,
    ),
    scenario(
        "kill_call",
        "Starts a process that reads one byte as in `call`, and prints its number. Sleeps for \
         100 ms, kills it, prints `killed`, waits for its end, and prints `ended`.",
        kill_call,
    ),
    scenario(
        "end",
        "Starts a process that reads one byte as in `call`, and prints its number. Sleeps for \
         100 ms, prints `end`, and ends the program, without waiting for the process.",
        end,
    ),
    optional(
        "callback",
        "Starts a process that loops for ever without any wait. Calls a C function, which calls \
         the guest back with 1, 2 and 3. Each callback prints its number and sleeps for 10 ms. \
         Prints `returned`, and ends the program.",
        callback,
    ),
    optional(
        "wake",
        "Starts a native thread that the runtime does not know, and waits. The thread sleeps for \
         50 ms and wakes the process, which prints `woken`.",
        wake,
    ),
    optional(
        "ready",
        "Starts a process that waits for standard input without a thread of its own, then reads a \
         byte and prints its number. Sleeps for 50 ms, prints `beside`, and waits for the process.",
        ready,
    ),
    Scenario {
        seed: Some(FIRST_SEED),
        ..optional(
            "simulated",
            "The environment variable `SEED` has a number. The run is simulated by this seed. \
             Starts three processes. Ten times, each one loops 100 times without any wait, and \
             prints its number, 1, 2 or 3. Waits for all, sleeps for an hour, and prints `done`.",
            simulated,
        )
    },
];

fn hello(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["hello"])?;
    guest.ends_well()
}

fn turns(guest: &mut Session) -> Result<(), Failure> {
    let line = guest.line()?;
    if line != "121212" && line != "212121" {
        return wrong(format!(
            "expected turns of the two processes, '121212' or '212121', got '{line}'"
        ));
    }
    guest.ends_well()
}

fn many(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["1000"])?;
    guest.ends_well()
}

fn sleep(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["100", "300", "500"])?;
    let (age, longest) = (guest.age(), Duration::from_millis(500) * guest.stretch());
    if age < longest {
        return wrong(format!("a sleep of {longest:?} has ended after {age:?}"));
    }
    guest.ends_well()
}

/// What a guest that sleeps may do besides: the runtime's own threads come to rest.
const MOST_WAKE_UPS: u64 = 5;

fn idle(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["ready"])?;
    thread::sleep(Duration::from_millis(500));
    let before = wake_ups::count(guest.process());
    thread::sleep(Duration::from_secs(2));
    let after = wake_ups::count(guest.process());
    match before.zip(after) {
        None => println!("          idle: this system does not count the waits of threads"),
        Some((before, after)) if after - before > MOST_WAKE_UPS => {
            return wrong(format!(
                "expected at most {MOST_WAKE_UPS} wake-ups in 2 s of sleep, got {}",
                after - before
            ));
        }
        Some(_) => {}
    }
    guest.expect(&["done"])?;
    guest.ends_well()
}

fn deadlock(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["waiting"])?;
    let status = guest.status()?;
    if status.code().is_none_or(|code| code == 0) {
        return wrong(format!(
            "expected an exit status that is not 0, got {status}"
        ));
    }
    if guest.errors().trim().is_empty() {
        return wrong("expected a message on standard error, got none");
    }
    Ok(())
}

fn preempt(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["done"])?;
    guest.ends_well()
}

fn urgent(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["high", "main", "low"])?;
    guest.ends_well()
}

fn kill_wait(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["ended"])?;
    guest.ends_well()
}

fn kill_loop(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["looping", "ended"])?;
    guest.ends_well()
}

fn call(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["beside"])?;
    guest.send("x")?;
    guest.expect(&["120", "done"])?;
    guest.ends_well()
}

fn calls(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["in"; 4])?;
    guest.send("abcd")?;
    let mut got = Vec::new();
    for _ in 0..4 {
        got.push(guest.line()?);
    }
    got.sort();
    if got != ["100", "97", "98", "99"] {
        return wrong(format!(
            "expected the numbers of a, b, c and d, got {}",
            got.join(", ")
        ));
    }
    guest.expect(&["done"])?;
    guest.ends_well()
}

fn churn(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["4000"])?;
    guest.ends_well()
}

fn levels(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["40"])?;
    guest.ends_well()
}

fn kill_call(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["killed"])?;
    guest.send("x")?;
    guest.expect(&["ended"])?;
    guest.ends_well()
}

fn end(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["end"])?;
    guest.ends_well()
}

fn callback(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["1", "2", "3", "returned"])?;
    guest.ends_well()
}

fn wake(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["woken"])?;
    guest.ends_well()
}

fn ready(guest: &mut Session) -> Result<(), Failure> {
    guest.expect(&["beside"])?;
    guest.send("x")?;
    guest.expect(&["120"])?;
    guest.ends_well()
}

/// The seeds of `simulated`, each of which is played.
const FIRST_SEED: u64 = 1;
const LAST_SEED: u64 = 8;

fn simulated(guest: &mut Session) -> Result<(), Failure> {
    let first = simulated_run(guest)?;
    guest.start_again(FIRST_SEED)?;
    let again = simulated_run(guest)?;
    if again != first {
        return wrong(format!(
            "expected the same lines from the same seed, got {first} and {again}"
        ));
    }
    for seed in FIRST_SEED + 1..=LAST_SEED {
        guest.start_again(seed)?;
        if simulated_run(guest)? != first {
            return Ok(());
        }
    }
    wrong(format!(
        "expected another order from another seed, got {first} from each of {LAST_SEED}"
    ))
}

/// What a run of `simulated` prints, without the last line.
fn simulated_run(guest: &mut Session) -> Result<String, Failure> {
    let mut lines = String::new();
    for _ in 0..30 {
        lines.push_str(&guest.line()?);
    }
    guest.expect(&["done"])?;
    guest.ends_well()?;
    match ["1", "2", "3"]
        .iter()
        .all(|number| lines.matches(number).count() == 10)
    {
        true => Ok(lines),
        false => wrong(format!("expected each number ten times, got {lines}")),
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    /// The page of the book that describes them.
    const PAGE: &str = "../../docs/book/src/guests.md";

    #[test]
    fn the_book_has_all_scenarios_in_their_order() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
        let page = std::fs::read_to_string(page).expect("the page is there");
        let (_, table) = page
            .split_once("| scenario | task |")
            .expect("the table is there");
        let rows: Vec<&str> = table
            .lines()
            .skip(2)
            .take_while(|line| line.starts_with('|'))
            .collect();
        let expected: Vec<String> = SCENARIOS
            .iter()
            .map(|scenario| {
                let kind = if scenario.is_optional {
                    " (optional)"
                } else {
                    ""
                };
                format!("| `{}`{kind} | {} |", scenario.name, scenario.task)
            })
            .collect();
        assert_eq!(rows, expected, "\n{}\n", expected.join("\n"));
    }
}
