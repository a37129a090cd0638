//! Types that cannot be passed by value, and types of very many members.

use std::fmt::Write;

use baton_ffi::declarations::Declarations;

use crate::trial::{int, passes, trial};

/// A regression test: code that visited each of 2^62 elements, or each path to the innermost of 40
/// structures, never ended.
#[test]
fn members_without_bytes_are_passed_over() {
    let text = "struct none {}; struct many { struct none a[4611686018427387904]; int x; };\n\
                int many(struct many a, int x);";
    let mut trial = trial(
        "struct many { int x; }; int many(struct many a, int x) { return a.x * 100 + x; }",
        text,
    );
    assert_eq!(
        trial.call("many", &[], &mut [int(7), int(5)])[..4],
        int(705)
    );
    let mut text = "struct n0 {};".to_owned();
    for depth in 1..=40 {
        write!(text, "struct n{depth} {{ struct n{} a, b; }};", depth - 1)
            .expect("a string takes it");
    }
    text.push_str("struct nested { struct n40 a; int x; };");
    trial.declared.declare(&text, &[]).expect("it is C");
    assert!(passes(&mut trial.declared, "int (struct nested)").is_ok());
}

#[test]
fn a_type_of_too_many_parts_cannot_be_passed() {
    let mut declared = Declarations::default();
    declared
        .declare("union u0 { int : 8; };", &[])
        .expect("it is C");
    for depth in 1..=40 {
        let text = format!("union u{depth} {{ union u{} a, b; }};", depth - 1);
        declared.declare(&text, &[]).expect("it is C");
    }
    assert!(passes(&mut declared, "int (union u40)").is_err());
}

#[test]
fn types_that_cannot_be_passed_are_refused() {
    let mut declared = Declarations::default();
    declared
        .declare(
            "struct later; typedef float v4 __attribute__((vector_size(16))); struct none {}; \
             struct wide { int a __attribute__((aligned(32))); }; struct ld { long double v; };",
            &[],
        )
        .expect("it is C");
    for text in [
        "void (struct later)",
        "__int128 (void)",
        "void (v4)",
        "void (struct none)",
        "long double _Complex (void)",
        "void (struct wide)",
    ] {
        let error = passes(&mut declared, text)
            .err()
            .unwrap_or_else(|| panic!("{text}"));
        assert!(error.to_string().contains("by value"), "{error}");
    }
    // libffi cannot read an x87 register, in which x86-64 returns this.
    let returned = passes(&mut declared, "struct ld (void)").err();
    assert_eq!(
        returned.is_some(),
        cfg!(target_arch = "x86_64"),
        "{returned:?}"
    );
}
