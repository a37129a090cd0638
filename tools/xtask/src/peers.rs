//! `cargo xtask peers`: installs the systems that the benches compare Baton with.
//!
//! Such a system is called a peer. It consists of Debian packages, of a program of ours under
//! `tools/bench/peers`, or of both. The programs are built into `target/peers/<name>`, where
//! `baton-bench` finds them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::cargo::{cargo, cargo_with_flags, nothing_may_be_skipped};
use crate::packages::{self, Package, Probe, STOCK_LUA};
use crate::workspace;

/// A system that a bench compares with.
struct Peer {
    name: &'static str,
    compared: &'static str,
    /// The Debian packages that it needs.
    packages: &'static [Package],
    program: Option<Program>,
}

/// A program of ours that is built for the comparison.
struct Program {
    /// Its directory under `tools/bench/peers`, and also under `target/peers`.
    directory: &'static str,
    /// The commands that build it into a directory. They run in the directory of its sources.
    build: fn(output: &Path) -> Vec<Command>,
}

const CPP_COMPILER: Package = Package {
    name: "g++",
    probe: Probe::Program("c++", "--version"),
    needed_by: "the peer Boost.Fiber",
};
const BOOST_FIBER: Package = Package {
    name: "libboost-fiber-dev",
    probe: Probe::File("/usr/include/boost/fiber/all.hpp"),
    needed_by: "the peer Boost.Fiber",
};
const PTH: Package = Package {
    name: "libpth-dev",
    probe: Probe::File("/usr/include/pth.h"),
    needed_by: "the peer GNU Pth",
};
const ERLANG: Package = Package {
    name: "erlang-base",
    probe: Probe::Program("erl", "-version"),
    needed_by: "the peer Erlang",
};
const GO: Package = Package {
    name: "golang-go",
    probe: Probe::Program("go", "version"),
    needed_by: "the peer Go",
};

const PYTHON: Package = Package {
    name: "python3",
    probe: Probe::Program("python3", "--version"),
    needed_by: "the peers CPython ctypes and asyncio, and Python's processes and interpreters",
};
const VENV: Package = Package {
    name: "python3-venv",
    probe: Probe::Program("python3", "-cimport venv, ensurepip"),
    needed_by: "the peer nats-py, and the NATS server",
};
const NODE: Package = Package {
    name: "nodejs",
    probe: Probe::Program("node", "--version"),
    needed_by: "the peers Node and Node's workers",
};
const JAVA: Package = Package {
    name: "default-jdk-headless",
    probe: Probe::Program("java", "-version"),
    needed_by: "the peer Java",
};

const RUBY: Package = Package {
    name: "ruby",
    probe: Probe::Program("ruby", "--version"),
    needed_by: "the peer Ruby Fiddle",
};
// OpenResty's branch of LuaJIT. The package that nginx needs excludes the other branch.
const LUAJIT: Package = Package {
    name: "luajit2",
    probe: Probe::Program("luajit", "-v"),
    needed_by: "the peer LuaJIT ffi",
};

/// The build directory, under `target`, of Baton with another policy for the VM lock.
const GILDA_BUILD: &str = "peers/gilda_policy/build";

/// The list with the version of the NATS server, from a peer's sources.
const NATS_SERVER: &str = "../../../baton/tests/cluster_server/requirements.txt";

const fn lua_module(name: &'static str, module: &'static str, needed_by: &'static str) -> Package {
    Package {
        name,
        probe: Probe::LuaModule(module),
        needed_by,
    }
}
// Debian has these files for older versions of Lua only. They also run in Lua 5.4.
const LUA_COPAS: Package = Package {
    name: "lua-copas",
    probe: Probe::File("/usr/share/lua/5.2/copas.lua"),
    needed_by: "the peer Copas",
};
const LUA_SOCKET: Package = lua_module(
    "lua-socket",
    "socket",
    "the peer Copas, the server that is compared with it, and the program that waits at a \
     listening socket",
);
const LUA_CQUEUES: Package = lua_module("lua-cqueues", "cqueues", "the peers cqueues and lua-http");
const LUA_HTTP: Package = Package {
    name: "lua-http",
    probe: Probe::File("/usr/share/lua/5.3/http/server.lua"),
    needed_by: "the peer lua-http",
};
const LUA_LUV: Package = lua_module("lua-luv", "luv", "the peer luv");
const NGINX: Package = Package {
    name: "nginx",
    probe: Probe::Program("nginx", "-v"),
    needed_by: "the peer nginx",
};
const NGINX_LUA: Package = Package {
    name: "libnginx-mod-http-lua",
    probe: Probe::File("/usr/share/nginx/modules-available/mod-http-lua.conf"),
    needed_by: "the peer nginx",
};
const TARANTOOL: Package = Package {
    name: "tarantool",
    probe: Probe::Program("tarantool", "-v"),
    needed_by: "the peer Tarantool",
};
const WRK: Package = Package {
    name: "wrk",
    // It has no option such as `--version` that ends with success.
    probe: Probe::File("/usr/bin/wrk"),
    needed_by: "the load on servers that speak HTTP",
};

