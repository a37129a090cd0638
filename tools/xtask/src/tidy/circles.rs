//! The arrows between files, and the circles that they form.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The dependencies between files: for each file, its targets and the lines that name them.
#[derive(Default)]
pub(super) struct Arrows(BTreeMap<String, BTreeMap<String, usize>>);

/// An arrow that leads back to its file by way of others.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InCircle<'arrows> {
    pub(super) from: &'arrows str,
    pub(super) to: &'arrows str,
    pub(super) line: usize,
}

impl Arrows {
    /// Adds an arrow. The first line that names the target counts.
    pub(super) fn add(&mut self, from: &str, to: &str, line: usize) {
        let targets = self.0.entry(from.to_owned()).or_default();
        targets.entry(to.to_owned()).or_insert(line);
    }

    /// The arrows that are part of a circle.
    pub(super) fn in_circles(&self) -> Vec<InCircle<'_>> {
        let mut found = Vec::new();
        for (from, targets) in &self.0 {
            for (to, &line) in targets {
                if self.reached_from(to).contains(from.as_str()) {
                    found.push(InCircle { from, to, line });
                }
            }
        }
        found
    }

    fn reached_from<'arrows>(&'arrows self, from: &'arrows str) -> BTreeSet<&'arrows str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            for to in self.0.get(file).into_iter().flat_map(BTreeMap::keys) {
                if reached.insert(to.as_str()) {
                    open.push(to);
                }
            }
        }
        reached
    }

    /// One line for each file that has targets. `directory` is left out at the start of names.
    pub(super) fn drawn(&self, directory: &str) -> String {
        let short = |name: &str| name.strip_prefix(directory).unwrap_or(name).to_owned();
        let mut text = String::new();
        for (from, targets) in &self.0 {
            let targets: Vec<String> = targets.keys().map(|to| short(to)).collect();
            // Writing to a string does not fail.
            let _ = writeln!(text, "  {} -> {}", short(from), targets.join(", "));
        }
        text
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    fn arrows(all: &[(&str, &str)]) -> Arrows {
        let mut arrows = Arrows::default();
        for (line, (from, to)) in all.iter().enumerate() {
            arrows.add(from, to, line + 1);
        }
        arrows
    }

    #[test]
    fn only_the_arrows_of_a_circle_are_found() {
        let all = arrows(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]);
        let found: Vec<_> = all
            .in_circles()
            .iter()
            .map(|arrow| (arrow.from, arrow.to, arrow.line))
            .collect();
        assert_eq!(found, [("b", "c", 2), ("c", "b", 3)]);
    }

    #[test]
    fn files_that_only_share_a_target_form_no_circle() {
        assert_eq!(
            arrows(&[("a", "c"), ("b", "c"), ("a", "b")]).in_circles(),
            []
        );
    }

    #[test]
    fn a_drawing_has_a_line_for_each_file_with_targets() {
        let all = arrows(&[("a", "c"), ("a", "src/b"), ("src/b", "c")]);
        assert_eq!(all.drawn("src/"), "  a -> c, b\n  b -> c\n");
    }
}
