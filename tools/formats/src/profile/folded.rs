//! Collapsed stacks: a line for each stack, the outermost function first.
//!
//! ```text
//! main (a.lua);work (a.lua:12);read [C] 1200
//! ```
//!
//! The number is the value in the profile's unit. The format has no way to escape a name, so
//! semicolons in names become colons, and control characters become their pictures.

use std::io::{self, Write};

use super::Profile;
use super::merged::Merged;

/// Writes a line for each stack, in alphabetical order.
pub(super) fn write(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let merged = Merged::of(profile);
    let labels: Vec<String> = merged
        .places
        .iter()
        .map(|place| place.label().replace(';', ":"))
        .collect();
    let mut lines: Vec<String> = merged
        .paths
        .iter()
        .map(|path| {
            let names = path
                .places
                .iter()
                .map(|&place| labels[place as usize].as_str());
            format!("{} {}", names.collect::<Vec<_>>().join(";"), path.value)
        })
        .collect();
    lines.sort_unstable();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod checks {
    use super::*;
    use crate::profile::{Frame, Labels, Measure};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn folded(profile: &Profile) -> String {
        let mut out = Vec::new();
        write(profile, &mut out).expect("a vector takes everything");
        String::from_utf8(out).expect("the lines are text")
    }

    #[test]
    fn the_outermost_function_comes_first_and_the_value_last() {
        let mut profile = Profile::new(Measure::CpuTime, "a.lua");
        let inner = Frame::c("read", "");
        let outer = Frame::lua("work", "a.lua", 14).beginning_at(12);
        let stack = profile.stack([inner, outer.clone()]);
        profile.add(stack, 1200, 1, Labels::default());
        let stack = profile.stack([outer]);
        profile.add(stack, 5, 1, Labels::default());
        assert_eq!(
            folded(&profile),
            "work (a.lua:12) 5\nwork (a.lua:12);read [C] 1200\n"
        );
    }

    proptest! {
        #[test]
        fn each_line_can_be_taken_apart_again(
            stacks in vec((vec(any::<Vec<u8>>(), 1..5), any::<u32>()), 0..8),
        ) {
            let mut profile = Profile::new(Measure::Allocation, "a.lua");
            let mut sum = 0;
            for (names, value) in &stacks {
                let stack = profile.stack(names.iter().map(|name| Frame::lua(name, "f;\n", 0)));
                profile.add(stack, u64::from(*value), 1, Labels::default());
                sum += u64::from(*value);
            }
            let mut read = 0;
            for line in folded(&profile).split_terminator('\n') {
                let (path, value) = line.rsplit_once(' ').expect("a value");
                let depth = path.split(';').count();
                prop_assert!(stacks.iter().any(|(names, _)| names.len() == depth));
                let mut names = path.split(';');
                let place = "f:\u{240a}"; // the name of a function without one
                let are_whole = names.all(|name| {
                    name == place || name.ends_with(&format!(" ({place})"))
                });
                prop_assert!(are_whole);
                read += value.parse::<u64>().expect("a number");
            }
            prop_assert_eq!(read, sum);
        }
    }
}
