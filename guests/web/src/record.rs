//! What the program finds in the file, and the texts of `lua/`.

use std::ffi::{CStr, c_char, c_int, c_void};

/// `struct baton_module_record` of `baton_module.h`.
#[repr(C)]
struct Record {
    built_for: *const c_char,
    open: unsafe extern "C" fn(*mut c_void) -> c_int,
}

// SAFETY: it is never written, nor is the text that it points to.
unsafe impl Sync for Record {}

unsafe extern "C" {
    /// Of `c/module.c`. The argument is a `lua_State`.
    fn baton_web_open(state: *mut c_void) -> c_int;
}

/// What the program finds in the file.
// SAFETY: the only definition of this symbol, with the type of `baton_module.h`.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
static baton_module: Record = Record {
    built_for: concat!(env!("BATON_MODULE_BUILT_FOR"), "\0")
        .as_ptr()
        .cast(),
    open: baton_web_open,
};

/// The text of a file of `lua/`; empty for another name.
///
/// # Safety
/// `name` is a C string, `size` is writable.
// SAFETY: the only definition of this symbol, with the signature of `c/module.c`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_web_source(name: *const c_char, size: *mut usize) -> *const c_char {
    // SAFETY: the caller's condition.
    let text = match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"web" => include_str!("../lua/web.lua"),
        b"web/http2" => include_str!("../lua/http2.lua"),
        b"web/http2_heads" => include_str!("../lua/http2_heads.lua"),
        b"web/http2_parts" => include_str!("../lua/http2_parts.lua"),
        b"web/http2_request" => include_str!("../lua/http2_request.lua"),
        b"web/websocket" => include_str!("../lua/websocket.lua"),
        _ => "",
    };
    // SAFETY: the caller's condition.
    unsafe { size.write(text.len()) };
    text.as_ptr().cast()
}
