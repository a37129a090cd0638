//! Finds the Lua interpreters that are compared: ours, stock Lua and the distribution's.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::child;
use crate::report::Found;

/// The flags that the stock interpreter was compiled with.
pub(crate) const STOCK_FLAGS: &str = env!("BATON_BENCH_FLAGS");

/// An interpreter that exists and answers to `-v`.
#[derive(Clone, Debug)]
pub(crate) struct Interpreter {
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) version: String,
}

impl Interpreter {
    fn find(name: &'static str, path: PathBuf) -> Result<Self> {
        let answer = child::run(Command::new(&path).arg("-v"), Duration::from_secs(10))
            .and_then(|run| run.succeeded("its -v"))
            .with_context(|| format!("no usable {name} at {}", path.display()))?;
        let said = if answer.output.is_empty() {
            answer.errors
        } else {
            answer.output
        };
        Ok(Self {
            name,
            path,
            version: said.lines().next().unwrap_or_default().to_string(),
        })
    }

    /// The interpreter's entry in a report.
    pub(crate) fn found(&self) -> Found {
        Found {
            name: self.name.to_string(),
            version: self.version.clone(),
            path: self.path.display().to_string(),
        }
    }

    /// A command that runs `script`, without the environment's settings for Lua and Baton.
    pub(crate) fn script(&self, script: &Path) -> Command {
        let mut command = Command::new(&self.path);
        take_settings_away(&mut command);
        if !script.as_os_str().is_empty() {
            command.arg(script);
        }
        command
    }
}

/// Removes the environment's settings for Lua and Baton from a command.
pub(crate) fn take_settings_away(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("LUA_") || text.starts_with("BATON_") {
            command.env_remove(&name);
        }
    }
}

/// The paths of the interpreters on the command line. The comments are the text of `--help`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Paths {
    /// The `baton` to measure [default: the build of this tree with the profile dist]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) baton: Option<PathBuf>,

    /// The stock Lua, built from the same sources [default: the one built along with this program]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) stock: Option<PathBuf>,

    /// The distribution's Lua
    #[arg(long, global = true, value_name = "PATH", default_value = "lua5.4")]
    pub(crate) debian: PathBuf,

    /// The directory of the peers that are not Lua [default: where `cargo xtask peers` builds them]
    #[arg(long, global = true, value_name = "DIRECTORY")]
    pub(crate) peers: Option<PathBuf>,
}

impl Paths {
    /// The given `baton`, or the one that is built as it is published, in this program's tree.
    pub(crate) fn baton(&self) -> Result<Interpreter> {
        let path = match &self.baton {
            Some(path) => path.clone(),
            None => published()?,
        };
        Interpreter::find("baton", path).context(
            "build it: `cargo build --profile dist -p baton`, or name another with --baton PATH",
        )
    }

    /// Stock Lua from the same sources as ours, which is built along with this program.
    pub(crate) fn stock(&self) -> Result<Interpreter> {
        let built = || PathBuf::from(env!("BATON_BENCH_STOCK"));
        Interpreter::find("stock", self.stock.clone().unwrap_or_else(built))
            .context("build this program again, or name another with --stock PATH")
    }

    /// The distribution's Lua; an error if it is missing.
    pub(crate) fn debian(&self) -> Result<Interpreter> {
        Interpreter::find("debian", self.debian.clone())
            .context("install it with `apt-get install lua5.4`, or name another with --debian PATH")
    }
}

fn published() -> Result<PathBuf> {
    Ok(target_directory()?.join("dist").join("baton"))
}

/// Cargo's directory for build output, which contains this program.
pub(crate) fn target_directory() -> Result<PathBuf> {
    let own = env::current_exe().context("cannot find this program's own executable")?;
    let profile = |directory: &&Path| {
        let name = directory.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| ["debug", "release", "dist"].contains(&name))
    };
    let target = own.ancestors().find(profile).and_then(Path::parent);
    let target =
        target.with_context(|| format!("{} is in no build directory of cargo", own.display()))?;
    Ok(target.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_found_below_its_build_directory() {
        let target = target_directory().unwrap();
        assert!(
            env::current_exe().unwrap().starts_with(&target),
            "{}",
            target.display()
        );
        assert!(published().unwrap().ends_with("dist/baton"));
    }
}
