//! Makes a minimal Debian system for trying the package. A dependency that the package does not
//! name is missing there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::output;
use crate::Outcome;
use crate::packages::{self, Package, Probe};
use crate::workspace;

const DEBOOTSTRAP: Package = Package {
    name: "debootstrap",
    probe: Probe::Program("debootstrap", "--version"),
    needed_by: "the trial of the Debian package in a clean system",
};

/// Sends itself a message, over a server in memory.
pub(crate) const CLUSTER: &str = r#"
local connection = require "baton.cluster".connect()
local news = connection:subscribe "news"
connection:publish("news", "hello")
print(news:receive())
connection:close()
"#;

/// Whether this system can make such a system in a directory. The error says what is missing.
pub(crate) fn possible() -> Outcome {
    if output(Command::new("id").arg("-u"))?.trim() != "0" {
        return Err("a clean system can be made by root only".to_owned());
    }
    match packages::install_missing(&[DEBOOTSTRAP]).is_empty() {
        true => Ok(()),
        false => Err("install the Debian package debootstrap".to_owned()),
    }
}

/// Installs the package in a new system, uses it there, and removes it again.
pub(super) fn try_package(package: &Path) -> Outcome {
    let system = CleanRoot::new(&suite()?)?;
    system.try_package(package)
}

/// The oldest release of Debian that the mirror has, of those whose C library is new enough.
pub(crate) fn oldest_suite() -> Result<String, String> {
    const FROM_THE_OLDEST: [&str; 4] = ["buster", "bullseye", "bookworm", "trixie"];
    let mirror = mirror()?;
    let list = workspace::target_directory("deb").join("InRelease");
    let is_there = |suite: &&str| {
        let mut fetch = Command::new("/usr/lib/apt/apt-helper");
        fetch.args([
            "download-file",
            &format!("{mirror}/dists/{suite}/InRelease"),
        ]);
        output(fetch.arg(&list)).is_ok()
    };
    fs::create_dir_all(workspace::target_directory("deb"))
        .map_err(|why| format!("cannot make the directory of {}: {why}", list.display()))?;
    let found = FROM_THE_OLDEST.into_iter().find(is_there);
    found
        .map(str::to_owned)
        .ok_or(format!("{mirror} has none of {FROM_THE_OLDEST:?}"))
}

impl CleanRoot {
    /// Installs the package, uses it, and removes it again.
    pub(crate) fn try_package(&self, package: &Path) -> Outcome {
        let system = self;
        let file_name = package.file_name().ok_or("the package is a file")?;
        fs::copy(package, system.directory.join(file_name))
            .map_err(|why| format!("cannot copy the package: {why}"))?;
        let inside = format!("/{}", file_name.display());

        system.run(&[
            "apt-get",
            "install",
            "-qq",
            "--no-install-recommends",
            &inside,
        ])?;
        let expect = |command: &[&str], expected: &str| {
            let wrote = system.run(command)?;
            match wrote.contains(expected) {
                true => Ok(()),
                false => Err(format!(
                    "{command:?} should have written {expected:?}, but wrote: {wrote}"
                )),
            }
        };
        expect(&["baton", "-e", "print(1)"], "1\n")?;
        expect(&["baton", "--version"], env!("CARGO_PKG_VERSION"))?;
        expect(
            &["baton", "/usr/share/doc/baton/examples/tour.lua"],
            "That was the tour",
        )?;
        expect(&["baton", "--simulate", "1", "-e", CLUSTER], "hello\n")?;
        for file in [
            "/usr/share/man/man1/baton.1.gz",
            "/usr/share/bash-completion/completions/baton",
            "/usr/share/zsh/vendor-completions/_baton",
            "/usr/share/fish/vendor_completions.d/baton.fish",
            "/usr/share/baton/lua-language-server/library/baton/process.lua",
            "/usr/lib/baton/cluster.so",
            "/usr/lib/baton/web.so",
            "/usr/share/doc/baton/book/SUMMARY.md",
            "/usr/share/doc/baton/copyright",
        ] {
            system.run(&["test", "-s", file])?;
        }
        // No installed file differs from its checksum.
        system.run(&["dpkg", "--verify", "baton"])?;
        system.run(&["dpkg", "--purge", "baton"])?;
        for left in [
            "/usr/bin/baton",
            "/usr/lib/baton",
            "/usr/share/baton",
            "/usr/share/doc/baton",
        ] {
            system.run(&["test", "!", "-e", left])?;
        }
        println!(
            "    installed, used and removed in a clean system: {}",
            package.display()
        );
        Ok(())
    }
}

/// A system in a directory. Dropping this value removes it.
pub(crate) struct CleanRoot {
    /// Its root.
    pub(crate) directory: PathBuf,
}

impl CleanRoot {
    /// Makes a system of this release of Debian.
    pub(crate) fn new(suite: &str) -> Result<Self, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        // Relaxed: the number only has to differ from others.
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("clean-{}-{number}", std::process::id());
        let directory = workspace::target_directory("deb").join(name);
        fs::create_dir_all(&directory)
            .map_err(|why| format!("cannot make {}: {why}", directory.display()))?;
        let system = Self { directory };
        let mirror = mirror()?;
        println!("    debootstrap {suite} from {mirror}");
        let mut debootstrap = Command::new("debootstrap");
        debootstrap
            .args(["--variant=minbase", suite])
            .arg(&system.directory)
            .arg(&mirror);
        output(&mut debootstrap)?;
        Ok(system)
    }

    /// Runs a command in the system, with a fixed environment, and returns its output.
    pub(crate) fn run(&self, command: &[&str]) -> Result<String, String> {
        let mut chroot = Command::new("chroot");
        chroot
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .arg(&self.directory)
            .args(command);
        // Where there is a proxy, it is the only way to a mirror.
        for name in ["http_proxy", "https_proxy"] {
            if let Some(value) = std::env::var_os(name) {
                chroot.env(name, value);
            }
        }
        output(&mut chroot)
            .map_err(|why| format!("in the clean system: {}: {why}", command.join(" ")))
    }
}

impl Drop for CleanRoot {
    fn drop(&mut self) {
        if let Err(why) = fs::remove_dir_all(&self.directory) {
            println!("    cannot remove {}: {why}", self.directory.display());
        }
    }
}

/// The code name of this system's Debian release.
fn suite() -> Result<String, String> {
    let release =
        fs::read_to_string("/etc/os-release").map_err(|why| format!("/etc/os-release: {why}"))?;
    let named = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    named
        .map(str::to_owned)
        .ok_or("/etc/os-release has no VERSION_CODENAME".to_owned())
}

/// The mirror that this system uses.
fn mirror() -> Result<String, String> {
    let format = "$(RELEASE) $(SITE)";
    let targets = output(Command::new("apt-get").args(["indextargets", "--format", format]))?;
    let suite = suite()?;
    let of_suite = targets
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{suite} ")));
    of_suite
        .map(str::to_owned)
        .ok_or(format!("apt has no source for {suite}"))
}
