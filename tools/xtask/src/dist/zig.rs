//! Builds for other systems, and for older C libraries, with the compiler and linker of Zig.
//!
//! Zig has the headers and the symbols of each version of glibc, and the headers of macOS and
//! FreeBSD. It comes from PyPI, as does cargo-zigbuild, which gives it to cargo.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::target::{GLIBC, Target};
use crate::Outcome;
use crate::cargo::cargo;
use crate::deb::output;
use crate::own_modules;
use crate::readers::ZIG;
use crate::workspace;

/// The installed programs.
pub(crate) struct Zig {
    directory: PathBuf,
}

impl Zig {
    /// Installs what is missing.
    pub(crate) fn installed() -> Result<Zig, String> {
        Ok(Zig {
            directory: ZIG.install_in_target()?,
        })
    }

    /// Builds the interpreter and its modules in a directory for build output. Returns the program,
    /// beside which the modules are. They have no
    /// symbols but those that modules link to, and no names of this machine's directories.
    ///
    /// A quick build leaves out the optimizations that take most of the time.
    pub(crate) fn build(
        &self,
        target: &Target,
        is_quick: bool,
        directory: &Path,
    ) -> Result<PathBuf, String> {
        add_target(target.triple)?;
        let (major, minor) = GLIBC;
        let mut build = self.cargo("zigbuild");
        build
            .args(["--profile", workspace::DIST, "-p", "baton"])
            .args(own_modules::packages())
            .arg("--target")
            .arg(format!("{}.{major}.{minor}", target.triple))
            .env("CARGO_TARGET_DIR", directory)
            .env("CARGO_PROFILE_DIST_STRIP", "symbols")
            .env("CARGO_PROFILE_DIST_DEBUG", "0")
            .env("RUSTFLAGS", names_of_directories_replaced()?)
            .env("CFLAGS", prefix_maps()?);
        if is_quick {
            build
                .env("CARGO_PROFILE_DIST_OPT_LEVEL", "1")
                .env("CARGO_PROFILE_DIST_LTO", "off")
                .env("CARGO_PROFILE_DIST_CODEGEN_UNITS", "16");
        }
        output(&mut build)?;
        Ok(directory.join(target.triple).join("dist/baton"))
    }

    /// A command of cargo-zigbuild, such as `zigbuild` and `check`.
    pub(crate) fn cargo(&self, subcommand: &str) -> Command {
        let mut command = Command::new(self.directory.join("bin/cargo-zigbuild"));
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .arg(subcommand)
            .current_dir(workspace::root())
            .env("PATH", format!("{}/bin:{path}", self.directory.display()))
            .env(
                "CARGO_ZIGBUILD_ZIG_PATH",
                self.directory.join("bin/python-zig"),
            )
            .stdin(std::process::Stdio::null());
        command
    }

    /// The C compiler for a target.
    pub(crate) fn compiler(&self, target: &Target) -> Command {
        let (major, minor) = GLIBC;
        let mut command = self.python(&["-m", "ziglang", "cc", "-target"]);
        command.arg(format!("{}.{major}.{minor}", target.zig));
        command
    }

    /// The Python that has the programs' packages.
    pub(crate) fn python(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.directory.join("bin/python"));
        command.arg("-I").args(arguments);
        command
    }

    /// The licences of what Zig's linker puts into each program: parts of its compiler-rt, and
    /// LLVM's libunwind.
    pub(crate) fn licences(&self) -> Result<[String; 2], String> {
        let script = "import ziglang, os; print(os.path.dirname(ziglang.__file__))";
        let package = output(&mut self.python(&["-c", script]))?;
        let read = |file: &str| {
            let path = Path::new(package.trim()).join(file);
            std::fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))
        };
        Ok([read("LICENSE")?, read("lib/libunwind/LICENSE.TXT")?])
    }
}

/// Installs the standard library for a target of rustc.
pub(crate) fn add_target(triple: &str) -> Outcome {
    output(Command::new("rustup").args(["target", "add", triple])).map(|_| ())
}

/// The directories of this machine whose names a program would contain, and what stands for them.
fn directories() -> Result<[(PathBuf, &'static str); 2], String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let home = home.ok_or("neither CARGO_HOME nor HOME is set")?;
    Ok([(workspace::root(), "/baton"), (home, "/cargo")])
}

fn names_of_directories_replaced() -> Result<String, String> {
    let flag = |(from, to): (PathBuf, &str)| format!("--remap-path-prefix={}={to}", from.display());
    Ok(directories()?.map(flag).join(" "))
}

fn prefix_maps() -> Result<String, String> {
    let flag = |(from, to): (PathBuf, &str)| format!("-ffile-prefix-map={}={to}", from.display());
    Ok(directories()?.map(flag).join(" "))
}

/// Compiles the runtime and its bindings for a system on which they are not run.
pub(crate) fn check(triple: &str) -> Outcome {
    let zig = Zig::installed()?;
    add_target(triple)?;
    let mut check = zig.cargo("check");
    check
        .args(["--target", triple, "--features", "libffi-sys/check_only"])
        .env("CARGO_TARGET_DIR", workspace::target_directory("checked"));
    for package in ["sys", "core", "ffi", "capi", "observe"] {
        check.args(["-p", &format!("baton-{package}")]);
    }
    output(&mut check).map(|_| ())
}

/// The revision's time, which all files in the packages have, in seconds since 1970. The variable
/// `SOURCE_DATE_EPOCH` overrides it.
pub(crate) fn time_of_sources() -> Result<String, String> {
    if let Ok(seconds) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(seconds);
    }
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"])
        .current_dir(workspace::root());
    let seconds = output(&mut git)
        .map_err(|why| format!("set SOURCE_DATE_EPOCH, as git does not know a time: {why}"))?;
    Ok(seconds.trim().to_owned())
}

/// cargo's `metadata` about the crate with Lua's sources: its directory.
pub(crate) fn lua_headers() -> Result<PathBuf, String> {
    let described = output(&mut cargo(&["metadata", "--format-version", "1"]))?;
    let manifest = described
        .split('"')
        .find(|word| word.ends_with("Cargo.toml") && word.contains("lua-src-"))
        .ok_or("cargo metadata names no crate lua-src")?;
    let directory = Path::new(manifest)
        .parent()
        .ok_or("a crate has a directory")?;
    std::fs::read_dir(directory)
        .map_err(|why| format!("{}: {why}", directory.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.to_string_lossy().contains("/lua-5.4"))
        .ok_or("the crate lua-src has no Lua 5.4".to_owned())
}
