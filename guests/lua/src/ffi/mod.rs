//! The functions of `c/values/values.h`: `baton-ffi` for the C half of `require "baton.ffi"`.
//!
//! Functions that take a state are called inside the VM. None of them raises a Lua error. Messages
//! are C strings, which the caller frees with `baton_ffi_free_text`.

mod callback_queue;
mod calls;
mod descriptor;
mod learning;
mod timed;

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::slice;

use baton_ffi::declarations::{Argument, Declarations, Symbol};
use baton_ffi::error::DeclarationError;
use baton_ffi::types::{Field, Found, Kind, Length, Qualified, TypeId};
use descriptor::{Descriptor, Descriptors};

/// The declarations and prepared signatures of one VM.
pub(crate) struct State {
    declared: Declarations,
    descriptors: Descriptors,
    prepared: HashMap<(TypeId, Vec<TypeId>), Box<calls::Prepared>>,
}

impl State {
    fn descriptor(&mut self, of: Qualified) -> *const Descriptor {
        self.descriptors.get(&self.declared.types, of)
    }

    /// Reads declarations, and completes the descriptors of all types that they define. After an
    /// error, this includes types that were defined before it.
    fn read<T>(
        &mut self,
        read: impl FnOnce(&mut Declarations) -> Result<T, DeclarationError>,
    ) -> Result<T, String> {
        let result = read(&mut self.declared);
        self.descriptors.complete(&self.declared.types);
        result.map_err(|error| error.to_string())
    }
}

/// A text of the C half.
///
/// # Safety
/// `text` is readable for `size` bytes for as long as the result is used.
unsafe fn text<'t>(text: *const c_char, size: usize) -> Result<&'t str, String> {
    // SAFETY: the caller's condition.
    let bytes = unsafe { slice::from_raw_parts(text.cast::<u8>(), size) };
    std::str::from_utf8(bytes).map_err(|error| {
        format!(
            "byte {} is not UTF-8; declarations are text",
            error.valid_up_to() + 1
        )
    })
}

/// Passes a message to the C half.
///
/// # Safety
/// `place` is writable.
unsafe fn give(place: *mut *mut c_char, message: &str) {
    let message = CString::new(message.replace('\0', "\\0")).unwrap_or_default();
    // SAFETY: the caller's condition.
    unsafe { place.write(message.into_raw()) };
}

/// `struct ffi_argument`: the replacement of a `$`.
#[repr(C)]
pub(crate) struct CArgument {
    /// A type, if it is not null.
    of: *const Descriptor,
    /// A name, if it is not null.
    name: *const c_char,
    size: usize,
    number: i64,
}

/// # Safety
/// `arguments` has `count` of them, as `c/values/values.h` says.
unsafe fn arguments(
    state: &State,
    arguments: *const CArgument,
    count: usize,
) -> Result<Vec<Argument>, String> {
    let list = if count == 0 {
        &[]
    } else {
        // SAFETY: the caller's condition.
        unsafe { slice::from_raw_parts(arguments, count) }
    };
    let convert = |argument: &CArgument| {
        if !argument.of.is_null() {
            // SAFETY: descriptors live as long as the state.
            let descriptor = unsafe { &*argument.of };
            return Ok(Argument::Type(descriptor.qualified(&state.declared.types)));
        }
        if !argument.name.is_null() {
            // SAFETY: the caller's condition.
            return Ok(Argument::Name(
                unsafe { text(argument.name, argument.size) }?.to_owned(),
            ));
        }
        Ok(Argument::Number(argument.number))
    };
    list.iter().map(convert).collect()
}

/// A new state with the prelude declared.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_new() -> *mut State {
    let mut state = State {
        declared: Declarations::default(),
        descriptors: Descriptors::default(),
        prepared: HashMap::new(),
    };
    for name in ["float", "double"] {
        if let Ok(of) = state.declared.type_name(name, &[]) {
            state.descriptor(of);
        }
    }
    Box::into_raw(Box::new(state))
}

