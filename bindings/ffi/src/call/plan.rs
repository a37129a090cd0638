//! Prepares a signature, so that its calls are fast.

use std::ffi::{c_int, c_void};
use std::ptr;

use libffi_sys as raw;

use super::SignatureError;
use super::by_address::ByAddress;
use super::passing::{Descriptions, is_half_empty};
use super::preparation::prepare;
use crate::types::{Function, Kind, Qualified, Scalar, Types};

/// The largest number of arguments of one call.
pub const MAX_ARGUMENTS: usize = 255;

/// The memory that an argument or result needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Size in bytes. A result has at least 8, since libffi writes whole registers.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
}

/// The kinds of direct calls: `enum baton_ffi_kind`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum DirectKind {
    /// At most two integers.
    FewIntegers = 1,
    /// At most six integers.
    IntegersOnly = 2,
    /// At most eight floating-point numbers.
    FloatingsOnly = 3,
    /// At most six integers and eight floating-point numbers.
    Mixed = 4,
}

/// The register that holds the result: `enum baton_ffi_answer`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Answer {
    /// An integer, a pointer, or nothing.
    Integer = 0,
    /// A `float`.
    Float = 1,
    /// A `double`.
    Double = 2,
}

/// How to call a signature without libffi.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Direct {
    /// The registers that are filled.
    pub kind: DirectKind,
    /// The register that holds the result.
    pub answer: Answer,
}

/// The argument registers of a direct call: `struct baton_ffi_registers`.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub struct Registers {
    /// Integers and pointers, extended to 64 bits, in the order of the parameters.
    pub integer: [u64; 6],
    /// The bits of floating-point numbers, in the order of the parameters. A `float` is in the low
    /// half.
    pub floating: [u64; 8],
}

unsafe extern "C" {
    fn baton_ffi_direct(
        function: *const c_void,
        kind: c_int,
        answer: c_int,
        registers: *const Registers,
    ) -> u64;
}

/// A prepared signature. It never changes, so many threads may use it at once.
pub struct Plan {
    cif: Box<raw::ffi_cif>,
    /// What calls use in place of `cif`, if it passes structures by their addresses.
    by_address: Option<ByAddress>,
    arguments: Vec<Slot>,
    result: Slot,
    direct: Option<Direct>,
    /// The name of a parameter's type that callbacks cannot take by value.
    not_called_back: Option<String>,
    /// The types that `cif` points to.
    _types: Box<[*mut raw::ffi_type]>,
    _descriptions: Descriptions,
}

// SAFETY: the pointers lead to memory that the plan owns or that is static. Nothing writes to it
// after the plan is made.
unsafe impl Send for Plan {}
// SAFETY: as above.
unsafe impl Sync for Plan {}

impl Plan {
    /// Prepares a function's signature. `further` holds the types of the arguments after the fixed
    /// ones; C's promotions are applied to them.
    pub fn new(
        types: &mut Types,
        function: &Function,
        further: &[Qualified],
    ) -> Result<Plan, SignatureError> {
        if !further.is_empty() && !function.is_variadic {
            let (takes, given) = (
                function.parameters.len(),
                function.parameters.len() + further.len(),
            );
            return Err(SignatureError(format!(
                "{takes} arguments expected, got {given}"
            )));
        }
        let fixed = function.parameters.len();
        let mut all = function.parameters.clone();
        all.extend(further.iter().map(|of| promoted(types, *of)));
        if all.len() > MAX_ARGUMENTS {
            return Err(SignatureError(format!(
                "at most {MAX_ARGUMENTS} arguments expected, got {}",
                all.len()
            )));
        }
        let mut descriptions = Descriptions::default();
        let result = descriptions.result(types, function.result)?;
        let described: Result<Vec<_>, _> = all
            .iter()
            .map(|of| descriptions.argument(types, *of))
            .collect();
        let mut described = described?.into_boxed_slice();
        let fixed = function.is_variadic.then_some(fixed);
        let by_address = ByAddress::new(types, &all, &described, result, fixed)?;
        let cif = prepare(&mut described, result, fixed)?;
        let slots = all.iter().map(|of| slot(types, *of));
        let of_result = slot(types, function.result);
        Ok(Plan {
            cif,
            by_address,
            arguments: slots.collect(),
            result: Slot {
                size: of_result.size.max(8),
                align: of_result.align.max(8),
            },
            direct: direct(types, function),
            not_called_back: all
                .iter()
                .find(|of| is_half_empty(types, **of))
                .map(|of| types.name(*of)),
            _types: described,
            _descriptions: descriptions,
        })
    }

