//! Structures that a call passes by their address.
//!
//! AArch64 passes a structure of more than 16 bytes as a pointer to a copy, unless it is
//! homogeneous (AAPCS64, section 6.8.2, stage B). libffi makes such copies itself, with two faults
//! (3.5, in `ffi_call_int`). It aligns the pointer like the structure. It has no room for the
//! pointers that are on the stack themselves, so they overwrite the copies.
//!
//! So libffi gets pointers. The caller of a plan has made the copies already, since an argument's
//! memory is no other object's. Callbacks keep the description of the structure: libffi reads the
//! pointer for them as it should.

use std::ffi::c_void;
use std::ptr;

use libffi_sys as raw;

use super::SignatureError;
use super::passing::is_passed_by_address;
use super::preparation::prepare;
use crate::types::{Qualified, Types};

/// The most arguments whose addresses are on the stack.
const FEW: usize = 16;

/// A description of a signature in which each such structure is a pointer.
pub(super) struct ByAddress {
    cif: Box<raw::ffi_cif>,
    /// The indices of the structures.
    structures: Vec<usize>,
    /// How many arguments there are.
    count: usize,
    /// The types that `cif` points to.
    _types: Box<[*mut raw::ffi_type]>,
}

impl ByAddress {
    /// Describes the signature once more. `None` if it has no such structure. `described` are the
    /// descriptions of `all`, the types of the arguments.
    pub(super) fn new(
        types: &Types,
        all: &[Qualified],
        described: &[*mut raw::ffi_type],
        result: *mut raw::ffi_type,
        fixed: Option<usize>,
    ) -> Result<Option<ByAddress>, SignatureError> {
        let structures: Vec<usize> = (0..all.len())
            .filter(|index| is_passed_by_address(types, all[*index]))
            .collect();
        if structures.is_empty() {
            return Ok(None);
        }
        let mut described: Box<[*mut raw::ffi_type]> = Box::from(described);
        for index in &structures {
            described[*index] = &raw mut raw::ffi_type_pointer;
        }
        Ok(Some(ByAddress {
            cif: prepare(&mut described, result, fixed)?,
            structures,
            count: all.len(),
            _types: described,
        }))
    }

    /// Calls a function.
    ///
    /// # Safety
    /// That of [`Plan::call`](super::Plan::call).
    pub(super) unsafe fn call(
        &self,
        function: unsafe extern "C" fn(),
        arguments: *mut *mut c_void,
        result: *mut c_void,
    ) {
        let (mut few, mut many) = ([ptr::null_mut(); FEW], Vec::new());
        let places: &mut [*mut c_void] = match self.count <= FEW {
            true => &mut few[..self.count],
            false => {
                many.resize(self.count, ptr::null_mut());
                &mut many
            }
        };
        // SAFETY: by the caller's condition, there are `count` addresses.
        unsafe { ptr::copy_nonoverlapping(arguments, places.as_mut_ptr(), self.count) };
        for index in &self.structures {
            // SAFETY: the index is smaller than `count`.
            places[*index] = unsafe { arguments.add(*index) }.cast();
        }
        let cif = ptr::from_ref(&*self.cif).cast_mut();
        // SAFETY: `cif` was prepared, and `self` owns what it refers to; ffi_call only reads it. At
        // each structure's place is the address of a pointer to the structure, as described. The
        // caller's conditions cover the rest.
        unsafe { raw::ffi_call(cif, Some(function), result, places.as_mut_ptr()) };
    }
}
