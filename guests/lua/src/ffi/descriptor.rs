//! Types in the layout of the C half: `struct ffi_type` of `c/values/values.h`.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int};
use std::mem;
use std::ptr;

use baton_ffi::types::{Kind, Length, Qualified, Scalar, TypeId, Types};

/// `enum ffi_kind`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum KindCode {
    Void,
    Bool,
    Integer,
    Floating,
    Wide,
    Pointer,
    Array,
    Record,
    Function,
}

/// Bits of `flags`.
const IS_VARIABLE: u8 = 1;
const IS_CHAR: u8 = 2;
const IS_ENUM: u8 = 4;
const IS_UNION: u8 = 8;
const IS_VARIADIC: u8 = 16;
const IS_COMPLEX: u8 = 32;
const IS_FLEXIBLE: u8 = 64;
const IS_REFERENCE: u8 = 128;

/// One type, with or without `const`. Its address is its identity. It lives as long as the state.
#[repr(C)]
pub(crate) struct Descriptor {
    kind: KindCode,
    flags: u8,
    is_signed: bool,
    is_const: bool,
    align: u32,
    /// Bytes; negative if the size is not known.
    size: i64,
    id: u32,
    /// For the C half: a reference in the registry to its metatable.
    metatable: c_int,
    /// The type of the pointee, of the elements, or of a function's result.
    element: *const Descriptor,
    /// The number of elements of an array; -1: not given; -2: given when an object is made.
    length: i64,
    /// A function's parameters.
    parameters: *const *const Descriptor,
    count: u64,
    /// The same type without `const`.
    plain: *const Descriptor,
    name: *const c_char,
}

impl Descriptor {
    /// The type of this descriptor.
    pub(crate) fn qualified(&self, types: &Types) -> Qualified {
        let id = types
            .from_bits(self.id)
            .expect("descriptors are made of types");
        Qualified {
            is_const: self.is_const,
            ..id.into()
        }
    }
}

/// All descriptors of a state.
#[derive(Default)]
pub(crate) struct Descriptors {
    made: HashMap<(TypeId, bool), *mut Descriptor>,
    /// Descriptors that are not filled in yet. Empty between calls.
    blank: Vec<(Qualified, *mut Descriptor)>,
    /// Descriptors of types that are not defined yet.
    incomplete: Vec<(Qualified, *mut Descriptor)>,
    /// [`Types::definitions`] when `incomplete` was last checked.
    definitions: u64,
    lists: Vec<Box<[*const Descriptor]>>,
}

impl Descriptors {
    /// The descriptor of a type.
    pub(crate) fn get(&mut self, types: &Types, of: Qualified) -> *const Descriptor {
        let wanted = self.refer(types, of);
        self.fill_blank(types);
        wanted
    }

    /// The descriptor of a type, perhaps still blank. Filling it in here would recurse as deep as
    /// types are nested.
    fn refer(&mut self, types: &Types, of: Qualified) -> *const Descriptor {
        if let Some(made) = self.made.get(&(of.id, of.is_const)) {
            return *made;
        }
        let name = CString::new(types.name(of)).unwrap_or_default();
        let blank = Descriptor {
            kind: KindCode::Void,
            flags: 0,
            is_signed: false,
            is_const: of.is_const,
            align: 1,
            size: -1,
            id: of.id.to_bits(),
            metatable: 0,
            element: ptr::null(),
            length: 0,
            parameters: ptr::null(),
            count: 0,
            plain: ptr::null(),
            name: name.into_raw(),
        };
        let made = Box::into_raw(Box::new(blank));
        self.made.insert((of.id, of.is_const), made);
        self.blank.push((of, made));
        let plain = if of.is_const {
            self.refer(types, of.plain())
        } else {
            made.cast_const()
        };
        // SAFETY: `made` was made above, and there is no other reference to its contents.
        unsafe { (*made).plain = plain };
        made
    }

    fn fill_blank(&mut self, types: &Types) {
        while let Some((of, made)) = self.blank.pop() {
            self.fill(types, of, made);
            if types.is_incomplete(of.id) {
                self.incomplete.push((of, made));
            }
        }
    }

    /// Fills in the descriptors of types that were defined since.
    pub(crate) fn complete(&mut self, types: &Types) {
        if self.definitions == types.definitions() {
            return;
        }
        self.definitions = types.definitions();
        for (of, made) in mem::take(&mut self.incomplete) {
            if types.is_incomplete(of.id) {
                self.incomplete.push((of, made));
            } else {
                self.fill(types, of, made);
            }
        }
    }

