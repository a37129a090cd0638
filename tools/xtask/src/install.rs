//! `cargo xtask install`: installs a library for programs in C. `--destdir` puts all files below
//! another directory, from which they are packed. `--debug` installs the debug build.
//!
//! Only the crate of the library is built, with what it needs: twice, as code in a shared library
//! finds its thread-local words in another way. Crates of others are built once for both.
//!
//! | option | for | what |
//! |---|---|---|
//! | none | interpreters | `baton.h`, `libbaton.a`, `libbaton.so.0`, two files for pkg-config, and the program `baton-conformance` |
//! | `--lua` | programs that embed Lua | `baton_lua.h` and Lua's headers, `libbaton-lua.a`, `libbaton-lua.so.0`, two files for pkg-config, `baton/cluster.so` and `baton/web.so` |

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::Outcome;
use crate::cargo::{cargo, cargo_with_flags_for_ours};
use crate::deb::output;
use crate::own_modules::{self, OwnModule};
use crate::workspace;

/// A library: a crate, its names, and what else is installed.
pub(crate) struct Library {
    /// The crate, and the archive that cargo makes of it.
    pub(crate) package: &'static str,
    archive: &'static str,
    /// The name for the linker's `-l` and for pkg-config.
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    /// The headers' directory below `include`, as pkg-config adds it; empty: `include` itself.
    headers: &'static str,
    /// What the linker makes visible.
    symbols: &'static str,
}

/// For interpreters in C.
pub(crate) static RUNTIME: Library = Library {
    package: "baton-library",
    archive: "libbaton_library.a",
    name: "baton",
    description: "The Baton runtime for language VMs",
    headers: "",
    symbols: "BATON_1 { global: baton_*; local: *; };\n",
};

/// For programs that embed Lua. Lua's symbols have the version that they have in Debian's
/// liblua5.4, so that it can take the place of that under a program that is linked with that.
pub(crate) static LUA: Library = Library {
    package: "baton-lua-library",
    archive: "libbaton_lua_library.a",
    name: "baton-lua",
    description: "Lua 5.4 with preemptive processes, for programs that embed Lua",
    headers: "baton-lua",
    symbols: "LUA_5.4 { global: lua_*; luaL_*; luaopen_*; local: *; };\n\
              BATON_LUA_1 { global: baton_lua_newstate; baton_lua_start; baton_lua_run_until; \
              baton_lua_descriptor; baton_lua_next_deadline; baton_lua_now; };\n\
              BATON_MODULES_1 { global: baton_module_*; baton_now; baton_forks; \
              baton_start_helper; };\n",
};

impl Library {
    /// The shared library's name, with the number that changes when old programs cannot use it.
    pub(crate) fn soname(&self) -> String {
        format!("lib{}.so.{ABI}", self.name)
    }

    fn is_for_lua(&self) -> bool {
        std::ptr::eq(self, &LUA)
    }

    /// The modules that are installed with it.
    pub(crate) fn modules(&self) -> &'static [OwnModule] {
        match self.is_for_lua() {
            true => &own_modules::ALL,
            false => &[],
        }
    }

    /// The crates of it and its modules.
    pub(crate) fn packages(&self) -> Vec<&'static str> {
        match self.is_for_lua() {
            true => own_modules::with_program(self.package),
            false => vec![self.package],
        }
    }
}

/// The number of the shared libraries' interface.
pub(crate) const ABI: u32 = 0;

/// What a program needs beside the static library.
const SYSTEM: [&str; 4] = ["-lpthread", "-ldl", "-lm", "-lgcc_s"];

/// The program that tests guests.
pub(crate) const CONFORMANCE: &str = "baton-conformance";

/// The compiler's flag for the library that goes into a shared one.
const SHARED: &str = "--cfg baton_shared";

/// What to install, and where.
pub(crate) struct Plan {
    pub(crate) library: &'static Library,
    pub(crate) prefix: PathBuf,
    pub(crate) libraries: PathBuf,
    /// The directory that stands for the root of the system, if it is not that.
    pub(crate) root: Option<PathBuf>,
    /// cargo's name of the profile, which is that of its directory, too. The debug build tells a
    /// guest's mistakes.
    pub(crate) profile: &'static str,
}

