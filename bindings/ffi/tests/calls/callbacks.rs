//! Callbacks from compiled C.

use std::ffi::c_void;
use std::sync::Arc;

use baton_ffi::call::{Callback, Plan};
use baton_ffi::declarations::Declarations;
use baton_ffi::types::Kind;

unsafe extern "C" fn compare_backwards(
    word: *mut c_void,
    result: *mut c_void,
    arguments: *mut *mut c_void,
) {
    // SAFETY: the test's callback has the signature int(const int *, const int *), and its `word`
    // points to a counter.
    unsafe {
        *word.cast::<u32>() += 1;
        let value = |index: usize| **(*arguments.add(index)).cast::<*const i32>();
        *result.cast::<i64>() = i64::from(value(1).cmp(&value(0)) as i32);
    }
}

#[test]
fn c_calls_back() {
    let mut declared = Declarations::default();
    let of = declared
        .type_name("int (const int *, const int *)", &[])
        .expect("it is C");
    let Kind::Function(function) = declared.types.kind(of.id).clone() else {
        panic!("it is a function")
    };
    let plan = Arc::new(Plan::new(&mut declared.types, &function, &[]).expect("it can be called"));
    let mut calls = 0_u32;
    let callback =
        Callback::new(plan, compare_backwards, (&raw mut calls).cast()).expect("there is memory");
    let mut numbers = [3, 1, 4, 1, 5, 9, 2, 6];
    // SAFETY: the callback has the signature that qsort expects.
    unsafe {
        let compare = std::mem::transmute::<
            *const c_void,
            unsafe extern "C" fn(*const c_void, *const c_void) -> i32,
        >(callback.code());
        libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), 4, Some(compare));
    }
    assert_eq!(numbers, [9, 6, 5, 4, 3, 2, 1, 1]);
    assert!(calls > 7);
}

/// Answers with the word that it was made with.
pub(crate) unsafe extern "C" fn answer_word(
    word: *mut c_void,
    result: *mut c_void,
    _arguments: *mut *mut c_void,
) {
    // SAFETY: the test's callbacks return long.
    unsafe { result.cast::<i64>().write(word as i64) };
}

#[test]
fn there_can_be_many_callbacks() {
    let mut declared = Declarations::default();
    let of = declared.type_name("long (void)", &[]).expect("it is C");
    let Kind::Function(function) = declared.types.kind(of.id).clone() else {
        panic!("it is a function")
    };
    let plan = Arc::new(Plan::new(&mut declared.types, &function, &[]).expect("it can be called"));
    let callbacks: Vec<Callback> = (0..20_000_usize)
        .map(|index| {
            Callback::new(Arc::clone(&plan), answer_word, index as *mut c_void)
                .expect("there is memory")
        })
        .collect();
    for (index, callback) in callbacks.iter().enumerate() {
        // SAFETY: the callback has this signature.
        let call = unsafe {
            std::mem::transmute::<*const c_void, unsafe extern "C" fn() -> i64>(callback.code())
        };
        // SAFETY: as above.
        assert_eq!(unsafe { call() }, index as i64);
    }
}
