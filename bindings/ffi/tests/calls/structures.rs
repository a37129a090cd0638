//! Structures and unions by value, one for each rule about their registers.

use std::sync::Arc;

use baton_ffi::call::Callback;

use crate::callbacks::answer_word;
use crate::trial::{double, int, trial};

#[test]
fn long_doubles_and_packed_structures_are_passed_by_value() {
    let text = "struct ld { long double v; }; union lu { long double v; int i; };\n\
                struct __attribute__((packed)) odd { char c; int i; }; struct h { float a, b, c; \
                };\n\
                int odd(struct odd o, int x); long double twice(long double x); void plus(struct \
                ld a, union lu b, long double *sum);\n\
                struct h turn(struct h h, float f); double _Complex conj(double _Complex z);";
    let source = format!(
        "{}\nint odd(struct odd o, int x) {{ return o.c * 1000 + o.i * 10 + x; }}\n\
         long double twice(long double x) {{ return 2 * x; }}\n\
         void plus(struct ld a, union lu b, long double *sum) {{ *sum = a.v + b.v; }}\n\
         struct h turn(struct h h, float f) {{ struct h r = {{ h.c, h.a * f, h.b }}; return r; }}\n\
         double _Complex conj(double _Complex z) {{ __imag__ z = -__imag__ z; return z; }}\n\
         long double one(void) {{ return 1; }}",
        text
    );
    let mut trial = trial(&source, &format!("{text} long double one(void);"));
    assert_eq!(
        trial.call("odd", &[], &mut [vec![3, 7, 0, 0, 0], int(5)])[..4],
        3075_i32.to_ne_bytes()
    );
    let one = trial.call("one", &[], &mut [])[..16].to_vec();
    let two = trial.call("twice", &[], &mut [one.clone()])[..16].to_vec();
    let mut sum = [0_u8; 16];
    let place = (sum.as_mut_ptr() as usize).to_ne_bytes().to_vec();
    trial.call("plus", &[], &mut [one.clone(), one, place]);
    assert_eq!(sum[..10], two[..10]);
    let floats = |list: &[f32]| {
        list.iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect::<Vec<u8>>()
    };
    let turned = trial.call(
        "turn",
        &[],
        &mut [floats(&[1.0, 2.0, 3.0]), floats(&[10.0])],
    );
    assert_eq!(turned[..12], floats(&[3.0, 10.0, 2.0]));
    let conjugate = trial.call("conj", &[], &mut [[double(1.5), double(2.5)].concat()]);
    assert_eq!(conjugate, [double(1.5), double(-2.5)].concat());
}

/// A regression test for AArch64. There, the alignment of members decides on registers and places,
/// an attribute of the whole type does not, and a bit-field makes an integer of a union.
#[test]
fn alignment_and_bit_fields_decide_on_registers() {
    let text = "struct even { double d __attribute__((aligned(16))); int i; };\n\
                union flagged { float f; unsigned char b : 7; };\n\
                struct four { double v[4]; } __attribute__((aligned(16)));\n\
                double even(int a, struct even s, int b);\n\
                float flagged(union flagged a, float x);\n\
                double four(struct four a, struct four b, double c, struct four d);\n\
                double last(long a, long b, long c, long d, long e, long f, long g, struct even s, \
                int h);";
    let source = format!(
        "{text}\ndouble even(int a, struct even s, int b) {{ return a * s.d + s.i * b; }}\n\
         float flagged(union flagged a, float x) {{ return a.f * 100 + x; }}\n\
         double four(struct four a, struct four b, double c, struct four d) {{\n\
         return a.v[0] + 10 * b.v[3] + 100 * c + 1000 * d.v[0] + 10000 * d.v[3]; }}\n\
         double last(long a, long b, long c, long d, long e, long f, long g, struct even s, \
         int h) {{ return g + 10 * s.d + 100 * s.i + 1000 * h; }}"
    );
    let mut trial = trial(&source, text);
    let even = [double(2.5), int(7), int(0)].concat();
    let answer = trial.call("even", &[], &mut [int(4), even.clone(), int(3)]);
    assert_eq!(answer, double(31.0));
    let float = |value: f32| value.to_ne_bytes().to_vec();
    let answer = trial.call("flagged", &[], &mut [float(7.0), float(5.0)]);
    assert_eq!(answer[..4], float(705.0));
    let four = |first: f64| {
        [0.0, 1.0, 2.0, 3.0]
            .map(|more| double(first + more))
            .concat()
    };
    let mut arguments = [four(1.0), four(1.0), double(5.0), four(6.0)];
    assert_eq!(trial.call("four", &[], &mut arguments), double(96_541.0));
    let mut arguments: Vec<Vec<u8>> = (1..=7_i64)
        .map(|value| value.to_ne_bytes().to_vec())
        .collect();
    arguments.extend([even, int(9)]);
    let answer = trial.call("last", &[], &mut arguments);
    assert_eq!(answer, double(7.0 + 25.0 + 700.0 + 9000.0));
}

