//! Debian packages that a program needed and did not find. In CI all of them are installed, and a
//! missing one fails the test.

use super::skip::skip;
use super::{Outcome, baton};

/// Names of modules or programs, and the package of each.
type Packages = &'static [(&'static str, &'static str)];

/// A kind of message about something missing: the text before the name, the text after it, and the
/// package of each name.
const MESSAGES: [(&str, &str, Packages); 2] = [
    ("module '", "' not found", MODULES),
    ("cannot load library '", "'", LIBRARIES),
];

const MODULES: Packages = &[
    ("cjson", "lua-cjson"),
    ("DBI", "lua-dbi-common"),
    ("cqueues", "lua-cqueues"),
    ("lfs", "lua-filesystem"),
    ("lpeg", "lua-lpeg"),
    ("lxp", "lua-expat"),
    ("luasql.postgres", "lua-sql-postgres"),
    ("luasql.sqlite3", "lua-sql-sqlite3"),
    ("luv", "lua-luv"),
    ("openssl", "lua-luaossl"),
    ("openssl.pkey", "lua-luaossl"),
    ("socket", "lua-socket"),
    ("ssl", "lua-sec"),
    ("zlib", "lua-zlib"),
];

const LIBRARIES: Packages = &[
    ("libSDL2-2.0.so.0", "libsdl2-2.0-0"),
    ("libcurl.so.4", "libcurl4"),
    ("libsqlite3.so.0", "libsqlite3-0"),
    ("libz.so.1", "zlib1g"),
];

/// Returns whether a program failed because a package is missing. If so, reports that `what` was
/// not tested.
pub(crate) fn is_for_want_of_a_package(outcome: &Outcome, what: &str) -> bool {
    let package = match outcome.status.success() {
        true => None,
        false => package_missed(&outcome.stderr),
    };
    if let Some(package) = package {
        skip(what, &format!("install {package}"));
    }
    package.is_some()
}

/// Returns whether LuaSocket is missing. If so, reports that `what` was not tested.
pub(crate) fn is_luasocket(what: &str) -> bool {
    is_module("socket", what)
}

/// Returns whether the module is missing. If so, reports that `what` was not tested.
pub(crate) fn is_module(name: &str, what: &str) -> bool {
    let outcome = baton().code(&format!("require '{name}'")).run();
    is_for_want_of_a_package(&outcome, what)
}

fn package_missed(stderr: &str) -> Option<&'static str> {
    MESSAGES.iter().find_map(|(before, after, packages)| {
        let (name, _) = stderr.split_once(before)?.1.split_once(after)?;
        packages
            .iter()
            .find(|(missed, _)| *missed == name)
            .map(|(_, package)| *package)
    })
}
