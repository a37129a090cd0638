//! Debian packages that tests and benches need, and their installation where it is permitted.

mod list;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::Outcome;
pub(crate) use list::{
    FOR_AARCH64, FOR_ALL_TESTS, FOR_BUILDS, FOR_EMULATED_TESTS, FOR_TESTS, STOCK_LUA,
    for_another_architecture,
};

/// A shell script that installs packages as root; its arguments are those of `apt-get install`.
/// While it runs, no package may start a service (policy-rc.d(8)), unless the system has its own
/// policy.
const INSTALL: &str = r#"
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\n# For the time of one installation.\nexit 101\n' >"$policy" &&
        chmod 755 "$policy" || exit 1
fi
apt-get install "$@" >/dev/null
"#;

/// A shell script that stops services and disables their start at boot; its arguments are their
/// names. It uses two programs, because each may fail or be missing on some system.
const SWITCH_OFF: &str = r#"
for service in "$@"; do
    systemctl disable --now "$service"
    invoke-rc.d "$service" stop
    update-rc.d "$service" disable
done >/dev/null 2>&1
true
"#;

/// A way to detect that the contents of a package are present, even if it was not installed by
/// Debian.
#[derive(Clone, Copy)]
pub(crate) enum Probe {
    /// This file exists.
    File(&'static str),
    /// This program exists, and ends with status 0 when run with this argument.
    Program(&'static str, &'static str),
    /// The system's `lua5.4` can load a module with this name.
    LuaModule(&'static str),
}

/// A Debian package that something here needs.
#[derive(Clone, Copy)]
pub(crate) struct Package {
    /// Its name in Debian.
    pub(crate) name: &'static str,
    /// The way to detect it.
    pub(crate) probe: Probe,
    /// The part of the tests or benches that needs it, for messages.
    pub(crate) needed_by: &'static str,
}

impl Package {
    /// Whether its contents are present.
    pub(crate) fn is_present(&self) -> bool {
        match self.probe {
            Probe::File(path) => Path::new(path).exists(),
            Probe::Program(program, argument) => succeeds(Command::new(program).arg(argument)),
            Probe::LuaModule(module) => {
                let load = format!("require '{module}'");
                succeeds(Command::new("lua5.4").args(["-e", &load]))
            }
        }
    }
}

/// Held while packages are installed: apt lets only one program do so at a time.
static APT: Mutex<()> = Mutex::new(());

/// Installs the missing ones of `wanted`, if that is permitted. Returns those that are still
/// missing.
pub(crate) fn install_missing(wanted: &[Package]) -> Vec<Package> {
    let _guard = APT.lock().unwrap_or_else(PoisonError::into_inner);
    let missing = absent(wanted);
    if missing.is_empty() {
        return missing;
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    println!("==> installing Debian packages: {}", names.join(" "));
    let root = match root_access() {
        Ok(root) => root,
        Err(why) => {
            println!("    not installed: {why}");
            return missing;
        }
    };
    // Continue with a stale index or an unreachable server: the packages may be in the cache.
    if let Err(why) = root.run("apt-get update -qq", &[]) {
        println!("    the index of packages was not updated: {why}");
    }
    if let Err(why) = root.install(&names) {
        println!("    not all packages were installed: {why}");
        root.install_one_by_one(&absent(&missing));
    }
    absent(&missing)
}

/// Prints a prominent warning of the packages that are missing, and of what is not tested without
/// them.
pub(crate) fn warn_of_missing(missing: &[Package]) {
    if missing.is_empty() {
        return;
    }
    println!("\n!!! {} Debian packages are missing:", missing.len());
    for package in missing {
        println!("!!!   {}: {}", package.name, package.needed_by);
    }
    println!("!!! to install them: {}\n", remedy(missing));
}

/// The command that installs packages.
pub(crate) fn remedy(missing: &[Package]) -> String {
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    format!(
        "apt-get install --no-install-recommends {}",
        names.join(" ")
    )
}

fn absent(wanted: &[Package]) -> Vec<Package> {
    wanted
        .iter()
        .filter(|package| !package.is_present())
        .copied()
        .collect()
}

/// The way to run commands as root on this system.
enum RootAccess {
    Own,
    Sudo,
}

/// Finds a way to install packages here. The error says why there is none.
fn root_access() -> Result<RootAccess, String> {
    if !succeeds(Command::new("apt-get").arg("--version")) {
        return Err("this system has no apt-get".to_owned());
    }
    match user() {
        Some(0) => Ok(RootAccess::Own),
        _ if succeeds(Command::new("sudo").args(["-n", "true"])) => Ok(RootAccess::Sudo),
        _ => Err("this needs root, or sudo without a password".to_owned()),
    }
}

impl RootAccess {
    /// Installs packages, and switches off the services that they contain.
    fn install(&self, names: &[&str]) -> Outcome {
        let mut arguments = vec!["-y", "-qq", "--fix-broken", "--no-install-recommends"];
        arguments.extend(names);
        let outcome = self.run(INSTALL, &arguments);
        let services: Vec<&str> = list::SERVICES
            .iter()
            .copied()
            .filter(|name| names.contains(name))
            .collect();
        if !services.is_empty() {
            println!(
                "    switched off, as tests start their own: {}",
                services.join(" ")
            );
            self.run(SWITCH_OFF, &services)?;
        }
        outcome
    }

    /// Installs packages separately, so that one that fails does not stop the others.
    fn install_one_by_one(&self, missing: &[Package]) {
        for package in missing {
            if let Err(why) = self.install(&[package.name]) {
                println!("    {} is not installed: {why}", package.name);
            }
        }
    }

    /// Runs a shell script as root, without asking questions.
    fn run(&self, script: &str, arguments: &[&str]) -> Outcome {
        // `sudo` drops the environment, so the variable is set through `env`.
        let mut command = match self {
            RootAccess::Own => Command::new("env"),
            RootAccess::Sudo => Command::new("sudo"),
        };
        if matches!(self, RootAccess::Sudo) {
            command.args(["-n", "env"]);
        }
        command
            .args(["DEBIAN_FRONTEND=noninteractive", "sh", "-c", script, "sh"])
            .args(arguments)
            .stdin(Stdio::null());
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("apt-get: {status}")),
            Err(why) => Err(format!("cannot start a shell: {why}")),
        }
    }
}

/// The effective user's number, from `id -u`; `None` if it cannot be found.
fn user() -> Option<u32> {
    let output = Command::new("id").arg("-u").output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod checks {
    use super::*;

    const NOWHERE: Package = Package {
        name: "no-such-package",
        probe: Probe::File("/nonexistent/file"),
        needed_by: "nothing",
    };

    #[test]
    fn a_missing_file_or_program_is_seen_as_absent() {
        assert!(!NOWHERE.is_present());
        let program = Package {
            probe: Probe::Program("no-such-program-anywhere", "-v"),
            ..NOWHERE
        };
        assert!(!program.is_present());
    }

    #[test]
    fn a_present_package_is_not_installed_again() {
        let here = Package {
            probe: Probe::File("/"),
            ..NOWHERE
        };
        assert!(install_missing(&[here]).is_empty());
    }
}