/// Frees a state, with all its types and prepared signatures.
///
/// # Safety
/// `state` came from [`baton_ffi_new`] or is null. Nothing uses it, its descriptors or its prepared
/// signatures any more.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_free(state: *mut State) {
    if !state.is_null() {
        // SAFETY: the caller's condition.
        drop(unsafe { Box::from_raw(state) });
    }
}

/// Frees a message or name.
///
/// # Safety
/// `text` is null or came from this module.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_free_text(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the caller's condition.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Reads declarations. Returns 0 and a message if the text is wrong.
///
/// # Safety
/// As `c/values/values.h` says: the text and the arguments are readable, `message` is writable.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_declare(
    state: &mut State,
    source: *const c_char,
    size: usize,
    list: *const CArgument,
    count: usize,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller's condition.
    let read = unsafe { text(source, size) }
        .and_then(|source| Ok((source, unsafe { arguments(state, list, count) }?)));
    match read.and_then(|(source, list)| state.read(|declared| declared.declare(source, &list))) {
        Ok(()) => 1,
        Err(why) => {
            // SAFETY: the caller's condition.
            unsafe { give(message, &why) };
            0
        }
    }
}

/// The type that a text names. Returns null and a message if it names none.
///
/// # Safety
/// As that of `baton_ffi_declare`.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_type(
    state: &mut State,
    source: *const c_char,
    size: usize,
    list: *const CArgument,
    count: usize,
    message: *mut *mut c_char,
) -> *const Descriptor {
    // SAFETY: the caller's condition.
    let read = unsafe { text(source, size) }
        .and_then(|source| Ok((source, unsafe { arguments(state, list, count) }?)));
    match read.and_then(|(source, list)| state.read(|declared| declared.type_name(source, &list))) {
        Ok(of) => state.descriptor(of),
        Err(why) => {
            // SAFETY: the caller's condition.
            unsafe { give(message, &why) };
            ptr::null()
        }
    }
}

/// The number of tags and constants that were defined. A text that defines some can be read only
/// once.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_definitions(state: &State) -> u64 {
    state.declared.types.named_definitions()
}

/// `struct ffi_symbol`.
#[repr(C)]
pub(crate) struct CSymbol {
    /// The type; null for a constant.
    of: *const Descriptor,
    /// Its name in the library. The caller frees it.
    link_name: *mut c_char,
    value: i64,
}

impl CSymbol {
    fn external(state: &mut State, name: &str, of: Qualified, link_name: Option<&str>) -> CSymbol {
        CSymbol {
            of: state.descriptor(of),
            link_name: CString::new(link_name.unwrap_or(name))
                .unwrap_or_default()
                .into_raw(),
            value: 0,
        }
    }
}

/// Looks a declared name up. Returns 0 if it is unknown, or a type.
///
/// # Safety
/// `name` is readable for `size` bytes, `found` writable.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_symbol(
    state: &mut State,
    name: *const c_char,
    size: usize,
    found: *mut CSymbol,
) -> c_int {
    // SAFETY: the caller's condition.
    let Ok(name) = (unsafe { text(name, size) }) else {
        return 0;
    };
    let symbol = match state.declared.symbol(name).cloned() {
        Some(Symbol::External(external)) => {
            CSymbol::external(state, name, external.of, external.link_name.as_deref())
        }
        Some(Symbol::Constant(constant)) => CSymbol {
            of: ptr::null(),
            link_name: ptr::null_mut(),
            value: constant.value,
        },
        Some(Symbol::Type(_)) | None => return 0,
    };
    // SAFETY: the caller's condition.
    unsafe { found.write(symbol) };
    1
}

/// Reads the declaration of a function. Returns 0 and a message if the text declares none.
///
/// # Safety
/// The text is readable, `found` and `message` are writable.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_prototype(
    state: &mut State,
    source: *const c_char,
    size: usize,
    found: *mut CSymbol,
    message: *mut *mut c_char,
) -> c_int {
    // SAFETY: the caller's condition.
    match unsafe { text(source, size) }
        .and_then(|source| state.read(|declared| declared.prototype(source)))
    {
        Ok(prototype) => {
            let link_name = prototype.external.link_name.as_deref();
            let symbol =
                CSymbol::external(state, &prototype.name, prototype.external.of, link_name);
            // SAFETY: the caller's condition.
            unsafe { found.write(symbol) };
            1
        }
        Err(why) => {
            // SAFETY: the caller's condition.
            unsafe { give(message, &why) };
            0
        }
    }
}

