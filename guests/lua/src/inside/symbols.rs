//! Symbols of C functions, by the dynamic linker.
//!
//! The linker has a lock, which `dlopen` holds while a library's constructors run, however long. So
//! no look asks it: frames note addresses, and the thread that asks for symbols does that
//! afterwards. A thread of its own asks the linker. The answer is awaited for [`PATIENCE`] only.
//! Without it, frames have no symbols this time.

use super::stop::Stop;
use baton_observe::observer;
use baton_observe::report::Frame;
use baton_sys::forking::ForkMutex;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_void};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long an answer waits for the linker.
const PATIENCE: Duration = Duration::from_millis(20);

/// The most functions that are remembered. Modules in C have no more.
const MOST_FUNCTIONS: usize = 16_384;

/// What the linker knows of a function.
#[derive(Clone, Default)]
struct Symbol {
    /// Empty: it exports none at this address.
    name: String,
    /// The file name of the library; empty for the executable.
    library: String,
    /// The distance from the beginning of the library.
    offset: usize,
}

impl Symbol {
    /// What names a function that its caller does not name: its symbol, or its place in the
    /// library, which addr2line finds: `core.so+0x5a10`.
    fn or_place(&self) -> String {
        match (self.name.is_empty(), self.library.is_empty()) {
            (true, false) => format!("{}+{:#x}", self.library, self.offset),
            _ => self.name.clone(),
        }
    }
}

/// By address. Lua unloads no library before its end.
static KNOWN: ForkMutex<Option<HashMap<usize, Symbol>>> = ForkMutex::new(None);

/// Whether a thread is asking the linker.
static ASKS: ForkMutex<bool> = ForkMutex::new(false);

/// Forgets the threads of the parent.
///
/// # Safety
/// The caller is the only thread, in a fork's child, and in no other function of this file.
pub(super) unsafe fn renew_in_child() {
    // SAFETY: the caller's conditions. Only this file locks the mutexes.
    unsafe {
        KNOWN.renew(None);
        ASKS.renew(false);
    }
}

/// Gives frames of C functions their symbols, as far as they are known, and takes their addresses
/// away. Not to be called in a look.
pub(super) fn resolve(frames: &mut [&mut Frame]) {
    let unknown: HashSet<usize> = {
        let known = KNOWN.lock();
        let is_known = |address: &usize| {
            let known = known.as_ref();
            known.is_some_and(|known| known.contains_key(address))
        };
        let addresses = frames.iter().map(|frame| frame.address);
        addresses
            .filter(|&address| address != 0)
            .filter(|address| !is_known(address))
            .collect()
    };
    if !unknown.is_empty() {
        ask(unknown);
    }
    let known = KNOWN.lock();
    for frame in frames {
        let address = std::mem::take(&mut frame.address);
        if let Some(symbol) = known.as_ref().and_then(|known| known.get(&address)) {
            frame.symbol = match frame.name.is_empty() {
                true => symbol.or_place(),
                false => symbol.name.clone(),
            };
            frame.library.clone_from(&symbol.library);
        }
    }
}

/// Has a thread ask the linker, and waits for it a little. If another thread does that already, the
/// linker keeps it waiting.
fn ask(addresses: HashSet<usize>) {
    if std::mem::replace(&mut *ASKS.lock(), true) {
        return;
    }
    let done = Arc::new(Stop::default());
    let to_end = Arc::clone(&done);
    let started = observer::start_counted("baton-symbols", move || {
        let found = addresses.into_iter().map(|address| (address, of(address)));
        let found: Vec<(usize, Symbol)> = found.collect();
        {
            let mut known = KNOWN.lock();
            let known = known.get_or_insert_default();
            if known.len() + found.len() > MOST_FUNCTIONS {
                known.clear();
            }
            known.extend(found);
        }
        *ASKS.lock() = false;
        to_end.request();
    });
    match started {
        Ok(()) => {
            done.wait(PATIENCE);
        }
        Err(_) => *ASKS.lock() = false,
    }
}

/// What the linker knows of an address. May wait for the linker's lock.
fn of(address: usize) -> Symbol {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    // SAFETY: any address may be asked about; the record is writable.
    if unsafe { libc::dladdr(address as *const c_void, &raw mut info) } == 0 {
        return Symbol::default();
    }
    let text = |text: *const std::ffi::c_char| match text.is_null() {
        true => String::new(),
        // SAFETY: the linker's own C string, which lives as long as the library.
        false => unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned(),
    };
    // The names of our own functions tell a user nothing.
    if is_ours(&info) {
        return Symbol::default();
    }
    let has_symbol = info.dli_saddr as usize == address;
    let file = text(info.dli_fname);
    let library = Path::new(&file).file_name();
    Symbol {
        name: match has_symbol {
            true => text(info.dli_sname),
            false => String::new(),
        },
        library: library
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        offset: address.wrapping_sub(info.dli_fbase as usize),
    }
}

/// Whether the address is in the executable.
fn is_ours(info: &libc::Dl_info) -> bool {
    let mut own = *info;
    let address = of as fn(usize) -> Symbol as *const c_void;
    // SAFETY: as in `of`.
    unsafe { libc::dladdr(address, &raw mut own) != 0 && own.dli_fbase == info.dli_fbase }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_a_library_exports_has_its_symbol() {
        let found = of(libc::getenv as *const () as usize);
        assert_eq!(found.name, "getenv");
        assert!(found.library.starts_with("libc.so"), "{}", found.library);
        let mut hidden = found.clone();
        hidden.name.clear();
        let place = format!("{}+{:#x}", hidden.library, hidden.offset);
        assert_eq!(hidden.or_place(), place);
        assert_eq!(found.or_place(), "getenv");
        let own = of(is_ours as *const () as usize);
        assert_eq!(own.library, "");
    }
}
