//! Compares `baton` with the system's `lua5.4` in hundreds of small shell scripts: output, messages
//! and exit status must be equal. The scripts are in `cases/`, in the format that `parse.rs`
//! describes. They run in `files/`, where `lua` is first one program and then the other. If the two
//! rightly differ, a case names the difference; `differences.rs` lists them all with their reasons.

mod compare;
mod differences;
mod parse;
#[path = "../standalone/run.rs"]
mod run;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use differences::DIFFERENCES;
use parse::Case;

/// The least number of cases. Fewer mean that some were not found.
const FEWEST_CASES: usize = 500;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcript/cases")
}

/// The cases of the file `name.txt`.
fn cases(name: &str) -> Vec<Case> {
    let path = directory().join(name).with_extension("txt");
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    parse::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One test for each file of cases.
macro_rules! transcripts {
    ($($name:ident)*) => {
        const FILES: &[&str] = &[$(stringify!($name)),*];

        mod programs_do_the_same_in {
            $(#[test]
            fn $name() {
                crate::compare::compare(&crate::cases(stringify!($name)));
            })*
        }
    };
}

transcripts! {
    collector depth environment errors exit interactive input_output language library modules
    options scripts strings streams
}

#[test]
fn every_file_of_cases_is_run() {
    let present: BTreeSet<String> = fs::read_dir(directory())
        .expect("the directory of the cases")
        .map(|entry| entry.expect("an entry").path())
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    assert_eq!(
        present,
        FILES.iter().map(|name| (*name).to_owned()).collect()
    );
}

#[test]
fn the_cases_are_many_and_each_has_a_name_of_its_own() {
    let mut names = BTreeSet::new();
    for file in FILES {
        for case in cases(file) {
            let name = format!("{file}: {}: {}", case.section, case.name);
            assert!(
                names.insert(name.clone()),
                "there are two cases of this name: {name}"
            );
        }
    }
    assert!(
        names.len() >= FEWEST_CASES,
        "only {} cases were found",
        names.len()
    );
}

#[test]
fn every_difference_is_met_somewhere() {
    let met: BTreeSet<String> = FILES
        .iter()
        .flat_map(|file| cases(file))
        .flat_map(|case| case.differences)
        .collect();
    assert_eq!(
        met,
        DIFFERENCES.iter().map(|one| one.name.to_owned()).collect()
    );
}
