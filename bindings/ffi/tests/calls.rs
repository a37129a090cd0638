//! Tests calls into compiled C, and callbacks from it.

mod compiler;
mod generator;

use std::ffi::c_void;
use std::fmt::Write;
use std::sync::Arc;

use baton_ffi::call::{Answer, Callback, DirectKind, Plan, Registers, SignatureError};
use baton_ffi::declarations::{Declarations, Symbol};
use baton_ffi::library::Library;
use baton_ffi::types::{Function, Kind, Qualified, Scalar, TypeId, Types};
use generator::Generator;

struct Trial {
    declared: Declarations,
    library: Library,
    _directory: tempfile::TempDir,
}

/// Compiles C and declares its functions.
fn trial(source: &str, declarations: &str) -> Trial {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let path = compiler::library(source, directory.path());
    let library =
        Library::load(&path.to_string_lossy(), false).unwrap_or_else(|error| panic!("{error}"));
    let mut declared = Declarations::default();
    declared
        .declare(declarations, &[])
        .unwrap_or_else(|error| panic!("{error}"));
    Trial {
        declared,
        library,
        _directory: directory,
    }
}

impl Trial {
    fn function(&self, name: &str) -> Function {
        match self.declared.symbol(name) {
            Some(Symbol::External(external)) => match self.declared.types.kind(external.of.id) {
                Kind::Function(function) => function.clone(),
                other => panic!("{name} is {other:?}"),
            },
            other => panic!("{name} is {other:?}"),
        }
    }

