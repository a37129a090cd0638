//! The package for Python's pip: a wheel that holds the program and no Python.

use std::path::{Path, PathBuf};

use super::VERSION;
use super::target::Target;
use super::zig::Zig;
use crate::deb::output;
use crate::deb::tree::Tree;
use crate::own_modules;
use crate::workspace;

/// Makes the wheel. pip puts the program beside the environment's `python`.
pub(crate) fn pack(
    zig: &Zig,
    target: &Target,
    program: &Path,
    licences: &str,
    to: &Path,
    time: &str,
) -> Result<PathBuf, String> {
    let tag = target.wheel_tag();
    let tree = Tree::new(to.join(format!("wheel-{}", target.architecture)))?;
    let package = format!("baton_lua-{VERSION}");
    tree.copy_program(program, &format!("{package}.data/scripts/baton"))?;
    // Below the directory that has `bin`.
    own_modules::copy(program, &tree, &format!("{package}.data/data/lib"))?;
    let information = format!("{package}.dist-info");
    let root = workspace::root();
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        tree.copy(&root.join(file), &format!("{information}/licenses/{file}"))?;
    }
    tree.write(
        &format!("{information}/licenses/LICENSES-OF-OTHERS"),
        licences,
    )?;
    tree.write(&format!("{information}/METADATA"), &metadata())?;
    tree.write(
        &format!("{information}/WHEEL"),
        &format!(
            "Wheel-Version: 1.0\nGenerator: baton\nRoot-Is-Purelib: false\n\
             Tag: py3-none-{tag}\n"
        ),
    )?;
    let mut wheel = zig.python(&["-m", "wheel", "pack"]);
    wheel.arg(tree.root()).arg("--dest-dir").arg(to);
    output(wheel.env("SOURCE_DATE_EPOCH", time))?;
    std::fs::remove_dir_all(tree.root())
        .map_err(|why| format!("cannot remove {}: {why}", tree.root().display()))?;
    Ok(to.join(format!("{package}-py3-none-{tag}.whl")))
}

fn metadata() -> String {
    format!(
        "Metadata-Version: 2.4\nName: baton-lua\nVersion: {VERSION}\n\
         Summary: A Lua 5.4 interpreter with preemptive processes\n\
         License-Expression: MIT OR Apache-2.0\n\
         License-File: LICENSE-MIT\nLicense-File: LICENSE-APACHE\n\
         License-File: LICENSES-OF-OTHERS\n\
         Requires-Python: >=3.7\nDescription-Content-Type: text/plain\n\n\
         The program baton takes the place of the standalone lua 5.4. It gives Lua programs\n\
         processes by the thousand, with priorities, channels and mutexes.\n"
    )
}
