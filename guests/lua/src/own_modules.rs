//! Where the modules are that are files of their own: `baton/NAME.so` (`c/program/own_modules.c`).
//!
//! | place, from the directory of the program | who puts it there |
//! |---|---|
//! | `deps/libbaton_NAME.so` | cargo, whichever package it builds |
//! | `baton/NAME.so` | a program that is one directory |
//! | `../lib/baton/NAME.so` | packages |
//!
//! The same places count from the directory of `libbaton-lua.so`, if a program has Lua from it.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The files that may be the module, in the order in which they are looked for.
fn places(name: &str, directories: &[PathBuf]) -> Vec<PathBuf> {
    let file = format!("{name}{DLL_SUFFIX}");
    let in_directory = |directory: &PathBuf| {
        let packaged = directory.parent().unwrap_or(directory).join("lib/baton");
        [
            directory.join(format!("deps/{DLL_PREFIX}baton_{file}")),
            directory.join("baton").join(&file),
            packaged.join(&file),
        ]
    };
    directories.iter().flat_map(in_directory).collect()
}

/// The directory of the program.
fn directory_of_program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok().or_else(started_as)?;
    Some(program.parent()?.to_path_buf())
}

/// The program's file as the system was told it at the start. A root without `/proc` has no other
/// word of it.
#[cfg(target_os = "linux")]
fn started_as() -> Option<PathBuf> {
    // SAFETY: it only reads what the system gave the program.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const c_char;
    if path.is_null() {
        return None;
    }
    // SAFETY: a C string, which stays as long as the program runs (getauxval(3)).
    let path = unsafe { CStr::from_ptr(path) };
    Path::new(OsStr::from_bytes(path.to_bytes()))
        .canonicalize()
        .ok()
}

#[cfg(not(target_os = "linux"))]
fn started_as() -> Option<PathBuf> {
    None
}

/// The directories from which the places count. `library` is the file that has this code.
fn directories(library: Option<&Path>) -> Vec<PathBuf> {
    let own = library.and_then(|file| Some(file.canonicalize().ok()?.parent()?.to_path_buf()));
    let mut all: Vec<PathBuf> = directory_of_program().into_iter().chain(own).collect();
    all.dedup();
    all
}

/// How to get a module. `directory` is that of the program.
fn remedy(name: &str, directory: Option<&Path>) -> String {
    let build = |profile: &str| match profile {
        "debug" => format!("cargo build -p baton-{name}"),
        "release" => format!("cargo build --release -p baton-{name}"),
        other => format!("cargo build --profile {other} -p baton-{name}"),
    };
    // Cargo keeps this directory where it builds.
    let of_cargo = directory.filter(|directory| directory.join(".fingerprint").is_dir());
    let profile = of_cargo.and_then(|directory| directory.file_name()?.to_str());
    match profile {
        Some(profile) => format!("build it: {}", build(profile)),
        None => format!(
            "install a package of Baton, which has it in lib/baton; or, in Baton's sources, say \
             `{}`, and copy target/release/{DLL_PREFIX}baton_{name}{DLL_SUFFIX} to {}",
            build("release"),
            directory
                .map_or_else(
                    || PathBuf::from("lib/baton"),
                    |directory| directory.parent().unwrap_or(directory).join("lib/baton"),
                )
                .join(format!("{name}{DLL_SUFFIX}"))
                .display(),
        ),
    }
}

/// Writes bytes with a zero behind them. Returns whether they fit.
///
/// # Safety
/// `text` is writable for `size` bytes.
unsafe fn write(text: *mut c_char, size: usize, bytes: &[u8]) -> bool {
    if bytes.len() >= size {
        return false;
    }
    // SAFETY: the caller's condition, and the bytes fit.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), text.cast(), bytes.len());
        text.add(bytes.len()).write(0);
    }
    true
}

/// Writes the path of the module's file, or which files there are not.
///
/// # Safety
/// `name` is a C string, `library` is one or null, `text` is writable for `size` bytes.
// SAFETY: the only definition of this symbol, with the signature of `c/program/own_modules.c`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_lua_find_own_module(
    name: *const c_char,
    library: *const c_char,
    text: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller's condition.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let library = (!library.is_null()).then(|| {
        // SAFETY: the caller's condition.
        let bytes = unsafe { CStr::from_ptr(library) }.to_bytes();
        Path::new(OsStr::from_bytes(bytes))
    });
    let places = places(&name, &directories(library));
    if let Some(found) = places.iter().find(|place| place.is_file())
        // SAFETY: the caller's condition.
        && unsafe { write(text, size, found.as_os_str().as_bytes()) }
    {
        return 1;
    }
    let list: String = places
        .iter()
        .map(|place| format!("\n\tno file '{}'", place.display()))
        .collect();
    // SAFETY: the caller's condition.
    unsafe { baton_capi::write_message(text, size, &list) };
    0
}

/// Writes how to get the module.
///
/// # Safety
/// `name` is a C string, `text` is writable for `size` bytes.
// SAFETY: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_lua_remedy_own_module(
    name: *const c_char,
    text: *mut c_char,
    size: usize,
) {
    // SAFETY: the caller's condition.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let remedy = remedy(&name, directory_of_program().as_deref());
    // SAFETY: the caller's condition.
    unsafe { baton_capi::write_message(text, size, &remedy) };
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn a_module_is_looked_for_beside_the_program_and_in_the_prefix() {
        let found = places("cluster", &[PathBuf::from("/opt/bin")]);
        let expected = [
            "/opt/bin/deps/libbaton_cluster.so",
            "/opt/bin/baton/cluster.so",
            "/opt/lib/baton/cluster.so",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn an_installed_program_names_the_place_for_the_file() {
        let said = remedy("cluster", Some(Path::new("/opt/bin")));
        assert!(
            said.contains("cargo build --release -p baton-cluster"),
            "{said}"
        );
        assert!(said.ends_with("to /opt/lib/baton/cluster.so"), "{said}");
    }
}
