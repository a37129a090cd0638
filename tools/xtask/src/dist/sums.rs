//! The checksums of all files, in the format of `sha256sum`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::deb::output;

const NAME: &str = "SHA256SUMS";

/// Writes the checksums of files in one directory. Returns the text.
pub(crate) fn write(files: &[PathBuf], directory: &Path) -> Result<String, String> {
    let mut names: Vec<_> = files.iter().filter_map(|file| file.file_name()).collect();
    names.sort_unstable();
    let text = output(Command::new("sha256sum").args(names).current_dir(directory))?;
    let file = directory.join(NAME);
    fs::write(&file, &text).map_err(|why| format!("cannot write {}: {why}", file.display()))?;
    Ok(text)
}

/// Checks all files of a directory against its checksums, as a user does.
pub(crate) fn check(directory: &Path) -> Outcome {
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", "--quiet", NAME]);
    output(check.current_dir(directory)).map(|_| ())
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn a_file_with_one_other_byte_does_not_pass() {
        let directory =
            std::env::temp_dir().join(format!("baton-xtask-sums-{}", std::process::id()));
        let trial = || -> Result<(Outcome, Outcome), String> {
            fs::create_dir_all(&directory).map_err(|why| why.to_string())?;
            let files = [directory.join("b.deb"), directory.join("a.tar.gz")];
            for file in &files {
                fs::write(file, "bytes").map_err(|why| why.to_string())?;
            }
            let text = write(&files, &directory)?;
            assert!(
                text.lines()
                    .next()
                    .is_some_and(|line| line.ends_with("  a.tar.gz"))
            );
            let untouched = check(&directory);
            fs::write(&files[1], "bytez").map_err(|why| why.to_string())?;
            Ok((untouched, check(&directory)))
        };
        let outcomes = trial();
        fs::remove_dir_all(&directory).expect("the trial's directory to be removed");
        let (untouched, tampered) = outcomes.expect("files and sums");
        assert_eq!(untouched, Ok(()));
        assert!(tampered.is_err_and(|why| why.contains("a.tar.gz: FAILED")));
    }
}
