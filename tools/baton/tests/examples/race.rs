//! Tests the race at the start of the README.

use std::path::Path;

use crate::harness::{baton, baton_path};

/// The README's first block marked `text` is what the command before it prints, but for the
/// program's name.
#[test]
fn the_readme_shows_what_a_simulated_race_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README is there");
    let (before, block) = readme.split_once("```text\n").expect("it has a block");
    let (expected, _) = block.split_once("```").expect("the block ends");
    let (program, arguments) = (
        "target/release/baton",
        "--simulate 1-1000 examples/race.lua",
    );
    assert!(before.contains(&format!("{program} {arguments}\n")));
    let run = arguments
        .split(' ')
        .fold(baton().in_dir(&root), |run, argument| run.arg(argument));
    let outcome = run.run();
    let tested = format!("{}:", baton_path().display());
    let shown = outcome.stderr.replace(&tested, &format!("{program}:"));
    assert_eq!(shown, expected, "{outcome}");
}
