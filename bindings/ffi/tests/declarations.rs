//! Tests what declarations mean, and the messages for wrong ones.

use std::sync::LazyLock;

use baton_ffi::declarations::{Argument, Constant, Declarations, Symbol};
use baton_ffi::types::{Kind, Scalar};

/// Far more than the parser nests.
const DEEP: usize = 100_000;

/// What a program knows without declaring it. It is made once, which takes Miri seconds.
fn nothing() -> Declarations {
    static NOTHING: LazyLock<Declarations> = LazyLock::new(Declarations::default);
    NOTHING.clone()
}

fn declared(text: &str) -> Declarations {
    let mut declared = nothing();
    if let Err(error) = declared.declare(text, &[]) {
        panic!("{error} in {text}");
    }
    declared
}

fn name_of(declared: &mut Declarations, text: &str) -> String {
    let of = declared
        .type_name(text, &[])
        .unwrap_or_else(|error| panic!("{error} in {text}"));
    declared.types.name(of)
}

/// The line, column and message of the error in a text.
fn error(text: &str) -> (usize, usize, String) {
    let error = nothing().declare(text, &[]).expect_err(text);
    (error.line, error.column, error.message)
}

fn constant(declared: &Declarations, name: &str) -> i64 {
    match declared.symbol(name) {
        Some(Symbol::Constant(Constant { value, .. })) => *value,
        other => panic!("{name} is {other:?}"),
    }
}

#[test]
fn declarators_are_read_from_the_inside_out() {
    let mut known = declared("typedef int number; struct point;");
    for (text, expected) in [
        ("number", "int"),
        ("const struct point *restrict", "const struct point *"),
        ("char *const *[2][3]", "char *const *[2][3]"),
        (
            "void (*(*)(number, void (*)(void)))(int)",
            "void (*(*)(int, void (*)(void)))(int)",
        ),
        (
            "int (*[4])(const char *, ...)",
            "int (*[4])(const char *, ...)",
        ),
        ("long unsigned int long", "unsigned long long"),
        ("double _Complex", "complex"),
        ("float _Complex *", "complex float *"),
        ("complex long double", "complex long double"),
        ("unsigned __int128", "unsigned __int128"),
        ("int[?]", "int[?]"),
        ("typeof(int *) *", "int **"),
        ("int (number)", "int (int)"),
        ("int (int a[3], int f(void))", "int (int *, int (*)(void))"),
        ("__extension__ long double", "long double"),
    ] {
        assert_eq!(name_of(&mut known, text), expected, "{text}");
    }
}

/// A regression test: headers that declare `FILE` or `int64_t` in their own way were refused.
#[test]
fn a_predeclared_name_may_be_declared_otherwise_but_once() {
    let mut known = declared(
        "typedef struct FILE FILE; typedef long long int64_t; typedef unsigned int off_t;",
    );
    assert_eq!(name_of(&mut known, "FILE *"), "struct FILE *");
    assert_eq!(name_of(&mut known, "int64_t"), "long long");
    assert_eq!(name_of(&mut known, "off_t"), "unsigned int");
    for text in [
        "typedef void FILE; typedef struct FILE FILE;",
        "typedef unsigned long size_t; typedef unsigned int size_t;",
    ] {
        assert!(error(text).2.contains("is declared already"), "{text}");
    }
}

#[test]
fn functions_variables_and_assembler_names_are_remembered() {
    let known = declared(
        "int add(int a, int b) __attribute__((nothrow)); extern int (*table[3])(void), plain;\n\
         int old(void) __asm__(\"new\" \"_name\"); static inline int never(void);",
    );
    let external = |name: &str| match known.symbol(name) {
        Some(Symbol::External(external)) => external.clone(),
        other => panic!("{name} is {other:?}"),
    };
    assert_eq!(
        known.types.declaration(external("add").of, "add"),
        "int add(int, int)"
    );
    assert_eq!(
        known.types.declaration(external("table").of, "table"),
        "int (*table[3])(void)"
    );
    assert_eq!(external("old").link_name.as_deref(), Some("new_name"));
}

