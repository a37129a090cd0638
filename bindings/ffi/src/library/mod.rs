//! Shared libraries: finding, loading, looking up.

mod script;

use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::path::Path;

/// A loaded library, or the program with all that it has loaded.
pub struct Library {
    handle: *mut c_void,
    name: String,
}

// SAFETY: the dynamic linker's functions may be called by any thread.
unsafe impl Send for Library {}
// SAFETY: as above; a library does not change.
unsafe impl Sync for Library {}

/// Why a library or a symbol was not found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LibraryError(String);

impl fmt::Display for LibraryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for LibraryError {}

/// What the dynamic linker said last on this thread.
fn complaint() -> String {
    // SAFETY: it answers a C string that is valid until the thread's next call of the dynamic linker, or null.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

impl Library {
    /// The program itself with everything that it has loaded: the name space `C`.
    pub fn program() -> Library {
        // SAFETY: always allowed.
        let handle = unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_NOW) };
        Library {
            handle,
            name: "the program and the libraries that it has loaded".to_owned(),
        }
    }

    /// Loads a library. A name without a slash is completed to `libNAME.so` and searched for where the system does; any other is a path. A
    /// linker script in the place of a library is followed to the library that it names. `global`: its symbols are visible to libraries
    /// that are loaded later.
    pub fn load(name: &str, global: bool) -> Result<Library, LibraryError> {
        let complete = complete_name(name);
        let flags = libc::RTLD_NOW | if global { libc::RTLD_GLOBAL } else { libc::RTLD_LOCAL };
        let why = match open(&complete, flags) {
            Ok(handle) => return Ok(Library { handle, name: complete }),
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
        Err(LibraryError(format!("cannot load library '{name}' ({why}){hint}")))
    }

    /// The address of a function or variable.
    pub fn symbol(&self, name: &str) -> Result<*mut c_void, LibraryError> {
        let missing = |why: &str| LibraryError(format!("undefined symbol '{name}' in {}{why}", self.name));
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

    /// The name that it was found under.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle came from dlopen and is not used any more. Who drops a library says that nothing of it is in use.
        unsafe { libc::dlclose(self.handle) };
    }
}

fn open(name: &str, flags: i32) -> Result<*mut c_void, String> {
    let file = CString::new(name).map_err(|_| "its name has a zero byte".to_owned())?;
    // SAFETY: a C string; what a library's constructors do is its own business, as with any library.
    let handle = unsafe { libc::dlopen(file.as_ptr(), flags) };
    if handle.is_null() { Err(complaint()) } else { Ok(handle) }
}

/// The name under which the system has a library: `z` is `libz.so` (`libz.dylib` on macOS).
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
    fn what_is_missing_is_said_by_name() {
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
        Library::program().symbol("malloc").expect("every program has it");
        Library::load("nul\0", false).err().expect("no file has such a name");
    }
}
