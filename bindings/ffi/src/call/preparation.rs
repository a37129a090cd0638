//! libffi's preparation of a signature.

use libffi_sys as raw;

use super::SignatureError;

/// Prepares a signature with these descriptions. `fixed` is the number of arguments before the
/// further ones, if it may have such. The descriptions must live as long as the result.
pub(super) fn prepare(
    described: &mut [*mut raw::ffi_type],
    result: *mut raw::ffi_type,
    fixed: Option<usize>,
) -> Result<Box<raw::ffi_cif>, SignatureError> {
    let mut cif = Box::<raw::ffi_cif>::default();
    let (count, list) = (described.len() as u32, described.as_mut_ptr());
    let abi = raw::ffi_abi_FFI_DEFAULT_ABI;
    // SAFETY: all descriptions are complete. They live as long as the plan that holds `cif`.
    let status = unsafe {
        match fixed {
            Some(fixed) => {
                raw::ffi_prep_cif_var(&raw mut *cif, abi, fixed as u32, count, result, list)
            }
            None => raw::ffi_prep_cif(&raw mut *cif, abi, count, result, list),
        }
    };
    match status {
        raw::ffi_status_FFI_OK => Ok(cif),
        other => Err(SignatureError(format!(
            "libffi cannot prepare this signature (status {other})"
        ))),
    }
}
