//! Installs each package as a user does, and uses the program: the tour, a compiled Lua module,
//! and calls of C.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::archive::FILES;
use super::target::Target;
use super::zig::{Zig, lua_headers};
use super::{Made, VERSION, npm};
use crate::Outcome;
use crate::cargo::nothing_may_be_skipped;
use crate::deb::clean_root::{self, CLUSTER, CleanRoot, oldest_suite};
use crate::deb::output;
use crate::packages::{self, FOR_AARCH64};
use crate::workspace;

/// A module that doubles a number.
const MODULE: &str = r#"
#include <lauxlib.h>
static int twice(lua_State *L) {
  lua_pushinteger(L, 2 * luaL_checkinteger(L, 1));
  return 1;
}
int luaopen_trial(lua_State *L) {
  lua_pushcfunction(L, twice);
  return 1;
}
"#;

/// A variadic function of the C library, and one that calls back.
const FFI: &str = r#"
local ffi = require "baton.ffi"
ffi.cdef [[
  int snprintf(char *to, size_t size, const char *format, ...);
  void qsort(void *base, size_t count, size_t size, int (*compare)(const int *, const int *));
]]
local numbers = ffi.new("int[3]", 30, 10, 20)
ffi.C.qsort(numbers, 3, 4, function(one, other) return one[0] - other[0] end)
local text = ffi.new("char[40]")
ffi.C.snprintf(text, 40, "%d %d %d %.1f", numbers[0], numbers[1], numbers[2], 2.5)
print(ffi.string(text))
"#;

/// Tries all packages for one target.
pub(super) fn run(zig: &Zig, target: &Target, made: &Made, launcher: &Path) -> Outcome {
    if !target.is_native() && !packages::install_missing(FOR_AARCH64).is_empty() {
        return Err(format!("dist: {}", packages::remedy(FOR_AARCH64)));
    }
    let place = workspace::target_directory("dist-trial").join(target.architecture);
    if place.exists() {
        fs::remove_dir_all(&place)
            .map_err(|why| format!("cannot empty {}: {why}", place.display()))?;
    }
    fs::create_dir_all(&place).map_err(|why| format!("cannot make {}: {why}", place.display()))?;
    let trial = Trial {
        zig,
        target,
        module: place.join("trial.so"),
        place,
    };
    trial.compile_module()?;
    trial.archive(&made.archive)?;
    trial.deb(&made.deb, &made.archive)?;
    trial.wheel(&made.wheel)?;
    trial.npm(&made.npm, launcher)?;
    fs::remove_dir_all(&trial.place)
        .map_err(|why| format!("cannot remove {}: {why}", trial.place.display()))
}

/// A way to run the program with arguments.
type Runner<'a> = &'a dyn Fn(&[&str]) -> Result<String, String>;

struct Trial<'a> {
    zig: &'a Zig,
    target: &'a Target,
    /// A directory for all that is installed.
    place: PathBuf,
    /// The compiled module.
    module: PathBuf,
}

