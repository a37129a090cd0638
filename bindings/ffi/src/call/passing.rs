//! Describes types to libffi.
//!
//! libffi computes the layout of structures itself, and does not know packing, bit-fields or
//! unions. It uses the elements of a structure only to find the registers that the structure is
//! passed in. So we give it the size and alignment of our own layout, and elements that lead to the
//! right registers.

use std::ptr;

use libffi_sys as raw;

use super::SignatureError;
use super::homogeneous::{self, Homogeneous};
use crate::types::{Kind, Length, Qualified, Scalar, TypeId, Types};

/// libffi's descriptions of one signature's types. They refer to each other by address, so none may
/// be moved, and all are freed together.
#[derive(Default)]
pub(super) struct Descriptions {
    #[expect(clippy::vec_box, reason = "libffi keeps their addresses")]
    structures: Vec<Box<raw::ffi_type>>,
    lists: Vec<Box<[*mut raw::ffi_type]>>,
}

/// A number in a structure, with its offset in bytes.
#[derive(Clone, Copy, Debug)]
struct Leaf {
    offset: u64,
    scalar: Scalar,
}

/// The largest number of leaves in a structure that is passed in registers, and of types on the way
/// to them. It suffices for 16 bytes of one-bit fields in unions of a few members.
const MAX_LEAVES: usize = 4096;

/// Whether bit-fields without a name decide which registers a structure is passed in. On x86-64
/// they do in GCC, and do not in Clang; the psABI leaves it open. We follow the compiler that the
/// system is built with.
const PADDING_BITS_COUNT: bool = cfg!(all(target_arch = "x86_64", target_os = "linux"));

/// libffi's `FFI_TYPE_UINT128`, which the crate `libffi-sys` does not define.
const TYPE_OF_INT128: u16 = 16;

/// The largest alignment of an argument on the stack, in bytes.
const MAX_ARGUMENT_ALIGN: u32 = 16;

impl Descriptions {
    /// Describes the type of an argument. libffi aligns the stack to 16 bytes, so a larger
    /// alignment is an error.
    pub(super) fn argument(
        &mut self,
        types: &Types,
        of: Qualified,
    ) -> Result<*mut raw::ffi_type, SignatureError> {
        if types.align_of(of.id.into()) > MAX_ARGUMENT_ALIGN {
            return Err(refuse(types, of));
        }
        self.describe(types, of)
    }

    /// Describes the type of a result. libffi cannot return structures from x87 registers.
    pub(super) fn result(
        &mut self,
        types: &Types,
        of: Qualified,
    ) -> Result<*mut raw::ffi_type, SignatureError> {
        let mut found = Leaves::default();
        if cfg!(target_arch = "x86_64")
            && types.size_of(of.id) == Some(16)
            && matches!(types.kind(of.id), Kind::Record(_))
            && found.collect(types, of.id, 0).is_some()
            && found
                .leaves
                .iter()
                .all(|leaf| leaf.scalar == Scalar::LongDouble)
        {
            return Err(refuse(types, of));
        }
        self.describe(types, of)
    }

    /// Describes the type of an argument or result.
    fn describe(
        &mut self,
        types: &Types,
        of: Qualified,
    ) -> Result<*mut raw::ffi_type, SignatureError> {
        match types.kind(of.id) {
            Kind::Void => Ok(&raw mut raw::ffi_type_void),
            Kind::Pointer(_) | Kind::Reference(_) => Ok(&raw mut raw::ffi_type_pointer),
            Kind::Scalar(_) | Kind::Enum(_) => {
                match types.as_scalar(of.id).and_then(scalar_description) {
                    Some(description) => Ok(description),
                    None => Err(refuse(types, of)),
                }
            }
            Kind::Complex(part) if *part != Scalar::LongDouble => {
                let (size, align) = (part.size() * 2, part.align());
                if cfg!(target_arch = "aarch64") {
                    return Ok(self.aarch64(size, align, homogeneous::parts(types, of.id)));
                }
                let leaves = [0, part.size()].map(|offset| Leaf {
                    offset,
                    scalar: *part,
                });
                let elements = self.x86_64_elements(size, &leaves, false);
                Ok(self.add(size, align, elements))
            }
            Kind::Record(_) => self.record(types, of),
            _ => Err(refuse(types, of)),
        }
    }

    fn record(
        &mut self,
        types: &Types,
        of: Qualified,
    ) -> Result<*mut raw::ffi_type, SignatureError> {
        let (Some(size), align) = (types.size_of(of.id), types.align_of(of.id.into())) else {
            let name = types.name(of);
            return Err(SignatureError(format!(
                "'{name}' is passed by value, so it must be defined first"
            )));
        };
        if size == 0 {
            return Err(refuse(types, of));
        }
        let mut found = Leaves::default();
        // A larger structure is passed in memory whatever it holds. The exception is a homogeneous
        // floating-point aggregate (AArch64).
        if size <= 64 {
            found
                .collect(types, of.id, 0)
                .ok_or_else(|| refuse(types, of))?;
        }
        if cfg!(target_arch = "aarch64") {
            // The collection above ended, so this walk through the same types does, too.
            let parts = (size <= 64)
                .then(|| homogeneous::parts(types, of.id))
                .flatten();
            let is_copied = parts.is_some() || size <= 16;
            let align = match is_copied {
                true => align_of_copy(types, of.id),
                // The copy is elsewhere, and its address is passed.
                false => align,
            };
            return Ok(self.aarch64(size, align, parts));
        }
        let elements = self.x86_64_elements(size, &found.leaves, found.is_misaligned);
        Ok(self.add(size, align, elements))
    }

