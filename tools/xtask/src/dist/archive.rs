//! The archive: one directory, laid out like `/usr/local`. The program runs wherever the archive is
//! unpacked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::VERSION;
use super::target::GLIBC;
use crate::deb::output;
use crate::deb::tree::Tree;
use crate::own_modules;
use crate::workspace;

/// Files that every archive has. They are not empty.
pub(crate) const FILES: [&str; 12] = [
    "lib/baton/cluster.so",
    "lib/baton/web.so",
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
];

/// Collects the files and packs them. The same files make the same bytes: they are sorted, belong
/// to root, and have the time of the sources. Returns the path of the archive.
pub(crate) fn pack(
    program: &Path,
    name: &str,
    licences: &str,
    to: &Path,
    time: &str,
) -> Result<PathBuf, String> {
    let root = workspace::root();
    let tree = Tree::new(to.join(name))?;
    tree.copy_program(program, "bin/baton")?;
    own_modules::copy(program, &tree, "lib")?;
    tree.copy_directory(&root.join(crate::generate::SHARE), "share")?;
    tree.copy_directory(&root.join("editor"), "share/baton")?;
    tree.copy_directory(&root.join("docs/book/src"), "share/doc/baton/book")?;
    tree.copy_directory(&root.join("examples"), "share/doc/baton/examples")?;
    tree.copy(&root.join("CHANGELOG.md"), "share/doc/baton/NEWS.md")?;
    tree.copy(&root.join("LICENSE-MIT"), "LICENSE-MIT")?;
    tree.copy(&root.join("LICENSE-APACHE"), "LICENSE-APACHE")?;
    tree.write("LICENSES-OF-OTHERS", licences)?;
    let needs = format!(
        "glibc {}.{} or later, as `ldd --version` tells",
        GLIBC.0, GLIBC.1
    );
    tree.write("README", &readme(&needs))?;

    let archive = to.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(to).arg("-cf").arg(&archive);
    tar.args([
        "--use-compress-program=gzip -9n",
        "--format=gnu",
        "--sort=name",
    ]);
    tar.args(["--owner=0", "--group=0", "--numeric-owner"]);
    output(tar.arg(format!("--mtime=@{time}")).arg(name))?;
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
         To install it with its manual page and completions, copy three directories, as \
         root:\n\n    \
         cp -r bin lib share /usr/local/\n\n\
         or for yourself alone:\n\n    \
         mkdir -p ~/.local && cp -r bin lib share ~/.local/\n\n\
         To remove it, delete bin/baton, lib/baton, share/baton, share/doc/baton, and in share \
         the files\n\
         named baton, _baton, baton.1 and baton.fish.\n\n\
         It needs {needs}.\n\n\
         lib/baton                   the modules baton.cluster and baton.web\n\
         share/doc/baton/book        the documentation; begin with introduction.md\n\
         share/doc/baton/examples    programs\n\
         share/baton                 definitions for editors with the Lua language server\n\
         LICENSE-MIT, LICENSE-APACHE Baton is under either, as you like\n\
         LICENSES-OF-OTHERS          those of Lua and of the libraries in the program\n"
    )
}

#[cfg(test)]
mod checks {
    use super::*;

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
