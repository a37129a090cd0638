//! `cargo xtask readers`: installs the programs that read the files which Baton writes.
//!
//! The tests of `tools/formats` give them its files. They come from PyPI and npm, in the versions
//! that `tools/formats/tests/readers` lists, and go to `target/readers`. A copy of the list there
//! says which versions are installed; the tests compare it, too.
//!
//! In the same way come a client with which `baton debug` is tested, the NATS server with which
//! `require "baton.cluster"` is, Zig, a checker of spelling, and the program that packs the
//! extension for VS Code; and from the proxy for Go's modules h2spec, with which HTTP/2 is tested.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::packages::{self, Package, Probe};
use crate::workspace;

/// The programs that install and run the readers, and that are readers themselves.
pub(crate) const PACKAGES: &[Package] = &[
    package(
        "python3-venv",
        Probe::Program("python3", "-cimport venv, ensurepip"),
    ),
    package("nodejs", Probe::Program("node", "--version")),
    package("npm", Probe::Program("npm", "--version")),
    package("golang-go", Probe::Program("go", "version")),
    Package {
        name: "openssl",
        probe: Probe::Program("openssl", "version"),
        needed_by: "the tests of encrypted connections to a NATS server",
    },
];

const fn package(name: &'static str, probe: Probe) -> Package {
    Package {
        name,
        probe,
        needed_by: "the tests that give profiles, traces, metrics and heaps to the programs that \
                    read them",
    }
}

/// Readers that one program installs into a directory.
pub(crate) struct Group {
    /// The directory under `target/readers`.
    name: &'static str,
    /// The directory of its lists, from the repository's root.
    sources: &'static str,
    /// The files that list the versions. The last one is copied when all is installed.
    lists: &'static [&'static str],
    /// The commands that install them there. The second argument is [`Group::sources`].
    commands: fn(directory: &Path, sources: &Path) -> Vec<Command>,
}

/// The commands that install what a list of npm's says.
fn npm(directory: &Path, _: &Path) -> Vec<Command> {
    let mut npm = Command::new("npm");
    npm.args([
        "ci",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--silent",
    ])
    .current_dir(directory);
    vec![npm]
}

/// The commands that install what a list of pip's says.
fn pip(directory: &Path, sources: &Path) -> Vec<Command> {
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv"]).arg(directory);
    let mut pip = Command::new(directory.join("bin/python"));
    pip.args(["-I", "-m", "pip", "install", "--quiet"])
        .args(["--disable-pip-version-check", "--no-deps", "-r"])
        .arg(sources.join("requirements.txt"));
    vec![venv, pip]
}

/// The commands that build h2spec from the modules that a list of Go's says.
fn h2spec(directory: &Path, _: &Path) -> Vec<Command> {
    let mut go = Command::new("go");
    go.args(["build", "-mod=readonly", "-o", "h2spec"])
        .arg("github.com/summerwind/h2spec/cmd/h2spec")
        .current_dir(directory);
    vec![go]
}

/// The NATS server.
pub(crate) const NATS: Group = Group {
    name: "nats",
    sources: "tools/baton/tests/cluster_server",
    lists: &["requirements.txt"],
    commands: pip,
};

/// Zig and what builds with it, for `cargo xtask dist`.
pub(crate) const ZIG: Group = Group {
    name: "zig",
    sources: "tools/xtask/src/dist",
    lists: &["requirements.txt"],
    commands: pip,
};

/// The checker of spelling, for `cargo xtask ci`. PyPI has it compiled.
pub(crate) const TYPOS: Group = Group {
    name: "typos",
    sources: "tools/xtask/src/ci",
    lists: &["requirements.txt"],
    commands: pip,
};

/// The program that packs extensions for VS Code.
pub(crate) const PACKER: Group = Group {
    name: "packer",
    sources: "editor/vscode/packaging",
    lists: &["package.json", "package-lock.json"],
    commands: npm,
};

const GROUPS: [Group; 8] = [
    Group {
        name: "python",
        sources: READERS,
        lists: &["requirements.txt"],
        commands: pip,
    },
    NATS,
    ZIG,
    TYPOS,
    Group {
        name: "node",
        sources: READERS,
        lists: &["package.json", "package-lock.json"],
        commands: npm,
    },
    Group {
        name: "debugger",
        sources: "tools/baton/tests/debugging_client",
        lists: &["package.json", "package-lock.json"],
        commands: npm,
    },
    PACKER,
    Group {
        name: "h2spec",
        sources: "tools/baton/tests/h2spec",
        lists: &["go.sum", "go.mod"],
        commands: h2spec,
    },
];