/// A regression test: registers were counted for padding, and registers were not counted for data.
#[test]
fn padding_and_unions_take_the_registers_that_the_compiler_gives_them() {
    let text = "struct roomy { int i; } __attribute__((aligned(16))); struct coarse { double d; } \
                __attribute__((aligned(16)));\n\
                struct lean { float f; unsigned char : 7; }; union both { long double v; unsigned \
                parts[4]; };\n\
                unsigned both(union both a, int x);\n\
                int roomy(struct roomy a, int x); double coarse(struct coarse a, double x); double \
                lean(struct lean a, double x);";
    let source = format!(
        "{text}\nint roomy(struct roomy a, int x) {{ return a.i * 100 + x; }}\n\
         double coarse(struct coarse a, double x) {{ return a.d * 100 + x; }}\n\
         double lean(struct lean a, double x) {{ return a.f * 100 + x; }}\n\
         unsigned both(union both a, int x) {{ return a.parts[3] * 100 + x; }}"
    );
    let mut trial = trial(&source, text);
    let padded = |bytes: &[u8], size: usize| [bytes, &vec![0xaa; size - bytes.len()]].concat();
    let answer = trial.call(
        "roomy",
        &[],
        &mut [padded(&7_i32.to_ne_bytes(), 16), int(5)],
    );
    assert_eq!(answer[..4], int(705));
    let answer = trial.call(
        "coarse",
        &[],
        &mut [padded(&7_f64.to_ne_bytes(), 16), double(5.0)],
    );
    assert_eq!(answer, double(705.0));
    let answer = trial.call(
        "lean",
        &[],
        &mut [padded(&7_f32.to_ne_bytes(), 8), double(5.0)],
    );
    assert_eq!(answer, double(705.0));
    let parts: Vec<u8> = [1_i32, 2, 3, 7]
        .into_iter()
        .flat_map(i32::to_ne_bytes)
        .collect();
    assert_eq!(trial.call("both", &[], &mut [parts, int(5)])[..4], int(705));
    for (name, is_taken) in [("roomy", false), ("coarse", false), ("lean", true)] {
        let plan = Arc::new(trial.plan(name, &[]));
        let made = Callback::new(plan, answer_word, std::ptr::null_mut());
        let is_supported = is_taken || cfg!(not(target_arch = "x86_64"));
        assert_eq!(made.is_ok(), is_supported, "{name}: {:?}", made.err());
    }
}

/// A regression test for AArch64, which passes such structures as pointers. On the stack, a pointer
/// was aligned like its structure, and further pointers overwrote the structures.
#[test]
fn large_structures_arrive_when_there_is_no_register_for_their_addresses() {
    let text = "struct large { long v[4]; }; struct wide { long v[4]; } \
                __attribute__((aligned(16)));\n\
                long large(struct large a, struct large b, struct large c, struct large d, struct \
                large e, struct large f, struct large g, struct large h, struct large i, struct \
                large j, struct large k, struct large l);\n\
                long wide(long a, long b, long c, long d, long e, long f, long g, long h, \
                struct wide i, struct wide j, double k, struct wide l);\n\
                long changed(struct large a);\n\
                long further(int count, ...);";
    let source = format!(
        "#include <stdarg.h>\n{text}\n\
         long large(struct large a, struct large b, struct large c, struct large d, struct large \
         e, struct large f, struct large g, struct large h, struct large i, struct large j, struct \
         large k, struct large l) {{\n\
         return a.v[0] + 2 * b.v[1] + 3 * c.v[2] + 4 * d.v[3] + 5 * e.v[0] + 6 * f.v[1] + 7 * \
         g.v[2] + 8 * h.v[3] + 9 * i.v[0] + 10 * j.v[1] + 11 * k.v[2] + 12 * l.v[3]; }}\n\
         long wide(long a, long b, long c, long d, long e, long f, long g, long h, struct wide i, \
         struct wide j, double k, struct wide l) {{\n\
         return h + 2 * i.v[3] + 3 * j.v[3] + 4 * k + 5 * l.v[3]; }}\n\
         long changed(struct large a) {{ volatile struct large *mine = &a; mine->v[0] = 5;\n\
         return mine->v[0] + a.v[3]; }}\n\
         long further(int count, ...) {{ long sum = 0; va_list list; va_start(list, count);\n\
         while (count-- > 0) sum = 10 * sum + va_arg(list, struct wide).v[3];\n\
         va_end(list); return sum; }}"
    );
    let mut trial = trial(&source, text);
    let long = |value: i64| value.to_ne_bytes().to_vec();
    let large = |first: i64| [0, 1, 2, 3].map(|more| long(first + more)).concat();
    let mut arguments: Vec<Vec<u8>> = (1..=12).map(|number| large(100 * number)).collect();
    let expected: i64 = (1..=12)
        .map(|number| number * (100 * number + (number - 1) % 4))
        .sum();
    assert_eq!(trial.call("large", &[], &mut arguments), long(expected));
    let mut arguments: Vec<Vec<u8>> = (1..=8).map(long).collect();
    arguments.extend([large(100), large(200), double(7.0), large(300)]);
    let expected = 8 + 2 * 103 + 3 * 203 + 4 * 7 + 5 * 303;
    assert_eq!(trial.call("wide", &[], &mut arguments), long(expected));
    assert_eq!(trial.call("changed", &[], &mut [large(100)]), long(5 + 103));
    let mut arguments: Vec<Vec<u8>> = (0..18).map(|number| large(number % 7)).collect();
    arguments.insert(0, int(18));
    let expected = (0..18).fold(0_i64, |sum, number| 10 * sum + number % 7 + 3);
    let further = ["struct wide"; 18];
    assert_eq!(
        trial.call("further", &further, &mut arguments),
        long(expected)
    );
}
