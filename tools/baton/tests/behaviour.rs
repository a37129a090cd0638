//! Tests the language and its library in areas that a runtime could break. Each area under
//! lua/behaviour has hundreds of assertions.
//!
//! `lua/behaviour/driver.lua` runs one file in one mode: in the main program, preempted beside busy
//! processes, in a process of its own, or in several processes at once. The system's own `lua5.4`
//! runs each file too, to check that the expectations are Lua's own behaviour.
//! `BATON_BEHAVIOUR_RUNS=20` in the environment runs everything 20 times.

mod harness;

use std::collections::BTreeSet;

use harness::{Outcome, Run, baton, lua_dir, peer};

/// How many times each file runs.
fn runs() -> usize {
    std::env::var("BATON_BEHAVIOUR_RUNS").map_or(1, |text| {
        text.parse().expect("BATON_BEHAVIOUR_RUNS is a number")
    })
}

/// An area: a directory of files.
struct Area {
    name: &'static str,
    files: &'static [&'static str],
    /// Files about state that exists once per VM. They do not run in several processes at once.
    alone: &'static [&'static str],
    /// The least number of assertions in the area. A smaller number means that some did not run.
    least: usize,
}

impl Area {
    fn passes_in(&self, mode: &str) {
        self.passes(mode, |file| Some(driven(baton(), mode, file)));
    }

    fn passes_under_stock_lua(&self) {
        self.passes("plain", |file| Some(driven(peer::lua()?, "plain", file)));
    }

    fn passes(&self, mode: &str, run: impl Fn(&str) -> Option<Outcome>) {
        let alone = if mode == "crowd" { &[] } else { self.alone };
        for _ in 0..runs() {
            let mut count = 0;
            for file in self.files.iter().chain(alone) {
                let Some(outcome) = run(&format!("{}/{file}", self.name)) else {
                    return;
                };
                count += assertions_passed(&outcome);
            }
            let least = if mode == "crowd" {
                1.min(self.files.len())
            } else {
                self.least
            };
            assert!(
                count >= least,
                "{} had {count} assertions, and not {least}",
                self.name
            );
        }
    }
}

fn driven(run: Run, mode: &str, file: &str) -> Outcome {
    run.script("behaviour/driver.lua").arg(mode).arg(file).run()
}

/// Returns the number on the last line, "ok FILE COUNT".
fn assertions_passed(outcome: &Outcome) -> usize {
    outcome.succeeds().without_panic();
    let last = outcome.stdout.lines().last().unwrap_or_default();
    let count = last
        .strip_prefix("ok ")
        .and_then(|rest| rest.split(' ').nth(1)?.parse().ok());
    count.unwrap_or_else(|| panic!("the file did not come to its end\n{outcome}"))
}

macro_rules! areas {
    ($($area:ident $least:literal: [$($file:ident),*] $(alone [$($alone:ident),+])?;)+) => {
        $(mod $area {
            pub(crate) const AREA: super::Area = super::Area {
                name: stringify!($area),
                files: &[$(stringify!($file)),*],
                alone: &[$($(stringify!($alone)),+)?],
                least: $least,
            };

            #[test]
            fn passes_in_the_main_program() {
                AREA.passes_in("plain");
            }

            #[test]
            fn passes_beside_three_busy_processes() {
                AREA.passes_in("preempted");
            }

            #[test]
            fn passes_in_a_process_of_its_own() {
                AREA.passes_in("spawned");
            }

            #[test]
            fn passes_in_several_processes_at_once() {
                AREA.passes_in("crowd");
            }

            #[test]
            fn is_what_stock_lua_does() {
                AREA.passes_under_stock_lua();
            }
        })+

        const AREAS: &[&Area] = &[$(&$area::AREA),+];
    };
}

areas! {
    coroutines 1270: [values, boundaries, ending];
    closing 700: [blocks, yields];
    errors 650: [raising, handlers] alone [overflow];
    hooks 1400: [events];
    introspection 1350: [frames, upvalues];
    collector 640: [] alone [finalizers, modes];
    chunks 940: [loading, jumps];
    numbers 1030: [arithmetic];
    strings 1060: [formats, patterns];
    tables 830: [library];
    metamethods 800: [operators];
    modules 680: [require];
    files 700: [reading] alone [defaults];
    system 690: [time];
}

#[test]
fn no_file_is_left_out() {
    let root = lua_dir().join("behaviour");
    let mut there = BTreeSet::new();
    for entry in std::fs::read_dir(&root).expect("the suite is there") {
        let directory = entry.expect("the suite can be listed").path();
        if !directory.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(&directory).expect("an area can be listed") {
            let path = file
                .expect("an area can be listed")
                .path()
                .with_extension("");
            there.insert(
                path.strip_prefix(&root)
                    .expect("it is inside")
                    .display()
                    .to_string(),
            );
        }
    }
    let mut named = BTreeSet::new();
    for area in AREAS {
        assert!(
            area.least >= 400,
            "{} is to have 400 assertions at the least",
            area.name
        );
        for file in area.files.iter().chain(area.alone) {
            named.insert(format!("{}/{file}", area.name));
        }
    }
    assert_eq!(there, named);
}

/// A debug build asserts that locks and unlocks of the VM alternate; a release build does not
/// check.
#[test]
fn a_debug_build_asserts_that_enter_and_leave_alternate() {
    let program = std::fs::read(harness::baton_path()).expect("the program can be read");
    let check = b"(a lock or unlock is missing)";
    let has_checks = program.windows(check.len()).any(|bytes| bytes == check);
    assert_eq!(has_checks, harness::program::has_assertions());
}
