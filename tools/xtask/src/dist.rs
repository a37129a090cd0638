//! `cargo xtask dist`: makes an archive of the interpreter and its files, for systems without a
//! package.
//!
//! The archive holds one directory, laid out like `/usr/local`. The program runs wherever the
//! archive is unpacked. Before its name is printed, the archive is unpacked and tried.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::cargo::{Steps, cargo};
use crate::deb::copyright;
use crate::deb::output;
use crate::deb::tree::Tree;
use crate::workspace;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Makes the archive, tries it, and prints the name of its file.
pub(crate) fn run() -> Outcome {
    build_and_try().map(|archive| println!("{}", archive.display()))
}

/// Does the same as a step of the tests.
pub(crate) fn step(steps: &mut Steps) {
    steps.check("archive of the program and its files", run);
}

fn build_and_try() -> Result<PathBuf, String> {
    output(&mut cargo(&["build", "--release", "-p", "baton"]))?;
    let program = workspace::target_directory("release").join("baton");
    let name = format!(
        "baton-{VERSION}-{}-{}",
        std::env::consts::ARCH,
        std::env::consts::OS
    );
    let archive = pack(&program, &name)?;
    try_archive(&archive, &name)?;
    Ok(archive)
}

/// Collects the files and packs them. Returns the path of the archive.
fn pack(program: &Path, name: &str) -> Result<PathBuf, String> {
    let directory = workspace::directory_to_publish()?;
    let root = workspace::root();
    let tree = Tree::new(directory.join(name))?;
    tree.install_program(program, "bin/baton")?;
    tree.copy_directory(&root.join(crate::generate::SHARE), "share")?;
    tree.copy_directory(&root.join("editor"), "share/baton")?;
    tree.copy_directory(&root.join("docs/book/src"), "share/doc/baton/book")?;
    tree.copy_directory(&root.join("examples"), "share/doc/baton/examples")?;
    tree.copy(&root.join("CHANGELOG.md"), "share/doc/baton/NEWS.md")?;
    tree.copy(&root.join("LICENSE-MIT"), "LICENSE-MIT")?;
    tree.copy(&root.join("LICENSE-APACHE"), "LICENSE-APACHE")?;
    let linked = copyright::linked_crates()?;
    tree.write("LICENSES-OF-OTHERS", &copyright::text(&linked)?)?;
    tree.write("README", &readme(&needed_libc(&tree.path("bin/baton"))?))?;

    let archive = directory.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(&directory).arg("-czf").arg(&archive);
    if cfg!(target_os = "linux") {
        // The unpacked files shall not belong to the user who built them.
        tar.args(["--owner=0", "--group=0", "--numeric-owner", "--sort=name"]);
    }
    output(tar.arg(name))?;
    fs::remove_dir_all(tree.root())
        .map_err(|why| format!("cannot remove {}: {why}", tree.root().display()))?;
    Ok(archive)
}

/// The text of the archive's README, for a reader who has nothing but the archive.
fn readme(needs: &str) -> String {
    format!(
        "Baton {VERSION}: Lua 5.4 with preemptive processes\n\n\
         The program needs no installation:\n\n    \
         bin/baton share/doc/baton/examples/tour.lua\n\n\
         To install it with its manual page and completions, copy two directories, as root:\n\n    \
         cp -r bin share /usr/local/\n\n\
         or for yourself alone:\n\n    \
         mkdir -p ~/.local && cp -r bin share ~/.local/\n\n\
         To remove it, delete bin/baton, share/baton, share/doc/baton, and in share the files \
         named baton,\n\
         _baton, baton.1 and baton.fish.\n\n\
         It needs {needs}.\n\n\
         share/doc/baton/book        the documentation; begin with introduction.md\n\
         share/doc/baton/examples    programs\n\
         share/baton                 definitions for editors with the Lua language server\n\
         LICENSE-MIT, LICENSE-APACHE Baton is under either, as you like\n\
         LICENSES-OF-OTHERS          those of Lua and of the libraries in the program\n"
    )
}

/// The C library that the program needs: the newest version among the symbols that it uses.
fn needed_libc(program: &Path) -> Result<String, String> {
    let bytes =
        fs::read(program).map_err(|why| format!("cannot read {}: {why}", program.display()))?;
    Ok(match newest_version(&bytes, b"GLIBC_") {
        Some((major, minor)) => format!("glibc {major}.{minor} or later, as `ldd --version` tells"),
        None => "nothing but the system's C library".to_owned(),
    })
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

/// Unpacks the archive in another place and uses its files, in an environment without this system's
/// variables.
fn try_archive(archive: &Path, name: &str) -> Outcome {
    let place = std::env::temp_dir().join(format!("baton-dist-{}", std::process::id()));
    fs::create_dir_all(&place).map_err(|why| format!("cannot make {}: {why}", place.display()))?;
    let outcome = use_archive(archive, &place, name);
    fs::remove_dir_all(&place)
        .map_err(|why| format!("cannot remove {}: {why}", place.display()))?;
    outcome
}

fn use_archive(archive: &Path, place: &Path, name: &str) -> Outcome {
    output(
        Command::new("tar")
            .arg("-C")
            .arg(place)
            .arg("-xzf")
            .arg(archive),
    )?;
    let unpacked = place.join(name);
    for file in [
        "README",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "LICENSES-OF-OTHERS",
        "share/man/man1/baton.1",
        "share/bash-completion/completions/baton",
        "share/zsh/vendor-completions/_baton",
        "share/fish/vendor_completions.d/baton.fish",
        "share/baton/lua-language-server/library/baton/process.lua",
        "share/doc/baton/book/SUMMARY.md",
    ] {
        let size = fs::metadata(unpacked.join(file)).map_or(0, |metadata| metadata.len());
        if size == 0 {
            return Err(format!("the archive has no {file}, or an empty one"));
        }
    }
    let expect = |arguments: &[&str], expected: &str| {
        let mut program = Command::new(unpacked.join("bin/baton"));
        program
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir(&unpacked);
        let wrote = output(program.args(arguments))?;
        match wrote.contains(expected) {
            true => Ok(()),
            false => Err(format!(
                "baton {arguments:?} should have written {expected:?}, but wrote: {wrote}"
            )),
        }
    };
    expect(&["--version"], VERSION)?;
    expect(&["-l", "baton.process", "-e", "print(1)"], "1\n")?;
    expect(&["share/doc/baton/examples/tour.lua"], "That was the tour")
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
    fn the_readme_names_what_is_in_the_archive_and_fits_a_terminal() {
        let text = readme("glibc 2.34 or later");
        for name in [
            "bin/baton",
            "share/doc/baton/book",
            "LICENSES-OF-OTHERS",
            "glibc 2.34",
        ] {
            assert!(text.contains(name), "{name}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }
}
