//! The Debian packages that the tests need, for every run and for `cargo xtask test --all`.

use super::{Package, Probe};

/// The stock interpreter. Both tests and benches compare Baton with it.
pub(crate) const STOCK_LUA: Package = Package {
    name: "lua5.4",
    probe: Probe::Program("lua5.4", "-v"),
    needed_by: "the tests that compare behaviour and messages with the stock interpreter",
};

/// The tool that builds libffi, which is linked into the interpreter.
const MAKE: Package = Package {
    name: "make",
    probe: Probe::Program("make", "--version"),
    needed_by: "the build of libffi",
};

/// The packages that builds need beyond Rust and a C compiler.
pub(crate) const FOR_BUILDS: &[Package] = &[MAKE];

/// The packages that the tests need beyond Rust and a C compiler. With all their dependencies, they
/// are 15 packages on Debian 12, and none of them runs a service.
pub(crate) const FOR_TESTS: &[Package] = &[
    MAKE,
    STOCK_LUA,
    module("lua-cjson", "cjson"),
    module("lua-cqueues", "cqueues"),
    module("lua-filesystem", "lfs"),
    module("lua-lpeg", "lpeg"),
    module("lua-luaossl", "openssl"),
    module("lua-luv", "luv"),
    module("lua-sec", "ssl"),
    module("lua-socket", "socket"),
    module("lua-sql-sqlite3", "luasql.sqlite3"),
];

/// The further packages that `cargo xtask test --all` needs.
pub(crate) const FOR_ALL_TESTS: &[Package] = &[
    Package {
        name: "pkg-config",
        probe: Probe::Program("pkg-config", "--version"),
        needed_by: "the tests of guests in C with the installed library",
    },
    Package {
        name: "valgrind",
        probe: Probe::Program("valgrind", "--version"),
        needed_by: "the tests of programs in C under memcheck",
    },
    Package {
        name: "chromium",
        probe: Probe::Program("chromium", "--version"),
        needed_by: "the test of baton.http with a browser",
    },
    module("lua-argparse", "argparse"),
    module("lua-bitop", "bit"),
    module("lua-cliargs", "cliargs"),
    module("lua-cyrussasl", "cyrussasl"),
    module("lua-dbi-mysql", "dbd.mysql"),
    module("lua-dbi-postgresql", "dbd.postgresql"),
    module("lua-dbi-sqlite3", "dbd.sqlite3"),
    module("lua-dkjson", "dkjson"),
    module("lua-event", "luaevent.core"),
    module("lua-expat", "lxp"),
    module("lua-geoip", "geoip"),
    module("lua-guestfs", "guestfs"),
    module("lua-inifile", "inifile"),
    module("lua-ldap", "lualdap"),
    module("lua-luassert", "luassert"),
    module("lua-mediator", "mediator"),
    module("lua-penlight", "pl"),
    module("lua-readline", "readline"),
    module("lua-rex-gnu", "rex_gnu"),
    module("lua-rex-onig", "rex_onig"),
    module("lua-rex-pcre2", "rex_pcre2"),
    module("lua-rex-posix", "rex_posix"),
    module("lua-rex-tre", "rex_tre"),
    module("lua-say", "say"),
    module("lua-sql-mysql", "luasql.mysql"),
    module("lua-sql-odbc", "luasql.odbc"),
    module("lua-sql-postgres", "luasql.postgres"),
    module("lua-system", "system"),
    module("lua-term", "term"),
    module("lua-unbound", "lunbound"),
    module("lua-unit", "luaunit"),
    module("lua-yaml", "yaml"),
    module("lua-zlib", "zlib"),
    called_directly("libcurl4", Probe::File("/usr/share/doc/libcurl4/copyright")),
    for_programs("gnuplot-nox", Probe::Program("gnuplot", "--version")),
    for_programs("libuv1-dev", Probe::File("/usr/include/uv.h")),
    for_programs("libsdl2-dev", Probe::File("/usr/include/SDL2/SDL.h")),
    called_directly(
        "libsdl2-2.0-0",
        Probe::File("/usr/share/doc/libsdl2-2.0-0/copyright"),
    ),
    called_directly(
        "libsqlite3-0",
        Probe::File("/usr/share/doc/libsqlite3-0/copyright"),
    ),
    called_directly("libxtst6", Probe::File("/usr/share/doc/libxtst6/copyright")),
    called_directly("xvfb", Probe::File("/usr/bin/Xvfb")),
    called_directly("zlib1g", Probe::File("/usr/share/doc/zlib1g/copyright")),
    beside_modules("lua-copas", Probe::File("/usr/share/lua/5.2/copas.lua")),
    beside_modules(
        "lua-http",
        Probe::File("/usr/share/lua/5.3/http/server.lua"),
    ),
    beside_modules("lua-redis", Probe::File("/usr/share/lua/5.3/redis.lua")),
    beside_modules("python3-aiosmtpd", Probe::File("/usr/bin/aiosmtpd")),
    beside_modules("redis-tools", Probe::File("/usr/bin/redis-check-rdb")),
    beside_modules("geoip-database", Probe::File("/usr/share/GeoIP/GeoIP.dat")),
    beside_modules(
        "libsasl2-modules",
        Probe::File("/usr/share/doc/libsasl2-modules/copyright"),
    ),
    beside_modules(
        "odbc-postgresql",
        Probe::File("/usr/share/doc/odbc-postgresql/copyright"),
    ),
    beside_modules(
        "libsqliteodbc",
        Probe::File("/usr/share/doc/libsqliteodbc/copyright"),
    ),
    beside_modules("lua-busted", Probe::File("/usr/bin/busted")),
    beside_modules("lua-check", Probe::File("/usr/bin/luacheck")),
    beside_modules("luarocks", Probe::File("/usr/bin/luarocks")),
    beside_modules(
        "mariadb-client-core",
        Probe::File("/usr/bin/my_print_defaults"),
    ),
    beside_modules("mariadb-server-core", Probe::File("/usr/sbin/mariadbd")),
    beside_modules("postgresql", Probe::File("/usr/lib/postgresql")),
    Package {
        name: "prometheus",
        probe: Probe::Program("promtool", "--version"),
        needed_by: "the tests of metrics by Prometheus and its tool",
    },
    beside_modules("prosody", Probe::File("/usr/share/doc/prosody/copyright")),
    beside_modules("slapd", Probe::File("/usr/sbin/slapd")),
];