    /// A structure or complex number for AArch64 (AAPCS64, section 6.8.2). `align` is the alignment
    /// that it has as an argument.
    fn aarch64(&mut self, size: u64, align: u32, parts: Option<Homogeneous>) -> *mut raw::ffi_type {
        let numbers =
            parts.and_then(|parts| Some((scalar_description(parts.scalar)?, parts.count)));
        if let Some((description, count)) = numbers {
            return self.add(size, align, vec![description; count]);
        }
        if size == 16 && align == 16 {
            // This takes two registers, from one with an even number on. libffi allots registers
            // like that for a 128-bit integer only.
            return self.push(raw::ffi_type {
                size: 16,
                alignment: 16,
                type_: TYPE_OF_INT128,
                elements: ptr::null_mut(),
            });
        }
        let count = size.div_ceil(8) as usize;
        self.add(size, align, vec![&raw mut raw::ffi_type_uint64; count])
    }

    fn add(
        &mut self,
        size: u64,
        align: u32,
        mut elements: Vec<*mut raw::ffi_type>,
    ) -> *mut raw::ffi_type {
        elements.push(ptr::null_mut());
        let mut list = elements.into_boxed_slice();
        let elements = list.as_mut_ptr();
        self.lists.push(list);
        self.push(raw::ffi_type {
            size: size as usize,
            alignment: align as u16,
            type_: raw::FFI_TYPE_STRUCT,
            elements,
        })
    }

    fn push(&mut self, structure: raw::ffi_type) -> *mut raw::ffi_type {
        let mut structure = Box::new(structure);
        let description: *mut raw::ffi_type = &raw mut *structure;
        self.structures.push(structure);
        description
    }

    /// Elements that lead libffi to the right classes for a structure's eightbytes (System V psABI,
    /// section 3.2.3).
    fn x86_64_elements(
        &mut self,
        size: u64,
        leaves: &[Leaf],
        is_misaligned: bool,
    ) -> Vec<*mut raw::ffi_type> {
        let has_x87 = leaves.iter().any(|leaf| leaf.scalar == Scalar::LongDouble);
        if size > 16 {
            return vec![&raw mut raw::ffi_type_uint64];
        }
        if has_x87 && leaves.iter().all(|leaf| leaf.scalar == Scalar::LongDouble) {
            return vec![&raw mut raw::ffi_type_longdouble];
        }
        let within = |start: u64| {
            leaves
                .iter()
                .filter(move |leaf| (start..start + 8).contains(&leaf.offset))
        };
        let has_integer = |start: u64| within(start).any(|leaf| leaf.scalar.is_integer());
        // An integer in both eightbytes of a union outweighs the x87 class (rule 4d).
        if is_misaligned || has_x87 && !(has_integer(0) && has_integer(8)) {
            // This is passed in memory: libffi does so when an element has more than 32 bytes.
            let large = self.add(33, 1, vec![&raw mut raw::ffi_type_uint8]);
            return vec![large];
        }
        let eightbyte = |start: u64| match (
            within(start).next().is_some(),
            has_integer(start),
            size - start,
        ) {
            // Padding takes no register, and a structure without elements has no class.
            (false, ..) => self.add(8, 8, Vec::new()),
            (_, true, 0..=4) => &raw mut raw::ffi_type_uint32,
            (_, true, _) => &raw mut raw::ffi_type_uint64,
            (_, false, 0..=4) => &raw mut raw::ffi_type_float,
            (_, false, _) => &raw mut raw::ffi_type_double,
        };
        (0..size).step_by(8).map(eightbyte).collect()
    }
}

/// Whether a structure that [`Descriptions::argument`] has described is passed as the address of a
/// copy, in place of its bytes.
pub(super) fn is_passed_by_address(types: &Types, of: Qualified) -> bool {
    cfg!(target_arch = "aarch64")
        && matches!(types.kind(of.id), Kind::Record(_))
        && match types.size_of(of.id) {
            Some(17..=64) => homogeneous::parts(types, of.id).is_none(),
            size => size > Some(64),
        }
}

/// Whether one half of a structure of two eightbytes is padding only. Such a half takes no
/// register. libffi's closures count one for it nevertheless (3.5, in `ffi_closure_unix64_inner`).
/// They would read every later argument from the wrong register.
pub(super) fn is_half_empty(types: &Types, of: Qualified) -> bool {
    let is_small = types
        .size_of(of.id)
        .is_some_and(|size| (9..=16).contains(&size));
    if !cfg!(target_arch = "x86_64") || !is_small || !matches!(types.kind(of.id), Kind::Record(_)) {
        return false;
    }
    let mut found = Leaves::default();
    let is_known = found.collect(types, of.id, 0).is_some();
    let has_x87 = found
        .leaves
        .iter()
        .any(|leaf| leaf.scalar == Scalar::LongDouble);
    let is_empty = |start: u64| {
        found
            .leaves
            .iter()
            .all(|leaf| !(start..start + 8).contains(&leaf.offset))
    };
    is_known && !has_x87 && !found.is_misaligned && [0, 8].into_iter().any(is_empty)
}

