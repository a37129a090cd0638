//! The dictionary that several VMs share. C holds it by a pointer, which counts as a reference.

use super::cycles::{self, CVisitor, Container, Held, Reference};
use super::shared::{CMessage, CMessageKind};
use baton_core::shared::channel::Message;
use baton_core::shared::dict::{Change, Dict, HeldValues, Stored, Value, WhenFull};
use std::any::Any;
use std::ffi::c_int;
use std::sync::Arc;

/// A value, as it is stored.
#[derive(Clone, Debug)]
enum DictValue {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Bytes(Arc<Box<[u8]>>),
    Message(Arc<CMessage>),
}

impl Value for DictValue {
    fn size(&self) -> u64 {
        match self {
            DictValue::Boolean(_) | DictValue::Integer(_) | DictValue::Float(_) => 0,
            DictValue::Bytes(bytes) => bytes.len() as u64,
            DictValue::Message(message) => message.size(),
        }
    }
}

/// `struct baton_dict_value`.
#[repr(C)]
#[derive(Debug)]
struct CDictValue {
    /// `enum baton_dict_kind`.
    kind: c_int,
    integer: i64,
    number: f64,
    bytes: *const u8,
    size: usize,
    held: *const u8,
}

const ABSENT: c_int = 0;
const FALSE: c_int = 1;
const TRUE: c_int = 2;
const INTEGER: c_int = 3;
const FLOAT: c_int = 4;
const BYTES: c_int = 5;
const MESSAGE: c_int = 6;

/// `struct baton_dict_key`.
#[repr(C)]
#[derive(Clone, Copy)]
struct CDictKey {
    bytes: *const u8,
    size: usize,
}

impl CDictKey {
    /// # Safety
    /// The key's bytes are readable for `'a`.
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: the caller's condition.
        unsafe { std::slice::from_raw_parts(self.bytes, self.size) }
    }
}

/// `struct baton_dict`.
#[derive(Debug)]
struct CDict {
    dict: Dict<DictValue>,
    kind: &'static CMessageKind,
    stored: cycles::Stored,
}

impl Container for CDict {
    fn stored(&self) -> &cycles::Stored {
        &self.stored
    }

    fn try_hold(&self) -> Option<Box<dyn Held + '_>> {
        Some(Box::new(self.dict.try_hold()?))
    }
}

impl Held for HeldValues<'_, DictValue> {
    fn each_reference(&self, f: &mut dyn FnMut(Reference)) {
        for value in self.iter() {
            if let DictValue::Message(message) = value {
                message.each_reference(f);
            }
        }
    }

    fn take_all(&mut self) -> Box<dyn Any> {
        Box::new(self.take_all())
    }
}

/// Notes a reference of a message to a dictionary.
///
/// # Safety
/// The message has the reference.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_visit_dict(visitor: &mut CVisitor<'_>, dict: *const CDict) {
    // SAFETY: the caller's condition; the pointer is of `Arc::into_raw`.
    visitor.visit(unsafe { Reference::new(dict) });
}

impl CDictValue {
    /// The value, unless it is absent.
    ///
    /// # Safety
    /// Bytes are readable. A message is the caller's no longer.
    unsafe fn take(&self, dict: &CDict) -> Option<DictValue> {
        Some(match self.kind {
            FALSE | TRUE => DictValue::Boolean(self.kind == TRUE),
            INTEGER => DictValue::Integer(self.integer),
            FLOAT => DictValue::Float(self.number),
            BYTES => {
                // SAFETY: the caller's condition.
                let bytes = unsafe { std::slice::from_raw_parts(self.bytes, self.size) };
                DictValue::Bytes(Arc::new(bytes.into()))
            }
            MESSAGE => DictValue::Message(Arc::new(CMessage::new(self.bytes as usize, dict.kind))),
            _ => return None,
        })
    }

    /// Writes a value. What it refers to is held.
    fn give(value: Option<DictValue>) -> CDictValue {
        let mut given = CDictValue {
            kind: ABSENT,
            integer: 0,
            number: 0.0,
            bytes: std::ptr::null(),
            size: 0,
            held: std::ptr::null(),
        };
        match value {
            None => {}
            Some(DictValue::Boolean(is)) => given.kind = if is { TRUE } else { FALSE },
            Some(DictValue::Integer(integer)) => {
                (given.kind, given.integer) = (INTEGER, integer);
            }
            Some(DictValue::Float(number)) => (given.kind, given.number) = (FLOAT, number),
            Some(DictValue::Bytes(bytes)) => {
                (given.kind, given.bytes, given.size) = (BYTES, bytes.as_ptr(), bytes.len());
                given.held = Arc::into_raw(bytes).cast();
            }
            Some(DictValue::Message(message)) => {
                (given.kind, given.bytes) = (MESSAGE, message.pointer() as *const u8);
                given.held = Arc::into_raw(message).cast();
            }
        }
        given
    }
}

