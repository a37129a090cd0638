//! What the user asks for.

use crate::scenarios::SCENARIOS;
use std::time::Duration;

/// The text of `--help`.
pub(crate) const HELP: &str = "\
usage: baton-conformance [OPTION...] GUEST [ARGUMENT...]

Plays each scenario with a guest of the Baton runtime. {} in an argument stands
for the scenario's name; without one, the name is the last argument.

  --only NAME      plays this scenario only; may be given more than once
  --limit SECONDS  how long a scenario may take (20); from 51 on, its sleeps are
                   longer, too: a multiple, in the environment variable STRETCH
  --list           prints what a guest does in each scenario
  --help           prints this text

Ends with the status 0 if all have passed, 1 if one has failed, and 2 if the
arguments are wrong or the guest cannot be started.
";

/// How long a scenario may take on a slow machine.
const LIMIT: Duration = Duration::from_secs(20);

/// For each part of the limit that is so long, sleeps are longer by their usual length: a machine
/// that needs more time needs larger gaps between events, too.
const PART: u64 = 50;

/// What stands for the scenario's name.
const PLACE: &str = "{}";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Help,
    List,
    Play(Play),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Play {
    /// The names of scenarios; empty: all.
    pub(crate) only: Vec<String>,
    pub(crate) limit: Duration,
    guest: Vec<String>,
}

impl Play {
    /// How many times longer than usual sleeps are.
    pub(crate) fn stretch(&self) -> u32 {
        u32::try_from(self.limit.as_secs().div_ceil(PART)).unwrap_or(u32::MAX)
    }

    /// The program and its arguments for a scenario.
    pub(crate) fn command_for(&self, scenario: &str) -> Vec<String> {
        let mut command: Vec<String> = self
            .guest
            .iter()
            .map(|word| word.replace(PLACE, scenario))
            .collect();
        if command == self.guest {
            command.push(scenario.to_owned());
        }
        command
    }
}

pub(crate) fn parse(arguments: &[String]) -> Result<Wish, String> {
    let mut play = Play {
        only: Vec::new(),
        limit: LIMIT,
        guest: Vec::new(),
    };
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--help" => return Ok(Wish::Help),
            "--list" => return Ok(Wish::List),
            "--only" => play.only.push(known(value()?)?),
            "--limit" => play.limit = seconds(value()?)?,
            option if option.starts_with("--") => {
                return Err(format!("unknown option '{option}'; see --help"));
            }
            _ => {
                play.guest.push(word.clone());
                play.guest.extend(rest.by_ref().cloned());
            }
        }
    }
    if play.guest.is_empty() {
        return Err("expected a guest, the program to test; see --help".to_owned());
    }
    Ok(Wish::Play(play))
}

fn known(name: &str) -> Result<String, String> {
    match SCENARIOS.iter().any(|scenario| scenario.name == name) {
        true => Ok(name.to_owned()),
        false => Err(format!("no scenario is named '{name}'; see --list")),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => Err(format!(
            "--limit needs whole seconds, at least 1, got '{text}'"
        )),
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    fn parsed(line: &str) -> Result<Wish, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    fn commands(line: &str) -> String {
        match parsed(line) {
            Ok(Wish::Play(play)) => play.command_for("turns").join(" "),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_name_takes_the_place_of_braces_or_comes_last() {
        assert_eq!(commands("./guest"), "./guest turns");
        assert_eq!(commands("lua --only {}.lua x"), "lua --only turns.lua x");
    }

    #[test]
    fn options_come_before_the_guest() {
        let Ok(Wish::Play(play)) = parsed("--only idle --limit 3 g --list") else {
            panic!("it is to be played");
        };
        assert_eq!(
            (play.only, play.limit.as_secs()),
            (vec!["idle".to_owned()], 3)
        );
        assert_eq!(play.guest, ["g", "--list"]);
    }

    #[test]
    fn sleeps_grow_with_the_limit() {
        for (limit, stretch) in [(1, 1), (20, 1), (50, 1), (51, 2), (150, 3)] {
            let Ok(Wish::Play(play)) = parsed(&format!("--limit {limit} g")) else {
                panic!("it is to be played");
            };
            assert_eq!(play.stretch(), stretch);
        }
    }

    #[test]
    fn wrong_arguments_are_refused_with_what_to_do() {
        for (line, part) in [
            ("", "expected a guest"),
            ("--only", "needs a value"),
            ("--only nothing g", "see --list"),
            ("--limit 0 g", "at least 1"),
            ("--fast g", "see --help"),
        ] {
            let why = parsed(line).expect_err(line);
            assert!(why.contains(part), "{why}");
        }
    }
}
