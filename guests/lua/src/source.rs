//! The modules that are written in Lua.

use std::ffi::{CStr, c_char};

/// The text of a file of `lua/`, by its name without extension.
///
/// # Safety
/// `name` is a C string, `size` is writable.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_lua_source(name: *const c_char, size: *mut usize) -> *const c_char {
    // SAFETY: the caller's condition.
    let source = match unsafe { CStr::from_ptr(name) }.to_bytes() {
        b"adapted_modules" => include_str!("../lua/adapted_modules.lua"),
        b"http_addresses" => include_str!("../lua/http_addresses.lua"),
        b"http_client" => include_str!("../lua/http_client.lua"),
        b"http_files" => include_str!("../lua/http_files.lua"),
        b"http_forms" => include_str!("../lua/http_forms.lua"),
        b"http_packing" => include_str!("../lua/http_packing.lua"),
        b"http_parts" => include_str!("../lua/http_parts.lua"),
        b"http_pool" => include_str!("../lua/http_pool.lua"),
        b"http_router" => include_str!("../lua/http_router.lua"),
        b"http_server" => include_str!("../lua/http_server.lua"),
        b"http_vms" => include_str!("../lua/http_vms.lua"),
        b"http_websocket" => include_str!("../lua/http_websocket.lua"),
        b"inspect" => include_str!("../lua/inspect.lua"),
        b"later" => include_str!("../lua/later.lua"),
        b"log" => include_str!("../lua/log.lua"),
        b"pool" => include_str!("../lua/pool.lua"),
        b"simulated_sockets" => include_str!("../lua/simulated_sockets.lua"),
        b"supervise" => include_str!("../lua/supervise.lua"),
        b"vm" => include_str!("../lua/vm.lua"),
        b"vm_workers" => include_str!("../lua/vm_workers.lua"),
        _ => "",
    };
    // SAFETY: the caller's condition.
    unsafe { size.write(source.len()) };
    source.as_ptr().cast()
}
