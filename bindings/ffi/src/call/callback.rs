//! Functions of C that lead to somebody else's code.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use libffi_sys as raw;

use super::{Plan, SignatureError};

/// What a callback does: gets its word, where the result goes, and where the arguments are. The result has the plan's slot; an integer
/// smaller than 8 bytes is written as 8, extended.
pub type Handler = unsafe extern "C" fn(word: *mut c_void, result: *mut c_void, arguments: *mut *mut c_void);

/// A function pointer that C can call, and that leads to a [`Handler`] with a word of its own. There is no limit on their number but
/// memory.
pub struct Callback {
    closure: *mut raw::ffi_closure,
    code: *const c_void,
    /// What libffi hands to [`enter`]; its address must not change.
    target: Box<Target>,
}

struct Target {
    handler: Handler,
    word: *mut c_void,
    plan: Arc<Plan>,
}

// SAFETY: nothing in it belongs to a thread. What the word leads to is the business of who made the callback.
unsafe impl Send for Callback {}
// SAFETY: nothing changes once it is made.
unsafe impl Sync for Callback {}

impl Callback {
    /// Makes a function pointer of the plan's signature.
    pub fn new(plan: Arc<Plan>, handler: Handler, word: *mut c_void) -> Result<Callback, SignatureError> {
        if let Some(name) = plan.not_called_back() {
            return Err(SignatureError(format!(
                "'{name}' cannot be passed to a callback by value; pass a pointer to it"
            )));
        }
        let mut code = ptr::null_mut();
        // SAFETY: `code` is writable.
        let closure = unsafe { raw::ffi_closure_alloc(size_of::<raw::ffi_closure>(), &raw mut code) };
        let closure = closure.cast::<raw::ffi_closure>();
        if closure.is_null() {
            return Err(SignatureError("no memory for another callback; free some".to_owned()));
        }
        let target = Box::new(Target { handler, word, plan });
        let made = Callback {
            closure,
            code: code.cast_const(),
            target,
        };
        let data = ptr::from_ref(&*made.target).cast_mut().cast();
        // SAFETY: the closure was allocated for `code`; the plan and the target live as long as `made`.
        let status = unsafe { raw::ffi_prep_closure_loc(closure, made.target.plan.cif(), Some(enter), data, code) };
        match status {
            raw::ffi_status_FFI_OK => Ok(made),
            other => Err(SignatureError(format!(
                "libffi cannot make this callback (status {other})"
            ))),
        }
    }

    /// The function pointer.
    pub fn code(&self) -> *const c_void {
        self.code
    }

    /// The prepared signature.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.target.plan
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        // SAFETY: it came from ffi_closure_alloc, and whoever drops a callback says that C does not call it any more.
        unsafe { raw::ffi_closure_free(self.closure.cast()) };
    }
}

/// Where libffi comes in.
unsafe extern "C" fn enter(
    _cif: *mut raw::ffi_cif,
    result: *mut c_void,
    arguments: *mut *mut c_void,
    data: *mut c_void,
) {
    // SAFETY: `data` is the target that the closure was made with, which lives as long as the closure.
    let (handler, word) = unsafe { ((*data.cast::<Target>()).handler, (*data.cast::<Target>()).word) };
    // SAFETY: what a handler may expect, by the closure's signature.
    unsafe { handler(word, result, arguments) };
}
