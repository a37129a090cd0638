//! Tries the packages of the libraries: installs them into a directory that stands for the root of
//! a system, and builds and runs programs with what is there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::libraries::System;
use super::output;
use super::tree::Tree;
use crate::Outcome;
use crate::workspace;

/// A root with the packages, and a directory for programs beside it.
struct Installed {
    root: PathBuf,
    programs: PathBuf,
    libraries: PathBuf,
}

/// Installs the packages, builds a guest and a program that embeds Lua, and runs them.
pub(super) fn run(packages: &[PathBuf]) -> Outcome {
    let directory = workspace::target_directory("deb").join("library-trial");
    let root = Tree::new(directory.join("root"))?.root().to_owned();
    let programs = Tree::new(directory.join("programs"))?.root().to_owned();
    for package in packages {
        check_fields(package)?;
        output(Command::new("dpkg-deb").arg("-x").arg(package).arg(&root))?;
    }
    let libraries = System::own()?.libraries;
    let installed = Installed {
        libraries: root.join(libraries.strip_prefix("/").unwrap_or(&libraries)),
        root,
        programs,
    };
    installed.try_guest()?;
    installed.try_embedding()?;
    println!(
        "    unpacked, and used by programs in C: {} packages",
        packages.len()
    );
    Ok(())
}

/// The package with headers needs the library of its own version, which names itself for the
/// programs that are linked with it.
fn check_fields(package: &Path) -> Outcome {
    let field = |name: &str| {
        let value = output(Command::new("dpkg-deb").arg("-f").arg(package).arg(name))?;
        Ok::<String, String>(value.trim().to_owned())
    };
    let (name, version, depends) = (field("Package")?, field("Version")?, field("Depends")?);
    let wanted = match name.strip_suffix("-dev") {
        Some(library) => format!("{library}0 (= {version}), "),
        None => "libc6 (>= ".to_owned(),
    };
    if !depends.contains(&wanted) {
        return Err(format!("{name} depends on '{depends}', not on '{wanted}'"));
    }
    Ok(())
}

impl Installed {
    /// A command that finds what is installed, and nothing else of ours.
    fn command(&self, program: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command
            .current_dir(&self.programs)
            .env("PKG_CONFIG_SYSROOT_DIR", &self.root)
            .env("PKG_CONFIG_LIBDIR", self.libraries.join("pkgconfig"))
            .env("LD_LIBRARY_PATH", &self.libraries)
            .env(
                "PATH",
                format!("{}:{path}", self.root.join("usr/bin").display()),
            );
        command
    }

    /// Copies the examples of a package, as its users do.
    fn copy_examples(&self, package: &str) -> Outcome {
        let examples = self.root.join("usr/share/doc").join(package);
        for file in workspace::files(&examples.join("examples"))? {
            let to = self
                .programs
                .join(workspace::shown(&examples.join("examples"), &file));
            let directory = to.parent().unwrap_or(&self.programs);
            fs::create_dir_all(directory)
                .and_then(|()| fs::copy(&file, &to))
                .map_err(|why| format!("cannot copy {}: {why}", file.display()))?;
        }
        Ok(())
    }

    /// Builds the template with either library, and plays some scenarios.
    fn try_guest(&self) -> Outcome {
        self.copy_examples("libbaton-dev")?;
        for (pkg_config, is_shared) in [("pkg-config", true), ("pkg-config --static", false)] {
            let mut make = self.command("make");
            make.args(["-B", "guest", &format!("PKG_CONFIG={pkg_config}")]);
            output(&mut make)?;
            self.expect_linked("guest", "libbaton.so.0", is_shared)?;
            let mut play = self.command("baton-conformance");
            for scenario in ["hello", "turns", "preempt", "call"] {
                play.args(["--only", scenario]);
            }
            output(play.args(["./guest", "scenarios/{}.tiny"]))?;
        }
        Ok(())
    }

    /// Builds a program that embeds Lua with either library, and runs it.
    fn try_embedding(&self) -> Outcome {
        self.copy_examples("libbaton-lua-dev")?;
        for (pkg_config, is_shared) in [("pkg-config", true), ("pkg-config --static", false)] {
            let mut make = self.command("make");
            make.args(["-B", "frames", &format!("PKG_CONFIG={pkg_config}")]);
            output(&mut make)?;
            self.expect_linked("frames", "libbaton-lua.so.0", is_shared)?;
            let said = output(self.command("./frames").args(["scripts.lua", "0.5"]))?;
            if !said.starts_with("30 frames") {
                return Err(format!("the example said: {said}"));
            }
        }
        Ok(())
    }

    fn expect_linked(&self, program: &str, library: &str, is_shared: bool) -> Outcome {
        let said = output(self.command("readelf").args(["--dynamic", program]))?;
        match said.contains(library) == is_shared {
            true => Ok(()),
            false => Err(format!("{program} with {library}: {is_shared} expected")),
        }
    }
}