/// The directory with the lists of the readers.
const READERS: &str = "tools/formats/tests/readers";

/// `cargo xtask readers`: installs the Debian packages, too.
pub(crate) fn run() -> Outcome {
    let missing = packages::install_missing(PACKAGES);
    packages::warn_of_missing(&missing);
    install()
}

/// Installs the readers that are missing or have other versions.
pub(crate) fn install() -> Outcome {
    for group in &GROUPS {
        group.install_in_target()?;
    }
    Ok(())
}

impl Group {
    /// Installs it, and returns its directory.
    pub(crate) fn install_in_target(&self) -> Result<PathBuf, String> {
        let directory = workspace::target_directory("readers").join(self.name);
        self.install(&directory)
            .map_err(|why| format!("readers in {}: {why}", self.name))?;
        Ok(directory)
    }

    fn install(&self, directory: &Path) -> Outcome {
        let stamp = directory.join("installed.txt");
        let list = self.lists.last().ok_or("no list of versions")?;
        let sources = workspace::root().join(self.sources);
        let wanted = read(&sources.join(list))?;
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        println!("==> installing readers in {}", directory.display());
        // What an interrupted or older installation has left must not be mixed with the new one.
        if directory.exists() {
            fs::remove_dir_all(directory).map_err(|why| format!("cannot empty it: {why}"))?;
        }
        fs::create_dir_all(directory).map_err(|why| format!("cannot make it: {why}"))?;
        let mut commands = (self.commands)(directory, &sources);
        for list in self.lists {
            write(&directory.join(list), &read(&sources.join(list))?)?;
        }
        for command in &mut commands {
            let program = command.get_program().display().to_string();
            match command.status() {
                Ok(status) if status.success() => {}
                Ok(status) => return Err(format!("{program}: {status}")),
                Err(why) => return Err(format!("cannot start {program}: {why}")),
            }
        }
        write(&stamp, &wanted)
    }
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|why| format!("cannot read {}: {why}", file.display()))
}

fn write(file: &Path, text: &str) -> Outcome {
    fs::write(file, text).map_err(|why| format!("cannot write {}: {why}", file.display()))
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn every_version_is_pinned() {
        let lists = |group: &Group| workspace::root().join(group.sources);
        let listed_in = |list| {
            GROUPS
                .iter()
                .filter(move |group| group.lists.contains(&list))
        };
        let all =
            ["requirements.txt", "package.json", "go.sum"].map(|list| listed_in(list).count());
        assert_eq!(all.iter().sum::<usize>(), GROUPS.len());
        for group in listed_in("requirements.txt") {
            let list = read(&lists(group).join("requirements.txt")).expect("the list for Python");
            let lines = list.lines().filter(|line| !line.starts_with('#'));
            assert!(lines.clone().count() > 0);
            assert!(lines.clone().all(|line| line.contains("==")), "{list}");
        }
        for group in listed_in("package.json") {
            let node = read(&lists(group).join("package.json")).expect("the list for node");
            let node: serde_json::Value = serde_json::from_str(&node).expect("it is JSON");
            let versions = node["dependencies"].as_object().expect("dependencies");
            for version in versions.values() {
                let version = version.as_str().expect("a version");
                assert!(
                    version.starts_with(|first: char| first.is_ascii_digit()),
                    "{version}"
                );
            }
        }
    }

    #[test]
    fn a_group_that_is_installed_is_left_as_it_is() {
        let directory =
            std::env::temp_dir().join(format!("baton-xtask-readers-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory for the trial");
        let group = Group {
            name: "trial",
            sources: READERS,
            lists: &["requirements.txt"],
            commands: |_, _| vec![Command::new("false")],
        };
        let list = workspace::root().join(READERS).join("requirements.txt");
        let wanted = read(&list).expect("the list");
        write(&directory.join("installed.txt"), &wanted).expect("the trial's file");
        assert_eq!(group.install(&directory), Ok(()));
        write(&directory.join("installed.txt"), "older").expect("the trial's file");
        let outcome = group.install(&directory);
        let is_stamped = directory.join("installed.txt").exists();
        fs::remove_dir_all(&directory).expect("the trial's directory");
        assert!(outcome.is_err_and(|why| why.starts_with("false: ")));
        assert!(!is_stamped);
    }
}