const WAITING: &str = "what waiting costs, and how late sleeps end";
const CORES: &str = "work and messages on two cores";
const QUEUES: &str = "durable queues and calls over a NATS server";
const SERVING: &str = "what a server gets done at up to 10,000 connections";

/// A peer that consists of packages only, and that runs small programs from the benches.
const fn script(name: &'static str, compared: &'static str, packages: &'static [Package]) -> Peer {
    Peer {
        name,
        compared,
        packages,
        program: None,
    }
}

const PEERS: [Peer; 27] = [
    Peer {
        name: "Debian's lua5.4",
        compared: "the speed of plain Lua programs, of coroutines, and of start-up",
        packages: &[STOCK_LUA],
        program: None,
    },
    Peer {
        name: "Go",
        compared: "the price of a switch, what a process costs, how late sleeps end, and work on \
                   two cores",
        packages: &[GO],
        program: Some(Program {
            directory: "go",
            build: build_go,
        }),
    },
    Peer {
        name: "Erlang",
        compared: "the price of a switch, what a process costs, how late sleeps end, and work on \
                   two cores",
        packages: &[ERLANG],
        program: Some(Program {
            directory: "erlang",
            build: build_erlang,
        }),
    },
    Peer {
        name: "may",
        compared: "the price of a switch",
        packages: &[],
        program: Some(Program {
            directory: "may",
            build: build_may,
        }),
    },
    Peer {
        name: "hyper",
        compared: "a service with JSON",
        packages: &[],
        program: Some(Program {
            directory: "hyper",
            build: build_hyper,
        }),
    },
    Peer {
        name: "Boost.Fiber",
        compared: "the price of a switch",
        packages: &[CPP_COMPILER, BOOST_FIBER],
        program: Some(Program {
            directory: "boost_fiber",
            build: build_boost_fiber,
        }),
    },
    Peer {
        name: "GNU Pth",
        compared: "the price of a switch",
        packages: &[PTH],
        program: Some(Program {
            directory: "pth",
            build: |output| vec![compile(output, &["-lpth"])],
        }),
    },
    Peer {
        name: "POSIX threads",
        compared: "the price of a switch",
        packages: &[],
        program: Some(Program {
            directory: "posix_threads",
            build: |output| vec![compile(output, &["-lrt"])],
        }),
    },
    Peer {
        name: "nats.go",
        compared: QUEUES,
        packages: &[GO],
        program: Some(Program {
            directory: "go_nats",
            build: build_go,
        }),
    },
    Peer {
        name: "nats-py, and the NATS server",
        compared: QUEUES,
        packages: &[PYTHON, VENV],
        program: Some(Program {
            directory: "nats_py",
            build: build_nats_py,
        }),
    },
    script("asyncio", WAITING, &[PYTHON]),
    script("Node", WAITING, &[NODE]),
    script("Java", WAITING, &[JAVA]),
    script("Node's workers", CORES, &[NODE]),
    script("Python's processes and interpreters", CORES, &[PYTHON]),
    script("Copas", SERVING, &[LUA_SOCKET, LUA_COPAS]),
    script("cqueues and lua-http", SERVING, &[LUA_CQUEUES, LUA_HTTP]),
    script("luv", SERVING, &[LUA_LUV]),
    script("nginx with Lua", SERVING, &[NGINX, NGINX_LUA]),
    script("Tarantool", SERVING, &[TARANTOOL]),
    script("wrk, which loads the servers", SERVING, &[WRK]),
    Peer {
        name: "CPython ctypes",
        compared: "calls of C functions, by one thread and by two",
        packages: &[PYTHON],
        program: Some(Program {
            directory: "python",
            build: |output| vec![install("peer.py", output)],
        }),
    },
    Peer {
        name: "Go cgo",
        compared: "calls of C functions, by one thread and by two",
        packages: &[GO],
        program: Some(Program {
            directory: "go_cgo",
            build: build_go,
        }),
    },
    Peer {
        name: "Ruby Fiddle",
        compared: "calls of C functions, by one thread and by two",
        packages: &[RUBY],
        program: Some(Program {
            directory: "ruby",
            build: |output| vec![install("peer.rb", output)],
        }),
    },
    Peer {
        name: "LuaJIT ffi",
        compared: "calls of C functions",
        packages: &[LUAJIT],
        program: Some(Program {
            directory: "luajit",
            build: |output| vec![install("peer.lua", output)],
        }),
    },
    Peer {
        name: "OpenSmalltalk's waits",
        compared: "wake-ups while nothing is due, and how late sleeps end",
        packages: &[],
        program: Some(Program {
            directory: "opensmalltalk",
            build: |output| vec![compile(output, &[])],
        }),
    },
    Peer {
        name: "GildaVM's policy",
        compared: "calls of C functions, and switching",
        packages: &[],
        program: Some(Program {
            directory: "gilda_policy",
            build: build_gilda_policy,
        }),
    },
];

/// Copies a script, which needs no building.
fn install(script: &str, output: &Path) -> Command {
    let mut install = Command::new("install");
    install.args(["-m", "755", script]).arg(output.join("peer"));
    install
}