#[test]
fn constants_are_computed_as_c_computes_them() {
    let known = declared(
        "enum { A, B = A + 5, C, D = 'a', E = sizeof(long) * 2, F = 1 ? -3 : 7u, G = ~0, H = \
         (char)300, I = 7 / 2 % 2,\n\
         J = 1 << 4 | 3, K = -1 < 1u, L = !5 || 2 && 3, M = (unsigned char)-1, N = \
         _Alignof(double), };\n\
         struct s { int a, b[3]; }; static const unsigned BIG = 0x80000000; enum { O = \
         offsetof(struct s, b[2]), P = BIG >> 31 };",
    );
    let values = [
        "A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O", "P",
    ];
    let values: Vec<i64> = values.iter().map(|name| constant(&known, name)).collect();
    assert_eq!(
        values,
        [
            0,
            5,
            6,
            97,
            16,
            0xffff_fffd,
            -1,
            44,
            1,
            19,
            0,
            1,
            255,
            8,
            12,
            1
        ]
    );
}

#[test]
fn a_constant_has_a_value_of_its_type() {
    let known = declared(
        "static const unsigned A = -1; static const unsigned char B = 300; static const int C = \
         0xffffffff;\n\
         static const _Bool D = 2; static const signed char E = 200; static const long F = -1;\n\
         static const unsigned short G = (signed char)-1; enum small { H = 4 }; static const enum \
         small I = H;\n\
         enum { J = A, K = (A > 0) + (B == 44) + (_Bool)8 };",
    );
    let values =
        ["A", "B", "C", "D", "E", "F", "G", "I", "J", "K"].map(|name| constant(&known, name));
    assert_eq!(
        values,
        [0xffff_ffff, 44, -1, 1, -56, -1, 0xffff, 4, 0xffff_ffff, 3]
    );
}

#[test]
fn an_enumeration_is_as_wide_as_its_constants_need() {
    let mut known = declared(
        "enum a { A }; enum b { B = -1 }; enum c { C = 1L << 40 }; enum __attribute__((packed)) d \
         { D };",
    );
    for (tag, scalar) in [
        ("enum a", Scalar::UnsignedInt),
        ("enum b", Scalar::Int),
        ("enum c", Scalar::UnsignedLong),
        ("enum d", Scalar::UnsignedChar),
    ] {
        let of = known.type_name(tag, &[]).expect("it is defined");
        assert_eq!(known.types.as_scalar(of.id), Some(scalar), "{tag}");
    }
}

#[test]
fn members_of_anonymous_members_are_found() {
    let mut known = declared(
        "struct s { int a; union { struct { char b, c; }; const short d; }; int e : 3; };",
    );
    let of = known.type_name("struct s", &[]).expect("it is defined");
    let c = known.types.field(of.id, "c").expect("it is there");
    assert_eq!((c.offset, c.bits), (5, None));
    assert!(
        known
            .types
            .field(of.id, "d")
            .is_some_and(|found| found.of.is_const)
    );
    let e = known
        .types
        .field(of.id, "e")
        .and_then(|found| found.bits)
        .expect("it is a bit-field");
    assert_eq!((e.first, e.width), (0, 3));
    assert_eq!(known.types.field(of.id, "f"), None);
}

#[test]
fn arguments_stand_for_types_numbers_and_names() {
    let mut known = nothing();
    let int = known.type_name("int", &[]).expect("it is C");
    let arguments = [
        Argument::Name("pair".to_owned()),
        Argument::Type(int),
        Argument::Name("first".to_owned()),
        Argument::Number(3),
    ];
    known
        .declare("struct $ { $ $; char rest[$]; };", &arguments)
        .expect("it is right");
    let pair = known.type_name("struct pair", &[]).expect("it is defined");
    assert_eq!(known.types.size_of(pair.id), Some(8));
    assert_eq!(
        known.types.field(pair.id, "first").map(|found| found.of),
        Some(int)
    );
    assert!(known.type_name("$ *", &[]).is_err());
    assert!(known.type_name("int", &arguments).is_err());
}

#[test]
fn lengths_given_later_make_types_variable() {
    let mut known = declared("struct s { int n; double d[?]; }; struct t { char n; int d[]; };");
    let s = known.type_name("struct s", &[]).expect("it is defined");
    assert!(known.types.is_variable(s.id));
    assert_eq!(
        (known.types.size_of(s.id), known.types.size_with(s.id, 3)),
        (Some(8), Some(32))
    );
    let t = known.type_name("struct t", &[]).expect("it is defined");
    assert!(!known.types.is_variable(t.id));
    assert_eq!(
        (known.types.size_of(t.id), known.types.size_with(t.id, 2)),
        (Some(4), Some(12))
    );
}