/// The value of an enumeration's constant by name. Returns 0 if it has none of that name.
///
/// # Safety
/// The name is readable, `value` writable.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_enumerator(
    state: &mut State,
    of: &Descriptor,
    name: *const c_char,
    size: usize,
    value: *mut i64,
) -> c_int {
    let id = of.qualified(&state.declared.types).id;
    // SAFETY: the caller's condition.
    let (Kind::Enum(of), Ok(name)) = (state.declared.types.kind(id), unsafe { text(name, size) })
    else {
        return 0;
    };
    match of.constants.iter().find(|(constant, _)| constant == name) {
        // SAFETY: the caller's condition.
        Some((_, constant)) => unsafe {
            value.write(*constant);
            1
        },
        None => 0,
    }
}

/// The size of an object with this many elements in its part of variable length. Negative if it is
/// too large.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_size_with(state: &mut State, of: &Descriptor, elements: u64) -> i64 {
    let id = of.qualified(&state.declared.types).id;
    state
        .declared
        .types
        .size_with(id, elements)
        .map_or(-1, |size| size as i64)
}

/// A type derived from another: 0 a pointer to it, 1 without `const`, 2 an array of `length`, 3 a
/// reference.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_ffi_derive(
    state: &mut State,
    of: &Descriptor,
    how: c_int,
    length: u64,
) -> *const Descriptor {
    let of = of.qualified(&state.declared.types);
    let types = &mut state.declared.types;
    let derived = match how {
        0 => types.pointer(of).into(),
        1 => of.plain(),
        3 => types.reference(of).into(),
        _ => types.array(of, Length::Known(length)).into(),
    };
    state.descriptor(derived)
}

/// `struct ffi_field`.
#[repr(C)]
pub(crate) struct CField {
    of: *const Descriptor,
    offset: u64,
    /// The first bit and the number of bits. The number is 0 if it is not a bit-field.
    first: u8,
    width: u8,
}

impl CField {
    fn new(state: &mut State, found: Found, is_const: bool) -> CField {
        let of = if is_const || found.of.is_const {
            state.declared.types.constant(found.of)
        } else {
            found.of
        };
        CField {
            of: state.descriptor(of),
            offset: found.offset,
            first: found.bits.map_or(0, |bits| bits.first),
            width: found.bits.map_or(0, |bits| bits.width),
        }
    }
}

/// A member by name. Returns 0 if there is none.
///
/// # Safety
/// The name is readable, `found` writable.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_field(
    state: &mut State,
    of: &Descriptor,
    name: *const c_char,
    size: usize,
    found: *mut CField,
) -> c_int {
    let qualified = of.qualified(&state.declared.types);
    // SAFETY: the caller's condition.
    let Ok(name) = (unsafe { text(name, size) }) else {
        return 0;
    };
    let Some(field) = state.declared.types.field(qualified.id, name) else {
        return 0;
    };
    // SAFETY: the caller's condition.
    unsafe { found.write(CField::new(state, field, qualified.is_const)) };
    1
}

/// Member `index`, counted from 0, anonymous members included. Returns 0 after the last one.
///
/// # Safety
/// `found` is writable.
// SAFETY: the only definition of this symbol, with the signature of `c/values/values.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_ffi_field_at(
    state: &mut State,
    of: &Descriptor,
    index: usize,
    found: *mut CField,
) -> c_int {
    let qualified = of.qualified(&state.declared.types);
    let fields: &[Field] = state
        .declared
        .types
        .body(qualified.id)
        .map_or(&[], |body| &body.fields);
    let Some(field) = fields.get(index).map(|field| field.found) else {
        return 0;
    };
    // SAFETY: the caller's condition.
    unsafe { found.write(CField::new(state, field, false)) };
    1
}
