//! Installs programs from crates.io that check the sources, and that are not part of the Rust
//! toolchain.

use std::path::PathBuf;

use crate::cargo::cargo;
use crate::workspace;

/// A program from crates.io that checks the sources.
pub(crate) struct Checker {
    /// The crate that contains it, and the version that is known to work.
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
    pub(crate) program: &'static str,
}

impl Checker {
    /// The path of the program in our version. If it is missing, it is built in the target
    /// directory. The user's own installation is not touched.
    pub(crate) fn installed(&self) -> Result<PathBuf, String> {
        let (package, version) = (self.package, self.version);
        let root = workspace::target_directory("checkers");
        let program = root.join("bin").join(self.program);
        let list = std::fs::read_to_string(root.join(".crates.toml")).unwrap_or_default();
        if list.contains(&format!("\"{package} {version} (")) && program.exists() {
            return Ok(program);
        }
        println!("\n==> install {package} {version}");
        // A debug build: an optimized build takes longer than it would save on sources of our size.
        let mut install = cargo(&["install", "--locked", "--debug", "--force", "--quiet"]);
        install.args(["--version", version, package]);
        install.arg("--root").arg(&root);
        install.env("CARGO_TARGET_DIR", root.join("build"));
        match install.status() {
            Ok(status) if status.success() => Ok(program),
            Ok(status) => Err(format!("cargo install {package} {version}: {status}")),
            Err(why) => Err(format!("cannot start cargo: {why}")),
        }
    }
}