impl Plan {
    /// What cargo builds for a library: `program` is a program beside it.
    fn build(&self, program: Option<&'static str>) -> Vec<&'static str> {
        let mut build = vec!["build"];
        if self.profile != "debug" {
            build.extend(["--profile", self.profile]);
        }
        build.extend(["-p", self.library.package]);
        if let Some(program) = program {
            build.extend(["-p", program]);
        }
        build
    }

    /// Where an installed file is now.
    fn place(&self, installed: &Path) -> PathBuf {
        match &self.root {
            Some(root) => root.join(installed.strip_prefix("/").unwrap_or(installed)),
            None => installed.to_owned(),
        }
    }
}

/// Installs all, as the arguments say.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let plan = plan(arguments)?;
    install(&plan)?;
    eprintln!("install: {}", what_is_there(&plan));
    println!("{}", plan.place(&plan.prefix).display());
    Ok(())
}

/// A sentence about what was installed, and its use.
fn what_is_there(plan: &Plan) -> String {
    let Library { name, .. } = plan.library;
    let beside = match plan.library.is_for_lua() {
        true => plan
            .library
            .modules()
            .iter()
            .map(OwnModule::installed)
            .collect::<Vec<_>>()
            .join(", "),
        false => format!("bin/{CONFORMANCE}"),
    };
    let found = plan.libraries.join("pkgconfig");
    format!(
        "headers, lib{name}.a, {}, {beside} are there; compile with PKG_CONFIG_PATH={} and \
         `pkg-config --cflags --static --libs {name}`",
        plan.library.soname(),
        found.display()
    )
}

/// Builds and installs a library.
pub(crate) fn install(to: &Plan) -> Outcome {
    let library = to.library;
    let (name, profile) = (library.name, to.profile);
    let package = library.package;
    eprintln!("install: builds the crate {package} for lib{name}.so ({profile})");
    let shared = cargo_with_flags_for_ours(&to.build(None), SHARED, "shared")?;
    said_by(shared)?;
    let beside = (!library.is_for_lua()).then_some(CONFORMANCE);
    eprintln!("install: builds the crate {package} again, for lib{name}.a ({profile})");
    let mut archive = cargo(&to.build(beside));
    archive.args(library.modules().iter().flat_map(|own| ["-p", own.package]));
    archive.arg("--message-format=json-render-diagnostics");
    let said = said_by(archive)?;
    let headers = to.place(&to.prefix.join("include").join(library.headers));
    for (from, name) in headers_of(library, &said)? {
        copy(&from, &headers.join(name))?;
    }
    let built = workspace::target_directory(to.profile);
    let libraries = to.place(&to.libraries);
    let archive = format!("lib{}.a", library.name);
    copy(&built.join(library.archive), &libraries.join(archive))?;
    let shared = workspace::target_directory("shared").join(to.profile);
    link(library, &shared.join(library.archive), &libraries)?;
    for own in library.modules() {
        copy(&built.join(own.built()), &libraries.join(own.installed()))?;
    }
    if !library.is_for_lua() {
        program(&built.join(CONFORMANCE), &to.place(&to.prefix.join("bin")))?;
    }
    for (file, text) in descriptions(library, &to.prefix, &to.libraries) {
        write(&libraries.join("pkgconfig").join(file), &text)?;
    }
    Ok(())
}

/// Runs cargo, whose progress is shown. Returns the rest of what it says.
fn said_by(mut cargo: Command) -> Result<String, String> {
    output(cargo.stderr(Stdio::inherit()))
}

/// The headers, and their names where they are installed. `said` is what cargo said of the build.
fn headers_of(library: &Library, said: &str) -> Result<Vec<(PathBuf, &'static str)>, String> {
    let of = |directory: &Path, names: &[&'static str]| {
        let file = |&name| (directory.join(name), name);
        names.iter().map(file).collect::<Vec<_>>()
    };
    if !library.is_for_lua() {
        let directory = workspace::root().join("bindings/capi/include");
        return Ok(of(
            &directory,
            &[
                "baton.h",
                "baton/guest.h",
                "baton/inline.h",
                "baton/shared.h",
            ],
        ));
    }
    let own = workspace::root().join("guests/lua/include");
    let lua = output_of_build_script(said, "guests/lua#")
        .ok_or("install: cargo does not say where Lua's headers are")?
        .join("include");
    let mut all = of(&own, &["baton_lua.h"]);
    all.extend(of(&lua, &["lua.h", "luaconf.h", "lauxlib.h", "lualib.h"]));
    Ok(all)
}

