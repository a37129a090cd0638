//! Prepared signatures, callbacks and libraries for the C half.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use baton_ffi::call::{Callback, Handler, Plan, Slot};
use baton_ffi::library::Library;
use baton_ffi::types::{Function, Kind, Qualified, TypeId};

use super::descriptor::Descriptor;
use super::{State, give, text};

/// `struct ffi_prepared`: a signature that can be called. It never changes, and lives as long as
/// the state.
#[repr(C)]
pub(crate) struct Prepared {
    /// `enum baton_ffi_kind` and `enum baton_ffi_answer`.
    kind: c_int,
    answer: c_int,
    count: usize,
    /// The size of all arguments, one after another, each aligned to 16.
    area: usize,
    result_size: usize,
    plan: Option<Arc<Plan>>,
}

impl Prepared {
    /// The plan, for a call on another stack.
    pub(super) fn plan(&self) -> Option<Arc<Plan>> {
        self.plan.clone()
    }
}

/// The size of an argument in the area of arguments.
fn room(slot: &Slot) -> usize {
    slot.size.max(8).next_multiple_of(16)
}

/// Prepares a signature, with the types of the arguments after the fixed ones. Returns null and a
/// message if it cannot be called.
///
/// # Safety
/// `further` has `count` descriptors of this state; `message` is writable.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_prepare(
    state: &mut State,
    of: &Descriptor,
    further: *const *const Descriptor,
    count: usize,
    message: *mut *mut c_char,
) -> *const Prepared {
    let id = of.qualified(&state.declared.types).id;
    let further: Vec<Qualified> = (0..count)
        .map(|index| {
            // SAFETY: the caller's condition.
            let descriptor = unsafe { &**further.add(index) };
            descriptor.qualified(&state.declared.types).plain()
        })
        .collect();
    let key: (TypeId, Vec<TypeId>) = (id, further.iter().map(|of| of.id).collect());
    if let Some(prepared) = state.prepared.get(&key) {
        return &raw const **prepared;
    }
    let Kind::Function(function) = state.declared.types.kind(id).clone() else {
        return ptr::null();
    };
    match prepare(state, &function, &further) {
        Ok(prepared) => {
            let prepared = state.prepared.entry(key).or_insert(Box::new(prepared));
            &raw const **prepared
        }
        Err(why) => {
            // SAFETY: the caller's condition.
            unsafe { give(message, &why) };
            ptr::null()
        }
    }
}

fn prepare(
    state: &mut State,
    function: &Function,
    further: &[Qualified],
) -> Result<Prepared, String> {
    let plan = Plan::new(&mut state.declared.types, function, further)
        .map_err(|error| error.to_string())?;
    let direct = plan.direct();
    Ok(Prepared {
        kind: direct.map_or(0, |direct| direct.kind as c_int),
        answer: direct.map_or(0, |direct| direct.answer as c_int),
        count: plan.arguments().len(),
        area: plan.arguments().iter().map(room).sum(),
        result_size: plan.result().size,
        plan: Some(Arc::new(plan)),
    })
}

/// Makes a call through libffi. Outside the VM.
///
/// # Safety
/// That of [`Plan::call`].
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn baton_ffi_call_prepared(
    prepared: &Prepared,
    function: *const c_void,
    arguments: *mut *mut c_void,
    result: *mut c_void,
) {
    if let Some(plan) = &prepared.plan {
        // SAFETY: the caller's condition.
        unsafe { plan.call(function, arguments, result) };
    }
}

/// Makes a function pointer for C. Returns null and a message if it cannot.
///
/// # Safety
/// `message` and `code` are writable. `handler` may be called with `user_data` for as long as the
/// callback lives.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_callback_new(
    prepared: &Prepared,
    handler: Handler,
    user_data: *mut c_void,
    code: *mut *const c_void,
    message: *mut *mut c_char,
) -> *mut Callback {
    let Some(plan) = &prepared.plan else {
        return ptr::null_mut();
    };
    match Callback::new(Arc::clone(plan), handler, user_data) {
        // SAFETY: the caller's condition.
        Ok(callback) => unsafe {
            code.write(callback.code());
            Box::into_raw(Box::new(callback))
        },
        Err(error) => {
            // SAFETY: the caller's condition.
            unsafe { give(message, &error.to_string()) };
            ptr::null_mut()
        }
    }
}

/// Frees a function pointer. C must not call it any more.
///
/// # Safety
/// `callback` came from `baton_ffi_callback_new`.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_callback_free(callback: *mut Callback) {
    // SAFETY: the caller's condition.
    drop(unsafe { Box::from_raw(callback) });
}

/// Loads a library; a null name means the program itself. Returns null and a message if there is
/// none. Outside the VM.
///
/// # Safety
/// The name is readable, `message` writable.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_library_load(
    name: *const c_char,
    size: usize,
    global: c_int,
    message: *mut *mut c_char,
) -> *mut Library {
    if name.is_null() {
        return Box::into_raw(Box::new(Library::program()));
    }
    // SAFETY: the caller's condition.
    let loaded = unsafe { text(name, size) };
    match loaded
        .and_then(|name| Library::load(name, global != 0).map_err(|error| error.to_string()))
    {
        Ok(library) => Box::into_raw(Box::new(library)),
        Err(why) => {
            // SAFETY: the caller's condition.
            unsafe { give(message, &why) };
            ptr::null_mut()
        }
    }
}

/// The address of a symbol. Returns null and a message if there is none. Outside the VM.
///
/// # Safety
/// `name` is a C string, `message` writable.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_library_symbol(
    library: &Library,
    name: *const c_char,
    message: *mut *mut c_char,
) -> *mut c_void {
    // SAFETY: the caller's condition.
    let name = unsafe { std::ffi::CStr::from_ptr(name) }.to_string_lossy();
    match library.symbol(&name) {
        Ok(address) => address,
        Err(error) => {
            // SAFETY: the caller's condition.
            unsafe { give(message, &error.to_string()) };
            ptr::null_mut()
        }
    }
}

/// Frees what is known of a library. It stays loaded, as C may still use it.
///
/// # Safety
/// `library` came from `baton_ffi_library_load`, and is not used any more.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_library_leave_loaded(library: *mut Library) {
    // SAFETY: the caller's condition.
    unsafe { Box::from_raw(library) }.leave_loaded();
}

/// Closes a library. Nothing of it may be used any more.
///
/// # Safety
/// `library` came from `baton_ffi_library_load`.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_library_close(library: *mut Library) {
    // SAFETY: the caller's condition.
    drop(unsafe { Box::from_raw(library) });
}
