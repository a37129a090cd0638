//! The path of a request as the path of a file below a directory.
//!
//! | in the path | what happens |
//! |---|---|
//! | `.` or `..` as a segment, encoded or not | there is no such file |
//! | a slash, a backslash or a zero byte in a decoded segment | likewise |
//! | an empty segment, as in `//`, except at the end | likewise |
//! | a segment that begins with a dot | likewise, unless hidden files are wanted |
//!
//! So a path that passes has nothing to resolve. Symbolic links are the opener's to refuse.

use crate::text;

/// The most bytes of a path of a file.
pub const MOST_PATH: usize = 4096;

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The bytes of the path of a file or a directory, with no slash at either end. 0: the
    /// directory itself.
    pub size: usize,
    /// The path ends with a slash, or is empty: it names a directory.
    pub is_directory: bool,
}

/// Writes the path of the file to `out`. `path` may begin with a slash. `is_encoded`: it has codes
/// such as `%20`.
#[must_use]
pub fn below(path: &[u8], is_encoded: bool, has_hidden: bool, out: &mut [u8]) -> Option<Named> {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    let (path, is_directory) = match path.strip_suffix(b"/") {
        Some(path) => (path, true),
        None => (path, false),
    };
    let mut named = Named {
        size: 0,
        is_directory,
    };
    if path.is_empty() && !is_directory {
        named.is_directory = true;
        return Some(named);
    }
    for segment in path.split(|byte| *byte == b'/') {
        if named.size > 0 {
            *out.get_mut(named.size)? = b'/';
            named.size += 1;
        }
        let room = out.get_mut(named.size..)?;
        if segment.len() > room.len() {
            return None;
        }
        let size = match is_encoded {
            true => text::decode(segment, false, room),
            false => {
                room[..segment.len()].copy_from_slice(segment);
                segment.len()
            }
        };
        if !may_be(&room[..size], has_hidden) {
            return None;
        }
        named.size += size;
    }
    Some(named)
}

fn may_be(segment: &[u8], has_hidden: bool) -> bool {
    let is_safe = |byte: &u8| !matches!(byte, b'/' | b'\\' | 0);
    match segment {
        [] | b"." | b".." => false,
        [b'.', ..] if !has_hidden => false,
        segment => segment.iter().all(is_safe),
    }
}
