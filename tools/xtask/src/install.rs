//! `cargo xtask install`: installs the library for interpreters in C: its headers, `libbaton.a`,
//! `libbaton.so.0`, and `baton.pc` for pkg-config.

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

/// The compiler's flag for the library that goes into [`SONAME`].
const SHARED: &str = "--cfg baton_shared";

struct Directories {
    prefix: PathBuf,
    libraries: PathBuf,
}

/// Installs all, as the arguments say.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let to = directories(arguments)?;
    let build = ["build", "--release", "-p", "baton-library"];
    output(&mut cargo(&build))?;
    output(&mut cargo_with_flags(&build, SHARED, "shared"))?;
    let headers = to.prefix.join("include");
    for header in ["baton.h", "baton/guest.h"] {
        let from = workspace::root().join("bindings/capi/include").join(header);
        copy(&from, &headers.join(header))?;
    }
    let name = "release/libbaton_library.a";
    let archive = to.libraries.join("libbaton.a");
    copy(&workspace::target_directory(name), &archive)?;
    link(
        &workspace::target_directory("shared").join(name),
        &to.libraries,
    )?;
    write(
        &to.libraries.join("pkgconfig/baton.pc"),
        &description(&to.prefix, &to.libraries),
    )?;
    println!("{}", to.prefix.display());
    Ok(())
}

fn directories(arguments: &[String]) -> Result<Directories, String> {
    let (mut prefix, mut libraries) = (None, None);
    let mut rest = arguments.iter();
    while let Some(option) = rest.next() {
        let place = match option.as_str() {
            "--prefix" => &mut prefix,
            "--libdir" => &mut libraries,
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
    Ok(Directories {
        libraries: libraries.unwrap_or_else(|| prefix.join("lib")),
        prefix,
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

/// The file for pkg-config.
fn description(prefix: &Path, libraries: &Path) -> String {
    format!(
        "prefix={}\nlibdir={}\nincludedir=${{prefix}}/include\n\nName: baton\n\
         Description: The Baton runtime for language VMs\nVersion: {}\n\
         Cflags: -I${{includedir}}\nLibs: -L${{libdir}} -lbaton\nLibs.private: {}\n",
        prefix.display(),
        libraries.display(),
        env!("CARGO_PKG_VERSION"),
        SYSTEM.join(" ")
    )
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
            directories(&arguments).map(|to| (to.prefix, to.libraries))
        };
        assert!(of(&[]).is_err());
        assert!(of(&["--prefix"]).is_err());
        assert!(of(&["--elsewhere", "/opt"]).is_err());
        let pair = |prefix: &str, libraries: &str| Ok((prefix.into(), libraries.into()));
        assert_eq!(of(&["--prefix", "/opt"]), pair("/opt", "/opt/lib"));
        let both = ["--prefix", "/opt", "--libdir", "/lib64"];
        assert_eq!(of(&both), pair("/opt", "/lib64"));
    }

    #[test]
    fn the_static_library_names_what_it_needs() {
        let text = description(Path::new("/opt"), Path::new("/opt/lib"));
        assert!(text.contains("libdir=/opt/lib\n"));
        assert!(text.contains("\nLibs.private: -lpthread -ldl -lm -lgcc_s\n"));
    }
}