/// The directory of what a package's build script has written. `said` has a line of JSON for each
/// build script.
fn output_of_build_script(said: &str, package: &str) -> Option<PathBuf> {
    let messages = said
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut ours = messages.filter(|message| {
        message["reason"] == "build-script-executed"
            && message["package_id"]
                .as_str()
                .is_some_and(|id| id.contains(package))
    });
    ours.next()?["out_dir"].as_str().map(PathBuf::from)
}

fn plan(arguments: &[String]) -> Result<Plan, String> {
    let (mut prefix, mut libraries, mut root) = (None, None, None);
    let mut library = &RUNTIME;
    let mut profile = workspace::DIST;
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        let place = match option.as_str() {
            "--prefix" => &mut prefix,
            "--libdir" => &mut libraries,
            "--destdir" => &mut root,
            "--debug" => {
                profile = "debug";
                continue;
            }
            "--lua" => {
                library = &LUA;
                continue;
            }
            other => return Err(format!("install: unknown argument '{other}'")),
        };
        let directory = rest
            .next()
            .ok_or_else(|| format!("install: {option} needs a directory"))?;
        let absolute = std::path::absolute(directory)
            .map_err(|why| format!("install: {option} {directory}: {why}"))?;
        *place = Some(absolute);
    }
    let prefix = prefix.ok_or("install: --prefix DIR expected")?;
    Ok(Plan {
        library,
        libraries: libraries.unwrap_or_else(|| prefix.join("lib")),
        prefix,
        root,
        profile,
    })
}

/// Links the shared library, with its link for compilers.
fn link(library: &Library, archive: &Path, libraries: &Path) -> Outcome {
    let symbols = archive.with_extension("map");
    write(&symbols, library.symbols)?;
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(compiler);
    let soname = library.soname();
    command
        .args(["-shared", "-Wl,--no-undefined", "-Wl,--gc-sections"])
        .arg("-Wl,-z,nodelete") // its threads and handlers may outlast a dlclose
        .arg(format!("-Wl,-soname,{soname}"))
        .arg(format!("-Wl,--version-script={}", symbols.display()))
        .arg("-Wl,--whole-archive")
        .arg(archive)
        .arg("-Wl,--no-whole-archive")
        .args(SYSTEM)
        .arg("-o")
        .arg(libraries.join(&soname));
    output(&mut command)?;
    let short = libraries.join(format!("lib{}.so", library.name));
    let _ = fs::remove_file(&short); // there may be none
    symlink(&soname, &short).map_err(|why| format!("cannot make {}: {why}", short.display()))
}

/// The files for pkg-config, by name.
///
/// `--static` shall give the archive. The linker takes a shared library where both are in a
/// directory, and `--static` adds flags after those of the same file, but before those of required
/// files. So the shared library is in a file of its own, and is only linked if needed: with
/// `--static` the archive comes before it, and it is not.
fn descriptions(library: &Library, prefix: &Path, libraries: &Path) -> [(String, String); 2] {
    let head = format!(
        "prefix={}\nlibdir={}\nincludedir=${{prefix}}/include\n\n",
        prefix.display(),
        libraries.display()
    );
    let Library {
        name, description, ..
    } = library;
    let version = env!("CARGO_PKG_VERSION");
    let headers = Path::new("${includedir}").join(library.headers);
    let headers = headers.to_string_lossy();
    let both = format!(
        "{head}Name: {name}\nDescription: {description}\nVersion: {version}\n\
         Requires: {name}-shared = {version}\nCflags: -I{}\n\
         Libs.private: -L${{libdir}} -Wl,-Bstatic -l{name} -Wl,-Bdynamic {}\n",
        headers.trim_end_matches('/'),
        SYSTEM.join(" ")
    );
    let shared = format!(
        "{head}Name: {name}-shared\nDescription: The shared library of {name}, which requires \
         this\nVersion: {version}\n\
         Libs: -L${{libdir}} -Wl,--push-state,--as-needed -l{name} -Wl,--pop-state\n"
    );
    [
        (format!("{name}.pc"), both),
        (format!("{name}-shared.pc"), shared),
    ]
}

/// Installs a program.
fn program(from: &Path, directory: &Path) -> Outcome {
    let to = directory.join(CONFORMANCE);
    fs::create_dir_all(directory)
        .and_then(|()| fs::copy(from, &to)) // with its permissions
        .map(|_| ())
        .map_err(|why| format!("cannot copy {} to {}: {why}", from.display(), to.display()))
}

