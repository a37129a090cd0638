//! `cargo xtask peers`: the other systems that the benches put side by side with Baton.

use crate::Outcome;
use crate::cargo::nothing_may_be_skipped;
use crate::packages::{self, Package, STOCK_LUA};

/// Where a peer comes from.
enum Source {
    /// A Debian package.
    Debian(Package),
}

/// A system that a bench compares with.
struct Peer {
    name: &'static str,
    compared: &'static str,
    source: Source,
}

const PEERS: [Peer; 1] = [Peer {
    name: "Debian's lua5.4",
    compared: "the speed of plain Lua programs, of coroutines, and of start-up",
    source: Source::Debian(STOCK_LUA),
}];

impl Peer {
    fn install(&self) -> Outcome {
        match self.source {
            Source::Debian(package) if packages::install_missing(&[package]).is_empty() => Ok(()),
            Source::Debian(package) => Err(format!("install the Debian package {}", package.name)),
        }
    }
}

/// Installs the peers that are missing, and lists them all.
pub(crate) fn run() -> Outcome {
    let mut missing = Vec::new();
    for peer in &PEERS {
        match peer.install() {
            Ok(()) => println!("present  {}: {}", peer.name, peer.compared),
            Err(remedy) => {
                println!("MISSING  {}: {}; {remedy}", peer.name, peer.compared);
                missing.push(peer.name);
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(", ");
    if nothing_may_be_skipped() {
        return Err(format!("with CI=true no peer may be missing: {list}"));
    }
    println!("The benches leave out what is missing: {list}");
    Ok(())
}