/// Builds our own interpreter with the compare-and-swap lock, behind a script that sets the policy.
fn build_gilda_policy(output: &Path) -> Vec<Command> {
    let words = [
        "build",
        "--profile",
        workspace::DIST,
        "--locked",
        "--quiet",
        "--package",
        "baton",
    ];
    vec![
        cargo_with_flags(&words, "--cfg baton_cas", GILDA_BUILD),
        install("peer.sh", output),
    ]
}

fn build_go(output: &Path) -> Vec<Command> {
    let mut build = Command::new("go");
    build
        .args(["build", "-o"])
        .arg(output.join("peer"))
        .arg(".");
    vec![build]
}

/// Installs the client, and the server of the tests, into an environment of Python's.
fn build_nats_py(output: &Path) -> Vec<Command> {
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv"]).arg(output);
    let mut pip = Command::new(output.join("bin/python"));
    pip.args(["-I", "-m", "pip", "install", "--quiet"])
        .args(["--disable-pip-version-check", "--no-deps"])
        .args(["-r", "requirements.txt"])
        .args(["-r", NATS_SERVER]);
    let mut program = Command::new("install");
    program
        .args(["-m", "644", "peer.py"])
        .arg(output.join("peer.py"));
    vec![venv, pip, install("peer.sh", output), program]
}

fn build_erlang(output: &Path) -> Vec<Command> {
    let mut build = Command::new("erlc");
    build
        .args(["-Wall", "-Werror", "-o"])
        .arg(output)
        .args(["baton_peer.erl", "baton_cores.erl"]);
    vec![build]
}

fn build_may(output: &Path) -> Vec<Command> {
    build_crate(output, "peer-may")
}

fn build_hyper(output: &Path) -> Vec<Command> {
    build_crate(output, "peer-hyper")
}

/// Builds a crate in Rust, which is a workspace of its own.
fn build_crate(output: &Path, name: &str) -> Vec<Command> {
    let mut build = cargo(&["build", "--release", "--locked", "--quiet"]);
    build.arg("--target-dir").arg(output.join("build"));
    let mut install = Command::new("cp");
    install
        .arg(output.join("build/release").join(name))
        .arg(output.join("peer"));
    vec![build, install]
}

fn build_boost_fiber(output: &Path) -> Vec<Command> {
    let mut build = Command::new("c++");
    build
        .args(["-O3", "-DNDEBUG", "-std=c++17", "-Wall", "-Wextra", "-o"])
        .arg(output.join("peer"))
        .args(["peer.cpp", "-lboost_fiber", "-lboost_context", "-pthread"]);
    vec![build]
}

/// Compiles with any C compiler, as building Baton needs one too.
fn compile(output: &Path, libraries: &[&str]) -> Command {
    let mut build = Command::new("cc");
    build
        .args(["-O2", "-std=gnu11", "-Wall", "-Wextra", "-pthread", "-o"])
        .arg(output.join("peer"))
        .arg("peer.c")
        .args(libraries);
    build
}

impl Program {
    fn sources(&self) -> PathBuf {
        workspace::root()
            .join("tools/bench/peers")
            .join(self.directory)
    }

    /// Builds the program. It is always built again, since only its own tools know whether it is up
    /// to date, and they take seconds.
    fn build(&self) -> Outcome {
        let sources = self.sources();
        let output = workspace::target_directory("peers").join(self.directory);
        std::fs::create_dir_all(&output)
            .map_err(|why| format!("cannot make {}: {why}", output.display()))?;
        for mut command in (self.build)(&output) {
            let program = command.get_program().display().to_string();
            match command.current_dir(&sources).status() {
                Ok(status) if status.success() => {}
                Ok(status) => return Err(format!("it was not built: {program}: {status}")),
                Err(why) => return Err(format!("it was not built: cannot start {program}: {why}")),
            }
        }
        Ok(())
    }
}

impl Peer {
    fn install(&self) -> Outcome {
        let missing = packages::install_missing(self.packages);
        if !missing.is_empty() {
            let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
            return Err(format!("install the Debian packages: {}", names.join(" ")));
        }
        match &self.program {
            Some(program) => program.build(),
            None => Ok(()),
        }
    }
}

/// Installs and builds all peers, and lists them.
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
    println!("The benches show what is missing as unmet: {list}");
    Ok(())
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn every_program_has_its_sources() {
        for program in PEERS.iter().filter_map(|peer| peer.program.as_ref()) {
            assert!(program.sources().is_dir(), "{}", program.directory);
        }
    }

    #[test]
    fn every_directory_of_sources_is_built_by_a_peer() {
        let directory = workspace::root().join("tools/bench/peers");
        let entries = std::fs::read_dir(directory).expect("the peers' directory to be readable");
        let directories = entries.flatten().filter(|entry| entry.path().is_dir());
        for entry in directories {
            let is_its = |peer: &&Peer| {
                let program = peer.program.as_ref();
                program.is_some_and(|program| entry.file_name() == program.directory)
            };
            assert!(
                PEERS.iter().any(|peer| is_its(&peer)),
                "{}",
                entry.path().display()
            );
        }
    }
}
