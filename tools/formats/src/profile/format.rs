//! The formats of profiles, and the suffixes of their files.

use std::error::Error;
use std::fmt;
use std::path::Path;

/// A format in which a profile can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// A flame graph for a browser, `.svg`.
    FlameGraph,
    /// For `go tool pprof` and its relatives, `.pb.gz`.
    Pprof,
    /// A line for each stack, `.folded`.
    Folded,
    /// For speedscope, `.json`.
    Speedscope,
}

/// Each suffix with its format and a word for messages.
const SUFFIXES: [(&str, Format, &str); 4] = [
    (".svg", Format::FlameGraph, "a flame graph"),
    (".pb.gz", Format::Pprof, "pprof"),
    (".folded", Format::Folded, "collapsed stacks"),
    (".json", Format::Speedscope, "speedscope"),
];

impl Format {
    /// The format for a file, by the end of its name. Capital letters count as small ones.
    ///
    /// # Errors
    ///
    /// No format has this suffix. The message says which ones there are.
    pub fn of_path(path: impl AsRef<Path>) -> Result<Self, UnknownFormat> {
        let path = path.as_ref();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let small = name.to_lowercase();
        let found = SUFFIXES.iter().find(|(suffix, ..)| {
            // A name that is only a suffix, such as `.svg`, is a hidden file without one.
            small.len() > suffix.len() && small.ends_with(suffix)
        });
        found.map(|(_, format, _)| *format).ok_or(UnknownFormat {
            given: path.display().to_string(),
        })
    }

    /// The suffix of this format's files, with its dot.
    #[must_use]
    pub fn suffix(self) -> &'static str {
        let (suffix, ..) = SUFFIXES[self as usize];
        suffix
    }
}

/// The suffix of a file that no format has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownFormat {
    given: String,
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let possible: Vec<String> = SUFFIXES
            .iter()
            .map(|(suffix, _, what)| format!("{suffix} ({what})"))
            .collect();
        let (last, others) = possible.split_last().expect("there are formats");
        write!(
            out,
            "expected a file name that ends with {} or {last}, got '{}'",
            others.join(", "),
            crate::text::visible(&self.given)
        )
    }
}

impl Error for UnknownFormat {}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn the_end_of_a_name_chooses_the_format() {
        for (path, format) in [
            ("x.svg", Format::FlameGraph),
            ("out/x.PB.GZ", Format::Pprof),
            ("x.y.folded", Format::Folded),
            ("x.json", Format::Speedscope),
        ] {
            assert_eq!(Format::of_path(path), Ok(format), "{path}");
        }
    }

    #[test]
    fn each_format_knows_its_suffix() {
        for (suffix, format, _) in SUFFIXES {
            assert_eq!(format.suffix(), suffix);
            assert_eq!(Format::of_path(format!("x{suffix}")), Ok(format));
        }
    }

    #[test]
    fn another_end_is_refused_with_what_is_possible() {
        for path in ["x.gz", "x", ".svg", "svg", "x.svg/y", "", ".."] {
            let why = Format::of_path(path).expect_err(path).to_string();
            let expected = format!(
                "expected a file name that ends with .svg (a flame graph), .pb.gz (pprof), \
                 .folded (collapsed stacks) or .json (speedscope), got '{path}'"
            );
            assert_eq!(why, expected);
        }
    }
}