/// The packages among those for tests that are needed for another architecture, too: stock Lua, to
/// compare with, and what programs load into themselves. These are Lua modules, and packages that
/// are found by their documentation, as their libraries' paths name the architecture.
pub(crate) fn for_another_architecture() -> Vec<&'static str> {
    let is_needed = |package: &&Package| match package.probe {
        Probe::LuaModule(_) => true,
        Probe::File(file) => file.starts_with("/usr/share/doc/"),
        Probe::Program(..) => package.name == STOCK_LUA.name,
    };
    let all = FOR_TESTS.iter().chain(FOR_ALL_TESTS);
    all.filter(is_needed).map(|package| package.name).collect()
}

/// What runs programs for aarch64 on other machines: an emulator, and the C library.
pub(crate) const FOR_AARCH64: &[Package] = &[
    for_aarch64("qemu-user", Probe::Program("qemu-aarch64", "--version")),
    for_aarch64(
        "libc6-arm64-cross",
        Probe::File("/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1"),
    ),
];

/// What `cargo xtask test --target` needs.
pub(crate) const FOR_EMULATED_TESTS: &[Package] = &[
    MAKE,
    FOR_AARCH64[0],
    FOR_AARCH64[1],
    for_aarch64(
        "gcc-aarch64-linux-gnu",
        Probe::Program("aarch64-linux-gnu-gcc", "--version"),
    ),
    for_aarch64(
        "libc6-dev-arm64-cross",
        Probe::File("/usr/aarch64-linux-gnu/include/stdio.h"),
    ),
];

const fn for_aarch64(name: &'static str, probe: Probe) -> Package {
    Package {
        name,
        probe,
        needed_by: "the trial of packages for aarch64, and the tests for it",
    }
}

/// The services that come with these packages, each named like its package. Tests start the servers
/// that they need themselves.
pub(super) const SERVICES: &[&str] = &["postgresql", "prosody", "slapd"];

/// A package for the tests of programs in C that embed Lua.
const fn for_programs(name: &'static str, probe: Probe) -> Package {
    Package {
        name,
        probe,
        needed_by: "the tests of programs in C that embed Lua",
    }
}

/// A package with a library that the tests of `baton.ffi` call.
const fn called_directly(name: &'static str, probe: Probe) -> Package {
    Package {
        name,
        probe,
        needed_by: "the tests of calls into libraries through the ffi",
    }
}

/// A package with a Lua module.
const fn module(name: &'static str, module: &'static str) -> Package {
    Package {
        name,
        probe: Probe::LuaModule(module),
        needed_by: "the tests of Lua modules as Debian compiles them, each with a program of its \
                    own",
    }
}

/// A package with a program, a server or data that the tests of Lua modules use.
const fn beside_modules(name: &'static str, probe: Probe) -> Package {
    Package {
        name,
        probe,
        needed_by: "the tests of Lua modules and tools as Debian installs them",
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn no_package_is_listed_twice() {
        let mut names: Vec<&str> = FOR_TESTS
            .iter()
            .chain(FOR_ALL_TESTS)
            .map(|package| package.name)
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn another_architecture_needs_modules_and_libraries_and_stock_lua() {
        let needed = for_another_architecture();
        for name in ["lua-socket", "libcurl4", "prosody", "lua5.4"] {
            assert!(needed.contains(&name), "{needed:?}");
        }
        for name in ["xvfb", "slapd", "libuv1-dev"] {
            assert!(!needed.contains(&name), "{needed:?}");
        }
    }

    #[test]
    fn each_service_comes_with_a_package_that_only_a_full_run_needs() {
        for service in SERVICES {
            assert!(
                FOR_ALL_TESTS.iter().any(|package| package.name == *service),
                "{service}"
            );
        }
    }
}