#[test]
fn a_declaration_may_be_repeated_but_not_changed() {
    let mut known = declared("typedef int a; int f(int); struct s { int x; }; enum { E = 1 };");
    known
        .declare(
            "typedef int a; int f(int x); struct s; typedef unsigned long size_t;",
            &[],
        )
        .expect("it is the same");
    for text in [
        "typedef long a;",
        "struct s { int x; };",
        "union s;",
        "enum { E = 2 };",
        "int a(void);",
    ] {
        known.declare(text, &[]).expect_err(text);
    }
}

#[test]
fn a_function_keeps_its_first_declaration() {
    let mut known = declared("int read(int, char); extern int count;");
    known
        .declare(
            "void *read(double); extern double count; int read(int, char);",
            &[],
        )
        .expect("another library has it, too");
    for (name, wanted) in [("read", "int read(int, char)"), ("count", "int count")] {
        let Some(Symbol::External(external)) = known.symbol(name) else {
            panic!("it is declared")
        };
        assert_eq!(known.types.declaration(external.of, name), wanted);
    }
    known
        .declare("typedef int read;", &[])
        .expect_err("a type is something else");
}

#[test]
fn calling_conventions_change_nothing() {
    let text = "
        int __stdcall a(int); int __cdecl b(int); int __attribute__((fastcall)) c(int); \
        __attribute__((stdcall)) int d(int);
        int e(int) __attribute__((thiscall)); typedef int (__stdcall *callback)(int); typedef int \
        (*__fastcall other)(int);
        int f(int (__thiscall *)(int), void (__vectorcall *)(void)); struct s { int (__stdcall \
        *member)(int); };
        int (__stdcall g)(int);";
    let mut known = declared(text);
    for name in ["a", "b", "c", "d", "e", "g"] {
        let Some(Symbol::External(external)) = known.symbol(name) else {
            panic!("{name} is declared")
        };
        assert_eq!(known.types.name(external.of), "int (int)", "{name}");
    }
    for name in ["callback", "other", "int (__stdcall *)(int)"] {
        let of = known.type_name(name, &[]).expect("it is a type");
        assert_eq!(known.types.name(of), "int (*)(int)", "{name}");
    }
}

#[test]
fn references_are_types() {
    let mut known =
        declared("struct s { int &r; }; int f(int &a, const struct s &b); int &g(void);");
    for name in [
        "int &",
        "int (&)[3]",
        "const char (&)[]",
        "int *&",
        "int (&)(int)",
    ] {
        let of = known.type_name(name, &[]).expect("it is a type");
        assert_eq!(known.types.name(of), name);
        assert_eq!(known.types.size_of(of.id), Some(size_of::<usize>() as u64));
    }
    let to_itself = known.type_name("int &&", &[]).expect("it is a type");
    assert_eq!(known.types.name(to_itself), "int &");
    for text in ["int & *", "void &", "int &[3]"] {
        known.type_name(text, &[]).expect_err(text);
    }
}

#[test]
fn a_prototype_is_not_remembered() {
    let mut known = nothing();
    let prototype = known
        .prototype("int add(int a, int b) __asm__(\"plus\");")
        .expect("it is right");
    assert_eq!(
        (
            prototype.name.as_str(),
            prototype.external.link_name.as_deref()
        ),
        ("add", Some("plus"))
    );
    assert!(matches!(
        known.types.kind(prototype.external.of.id),
        Kind::Function(_)
    ));
    assert_eq!(known.symbol("add"), None);
    known.prototype("int").expect_err("it has no name");
    known.prototype("int a, b").expect_err("it declares two");
}

