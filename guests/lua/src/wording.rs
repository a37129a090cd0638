//! How reports name what is Lua's.

use baton_core::sched::Wording;
use std::ffi::{CStr, c_char, c_void};
use std::fmt;

unsafe extern "C" {
    fn baton_lua_title(process: *const c_void, text: *mut c_char) -> *const c_char;
    fn baton_lua_number(process: *const c_void) -> u64;
    fn baton_lua_given_name(process: *const c_void) -> *const c_char;
    fn baton_lua_name_call(process: *mut c_void, text: *mut c_char, size: usize);
    fn baton_lua_place(process: *const c_void, text: *mut c_char, size: usize);
}

/// `BATON_TITLE` of the C half.
const TITLE: usize = 80;

/// `BATON_SITE` of the C half.
const SITE: usize = 80;

/// The names in reports.
pub(crate) const WORDING: Wording = Wording {
    process: Some(write_title),
    number,
    name: write_name,
    call: write_call,
    place: write_place,
    queue: "a file, a connection or a module in use",
};

/// How messages name a process: "process 7", or "process 7 'name'". Characters that a terminal
/// would act on are escaped.
pub(crate) fn write_title(user_data: usize, out: &mut dyn fmt::Write) -> fmt::Result {
    let mut text: [c_char; TITLE] = [0; TITLE];
    // SAFETY: the user data is a live record; the text has room for the longest title, and is ended
    // by a zero byte.
    let title = unsafe {
        CStr::from_ptr(baton_lua_title(
            user_data as *const c_void,
            text.as_mut_ptr(),
        ))
    };
    write_lossy(title, out)
}

/// Its number, as the program sees it.
fn number(user_data: usize) -> u64 {
    // SAFETY: the user data is a live record.
    unsafe { baton_lua_number(user_data as *const c_void) }
}

/// The name that the program gave it, escaped; nothing if it gave none.
fn write_name(user_data: usize, out: &mut dyn fmt::Write) -> fmt::Result {
    // SAFETY: the user data is a live record, which has the name.
    let name = unsafe { CStr::from_ptr(baton_lua_given_name(user_data as *const c_void)) };
    write_lossy(name, out)
}

/// The C function that it is in, such as "os.execute"; nothing if that is not known.
fn write_call(user_data: usize, out: &mut dyn fmt::Write) -> fmt::Result {
    let mut text: [c_char; SITE] = [0; SITE];
    // SAFETY: the user data is a live record of a process that is out in a call, and whose state
    // does not change. The text has room for as many bytes as are told, and is ended by a zero
    // byte.
    let call = unsafe {
        baton_lua_name_call(user_data as *mut c_void, text.as_mut_ptr(), SITE);
        CStr::from_ptr(text.as_ptr())
    };
    write_lossy(call, out)
}

/// The line of Lua where the process has stopped, such as "script.lua:12".
fn write_place(user_data: usize, out: &mut dyn fmt::Write) -> fmt::Result {
    let mut text: [c_char; SITE] = [0; SITE];
    // SAFETY: the user data is a live record of a process that does not run; the text has room for
    // as many bytes as are told, and is ended by a zero byte.
    let place = unsafe {
        baton_lua_place(user_data as *const c_void, text.as_mut_ptr(), SITE);
        CStr::from_ptr(text.as_ptr())
    };
    write_lossy(place, out)
}

/// Does not allocate.
fn write_lossy(text: &CStr, out: &mut dyn fmt::Write) -> fmt::Result {
    for chunk in text.to_bytes().utf8_chunks() {
        out.write_str(chunk.valid())?;
        if !chunk.invalid().is_empty() {
            out.write_char(char::REPLACEMENT_CHARACTER)?;
        }
    }
    Ok(())
}