    /// The memory that the arguments need.
    pub fn arguments(&self) -> &[Slot] {
        &self.arguments
    }

    /// The memory that the result needs.
    pub fn result(&self) -> Slot {
        self.result
    }

    /// How to call it without libffi; `None` if only libffi can.
    pub fn direct(&self) -> Option<Direct> {
        self.direct
    }

    /// The name of a parameter's type that a callback cannot take by value; `None` if there is
    /// none.
    pub fn not_called_back(&self) -> Option<&str> {
        self.not_called_back.as_deref()
    }

    /// Calls a function through libffi. An integer result smaller than 8 bytes is extended to 8.
    ///
    /// # Safety
    /// `function` has this plan's signature, and may be called now. `arguments` holds the address
    /// of each argument, which has the size and alignment of its slot. The function may write to
    /// it, so nobody else uses it before the call returns. `result` is writable for the size of the
    /// result's slot.
    pub unsafe fn call(
        &self,
        function: *const c_void,
        arguments: *mut *mut c_void,
        result: *mut c_void,
    ) {
        // SAFETY: by the caller's condition, there is a C function at this address.
        let function =
            unsafe { std::mem::transmute::<*const c_void, unsafe extern "C" fn()>(function) };
        if let Some(by_address) = &self.by_address {
            // SAFETY: the caller's conditions.
            return unsafe { by_address.call(function, arguments, result) };
        }
        let cif = ptr::from_ref(&*self.cif).cast_mut();
        // SAFETY: `cif` was prepared, and `self` owns what it refers to; ffi_call only reads it.
        // The caller's conditions cover the rest.
        unsafe { raw::ffi_call(cif, Some(function), result, arguments) };
    }

    /// Calls a function directly with the given registers, and returns the bits of the result.
    ///
    /// # Safety
    /// `function` has the signature that `direct` was made for, and may be called now.
    pub unsafe fn call_direct(
        direct: Direct,
        function: *const c_void,
        registers: &Registers,
    ) -> u64 {
        // SAFETY: the caller's condition. c/direct.h explains why the registers suffice.
        unsafe {
            baton_ffi_direct(
                function,
                direct.kind as c_int,
                direct.answer as c_int,
                registers,
            )
        }
    }

    pub(super) fn cif(&self) -> *mut raw::ffi_cif {
        ptr::from_ref(&*self.cif).cast_mut()
    }
}

fn slot(types: &Types, of: Qualified) -> Slot {
    Slot {
        size: types.size_of(of.id).unwrap_or(0) as usize,
        align: types.align_of(of) as usize,
    }
}

/// The type that a value has after the fixed arguments: C's default argument promotions (C11,
/// 6.5.2.2).
fn promoted(types: &mut Types, of: Qualified) -> Qualified {
    match types.as_scalar(of.id) {
        Some(Scalar::Float) => types.scalar(Scalar::Double).into(),
        Some(scalar) if scalar.is_integer() && scalar.size() < 4 => {
            types.scalar(Scalar::Int).into()
        }
        _ => of.plain(),
    }
}

/// The registers that a value is passed in: true for the floating-point ones, false for the integer
/// ones. `None` for a value that is passed another way.
fn register(types: &Types, of: Qualified) -> Option<bool> {
    match types.kind(of.id) {
        Kind::Pointer(_) | Kind::Reference(_) => Some(false),
        _ => match types.as_scalar(of.id)? {
            Scalar::Float | Scalar::Double => Some(true),
            scalar => (scalar.is_integer() && scalar.size() <= 8).then_some(false),
        },
    }
}

/// How to call a signature without libffi; `None` if only libffi can.
fn direct(types: &Types, function: &Function) -> Option<Direct> {
    let is_supported = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    if !is_supported || function.is_variadic {
        return None;
    }
    let (mut integers, mut floatings) = (0, 0);
    for parameter in &function.parameters {
        match register(types, *parameter)? {
            true => floatings += 1,
            false => integers += 1,
        }
    }
    if integers > 6 || floatings > 8 {
        return None;
    }
    let answer = match types.kind(function.result.id) {
        Kind::Void => Answer::Integer,
        _ => match (
            register(types, function.result)?,
            types.as_scalar(function.result.id),
        ) {
            (true, Some(Scalar::Float)) => Answer::Float,
            (true, _) => Answer::Double,
            (false, _) => Answer::Integer,
        },
    };
    let kind = match (integers, floatings) {
        (0..=2, 0) => DirectKind::FewIntegers,
        (_, 0) => DirectKind::IntegersOnly,
        (0, _) => DirectKind::FloatingsOnly,
        _ => DirectKind::Mixed,
    };
    Some(Direct { kind, answer })
}
