//! The C library that a program needs, by the versions of the symbols that it uses.

use std::fs;
use std::path::Path;

use super::target::GLIBC;

/// A program with this name among its needed versions has relative relocations that only glibc 2.36
/// and later understand.
const PACKED_RELOCATIONS: &[u8] = b"GLIBC_ABI_DT_RELR";

/// Checks that a program needs no newer glibc than [`GLIBC`]. Returns the version that it needs.
pub(crate) fn check_file(program: &Path) -> Result<(u32, u32), String> {
    let bytes =
        fs::read(program).map_err(|why| format!("cannot read {}: {why}", program.display()))?;
    check(&bytes).map_err(|why| format!("{}: {why}", program.display()))
}

/// Does the same for the bytes of a program. All strings count, so the version is at least the one
/// that the program needs.
fn check(bytes: &[u8]) -> Result<(u32, u32), String> {
    if contains(bytes, PACKED_RELOCATIONS) {
        return Err("it has relocations that need glibc 2.36".to_owned());
    }
    match newest_version(bytes, b"GLIBC_") {
        None => Err("it names no version of glibc".to_owned()),
        Some(newest) if newest > GLIBC => Err(format!(
            "it needs glibc {}.{}, and may need {}.{}",
            newest.0, newest.1, GLIBC.0, GLIBC.1
        )),
        Some(newest) => Ok(newest),
    }
}

fn contains(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}

/// The newest version that follows the mark, such as the 2.36 in `GLIBC_2.36`.
fn newest_version(bytes: &[u8], mark: &[u8]) -> Option<(u32, u32)> {
    let number = |bytes: &[u8]| {
        let digits: String = bytes
            .iter()
            .map(|&byte| char::from(byte))
            .take_while(char::is_ascii_digit)
            .collect();
        Some((digits.parse::<u32>().ok()?, digits.len()))
    };
    let version = |rest: &[u8]| {
        let (major, length) = number(rest)?;
        let (minor, _) = number(rest[length..].strip_prefix(b".")?)?;
        Some((major, minor))
    };
    let starts = bytes
        .windows(mark.len())
        .enumerate()
        .filter(|(_, window)| *window == mark);
    starts
        .filter_map(|(start, _)| version(&bytes[start + mark.len()..]))
        .max()
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn the_newest_version_is_found_by_numbers_and_not_by_letters() {
        let symbols = b"GLIBC_2.9\0GLIBC_2.34\0GLIBC_PRIVATE\0GLIBC_2.4\0GLIBC_2";
        assert_eq!(newest_version(symbols, b"GLIBC_"), Some((2, 34)));
        assert_eq!(newest_version(b"nothing", b"GLIBC_"), None);
    }

    #[test]
    fn a_program_for_a_newer_glibc_is_refused() {
        assert_eq!(check(b"GLIBC_2.2.5\0GLIBC_2.28\0"), Ok((2, 28)));
        assert!(check(b"GLIBC_2.2.5\0GLIBC_2.29\0").is_err());
        assert!(check(b"GLIBC_2.17\0GLIBC_ABI_DT_RELR\0").is_err());
        assert!(check(b"no program").is_err());
    }
}