    /// Fills in what is known of a type now.
    fn fill(&mut self, types: &Types, of: Qualified, made: *mut Descriptor) {
        let (kind, flags, is_signed) = describe(types, of.id);
        let (mut element, mut length, mut list) = (ptr::null(), 0, Vec::new());
        match types.kind(of.id) {
            Kind::Pointer(to) | Kind::Reference(to) => element = self.refer(types, *to),
            Kind::Array(elements, count) => {
                element = self.refer(types, *elements);
                length = match count {
                    Length::Known(count) => *count as i64,
                    Length::Unknown => -1,
                    Length::Variable => -2,
                };
            }
            Kind::Complex(part) => element = self.scalar(types, *part),
            Kind::Function(function) => {
                element = self.refer(types, function.result);
                list = function
                    .parameters
                    .iter()
                    .map(|parameter| self.refer(types, *parameter))
                    .collect();
            }
            _ => {}
        }
        let list = list.into_boxed_slice();
        // SAFETY: `made` is one of ours, and is changed only inside the VM.
        let descriptor = unsafe { &mut *made };
        descriptor.kind = kind;
        descriptor.flags = flags;
        descriptor.is_signed = is_signed;
        descriptor.align = types.align_of(of);
        descriptor.size = types.size_of(of.id).map_or(-1, |size| size as i64);
        descriptor.element = element;
        descriptor.length = length;
        descriptor.count = list.len() as u64;
        descriptor.parameters = list.as_ptr();
        self.lists.push(list);
    }

    /// The descriptor of a type of numbers, or null if it was never used. Those of `float` and
    /// `double` always exist.
    fn scalar(&mut self, types: &Types, scalar: Scalar) -> *const Descriptor {
        let found = self
            .made
            .keys()
            .find(|(id, is_const)| !is_const && *types.kind(*id) == Kind::Scalar(scalar));
        found.map_or(ptr::null(), |key| self.made[key].cast_const())
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        for (_, made) in self.made.drain() {
            // SAFETY: it came from `Box::into_raw`, and its name from `CString::into_raw`.
            unsafe {
                let descriptor = Box::from_raw(made);
                drop(CString::from_raw(descriptor.name.cast_mut()));
            }
        }
    }
}

fn describe(types: &Types, id: TypeId) -> (KindCode, u8, bool) {
    let variable = if types.is_variable(id) {
        IS_VARIABLE
    } else {
        0
    };
    let flexible = if types.is_flexible(id) {
        IS_FLEXIBLE
    } else {
        0
    };
    match types.kind(id) {
        Kind::Void => (KindCode::Void, 0, false),
        Kind::Pointer(_) => (KindCode::Pointer, 0, false),
        Kind::Reference(_) => (KindCode::Pointer, IS_REFERENCE, false),
        Kind::Array(..) => (KindCode::Array, variable, false),
        Kind::Record(record) => (
            KindCode::Record,
            variable | flexible | if record.is_union { IS_UNION } else { 0 },
            false,
        ),
        Kind::Function(function) => (
            KindCode::Function,
            if function.is_variadic { IS_VARIADIC } else { 0 },
            false,
        ),
        Kind::Complex(_) => (KindCode::Wide, IS_COMPLEX, false),
        Kind::Vector { .. } => (KindCode::Wide, 0, false),
        Kind::Enum(of) => (
            KindCode::Integer,
            IS_ENUM,
            of.underlying.is_some_and(Scalar::is_signed),
        ),
        Kind::Scalar(Scalar::Bool) => (KindCode::Bool, 0, false),
        Kind::Scalar(scalar) if scalar.is_floating() => match scalar {
            Scalar::Float | Scalar::Double => (KindCode::Floating, 0, true),
            // The C half distinguishes `long double` by its size. It only copies _Float128.
            Scalar::LongDouble => (KindCode::Floating, 0, true),
            _ => (KindCode::Wide, 0, true),
        },
        Kind::Scalar(scalar) if scalar.size() > 8 => (KindCode::Wide, 0, scalar.is_signed()),
        Kind::Scalar(scalar) => {
            let is_char = matches!(
                scalar,
                Scalar::Char | Scalar::SignedChar | Scalar::UnsignedChar
            );
            (
                KindCode::Integer,
                if is_char { IS_CHAR } else { 0 },
                scalar.is_signed(),
            )
        }
    }
}
