//! Reads linker scripts that stand in the place of libraries. For example, `libc.so` is a text that
//! names the real library.

use std::fs::File;
use std::io::Read;

/// The largest size, in bytes, of a file that is read as a linker script.
const MAX_SCRIPT: u64 = 16 * 1024;

/// The library that a linker script names, if the dynamic linker failed because it found the
/// script. Its error message begins with the script's path: `/usr/lib/libc.so: invalid ELF header`.
pub(super) fn library_behind(complaint: &str) -> Option<String> {
    let (path, why) = complaint.split_once(": ")?;
    if !why.contains("invalid ELF header") && !why.contains("file too short") {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path)
        .ok()?
        .take(MAX_SCRIPT)
        .read_to_end(&mut bytes)
        .ok()?;
    first_library(&String::from_utf8_lossy(&bytes))
}

/// The first library in the script's `GROUP` or `INPUT`.
fn first_library(script: &str) -> Option<String> {
    let at = script.find("GROUP").or_else(|| script.find("INPUT"))?;
    let inside = script[at..].split_once('(')?.1.split(')').next()?;
    let names = inside.split(|c: char| c.is_whitespace() || c == ',' || c == '(');
    names
        .map(str::trim)
        .find(|name| name.contains(".so"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_of_a_script_is_found() {
        let script = "/* GNU ld script */\nOUTPUT_FORMAT(elf64-x86-64)\nGROUP ( /lib/libc.so.6 \
                      /lib/libc_nonshared.a AS_NEEDED ( /lib/ld.so.2 ) )";
        assert_eq!(first_library(script).as_deref(), Some("/lib/libc.so.6"));
        assert_eq!(
            first_library("INPUT(libncurses.so.6 -ltinfo)").as_deref(),
            Some("libncurses.so.6")
        );
        assert_eq!(first_library("GROUP ( libm.a )"), None);
        assert_eq!(first_library("\u{7f}ELF"), None);
    }
}
