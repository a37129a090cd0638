//! `cargo xtask install`: installs the library for interpreters in C: its headers, `libbaton.a`,
//! `libbaton.so.0`, two files for pkg-config, and the program `baton-conformance`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::cargo::{cargo, cargo_with_flags};
use crate::deb::output;
use crate::workspace;

/// The shared library's name, with the number that changes when old programs cannot use it.
const SONAME: &str = "libbaton.so.0";

/// What the linker makes visible.
const SYMBOLS: &str = "BATON_1 { global: baton_*; local: *; };\n";

/// What a program needs beside the static library.
const SYSTEM: [&str; 4] = ["-lpthread", "-ldl", "-lm", "-lgcc_s"];

/// The program that tests guests.
const CONFORMANCE: &str = "baton-conformance";

/// The compiler's flag for the library that goes into [`SONAME`].
const SHARED: &str = "--cfg baton_shared";

/// What to install, and where.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    prefix: PathBuf,
    libraries: PathBuf,
    /// cargo's name of the profile, which is that of its directory, too. The debug build tells a
    /// guest's mistakes.
    profile: &'static str,
}

/// Installs all, as the arguments say.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let to = plan(arguments)?;
    let mut build = vec!["build", "-p", "baton-library"];
    if to.profile == "release" {
        build.push("--release");
    }
    output(&mut cargo_with_flags(&build, SHARED, "shared"))?;
    build.extend(["-p", "baton-conformance"]);
    output(&mut cargo(&build))?;
    let headers = to.prefix.join("include");
    for header in ["baton.h", "baton/guest.h"] {
        let from = workspace::root().join("bindings/capi/include").join(header);
        copy(&from, &headers.join(header))?;
    }
    let built = workspace::target_directory(to.profile);
    let name = "libbaton_library.a";
    copy(&built.join(name), &to.libraries.join("libbaton.a"))?;
    let shared = workspace::target_directory("shared").join(to.profile);
    link(&shared.join(name), &to.libraries)?;
    program(&built.join(CONFORMANCE), &to.prefix.join("bin"))?;
    for (file, text) in descriptions(&to.prefix, &to.libraries) {
        write(&to.libraries.join("pkgconfig").join(file), &text)?;
    }
    println!("{}", to.prefix.display());
    Ok(())
}

fn plan(arguments: &[String]) -> Result<Plan, String> {
    let (mut prefix, mut libraries) = (None, None);
    let mut profile = "release";
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        let place = match option.as_str() {
            "--prefix" => &mut prefix,
            "--libdir" => &mut libraries,
            "--debug" => {
                profile = "debug";
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
        libraries: libraries.unwrap_or_else(|| prefix.join("lib")),
        prefix,
        profile,
    })
}

/// Links the shared library, with its link for compilers.
fn link(archive: &Path, libraries: &Path) -> Outcome {
    let symbols = archive.with_file_name("baton.map");
    write(&symbols, SYMBOLS)?;
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(compiler);
    command
        .args(["-shared", "-Wl,--no-undefined", "-Wl,--gc-sections"])
        .arg(format!("-Wl,-soname,{SONAME}"))
        .arg(format!("-Wl,--version-script={}", symbols.display()))
        .arg("-Wl,--whole-archive")
        .arg(archive)
        .arg("-Wl,--no-whole-archive")
        .args(SYSTEM)
        .arg("-o")
        .arg(libraries.join(SONAME));
    output(&mut command)?;
    let short = libraries.join("libbaton.so");
    let _ = fs::remove_file(&short); // there may be none
    symlink(SONAME, &short).map_err(|why| format!("cannot make {}: {why}", short.display()))
}

/// The files for pkg-config, by name.
///
/// `--static` shall give the archive. The linker takes a shared library where both are in a
/// directory, and `--static` adds flags after those of the same file, but before those of required
/// files. So the shared library is in a file of its own, and is only linked if needed: with
/// `--static` the archive comes before it, and it is not.
fn descriptions(prefix: &Path, libraries: &Path) -> [(&'static str, String); 2] {
    let head = format!(
        "prefix={}\nlibdir={}\nincludedir=${{prefix}}/include\n\n",
        prefix.display(),
        libraries.display()
    );
    let version = env!("CARGO_PKG_VERSION");
    let both = format!(
        "{head}Name: baton\nDescription: The Baton runtime for language VMs\nVersion: {version}\n\
         Requires: baton-shared = {version}\nCflags: -I${{includedir}}\n\
         Libs.private: -L${{libdir}} -Wl,-Bstatic -lbaton -Wl,-Bdynamic {}\n",
        SYSTEM.join(" ")
    );
    let shared = format!(
        "{head}Name: baton-shared\nDescription: The shared library of baton, which requires this\n\
         Version: {version}\n\
         Libs: -L${{libdir}} -Wl,--push-state,--as-needed -lbaton -Wl,--pop-state\n"
    );
    [("baton.pc", both), ("baton-shared.pc", shared)]
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

    #[test]
    fn a_prefix_is_needed_and_the_library_directory_follows_it() {
        let of = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
            plan(&arguments)
        };
        assert!(of(&[]).is_err());
        assert!(of(&["--prefix"]).is_err());
        assert!(of(&["--elsewhere", "/opt"]).is_err());
        let planned = |prefix: &str, libraries: &str, profile| {
            Ok(Plan {
                prefix: prefix.into(),
                libraries: libraries.into(),
                profile,
            })
        };
        assert_eq!(
            of(&["--prefix", "/opt"]),
            planned("/opt", "/opt/lib", "release")
        );
        let all = ["--debug", "--prefix", "/opt", "--libdir", "/lib64"];
        assert_eq!(of(&all), planned("/opt", "/lib64", "debug"));
    }

    #[test]
    fn the_static_library_names_what_it_needs() {
        let [(_, both), (_, shared)] = descriptions(Path::new("/opt"), Path::new("/opt/lib"));
        assert!(both.contains("libdir=/opt/lib\n"));
        assert!(both.contains(" -Wl,-Bdynamic -lpthread -ldl -lm -lgcc_s\n"));
        assert!(shared.contains("\nLibs: -L${libdir} "));
    }
}