/// Whether two values are equal, as a language compares them without looking into messages.
fn is_equal(present: Option<&DictValue>, expected: Option<&DictValue>) -> bool {
    use DictValue::{Boolean, Bytes, Float, Integer};
    match (present, expected) {
        (None, None) => true,
        (Some(Boolean(one)), Some(Boolean(other))) => one == other,
        (Some(Integer(one)), Some(Integer(other))) => one == other,
        (Some(Float(one)), Some(Float(other))) => one == other,
        (Some(Bytes(one)), Some(Bytes(other))) => one == other,
        (Some(Integer(integer)), Some(Float(float)))
        | (Some(Float(float)), Some(Integer(integer))) => is_integer(*float, *integer),
        _ => false,
    }
}

/// Whether a float is exactly this integer.
fn is_integer(float: f64, integer: i64) -> bool {
    // Below 2^63 the conversion to an integer is exact for an integral float.
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float);
    fits && float.fract() == 0.0 && float as i64 == integer
}

fn as_float(value: &DictValue) -> Option<f64> {
    match *value {
        DictValue::Integer(integer) => Some(integer as f64),
        DictValue::Float(float) => Some(float),
        _ => None,
    }
}

/// The sum of two numbers; `None` if one of them is none. Integers wrap around.
fn sum(one: &DictValue, other: &DictValue) -> Option<DictValue> {
    match (one, other) {
        (DictValue::Integer(one), DictValue::Integer(other)) => {
            Some(DictValue::Integer(one.wrapping_add(*other)))
        }
        _ => Some(DictValue::Float(as_float(one)? + as_float(other)?)),
    }
}

/// `enum baton_dict_result`.
fn result_of(stored: Stored) -> c_int {
    match stored {
        Stored::Done => 0,
        Stored::Full | Stored::TooLarge => 1,
        Stored::NotWanted => 2,
    }
}

/// Makes a dictionary.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_dict_new(
    bytes: u64,
    evicts: c_int,
    kind: &'static CMessageKind,
) -> *const CDict {
    let when_full = match evicts {
        0 => WhenFull::Refuse,
        _ => WhenFull::Evict,
    };
    let dict = Dict::new(bytes, when_full);
    Arc::into_raw(Arc::new(CDict {
        dict,
        kind,
        stored: cycles::Stored::default(),
    }))
}

/// Takes one more reference.
///
/// # Safety
/// The caller has a reference.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_dict_hold(dict: *const CDict) {
    // SAFETY: the caller's condition; the pointer is of `Arc::into_raw`.
    unsafe { Arc::increment_strong_count(dict) };
}

/// Gives a reference back.
///
/// # Safety
/// The caller has a reference, and does not use it afterwards.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_dict_release(dict: *const CDict) {
    // SAFETY: the caller's condition; the pointer is of `Arc::into_raw`.
    cycles::release(unsafe { Arc::from_raw(dict) });
}

/// How many entries there are.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_dict_count(dict: &CDict) -> u64 {
    dict.dict.len() as u64
}

/// The bytes that the entries take.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_dict_used(dict: &CDict) -> u64 {
    dict.dict.used()
}

/// Writes the value of a key.
///
/// # Safety
/// The key is readable, and `found` writable.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_dict_get(dict: &CDict, key: CDictKey, found: *mut CDictValue) {
    // SAFETY: the caller's conditions.
    unsafe { found.write(CDictValue::give(dict.dict.get(key.bytes()))) };
}

/// Gives back the reference of a value that was found.
///
/// # Safety
/// The value is of `baton_dict_get`, and is not used afterwards.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_dict_release_value(found: &CDictValue) {
    // SAFETY: the caller's condition: the pointers are of `CDictValue::give`.
    unsafe {
        match found.kind {
            BYTES => drop(Arc::from_raw(found.held.cast::<Box<[u8]>>())),
            MESSAGE => drop(Arc::from_raw(found.held.cast::<CMessage>())),
            _ => {}
        }
    }
}

/// Stores a value.
///
/// # Safety
/// The key and the value are readable. A message is the caller's no longer.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_dict_set(
    dict: &CDict,
    key: CDictKey,
    value: &CDictValue,
    end: u64,
    if_absent: c_int,
) -> c_int {
    // SAFETY: the caller's conditions.
    let (key, value) = unsafe { (key.bytes(), value.take(dict)) };
    result_of(dict.dict.change(key, |present| match (&value, present) {
        (Some(_), Some(_)) if if_absent != 0 => Change::Keep,
        (Some(value), _) => Change::Store(value.clone(), Some(end)),
        (None, _) => Change::Remove,
    }))
}

