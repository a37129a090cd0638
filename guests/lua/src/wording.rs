//! How reports name what is Lua's.

use baton_core::sched::Wording;
use std::ffi::{CStr, c_char, c_void};

unsafe extern "C" {
    fn baton_lua_title(process: *const c_void, text: *mut c_char) -> *const c_char;
}

/// `BATON_TITLE` of the C half.
const TITLE: usize = 80;

/// The names in reports.
pub(crate) const WORDING: Wording = Wording {
    process: title,
    queue: "a file or a module in use",
};

/// How messages name a process: "process 7", or "process 7 'name'". Characters that a terminal
/// would act on are escaped.
fn title(user_data: usize) -> String {
    let mut text: [c_char; TITLE] = [0; TITLE];
    // SAFETY: the user data is a live record; the text has room for the longest title, and is ended
    // by a zero byte.
    let title = unsafe {
        CStr::from_ptr(baton_lua_title(
            user_data as *const c_void,
            text.as_mut_ptr(),
        ))
    };
    title.to_string_lossy().into_owned()
}
