//! Debian packages that tests and benches need, and their installation where that is permitted.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::Outcome;

/// How to see that a package's contents are there, wherever they came from.
#[derive(Clone, Copy)]
pub(crate) enum Probe {
    /// A file exists.
    File(&'static str),
    /// A program is found and ends with status 0 when run with this argument.
    Program(&'static str, &'static str),
    /// The system's `lua5.4` can load a module of this name.
    LuaModule(&'static str),
}

/// A Debian package, and what would be lost without it.
#[derive(Clone, Copy)]
pub(crate) struct Package {
    /// Debian's name for it.
    pub(crate) name: &'static str,
    /// How to see that it is there.
    pub(crate) probe: Probe,
    /// What needs it, as a message can say it.
    pub(crate) needed_by: &'static str,
}

/// The stock interpreter, which both tests and benches compare with.
pub(crate) const STOCK_LUA: Package = Package {
    name: "lua5.4",
    probe: Probe::Program("lua5.4", "-v"),
    needed_by: "the tests that compare behaviour and messages with the stock interpreter",
};

/// What the tests need beyond Rust and a C compiler.
pub(crate) const FOR_TESTS: &[Package] = &[
    STOCK_LUA,
    Package {
        name: "liblua5.4-dev",
        probe: Probe::File("/usr/include/lua5.4/lua.h"),
        needed_by: "the tests that compile C modules against the stock headers",
    },
    module("lua-argparse", "argparse"),
    module("lua-bitop", "bit"),
    module("lua-cjson", "cjson"),
    module("lua-cliargs", "cliargs"),
    module("lua-cqueues", "cqueues"),
    module("lua-cyrussasl", "cyrussasl"),
    module("lua-dbi-mysql", "dbd.mysql"),
    module("lua-dbi-postgresql", "dbd.postgresql"),
    module("lua-dbi-sqlite3", "dbd.sqlite3"),
    module("lua-dkjson", "dkjson"),
    module("lua-event", "luaevent.core"),
    module("lua-expat", "lxp"),
    module("lua-filesystem", "lfs"),
    module("lua-geoip", "geoip"),
    module("lua-guestfs", "guestfs"),
    module("lua-inifile", "inifile"),
    module("lua-ldap", "lualdap"),
    module("lua-lpeg", "lpeg"),
    module("lua-luaossl", "openssl"),
    module("lua-luassert", "luassert"),
    module("lua-luv", "luv"),
    module("lua-mediator", "mediator"),
    module("lua-penlight", "pl"),
    module("lua-readline", "readline"),
    module("lua-rex-gnu", "rex_gnu"),
    module("lua-rex-onig", "rex_onig"),
    module("lua-rex-pcre2", "rex_pcre2"),
    module("lua-rex-posix", "rex_posix"),
    module("lua-rex-tre", "rex_tre"),
    module("lua-say", "say"),
    module("lua-sec", "ssl"),
    module("lua-socket", "socket"),
    module("lua-sql-mysql", "luasql.mysql"),
    module("lua-sql-odbc", "luasql.odbc"),
    module("lua-sql-postgres", "luasql.postgres"),
    module("lua-sql-sqlite3", "luasql.sqlite3"),
    module("lua-system", "system"),
    module("lua-term", "term"),
    module("lua-unbound", "lunbound"),
    module("lua-unit", "luaunit"),
    module("lua-yaml", "yaml"),
    module("lua-zlib", "zlib"),
    called_directly("libcurl4", Probe::File("/usr/share/doc/libcurl4/copyright")),
    called_directly("libsdl2-2.0-0", Probe::File("/usr/share/doc/libsdl2-2.0-0/copyright")),
    called_directly("libsqlite3-0", Probe::File("/usr/share/doc/libsqlite3-0/copyright")),
    called_directly("libxtst6", Probe::File("/usr/share/doc/libxtst6/copyright")),
    called_directly("xvfb", Probe::File("/usr/bin/Xvfb")),
    called_directly("zlib1g", Probe::File("/usr/share/doc/zlib1g/copyright")),
    beside_modules("lua-copas", Probe::File("/usr/share/lua/5.2/copas.lua")),
    beside_modules("lua-http", Probe::File("/usr/share/lua/5.3/http/server.lua")),
    beside_modules("lua-redis", Probe::File("/usr/share/lua/5.3/redis.lua")),
    beside_modules("python3-aiosmtpd", Probe::File("/usr/bin/aiosmtpd")),
    beside_modules("redis-server", Probe::File("/usr/bin/redis-server")),
    beside_modules("geoip-database", Probe::File("/usr/share/GeoIP/GeoIP.dat")),
    beside_modules(
        "libsasl2-modules",
        Probe::File("/usr/share/doc/libsasl2-modules/copyright"),
    ),
    beside_modules("libsqliteodbc", Probe::File("/usr/share/doc/libsqliteodbc/copyright")),
    beside_modules("lua-busted", Probe::File("/usr/bin/busted")),
    beside_modules("lua-check", Probe::File("/usr/bin/luacheck")),
    beside_modules("luarocks", Probe::File("/usr/bin/luarocks")),
    beside_modules("mariadb-client-core", Probe::File("/usr/bin/my_print_defaults")),
    beside_modules("mariadb-server-core", Probe::File("/usr/sbin/mariadbd")),
    beside_modules("postgresql", Probe::File("/usr/lib/postgresql")),
    beside_modules("slapd", Probe::File("/usr/sbin/slapd")),
];

/// A package of a library that the ffi's tests call.
const fn called_directly(name: &'static str, probe: Probe) -> Package {
    Package {
        name,
        probe,
        needed_by: "the tests of calls into libraries through the ffi",
    }
}

/// A package of a Lua module.
const fn module(name: &'static str, module: &'static str) -> Package {
    Package {
        name,
        probe: Probe::LuaModule(module),
        needed_by: "the tests of Lua modules as Debian compiles them, each with a program of its own",
    }
}

/// A program, server or data that the programs for Lua modules use.
const fn beside_modules(name: &'static str, probe: Probe) -> Package {
    Package {
        name,
        probe,
        needed_by: "the tests of Lua modules and tools as Debian installs them",
    }
}

impl Package {
    /// Whether its contents are there.
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

/// Installs those of `wanted` that are missing, if it may, and returns the ones still missing.
pub(crate) fn install_missing(wanted: &[Package]) -> Vec<Package> {
    let missing = absent(wanted);
    if missing.is_empty() {
        return missing;
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    println!("==> installing Debian packages: {}", names.join(" "));
    if let Err(why) = apt_install(&names) {
        println!("    not all are installed: {why}");
        install_one_by_one(&absent(&missing));
    }
    absent(&missing)
}

/// So that a package that cannot be installed does not take the others along.
fn install_one_by_one(missing: &[Package]) {
    for package in missing {
        if let Err(why) = apt_install(&[package.name]) {
            println!("    {} is not installed: {why}", package.name);
        }
    }
}

/// Says, so that nobody overlooks it, which packages are missing and what is not checked without them.
pub(crate) fn warn_of_missing(missing: &[Package]) {
    if missing.is_empty() {
        return;
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    println!("\n!!! SKIPPED, as {} Debian packages are missing:", missing.len());
    for package in missing {
        println!("!!!   {}: {}", package.name, package.needed_by);
    }
    println!(
        "!!! to run them: apt-get install --no-install-recommends {}\n",
        names.join(" ")
    );
}

fn absent(wanted: &[Package]) -> Vec<Package> {
    wanted.iter().filter(|package| !package.is_present()).copied().collect()
}

fn apt_install(names: &[&str]) -> Outcome {
    if !succeeds(Command::new("apt-get").arg("--version")) {
        return Err("this system has no apt-get".to_owned());
    }
    let sudo = match user() {
        Some(0) => false,
        _ if succeeds(Command::new("sudo").args(["-n", "true"])) => true,
        _ => return Err("this needs root, or sudo without a password".to_owned()),
    };
    // A stale or unreachable index is no reason to give up: the packages may be in the cache.
    if let Err(why) = apt_get(sudo, &["update", "-qq"]) {
        println!("    {why}");
    }
    let mut arguments = vec!["install", "-y", "-qq", "--fix-broken", "--no-install-recommends"];
    arguments.extend(names);
    apt_get(sudo, &arguments)
}

fn apt_get(sudo: bool, arguments: &[&str]) -> Outcome {
    // `sudo` drops the environment, so that the setting goes through `env`.
    let mut command = if sudo {
        Command::new("sudo")
    } else {
        Command::new("env")
    };
    if sudo {
        command.args(["-n", "env"]);
    }
    command
        .args(["DEBIAN_FRONTEND=noninteractive", "apt-get"])
        .args(arguments)
        .stdin(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("apt-get {}: {status}", arguments.join(" "))),
        Err(why) => Err(format!("cannot start apt-get: {why}")),
    }
}

/// The effective user, from `id -u`; none if it cannot be found out.
fn user() -> Option<u32> {
    let output = Command::new("id").arg("-u").output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
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
    fn what_is_there_is_not_installed_again() {
        let here = Package {
            probe: Probe::File("/"),
            ..NOWHERE
        };
        assert!(install_missing(&[here]).is_empty());
    }

    #[test]
    fn no_package_is_listed_twice() {
        for (index, package) in FOR_TESTS.iter().enumerate() {
            assert!(
                FOR_TESTS[..index].iter().all(|earlier| earlier.name != package.name),
                "{}",
                package.name
            );
        }
    }
}