/// The alignment of a structure that is copied into registers or among the arguments on the stack.
/// An attribute of the whole type does not count (AAPCS64, section 6.8.2, stage B).
fn align_of_copy(types: &Types, id: TypeId) -> u32 {
    types.body(id).map_or(1, |body| body.align_of_members)
}

/// The numbers in a structure.
#[derive(Default)]
struct Leaves {
    leaves: Vec<Leaf>,
    /// How many types have been visited. Not all of them contain numbers.
    visited: usize,
    /// Whether a number lies where its type's alignment does not allow it, as in a packed
    /// structure.
    is_misaligned: bool,
}

impl Leaves {
    /// Collects the numbers. Returns `None` if one of them cannot be passed.
    fn collect(&mut self, types: &Types, id: TypeId, offset: u64) -> Option<()> {
        // An array of elements without bytes may have any length, so it is skipped.
        if types.size_of(id) == Some(0) {
            return Some(());
        }
        self.visited += 1;
        if self.visited.max(self.leaves.len()) > MAX_LEAVES {
            return None;
        }
        match types.kind(id) {
            Kind::Scalar(_) | Kind::Enum(_) => self.add(offset, types.as_scalar(id)?),
            Kind::Pointer(_) | Kind::Reference(_) => self.add(offset, Scalar::UnsignedLong),
            Kind::Complex(part) => {
                self.add(offset, *part)?;
                self.add(offset + part.size(), *part)
            }
            Kind::Array(of, Length::Known(length)) => {
                let size = types.size_of(of.id)?;
                (0..*length).try_for_each(|index| self.collect(types, of.id, offset + index * size))
            }
            Kind::Array(..) => Some(()),
            Kind::Record(record) => {
                let body = record.body.as_ref()?;
                if PADDING_BITS_COUNT {
                    let mut padding = body.padding.iter();
                    padding.try_for_each(|padding| {
                        self.add_bits(offset * 8 + padding.start, offset * 8 + padding.end)
                    })?;
                }
                body.fields.iter().try_for_each(|field| {
                    let place = offset + field.found.offset;
                    match field.found.bits {
                        None => self.collect(types, field.found.of.id, place),
                        Some(bits) => {
                            let first = place * 8 + u64::from(bits.first);
                            self.add_bits(first, first + u64::from(bits.width))
                        }
                    }
                })
            }
            Kind::Void | Kind::Vector { .. } | Kind::Function(_) => None,
        }
    }

    /// Adds the integers that hold the bits `first..end`: one at each end.
    /// Adds a bit-field. One without bits is where it begins.
    fn add_bits(&mut self, first: u64, end: u64) -> Option<()> {
        self.add(first / 8, Scalar::UnsignedChar)?;
        self.add(end.saturating_sub(1).max(first) / 8, Scalar::UnsignedChar)
    }

    fn add(&mut self, offset: u64, scalar: Scalar) -> Option<()> {
        scalar_description(scalar)?;
        self.is_misaligned |= !offset.is_multiple_of(u64::from(scalar.align()));
        self.leaves.push(Leaf { offset, scalar });
        Some(())
    }
}

/// libffi's description of a number; `None` for a number that libffi cannot pass.
fn scalar_description(scalar: Scalar) -> Option<*mut raw::ffi_type> {
    Some(match (scalar, scalar.size(), scalar.is_signed()) {
        (Scalar::Int128 | Scalar::UnsignedInt128 | Scalar::Float128, ..) => return None,
        (Scalar::Float, ..) => &raw mut raw::ffi_type_float,
        (Scalar::Double, ..) => &raw mut raw::ffi_type_double,
        (Scalar::LongDouble, 8, _) => &raw mut raw::ffi_type_double,
        (Scalar::LongDouble, ..) => &raw mut raw::ffi_type_longdouble,
        (_, 1, true) => &raw mut raw::ffi_type_sint8,
        (_, 1, false) => &raw mut raw::ffi_type_uint8,
        (_, 2, true) => &raw mut raw::ffi_type_sint16,
        (_, 2, false) => &raw mut raw::ffi_type_uint16,
        (_, 4, true) => &raw mut raw::ffi_type_sint32,
        (_, 4, false) => &raw mut raw::ffi_type_uint32,
        (_, _, true) => &raw mut raw::ffi_type_sint64,
        (_, _, false) => &raw mut raw::ffi_type_uint64,
    })
}

fn refuse(types: &Types, of: Qualified) -> SignatureError {
    let name = types.name(of);
    SignatureError(format!(
        "'{name}' cannot be passed or returned by value; pass a pointer to it"
    ))
}
