//! Numbers as arguments and results.

use std::fmt::Write;

use baton_ffi::call::{Answer, DirectKind, Plan, Registers};
use baton_ffi::types::Function;

use crate::generator::SCALARS;
use crate::trial::{double, int, trial};

/// The scalars that are returned in two registers, or in one of the old floating-point unit's.
const TWO_REGISTERS: [&str; 3] = ["long double", "double _Complex", "__int128"];

#[test]
fn every_kind_of_number_is_passed_and_returned() {
    let in_one_register = |scalar: &&str| !TWO_REGISTERS.contains(scalar);
    let scalars: Vec<&str> = SCALARS.into_iter().filter(in_one_register).collect();
    let mut text = String::new();
    for (index, scalar) in scalars.iter().enumerate() {
        writeln!(text, "{scalar} same{index}({scalar} a, {scalar} b);").expect("it is a string");
    }
    let source = text.replace("b);", "b) { return b; }");
    let headers = "#include <stddef.h>\n#include <stdint.h>\n";
    let mut trial = trial(&format!("{headers}{source}"), &text);
    for (index, scalar) in scalars.iter().enumerate() {
        let of = trial.declared.type_name(scalar, &[]).expect("it is C");
        let size = trial.declared.types.size_of(of.id).expect("it has one") as usize;
        let value: Vec<u8> = if *scalar == "_Bool" {
            vec![1]
        } else {
            (1..=size as u8).map(|byte| byte | 0x80).collect()
        };
        let result = trial.call(
            &format!("same{index}"),
            &[],
            &mut [vec![0; size], value.clone()],
        );
        assert_eq!(result[..size], value, "{scalar}");
        if *scalar == "short" {
            assert_eq!(result[2..], [0xff; 6], "an integer result is extended");
        }
    }
}

#[test]
fn further_arguments_are_promoted() {
    let source = "#include <stdarg.h>\ndouble sum(const char *kinds, ...) { va_list list; double s \
                  = 0; va_start(list, kinds);\n\
                  for (; *kinds; kinds++) s += *kinds == 'd' ? va_arg(list, double) : *kinds == \
                  'l' ? va_arg(list, long) : va_arg(list, int);\n\
                  va_end(list); return s; }";
    let mut trial = trial(source, "double sum(const char *kinds, ...);");
    let kinds = c"dilidd";
    let address = (kinds.as_ptr() as usize).to_ne_bytes().to_vec();
    let mut arguments = [
        address,
        double(0.5),
        int(2),
        3_i64.to_ne_bytes().to_vec(),
        int(-4),
        double(8.0),
        double(16.0),
    ];
    let result = trial.call(
        "sum",
        &["float", "short", "long", "bool", "double", "float"],
        &mut arguments,
    );
    assert_eq!(result, double(25.5));
    let function = trial.function("sum");
    let long = trial.declared.type_name("long", &[]).expect("it is C");
    let plain = Function {
        is_variadic: false,
        ..function
    };
    assert!(Plan::new(&mut trial.declared.types, &plain, &[long]).is_err());
}

const COMMON: &str = "int neg(int a); \
    long six(long a, char b, short c, unsigned d, void *e, long f); \
    double half(double x); float add(float a, float b);\n\
    double mixed(int a, float b, long c, double d, double e, int f); void none(void); \
    int seven(int, int, int, int, int, int, int);\n\
    int many(const char *, ...);";

const COMMON_DEFINED: &str = "int neg(int a) { return -a; }\n\
    long six(long a, char b, short c, unsigned d, void *e, long f) { \
    return a + 2 * b + 3 * c + 4L * d + 5 * (long)e + 6 * f; }\n\
    double half(double x) { return x / 2; }\n\
    float add(float a, float b) { return a + b; }\nvoid none(void) {}\n\
    double mixed(int a, float b, long c, double d, double e, int f) { \
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f; }";

#[test]
fn common_signatures_are_called_without_libffi() {
    let mut trial = trial(COMMON_DEFINED, COMMON);
    let single = |value: f32| u64::from(value.to_bits());
    for (name, kind, answer, integers, floatings, expected) in [
        (
            "neg",
            DirectKind::FewIntegers,
            Answer::Integer,
            vec![5],
            vec![],
            u64::from((-5_i32) as u32),
        ),
        (
            "none",
            DirectKind::FewIntegers,
            Answer::Integer,
            vec![],
            vec![],
            0,
        ),
        (
            "six",
            DirectKind::IntegersOnly,
            Answer::Integer,
            vec![1, 2, 3, 4, 5, 6],
            vec![],
            91,
        ),
        (
            "half",
            DirectKind::FloatingsOnly,
            Answer::Double,
            vec![],
            vec![5.0_f64.to_bits()],
            2.5_f64.to_bits(),
        ),
        (
            "add",
            DirectKind::FloatingsOnly,
            Answer::Float,
            vec![],
            vec![single(1.5), single(2.0)],
            single(3.5),
        ),
        (
            "mixed",
            DirectKind::Mixed,
            Answer::Double,
            vec![1, 3, 6],
            vec![single(2.0), 4.0_f64.to_bits(), 5.0_f64.to_bits()],
            91.0_f64.to_bits(),
        ),
    ] {
        let direct = trial
            .plan(name, &[])
            .direct()
            .unwrap_or_else(|| panic!("{name} goes directly"));
        assert_eq!((direct.kind, direct.answer), (kind, answer), "{name}");
        let mut registers = Registers::default();
        registers.integer[..integers.len()].copy_from_slice(&integers);
        registers.floating[..floatings.len()].copy_from_slice(&floatings);
        // SAFETY: the function was declared as it is defined.
        let bits = unsafe { Plan::call_direct(direct, trial.address(name), &registers) };
        let bits = if name == "neg" {
            u64::from(bits as u32)
        } else {
            bits
        };
        assert!(bits == expected || name == "none", "{name}: {bits:#x}");
    }
    for name in ["seven", "many"] {
        assert_eq!(trial.plan(name, &[]).direct(), None, "{name}");
    }
}
