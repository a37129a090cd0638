//! Finds and loads shared libraries, and finds their symbols.

mod script;

use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::path::Path;

/// A loaded library, or the program itself with everything it has loaded.
pub struct Library {
    handle: *mut c_void,
    name: String,
}

// SAFETY: any thread may call the dynamic linker's functions.
unsafe impl Send for Library {}
// SAFETY: as above, and a library does not change.
unsafe impl Sync for Library {}

/// The reason why a library or a symbol was not found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LibraryError(String);

impl fmt::Display for LibraryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for LibraryError {}

/// The dynamic linker's last error message on this thread.
fn complaint() -> String {
    // SAFETY: dlerror returns null, or a C string that stays valid until this thread's next call of
    // the dynamic linker.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

impl Library {
    /// The program itself with everything it has loaded: the name space `C`.
    pub fn program() -> Library {
        // SAFETY: dlopen with a null name is always allowed.
        let handle = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_NOW) };
        Library {
            handle,
            name: "the program and the libraries that it has loaded".to_owned(),
        }
    }

    /// Loads a library. A name without a slash is completed to `libNAME.so`, and the system
    /// searches for it. Any other name is a path. If the file is a linker script, the library that
    /// it names is loaded. With `global`, libraries that are loaded later see its symbols.
    pub fn load(name: &str, global: bool) -> Result<Library, LibraryError> {
        let complete = complete_name(name);
        let flags = libc::RTLD_NOW
            | if global {
                libc::RTLD_GLOBAL
            } else {
                libc::RTLD_LOCAL
            };
        let why = match open(&complete, flags) {
            Ok(handle) => {
                return Ok(Library {
                    handle,
                    name: complete,
                });
            }
            Err(why) => why,
        };
        if let Some(real) = script::library_behind(&why)
            && let Ok(handle) = open(&real, flags)
        {
            return Ok(Library { handle, name: real });
        }
        let hint = if Path::new(name).components().count() > 1 {
            ""
        } else {
            "; give a path, or a full name such as libz.so.1, if it lies elsewhere"
        };
        Err(LibraryError(format!(
            "cannot load library '{name}' ({why}){hint}"
        )))
    }

    /// The address of a function or variable.
    pub fn symbol(&self, name: &str) -> Result<*mut c_void, LibraryError> {
        let missing =
            |why: &str| LibraryError(format!("undefined symbol '{name}' in {}{why}", self.name));
        let symbol = CString::new(name).map_err(|_| missing(" (it has a zero byte)"))?;
        // SAFETY: the handle came from dlopen, and the name is a C string.
        let address = unsafe { libc::dlsym(self.handle, symbol.as_ptr()) };
        if address.is_null() {
            return Err(missing(
                "; load the library that has it (load), or give its other name by __asm__",
            ));
        }
        Ok(address)
    }

    /// Frees what is known of the library, which stays loaded.
    pub fn leave_loaded(mut self) {
        drop(std::mem::take(&mut self.name));
        std::mem::forget(self);
    }

    /// The name under which the library was found.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle came from dlopen and is not used after this. The code that drops a
        // library guarantees that nothing of it is in use.
        unsafe { libc::dlclose(self.handle) };
    }
}

fn open(name: &str, flags: i32) -> Result<*mut c_void, String> {
    let file = CString::new(name).map_err(|_| "its name has a zero byte".to_owned())?;
    // SAFETY: the name is a C string. The library's constructors run, as with any loaded library;
    // the program that loads it answers for them.
    let handle = unsafe { libc::dlopen(file.as_ptr(), flags) };
    if handle.is_null() {
        Err(complaint())
    } else {
        Ok(handle)
    }
}

/// The file name of a library on this system: `z` becomes `libz.so` (`libz.dylib` on macOS).
fn complete_name(name: &str) -> String {
    if name.contains('/') {
        return name.to_owned();
    }
    let (suffix, has_suffix) = match cfg!(target_vendor = "apple") {
        true => (".dylib", name.contains(".dylib")),
        false => (".so", name.contains(".so")),
    };
    let mut complete = name.to_owned();
    if !has_suffix {
        complete.push_str(suffix);
    }
    if !has_suffix && !name.starts_with("lib") {
        complete.insert_str(0, "lib");
    }
    complete
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn names_are_completed_as_the_linker_does() {
        for (name, complete) in [
            ("z", "libz.so"),
            ("libz", "libz.so"),
            ("libz.so.1", "libz.so.1"),
            ("z.so", "z.so"),
            ("./z", "./z"),
            ("/lib/x.so", "/lib/x.so"),
            ("python3.11", "libpython3.11.so"),
        ] {
            assert_eq!(complete_name(name), complete, "{name}");
        }
    }

    #[test]
    fn a_missing_library_or_symbol_is_named() {
        let error = Library::load("no_such_library", false)
            .err()
            .expect("there is none")
            .to_string();
        assert!(
            error.contains("'no_such_library'") && error.contains("full name"),
            "{error}"
        );
        let error = Library::program()
            .symbol("no_such_symbol")
            .expect_err("there is none")
            .to_string();
        assert!(error.contains("'no_such_symbol'"), "{error}");
        Library::program()
            .symbol("malloc")
            .expect("every program has it");
        Library::load("nul\0", false)
            .err()
            .expect("no file has such a name");
    }
}