#[test]
fn wrong_declarations_are_refused_with_their_place_and_a_remedy() {
    for (text, line, column, part) in [
        ("int f(int a,\n  foo b);", 2, 3, "unknown type 'foo'"),
        (
            "int f(int a) int g(int);",
            1,
            14,
            "';' or ',' expected, got 'int'",
        ),
        ("struct s { int a; int a; };", 1, 23, "second member 'a'"),
        ("struct s { struct t x; };", 1, 21, "define it before"),
        ("struct s { int a[]; int b; };", 1, 25, "must be the last"),
        (
            "struct s { struct s { int a; } b; };",
            1,
            19,
            "'struct s' is being defined",
        ),
        (
            "struct s { struct { union { struct s { int a; } b; }; }; };",
            1,
            36,
            "'struct s' is being",
        ),
        (
            "union u { int a[sizeof(union u { int b; })]; };",
            1,
            30,
            "'union u' is being",
        ),
        (
            "enum e { A = sizeof(enum e { B }) };",
            1,
            26,
            "'enum e' is being defined",
        ),
        ("int f(void) { return 1; }", 1, 13, "cannot be compiled"),
        ("int x = 3;", 1, 7, "static const"),
        ("enum { A = 1 / 0 };", 1, 14, "division by zero"),
        ("int a[-1];", 1, 7, "0 or more"),
        ("struct s { int a : 33; };", 1, 16, "33 bits"),
        ("short double x;", 1, 1, "no type of C"),
        ("#include <stdio.h>\nint x;", 1, 1, "cc -E"),
        ("int f(void), g[3](void);", 1, 15, "array of functions"),
        ("_Static_assert(sizeof(int) == 5, \"odd\");", 1, 1, "odd"),
        ("int x", 1, 6, ""),
        ("int x y;", 1, 7, "got 'y'"),
        ("int f(int", 1, 10, "the text ends"),
        ("int a[9223372036854775807][8];", 1, 6, "2^63"),
        ("struct s { int a", 1, 17, "the text ends"),
        ("int __attribute__((aligned(3))) x;", 1, 28, "power of two"),
    ] {
        if part.is_empty() {
            declared(text);
            continue;
        }
        let (at_line, at_column, message) = error(text);
        assert!(message.contains(part), "{text}: {message}");
        assert_eq!((at_line, at_column), (line, column), "{text}: {message}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn declarations_that_are_nested_too_deeply_are_refused() {
    for (open, close) in [
        ("(", ")"),
        ("- ", ""),
        ("1+(", ")"),
        ("1?", ":1"),
        ("(int)", ""),
        ("sizeof(int[", "])"),
    ] {
        let text = format!(
            "enum {{ A = {}1{} }};",
            open.repeat(DEEP),
            close.repeat(DEEP)
        );
        assert!(error(&text).2.contains("nested more than"), "{open}");
    }
    for (open, close) in [("struct {", "}"), ("union {", "}")] {
        let text = format!(
            "{}int x;{};",
            open.repeat(DEEP),
            format!("{close};").repeat(DEEP)
        );
        assert!(error(&text).2.contains("nested more than"), "{open}");
    }
    for (before, after) in [("(*", ")(int)"), ("(", ")")] {
        let text = format!("int {}x{};", before.repeat(DEEP), after.repeat(DEEP));
        assert!(error(&text).2.contains("nested more than"), "{before}");
    }
    let text = format!("int f{}int{};", "(int (*)".repeat(DEEP), ")".repeat(DEEP));
    assert!(error(&text).2.contains("nested more than"));
}

/// A regression test: recursion must not be as deep as a program nests its types.
#[test]
#[cfg_attr(miri, ignore = "takes minutes")]
fn types_that_contain_each_other_too_deeply_are_refused() {
    let problem = "more than 256 arrays and structures within each other";
    let (_, column, message) = error(&format!("int a{};", "[1]".repeat(DEEP)));
    assert!(message.contains(problem), "{message}");
    // Brackets are processed from the last to the first.
    assert_eq!(column, 6 + 3 * (DEEP - 257));
    let mut known = declared("struct s0 { int x; };");
    let mut deeper = |depth: u32| {
        let text = format!("struct s{depth} {{ struct s{} a; }};", depth - 1);
        known.declare(&text, &[])
    };
    for depth in 1..256 {
        deeper(depth).unwrap_or_else(|error| panic!("{error} at depth {depth}"));
    }
    assert!(
        deeper(256)
            .expect_err("it is too deep")
            .message
            .contains(problem)
    );
    known
        .declare(
            "struct node { struct s255 *p; struct node *next[2]; };",
            &[],
        )
        .expect("pointers do not nest");
}

#[test]
fn arbitrary_text_is_refused_without_harm() {
    let words = [
        "int", "struct", "{", "}", "(", ")", "*", "[", "]", ";", ",", "x", "3", ":", "=", "enum",
        "$", "?", "\"", "/*", "#",
    ];
    let mut state = 7_u64;
    let count = if cfg!(miri) { 8 } else { 4_000 };
    for _ in 0..count {
        let mut text = String::new();
        for _ in 0..12 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.push_str(words[(state >> 33) as usize % words.len()]);
            text.push(' ');
        }
        let mut known = nothing();
        if let Err(error) = known.declare(&text, &[]) {
            assert!(error.line == 1 && error.column <= text.len() + 1, "{text}");
        }
    }
}
