//! Callbacks: C function pointers that lead to a guest's code.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use libffi_sys as raw;

use super::{Plan, SignatureError};

/// The function that a callback runs. It gets the callback's `user_data`, the address of the
/// result, and the addresses of the arguments. The result has the size of the plan's slot. An
/// integer smaller than 8 bytes is written as 8, extended.
pub type Handler =
    unsafe extern "C" fn(user_data: *mut c_void, result: *mut c_void, arguments: *mut *mut c_void);

/// A function pointer for C, which calls a [`Handler`] with its own `user_data`. Only memory limits
/// the number of callbacks.
pub struct Callback {
    closure: *mut raw::ffi_closure,
    code: *const c_void,
    /// The data that libffi passes to [`enter`]. Its address must not change.
    target: Box<Target>,
}

struct Target {
    handler: Handler,
    user_data: *mut c_void,
    plan: Arc<Plan>,
}

// SAFETY: nothing in a callback belongs to one thread. The code that made it answers for what its
// `user_data` points to.
unsafe impl Send for Callback {}
// SAFETY: a callback does not change after it is made.
unsafe impl Sync for Callback {}

impl Callback {
    /// Makes a callback with the plan's signature.
    pub fn new(
        plan: Arc<Plan>,
        handler: Handler,
        user_data: *mut c_void,
    ) -> Result<Callback, SignatureError> {
        if let Some(name) = plan.not_called_back() {
            return Err(SignatureError(format!(
                "'{name}' cannot be passed to a callback by value; pass a pointer to it"
            )));
        }
        let mut code = ptr::null_mut();
        // SAFETY: `code` is writable.
        let closure =
            unsafe { raw::ffi_closure_alloc(size_of::<raw::ffi_closure>(), &raw mut code) };
        let closure = closure.cast::<raw::ffi_closure>();
        if closure.is_null() {
            return Err(SignatureError(
                "no memory for another callback; free some".to_owned(),
            ));
        }
        let target = Box::new(Target {
            handler,
            user_data,
            plan,
        });
        let made = Callback {
            closure,
            code: code.cast_const(),
            target,
        };
        let data = ptr::from_ref(&*made.target).cast_mut().cast();
        // SAFETY: the closure was allocated for `code`; the plan and the target live as long as
        // `made`.
        let status = unsafe {
            raw::ffi_prep_closure_loc(closure, made.target.plan.cif(), Some(enter), data, code)
        };
        match status {
            raw::ffi_status_FFI_OK => Ok(made),
            other => Err(SignatureError(format!(
                "libffi cannot make this callback (status {other})"
            ))),
        }
    }

    /// The function pointer for C.
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
        // SAFETY: the closure came from ffi_closure_alloc. The code that drops a callback
        // guarantees that C no longer calls it.
        unsafe { raw::ffi_closure_free(self.closure.cast()) };
    }
}

/// The function that libffi calls for every callback.
unsafe extern "C" fn enter(
    _cif: *mut raw::ffi_cif,
    result: *mut c_void,
    arguments: *mut *mut c_void,
    data: *mut c_void,
) {
    // SAFETY: `data` is the target that the closure was made with. It lives as long as the closure.
    let (handler, user_data) = unsafe {
        (
            (*data.cast::<Target>()).handler,
            (*data.cast::<Target>()).user_data,
        )
    };
    // SAFETY: the closure's signature gives the handler the result and arguments that it expects.
    unsafe { handler(user_data, result, arguments) };
}
