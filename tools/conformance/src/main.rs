//! `baton-conformance`: plays scenarios with a guest, a language VM on the Baton runtime.
//!
//! Each scenario is a program in the guest's language, which the author of the guest writes. The
//! suite starts the guest once for each, reads its lines, and answers on its standard input.

mod command_line;
mod scenarios;
mod session;
mod wake_ups;

use std::fmt::Write;
use std::process::ExitCode;

use command_line::Wish;
use scenarios::{SCENARIOS, Scenario};
use session::{Failure, Session};

/// The status for wrong arguments.
const WRONG_USE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match command_line::parse(&arguments) {
        Ok(Wish::Help) => print!("{}", command_line::HELP),
        Ok(Wish::List) => print!("{}", list()),
        Ok(Wish::Play(play)) => return play_all(&play),
        Err(why) => {
            eprintln!("baton-conformance: {why}");
            return ExitCode::from(WRONG_USE);
        }
    }
    ExitCode::SUCCESS
}

/// What a guest does in each scenario.
fn list() -> String {
    let mut text = String::new();
    for scenario in &SCENARIOS {
        let kind = if scenario.is_optional {
            " (optional)"
        } else {
            ""
        };
        writeln!(text, "{}{kind}: {}", scenario.name, scenario.task).expect("a string takes text");
    }
    text
}

fn play_all(play: &command_line::Play) -> ExitCode {
    let (mut passed, mut failed, mut left_out) = (0, 0, 0);
    let chosen = |scenario: &&Scenario| {
        play.only.is_empty() || play.only.iter().any(|name| name == scenario.name)
    };
    for scenario in SCENARIOS.iter().filter(chosen) {
        let name = scenario.name;
        let stretch = if scenario.stretches {
            play.stretch()
        } else {
            1
        };
        let command = play.command_for(name);
        let started = Session::start(&command, play.limit, stretch, scenario.seed);
        let mut session = match started {
            Ok(session) => session,
            Err(why) => {
                eprintln!("baton-conformance: {why}");
                return ExitCode::from(WRONG_USE);
            }
        };
        match (scenario.play)(&mut session) {
            Ok(()) => {
                passed += 1;
                println!("ok        {name}");
            }
            Err(Failure::LeftOut) if scenario.is_optional => {
                left_out += 1;
                println!("left out  {name}");
            }
            Err(failure) => {
                failed += 1;
                println!("FAILED    {name}: {failure}");
                println!("          its task: {}", scenario.task);
                for line in session.errors().lines() {
                    println!("          stderr: {line}");
                }
            }
        }
    }
    println!("{passed} passed, {failed} failed, {left_out} left out");
    ExitCode::from(u8::from(failed > 0))
}