    fn plan(&mut self, name: &str, further: &[&str]) -> Plan {
        let function = self.function(name);
        let further: Vec<Qualified> = further
            .iter()
            .map(|text| self.declared.type_name(text, &[]).expect("it is C"))
            .collect();
        Plan::new(&mut self.declared.types, &function, &further)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn address(&self, name: &str) -> *const c_void {
        self.library
            .symbol(name)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Calls through libffi. Each argument is the bytes of a value.
    fn call(&mut self, name: &str, further: &[&str], arguments: &mut [Vec<u8>]) -> Vec<u8> {
        let plan = self.plan(name, further);
        assert_eq!(plan.arguments().len(), arguments.len(), "{name}");
        for (slot, bytes) in plan.arguments().iter().zip(arguments.iter()) {
            assert_eq!(slot.size, bytes.len(), "{name}");
        }
        let mut addresses: Vec<*mut c_void> = arguments
            .iter_mut()
            .map(|bytes| bytes.as_mut_ptr().cast())
            .collect();
        let mut result = vec![0_u64; plan.result().size.div_ceil(8)];
        // SAFETY: the function was declared as it is defined, and all buffers have the slots'
        // sizes.
        unsafe {
            plan.call(
                self.address(name),
                addresses.as_mut_ptr(),
                result.as_mut_ptr().cast(),
            )
        };
        result.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

fn int(value: i32) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

fn double(value: f64) -> Vec<u8> {
    value.to_ne_bytes().to_vec()
}

#[test]
fn every_kind_of_number_is_passed_and_returned() {
    let scalars = [
        "bool",
        "char",
        "signed char",
        "unsigned char",
        "short",
        "unsigned short",
        "int",
        "unsigned",
        "long",
        "unsigned long",
        "long long",
        "float",
        "double",
        "void *",
    ];
    let mut text = String::new();
    for (index, scalar) in scalars.iter().enumerate() {
        writeln!(text, "{scalar} same{index}({scalar} a, {scalar} b);").expect("it is a string");
    }
    let source = text.replace("b);", "b) { return b; }");
    let mut trial = trial(&format!("#include <stdbool.h>\n{source}"), &text);
    for (index, scalar) in scalars.iter().enumerate() {
        let of = trial.declared.type_name(scalar, &[]).expect("it is C");
        let size = trial.declared.types.size_of(of.id).expect("it has one") as usize;
        let value: Vec<u8> = if *scalar == "bool" {
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

/// Marks the bytes of a type that belong to a number.
fn mark(types: &Types, id: TypeId, at: usize, mask: &mut [bool]) -> bool {
    match types.kind(id) {
        Kind::Record(_) => types.body(id).is_some_and(|body| {
            body.fields.iter().all(|field| {
                let place = at + field.found.offset as usize;
                match field.found.bits {
                    // A byte that also holds padding is left out.
                    Some(bits) if bits.first == 0 => {
                        mask[place..place + bits.width as usize / 8].fill(true);
                        true
                    }
                    Some(_) => true,
                    None => mark(types, field.found.of.id, place, mask),
                }
            })
        }),
        Kind::Array(of, baton_ffi::types::Length::Known(length)) => {
            let size = types.size_of(of.id).unwrap_or(0) as usize;
            (0..*length as usize).all(|index| mark(types, of.id, at + index * size, mask))
        }
        // An x87 register does not preserve every bit pattern.
        Kind::Scalar(Scalar::LongDouble | Scalar::Int128) => false,
        _ => {
            let size = types.size_of(id).unwrap_or(0) as usize;
            mask[at..at + size].fill(true);
            true
        }
    }
}

#[test]
fn generated_structures_are_passed_and_returned_by_value() {
    let mut generator = Generator::new(77);
    let compared = pass_and_return(|index| generator.definition(index));
    assert!(compared > 200, "only {compared} calls were compared");
}

#[test]
fn generated_structures_of_floats_are_passed_and_returned_by_value() {
    let mut generator = Generator::new(63);
    let compared = pass_and_return(|index| generator.floats(index));
    assert!(compared > 500, "only {compared} calls were compared");
}

/// Passes and returns values of 300 types, whose definitions and names are given by number, in
/// calls of compiled functions. Returns how many calls were compared.
fn pass_and_return(mut definition: impl FnMut(usize) -> (String, String)) -> usize {
    let (mut source, mut text, mut names) = (
        String::from("#include <stdint.h>\n#include <stddef.h>\nlong sum;\n"),
        String::new(),
        Vec::new(),
    );
    for index in 0..300 {
        let (definition, name) = definition(index);
        let leading: String = (0..index % 8)
            .map(|number| format!("long a{number}, "))
            .collect();
        let prototype =
            format!("{name} back{index}({leading}{name} x, double d, {name} y, long z)");
        let isolated = definition.contains("typedef");
        writeln!(source, "{definition}").expect("it is a string");
        writeln!(text, "{definition}").expect("it is a string");
        if !isolated {
            writeln!(
                source,
                "{prototype} {{ sum = z + (long)d; return z == 1 ? x : y; }}"
            )
            .expect("it is a string");
            writeln!(text, "{prototype};").expect("it is a string");
            names.push((index, name, definition));
        }
    }
    let mut trial = trial(&source, &text);
    let mut compared = 0;
    for (index, name, definition) in names {
        let of = trial
            .declared
            .type_name(&name, &[])
            .expect("it is declared");
        let size = trial.declared.types.size_of(of.id).expect("it is defined") as usize;
        let mut mask = vec![false; size];
        let is_refused = trial.declared.types.align_of(of) > 16;
        if !mark(&trial.declared.types, of.id, 0, &mut mask) || size == 0 || is_refused {
            continue;
        }
        for (which, expected) in [(1_i64, 0), (2, 1)] {
            let values = [
                vec![1_u8; size],
                (0..size).map(|byte| u8::from(byte % 3 == 0)).collect(),
            ];
            let mut arguments = vec![vec![9_u8; 8]; index % 8];
            arguments.extend([
                values[0].clone(),
                double(3.0),
                values[1].clone(),
                which.to_ne_bytes().to_vec(),
            ]);
            let result = trial.call(&format!("back{index}"), &[], &mut arguments);
            for at in (0..size).filter(|at| mask[*at]) {
                assert_eq!(
                    result[at], values[expected][at],
                    "byte {at} in back{index}: {definition}"
                );
            }
            compared += 1;
        }
    }
    compared
}

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

unsafe extern "C" fn answer_word(
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

/// Prepares a signature. The error says why it cannot be called.
fn passes(declared: &mut Declarations, text: &str) -> Result<Plan, SignatureError> {
    let of = declared.type_name(text, &[]).expect("it is C");
    let Kind::Function(function) = declared.types.kind(of.id).clone() else {
        panic!("{text} is no function")
    };
    Plan::new(&mut declared.types, &function, &[])
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

#[test]
fn names_and_scripts_lead_to_libraries() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let path = compiler::library("int answer(void) { return 42; }", directory.path());
    let script = directory.path().join("libscript.so");
    std::fs::write(
        &script,
        format!("/* GNU ld script */\nGROUP ( {} )\n", path.display()),
    )
    .expect("it is writable");
    let library =
        Library::load(&script.to_string_lossy(), false).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(library.name(), path.to_string_lossy());
    library
        .symbol("answer")
        .unwrap_or_else(|error| panic!("{error}"));
    std::fs::write(
        &script,
        "no library at all, and long enough to hold what a library's head would need ....",
    )
    .expect("it is writable");
    assert!(Library::load(&script.to_string_lossy(), false).is_err());
}