fn copy(from: &Path, to: &Path) -> Outcome {
    let bytes = fs::read(from).map_err(|why| format!("cannot read {}: {why}", from.display()))?;
    write_bytes(to, &bytes)
}

fn write(to: &Path, text: &str) -> Outcome {
    write_bytes(to, text.as_bytes())
}

fn write_bytes(to: &Path, bytes: &[u8]) -> Outcome {
    if let Some(directory) = to.parent() {
        fs::create_dir_all(directory)
            .map_err(|why| format!("cannot make {}: {why}", directory.display()))?;
    }
    fs::write(to, bytes).map_err(|why| format!("cannot write {}: {why}", to.display()))
}

#[cfg(test)]
mod checks {
    use super::*;

    fn planned(arguments: &[&str]) -> Result<Plan, String> {
        let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
        plan(&arguments)
    }

    #[test]
    fn a_prefix_is_needed_and_the_library_directory_follows_it() {
        assert!(planned(&[]).is_err());
        assert!(planned(&["--prefix"]).is_err());
        assert!(planned(&["--elsewhere", "/opt"]).is_err());
        let usual = planned(&["--prefix", "/opt"]).expect("a plan");
        assert_eq!(usual.libraries, Path::new("/opt/lib"));
        assert_eq!(usual.profile, "dist");
        assert!(!usual.library.is_for_lua());
        let all = ["--debug", "--lua", "--prefix", "/opt", "--libdir", "/lib64"];
        let other = planned(&all).expect("a plan");
        assert_eq!(other.libraries, Path::new("/lib64"));
        assert_eq!(other.profile, "debug");
        assert!(other.library.is_for_lua());
    }

    /// It built all crates of the repository, some 170, in 17 minutes.
    #[test]
    fn nothing_is_built_but_the_library() {
        let build = |arguments: &[&str]| {
            let plan = planned(&[&["--prefix", "/opt"], arguments].concat()).expect("a plan");
            plan.build(Some(CONFORMANCE)).join(" ")
        };
        let library = "-p baton-library -p baton-conformance";
        assert_eq!(build(&["--debug"]), format!("build {library}"));
        assert_eq!(build(&[]), format!("build --profile dist {library}"));
        let lua = build(&["--debug", "--lua"]);
        assert!(lua.contains("-p baton-lua-library"), "{lua}");
    }

    #[test]
    fn files_go_below_another_root_and_keep_their_names() {
        let staged = planned(&["--prefix", "/usr", "--destdir", "/tmp/x"]).expect("a plan");
        assert_eq!(staged.prefix, Path::new("/usr"));
        let place = staged.place(&staged.libraries);
        assert_eq!(place, Path::new("/tmp/x/usr/lib"));
    }

    #[test]
    fn the_static_library_names_what_it_needs() {
        let [(_, both), (_, shared)] =
            descriptions(&RUNTIME, Path::new("/opt"), Path::new("/opt/lib"));
        assert!(both.contains("libdir=/opt/lib\n"));
        assert!(both.contains(" -Wl,-Bdynamic -lpthread -ldl -lm -lgcc_s\n"));
        assert!(shared.contains("\nLibs: -L${libdir} "));
        assert!(both.contains("\nCflags: -I${includedir}\n"));
    }

    #[test]
    fn headers_of_lua_are_in_a_directory_of_their_own() {
        let [(name, both), _] = descriptions(&LUA, Path::new("/opt"), Path::new("/opt/lib"));
        assert_eq!(name, "baton-lua.pc");
        assert!(both.contains("\nCflags: -I${includedir}/baton-lua\n"));
    }

    #[test]
    fn the_output_of_a_build_script_is_found() {
        let said = "{\"reason\":\"compiler-artifact\"}\nother\n\
            {\"reason\":\"build-script-executed\",\"package_id\":\"path+file:///b/lua-src#1\",\
             \"out_dir\":\"/x\"}\n\
            {\"reason\":\"build-script-executed\",\"package_id\":\
             \"path+file:///b/guests/lua#baton-lua@0.1.0\",\"out_dir\":\"/y\"}\n";
        let found = output_of_build_script(said, "guests/lua#");
        assert_eq!(found, Some(PathBuf::from("/y")));
    }
}
