//! The peers that are not Lua: small programs in other systems, which `cargo xtask peers` builds.
//! See `peers/README.md`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::child;
use crate::contest::Arm;
use crate::interpreters;
use crate::report::Found;

/// The remedy for a system that is missing.
pub(crate) const REMEDY: &str = "missing: run cargo xtask peers";

/// The command for Erlang: one scheduler without busy waiting, for up to two million processes.
const ERLANG: &str = "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none +P 2000000 -noshell -noinput \
                      -s baton_peer main -pa";

/// A peer: its name in tables, and its directory under `target/peers`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    directory: &'static str,
}

pub(crate) const GO: Peer = peer("Go", "go");
/// The client of NATS for Go.
pub(crate) const GO_NATS: Peer = peer("nats.go", "go_nats");
/// The client of NATS for Python. Beside it is the NATS server.
pub(crate) const NATS_PY: Peer = peer("nats-py", "nats_py");
pub(crate) const ERLANG_OTP: Peer = peer("Erlang", "erlang");
pub(crate) const MAY: Peer = peer("may", "may");
/// The HTTP library for Rust, on one thread of tokio.
pub(crate) const HYPER: Peer = peer("hyper", "hyper");
pub(crate) const BOOST_FIBER: Peer = peer("Boost.Fiber", "boost_fiber");
pub(crate) const PTH: Peer = peer("GNU Pth", "pth");
pub(crate) const POSIX_THREADS: Peer = peer("POSIX threads", "posix_threads");
pub(crate) const GO_CGO: Peer = peer("Go cgo", "go_cgo");
pub(crate) const PYTHON: Peer = peer("CPython ctypes", "python");
pub(crate) const RUBY: Peer = peer("Ruby Fiddle", "ruby");
pub(crate) const LUAJIT: Peer = peer("LuaJIT ffi", "luajit");
/// Our own runtime with GildaVM's policy.
pub(crate) const GILDA_POLICY: Peer = peer("GildaVM's policy", "gilda_policy");

/// OpenSmalltalk-VM's ways of waiting, before its pull request 764 and in that request's three
/// stages. The word selects the way in the program.
pub(crate) const OPENSMALLTALK: [(Peer, &str); 4] = [
    (peer("OpenSmalltalk", "opensmalltalk"), "stock"),
    (peer("PR 764, slow beat", "opensmalltalk"), "slow"),
    (peer("PR 764, long sleeps", "opensmalltalk"), "aware"),
    (peer("PR 764, one wait", "opensmalltalk"), "folded"),
];

const fn peer(name: &'static str, directory: &'static str) -> Peer {
    Peer { name, directory }
}

/// The directory of the built peers: the given one, or the one beside this program's build
/// directory.
pub(crate) fn directory(told: Option<&PathBuf>) -> Result<PathBuf> {
    match told {
        Some(directory) => Ok(directory.clone()),
        None => Ok(interpreters::target_directory()?.join("peers")),
    }
}

/// The NATS server, if it was installed.
pub(crate) fn nats_server(peers: &Path) -> Option<PathBuf> {
    let program = peers.join(NATS_PY.directory).join("bin/nats-server");
    program.is_file().then_some(program)
}

impl Peer {
    /// The peer as an arm of an experiment. `words` precede the arguments of a case. A missing peer
    /// says how to install it.
    pub(crate) fn arm(self, peers: &Path, words: &[&str]) -> Arm {
        let directory = peers.join(self.directory);
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let Some(found) = self.found(peers) else {
            return Arm::missing(self.name, REMEDY);
        };
        let mut arm = Arm::present(self.name, move || {
            let mut command = self.command(&directory);
            command.args(&words);
            command
        });
        arm.found = Some(found);
        arm
    }

    /// The peer's entry in a report, if it was built.
    pub(crate) fn found(self, peers: &Path) -> Option<Found> {
        let directory = peers.join(self.directory);
        Some(Found {
            name: self.name.to_string(),
            version: self.version(&directory).ok()?,
            path: directory.display().to_string(),
        })
    }

    /// The path of the program, for peers that are programs.
    pub(crate) fn program(self, peers: &Path) -> PathBuf {
        peers.join(self.directory).join("peer")
    }

    fn version(self, directory: &Path) -> Result<String> {
        let run = child::run(
            self.command(directory).arg("version"),
            Duration::from_secs(20),
        )?;
        Ok(run.succeeded(self.name)?.output.trim().to_string())
    }

    fn command(self, directory: &Path) -> Command {
        if self.directory != ERLANG_OTP.directory {
            let mut command = Command::new(directory.join("peer"));
            interpreters::take_settings_away(&mut command);
            return command;
        }
        let mut command = Command::new("erl");
        command
            .args(ERLANG.split(' '))
            .arg(directory)
            .arg("-extra")
            // A failed run reports the reason on standard error. Without this setting it would also
            // leave a dump file.
            .env("ERL_CRASH_DUMP_SECONDS", "0");
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_was_not_built_is_missing_and_says_how_to_get_it() {
        let nowhere = tempfile::tempdir().unwrap();
        for peer in [
            GO,
            GO_NATS,
            NATS_PY,
            ERLANG_OTP,
            MAY,
            BOOST_FIBER,
            GO_CGO,
            PYTHON,
            RUBY,
            LUAJIT,
            GILDA_POLICY,
        ] {
            let arm = peer.arm(nowhere.path(), &["switch"]);
            assert!(arm.found.is_none(), "{}", arm.name);
        }
    }
}