impl Trial<'_> {
    fn compile_module(&self) -> Outcome {
        let source = self.place.join("trial.c");
        fs::write(&source, MODULE)
            .map_err(|why| format!("cannot write {}: {why}", source.display()))?;
        let mut compile = self.zig.compiler(self.target);
        compile.args(["-shared", "-fPIC", "-O1", "-I"]);
        compile.arg(lua_headers()?).arg("-o").arg(&self.module);
        output(compile.arg(&source)).map(|_| ())
    }

    fn archive(&self, archive: &Path) -> Outcome {
        unpack(archive, &self.place)?;
        let unpacked = self.place.join(self.target.archive_name());
        for file in FILES {
            let size = fs::metadata(unpacked.join(file)).map_or(0, |metadata| metadata.len());
            if size == 0 {
                return Err(format!("the archive has no {file}, or an empty one"));
            }
        }
        self.program(&unpacked.join("bin/baton"))
    }

    /// Installs the package, and unpacks the archive, in the oldest Debian that there is. For
    /// another architecture, it only unpacks the package.
    fn deb(&self, deb: &Path, archive: &Path) -> Outcome {
        if !self.target.is_native() {
            let unpacked = self.place.join("deb");
            output(Command::new("dpkg-deb").arg("-x").arg(deb).arg(&unpacked))?;
            return self.program(&unpacked.join("usr/bin/baton"));
        }
        if let Err(why) = clean_root::possible() {
            println!("    not tried in an old Debian: {why}");
            return match nothing_may_be_skipped() {
                true => Err(why),
                false => Ok(()),
            };
        }
        let system = CleanRoot::new(&oldest_suite()?)?;
        system.try_package(deb)?;
        unpack(archive, &system.directory)?;
        fs::copy(&self.module, system.directory.join("trial.so"))
            .map_err(|why| format!("cannot copy the module: {why}"))?;
        let program = format!("/{}/bin/baton", self.target.archive_name());
        use_program("/", true, &|arguments| {
            system.run(&[&[program.as_str()], arguments].concat())
        })
    }

    fn wheel(&self, wheel: &Path) -> Outcome {
        let directory = self.place.join("python");
        let mut pip = if self.target.is_native() {
            output(Command::new("python3").args(["-m", "venv"]).arg(&directory))?;
            let mut pip = Command::new(directory.join("bin/python"));
            pip.args(["-I", "-m", "pip", "install"]);
            pip
        } else {
            let mut pip = self.zig.python(&["-m", "pip", "install"]);
            pip.args(["--platform", &self.target.wheel_tag()]);
            pip.args(["--only-binary=:all:", "--target"])
                .arg(&directory);
            pip
        };
        pip.args(["--no-index", "--no-deps", "--disable-pip-version-check"]);
        output(pip.arg(wheel))?;
        self.program(&directory.join("bin/baton"))
    }

    fn npm(&self, program: &Path, launcher: &Path) -> Outcome {
        let directory = self.place.join("npm");
        fs::create_dir_all(&directory)
            .and_then(|()| fs::write(directory.join("package.json"), "{}"))
            .map_err(|why| format!("cannot write in {}: {why}", directory.display()))?;
        let mut npm = Command::new("npm");
        npm.args([
            "install",
            "--offline",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
        ]);
        npm.args(["--os=linux", "--libc=glibc"]);
        npm.arg(format!("--cpu={}", self.target.node));
        if !self.target.is_native() {
            // npm refuses a package for another system that is named, and not only depended on.
            npm.arg("--force");
        }
        output(npm.arg(program).arg(launcher).current_dir(&directory))?;
        let modules = directory.join("node_modules");
        self.program(&modules.join(npm::package_of(self.target)).join("bin/baton"))?;
        if !self.target.is_native() {
            return Ok(());
        }
        let mut node = Command::new(modules.join(".bin/baton"));
        let status = node.args(["-e", "os.exit(7)"]).status();
        let status = status.map_err(|why| format!("cannot start npm's baton: {why}"))?;
        match status.code() {
            Some(7) => self.use_here(&modules.join(".bin/baton"), &[]),
            _ => Err(format!("npm's baton should have ended with 7: {status}")),
        }
    }

    /// Uses the program, under an emulator if it is for another architecture.
    fn program(&self, program: &Path) -> Outcome {
        let emulator = match self.target.is_native() {
            true => &[],
            false => self.target.emulator,
        };
        self.use_here(program, emulator)
    }

    fn use_here(&self, program: &Path, emulator: &[&str]) -> Outcome {
        let place = self.place.to_string_lossy();
        // pip leaves out what belongs into `lib` if it is told another directory, as for another
        // architecture.
        let prefix = program.parent().and_then(Path::parent).unwrap_or(program);
        let has_modules = self.target.is_native() || prefix.join("lib/baton").is_dir();
        use_program(&place, has_modules, &|arguments| {
            let mut command = match emulator {
                [] => Command::new(program),
                [first, rest @ ..] => {
                    let mut command = Command::new(first);
                    command.args(rest).arg(program);
                    command
                }
            };
            command
                .env_clear()
                .env("PATH", "/usr/local/bin:/usr/bin:/bin")
                .current_dir(workspace::root());
            output(command.args(arguments))
        })
        .map_err(|why| format!("{}: {why}", program.display()))
    }
}

/// Uses the program, with its own modules if it has them; the compiled module is in `modules`.
fn use_program(modules: &str, has_modules: bool, run: Runner<'_>) -> Outcome {
    let expect = |arguments: &[&str], expected: &str| {
        let wrote = run(arguments)?;
        match wrote.contains(expected) {
            true => Ok(()),
            false => Err(format!(
                "baton {arguments:?} should have written {expected:?}, but wrote: {wrote}"
            )),
        }
    };
    expect(&["--version"], VERSION)?;
    expect(&["-l", "baton.process", "-e", "print(1)"], "1\n")?;
    let module = format!("package.cpath = '{modules}/?.so' print(require 'trial'(21))");
    expect(&["-e", &module], "42\n")?;
    expect(&["-e", FFI], "10 20 30 2.5\n")?;
    expect(&["-e", TOUR], "That was the tour")?;
    match has_modules {
        true => expect(&["--simulate", "1", "-e", CLUSTER], "hello\n"),
        false => Ok(()),
    }
}

/// Runs the tour. It is beside the program, in the clone, or in the only archive of a clean system.
const TOUR: &str = r#"
local places = "examples/tour.lua /baton-*/share/doc/baton/examples/tour.lua"
dofile(io.popen("ls " .. places .. " 2>/dev/null"):read "l")
"#;

fn unpack(archive: &Path, to: &Path) -> Outcome {
    let mut tar = Command::new("tar");
    output(tar.arg("-C").arg(to).arg("-xzf").arg(archive)).map(|_| ())
}