/// Stores a value if the present one is the expected one.
///
/// # Safety
/// As for `baton_dict_set`. `expected` is no message. `before` is writable.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_dict_compare(
    dict: &CDict,
    key: CDictKey,
    expected: &CDictValue,
    value: &CDictValue,
    before: *mut CDictValue,
) -> c_int {
    // SAFETY: the caller's conditions.
    let (key, expected, value) = unsafe { (key.bytes(), expected.take(dict), value.take(dict)) };
    let mut found = None;
    let stored = dict.dict.change(key, |present| {
        found = present.cloned();
        match (is_equal(present, expected.as_ref()), &value) {
            (false, _) => Change::Keep,
            (true, Some(value)) => Change::Store(value.clone(), None),
            (true, None) => Change::Remove,
        }
    });
    // SAFETY: the caller's condition.
    unsafe { before.write(CDictValue::give(found)) };
    result_of(stored)
}

/// Adds to a number.
///
/// # Safety
/// The key is readable, and `total` writable. `n` and `initial` are numbers.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_dict_add(
    dict: &CDict,
    key: CDictKey,
    n: &CDictValue,
    initial: &CDictValue,
    total: *mut CDictValue,
) -> c_int {
    // SAFETY: the caller's conditions.
    let (key, n, initial) = unsafe { (key.bytes(), n.take(dict), initial.take(dict)) };
    let (Some(n), Some(initial)) = (n, initial) else {
        return result_of(Stored::NotWanted);
    };
    let mut result = None;
    let stored = dict.dict.change(key, |present| {
        result = sum(present.unwrap_or(&initial), &n);
        match &result {
            Some(sum) => Change::Store(sum.clone(), None),
            None => Change::Keep,
        }
    });
    // SAFETY: the caller's condition.
    unsafe { total.write(CDictValue::give(result)) };
    result_of(stored)
}

/// Removes a key. Returns whether it was there.
///
/// # Safety
/// The key is readable.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_dict_delete(dict: &CDict, key: CDictKey) -> c_int {
    let mut was_there = false;
    // SAFETY: the caller's condition.
    let _ = dict.dict.change(unsafe { key.bytes() }, |present| {
        was_there = present.is_some();
        Change::Remove
    });
    was_there.into()
}

/// `struct baton_dict_keys`.
type CDictKeys = Vec<Box<[u8]>>;

/// Lists keys.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
extern "C" fn baton_dict_keys(dict: &CDict, limit: u64) -> *mut CDictKeys {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Box::into_raw(Box::new(dict.dict.keys(limit)))
}

/// Writes the key of this number. Returns 0 if there is none.
///
/// # Safety
/// `key` is writable.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_dict_key_at(keys: &CDictKeys, number: u64, key: *mut CDictKey) -> c_int {
    let Some(found) = keys.get(number as usize) else {
        return 0;
    };
    let (bytes, size) = (found.as_ptr(), found.len());
    // SAFETY: the caller's condition.
    unsafe { key.write(CDictKey { bytes, size }) };
    1
}

/// Frees a list of keys.
///
/// # Safety
/// The list is of `baton_dict_keys`, and is not used afterwards.
// SAFETY: the only definition of this symbol, with the signature of `baton.h`.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_dict_keys_free(keys: *mut CDictKeys) {
    // SAFETY: the caller's condition.
    drop(unsafe { Box::from_raw(keys) });
}

#[cfg(test)]
mod tests {
    use super::{DictValue, is_equal, sum};

    #[test]
    fn numbers_are_compared_by_their_exact_values() {
        let equal = |one: DictValue, other: DictValue| is_equal(Some(&one), Some(&other));
        assert!(equal(DictValue::Integer(3), DictValue::Float(3.0)));
        assert!(!equal(DictValue::Integer(3), DictValue::Float(3.5)));
        // As floats they would be equal.
        let large = (1_i64 << 53) + 1;
        assert!(!equal(
            DictValue::Integer(large),
            DictValue::Float(large as f64)
        ));
        assert!(!equal(
            DictValue::Integer(i64::MAX),
            DictValue::Float(i64::MAX as f64)
        ));
        assert!(!equal(
            DictValue::Float(f64::NAN),
            DictValue::Float(f64::NAN)
        ));
        assert!(!equal(DictValue::Boolean(true), DictValue::Integer(1)));
        assert!(is_equal(None, None));
    }

    #[test]
    fn a_sum_of_integers_wraps_and_one_with_a_float_is_a_float() {
        let added = sum(&DictValue::Integer(i64::MAX), &DictValue::Integer(1));
        assert!(matches!(added, Some(DictValue::Integer(i64::MIN))));
        let added = sum(&DictValue::Integer(1), &DictValue::Float(0.5));
        assert!(matches!(added, Some(DictValue::Float(sum)) if sum == 1.5));
        assert!(sum(&DictValue::Boolean(true), &DictValue::Integer(1)).is_none());
    }
}
