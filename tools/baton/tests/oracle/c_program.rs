//! Writes the library in C: it prints what the compiler makes of the declarations, and has
//! functions for the ffi to call.

use std::fmt::Write;

use super::{Declaration, Form, Kind, Leaf, Scalar, Signature};

const PRELUDE: &str = r#"#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void show_bytes(const void *bytes, size_t size) {
  for (size_t i = 0; i < size; i++) printf("%02x", ((const unsigned char *)bytes)[i]);
}
"#;

pub(super) fn library(declarations: &[Declaration]) -> String {
    let mut source = PRELUDE.to_owned();
    for declaration in declarations {
        writeln!(source, "{}", declaration.text).expect("it is a string");
        match &declaration.kind {
            Kind::Record {
                leaves,
                is_passed,
                is_returned,
            } => {
                record(&mut source, declaration, leaves, (*is_passed, *is_returned));
            }
            Kind::Enumeration { constants } => enumeration(&mut source, declaration, constants),
            Kind::Function(signature) => function(&mut source, declaration, signature),
        }
    }
    source.push_str("void oracle_answer(void) {\n");
    for declaration in declarations {
        writeln!(source, "  answer{}();", declaration.index).expect("it is a string");
    }
    source.push_str("}\n");
    source
}

/// Returns the conversion that prints a value of this form, and the type that it is converted to.
fn shown(form: Form) -> (&'static str, &'static str) {
    match form {
        Form::Integer | Form::Bool => ("%lld", "(long long)"),
        Form::Unsigned => ("%llu", "(unsigned long long)"),
        Form::Floating | Form::LongDouble => ("%a", "(double)"),
        Form::Pointer => ("%llu", "(unsigned long long)(uintptr_t)"),
    }
}

/// Returns a value as C assigns it.
fn literal(form: Form, value: &str) -> String {
    match form {
        Form::Pointer => format!("(void *)(uintptr_t){value}"),
        // Values of enumerations are written as names.
        Form::Integer | Form::Unsigned
            if value.ends_with(|last: char| last.is_ascii_digit())
                && !value.starts_with(['A', 'B', 'C', 'D']) =>
        {
            format!("{value}LL")
        }
        _ => value.to_owned(),
    }
}

fn assignment(object: &str, leaf: &Leaf, which: usize) -> String {
    format!(
        "{object}.{} = {};",
        leaf.path,
        literal(leaf.form, &leaf.values[which])
    )
}

/// Statements that print all leaves that do not overlap, with `print`, and `first` before the
/// format.
fn listing(object: &str, leaves: &[Leaf], print: &str) -> String {
    let show = |leaf: &Leaf| {
        let (format, cast) = shown(leaf.form);
        format!("  {print}\" {format}\", {cast}{object}.{});\n", leaf.path)
    };
    leaves
        .iter()
        .filter(|leaf| leaf.is_apart)
        .map(show)
        .collect()
}

fn record(
    source: &mut String,
    declaration: &Declaration,
    leaves: &[Leaf],
    (is_passed, is_returned): (bool, bool),
) {
    let Declaration { index, name, .. } = declaration;
    let label = declaration.label();
    let mut answer = format!(
        "  static {name} x;\n  printf(\"{label} %zu %zu\\n\", sizeof(x), _Alignof({name}));\n"
    );
    for leaf in leaves {
        let path = &leaf.path;
        let (format, cast) = shown(leaf.form);
        write!(
            answer,
            "  memset(&x, 0, sizeof x); {}\n  printf(\"{label}.{path} \");",
            assignment("x", leaf, 0)
        )
        .expect("it is a string");
        if leaf.form != Form::LongDouble {
            answer.push_str(" show_bytes(&x, sizeof x);");
        }
        if !leaf.is_bits {
            write!(
                answer,
                " printf(\" at %zu\", (size_t)((char *)&x.{path} - (char *)&x));"
            )
            .expect("it is a string");
        }
        writeln!(answer, " printf(\" is {format}\\n\", {cast}x.{path});").expect("it is a string");
    }
    let fill = |which: usize| -> String {
        let apart = leaves.iter().filter(|leaf| leaf.is_apart);
        apart
            .map(|leaf| format!("  {}\n", assignment("x", leaf, which)))
            .collect()
    };
    writeln!(
        source,
        "void fill{index}({name} *p, int which) {{\n  static {name} x;\n  memset(&x, 0, sizeof \
         x);\n  if (which) {{\n{}  }} else {{\n{}  }}\n  memcpy(p, &x, sizeof x);\n}}",
        fill(1),
        fill(0)
    )
    .expect("it is a string");
    write!(
        answer,
        "  fill{index}(&x, 0); printf(\"{label}: read\");\n{}  printf(\"\\n\");\n",
        listing("x", leaves, "printf(")
    )
    .expect("it is a string");
    if is_passed {
        passed(source, &mut answer, declaration, leaves);
    }
    if is_returned {
        returned(source, &mut answer, declaration, leaves);
    }
    writeln!(source, "static void answer{index}(void) {{\n{answer}}}").expect("it is a string");
}

/// A function that takes two structures and prints them.
fn passed(source: &mut String, answer: &mut String, declaration: &Declaration, leaves: &[Leaf]) {
    let Declaration { index, name, .. } = declaration;
    let leading = declaration.leading();
    let parameters: String = (0..leading)
        .map(|number| format!("long a{number}, "))
        .collect();
    let sum: String = (0..leading).map(|number| format!(" + a{number}")).collect();
    writeln!(
        source,
        "void take{index}(char *to, {parameters}{name} x, double d, {name} y, float f) {{\n\
         \x20 to += sprintf(to, \"%ld %a %a\", 0L{sum}, d, (double)f);\n{}{}}}",
        listing("x", leaves, "to += sprintf(to, "),
        listing("y", leaves, "to += sprintf(to, ")
    )
    .expect("it is a string");
    let arguments: String = (0..leading)
        .map(|number| format!("{}, ", number + 1))
        .collect();
    write!(
        answer,
        "  {{\n  static {name} y;\n  static char text[100000];\n  fill{index}(&x, 0); \
         fill{index}(&y, 1);\n\
         \x20 take{index}(text, {arguments}x, 1.5, y, 2.5f);\n  printf(\"{}: take %s\\n\", \
         text);\n  }}\n",
        declaration.label()
    )
    .expect("it is a string");
}

/// Functions that return a structure: a new one, and the result of a callback.
fn returned(source: &mut String, answer: &mut String, declaration: &Declaration, leaves: &[Leaf]) {
    let Declaration { index, name, .. } = declaration;
    let label = declaration.label();
    writeln!(
        source,
        "{name} make{index}(int which) {{ {name} x; fill{index}(&x, which); return x; }}\n\
         {name} turn{index}({name} (*f)({name}, int, double), {name} x) {{ return f(x, 7, 0.5); }}"
    )
    .expect("it is a string");
    let show = listing("x", leaves, "printf(");
    write!(
        answer,
        "  x = make{index}(1); printf(\"{label}: make\");\n{show}  printf(\"\\n\");\n\
         \x20 x = make{index}(0); printf(\"{label}: turn 7 %a\", 0.5);\n{show}  printf(\"\\n\");\n"
    )
    .expect("it is a string");
}

fn enumeration(source: &mut String, declaration: &Declaration, constants: &[String]) {
    let Declaration { index, name, .. } = declaration;
    let label = declaration.label();
    writeln!(
        source,
        "static void answer{index}(void) {{\n  printf(\"{label} %zu %zu\\n\", sizeof({name}), \
         _Alignof({name}));"
    )
    .expect("it is a string");
    for constant in constants {
        writeln!(
            source,
            "  printf(\"{label}.{constant} %lld\\n\", (long long){constant});"
        )
        .expect("it is a string");
    }
    source.push_str("}\n");
}

/// The term of an argument in a function's result.
fn share(number: usize, of: Scalar) -> String {
    let weight = number + 1;
    match of.form {
        Form::Floating | Form::LongDouble => {
            format!("  sum += (long long)(a{number} * 8) * {weight};\n")
        }
        Form::Pointer => format!("  sum += (long long)(uintptr_t)a{number} * {weight};\n"),
        _ => format!("  sum += (long long)a{number} * {weight};\n"),
    }
}

fn function(source: &mut String, declaration: &Declaration, signature: &Signature) {
    let Declaration { index, name, .. } = declaration;
    let label = declaration.label();
    let result = signature.result;
    let parameters: Vec<String> = signature
        .parameters
        .iter()
        .enumerate()
        .map(|(number, (of, _))| format!("{} a{number}", of.name))
        .collect();
    let parameters = if parameters.is_empty() {
        "void".to_owned()
    } else {
        parameters.join(", ")
    };
    let shares: String = signature
        .parameters
        .iter()
        .enumerate()
        .map(|(number, (of, _))| share(number, *of))
        .collect();
    let arguments: Vec<String> = signature
        .parameters
        .iter()
        .map(|(of, value)| literal(of.form, value))
        .collect();
    let arguments = arguments.join(", ");
    let (format, cast) = shown(result.form);
    let back = if result.form == Form::Pointer {
        "(void *)(uintptr_t)"
    } else {
        ""
    };
    writeln!(
        source,
        "{0} {name}({parameters}) {{\n  long long sum = 12345;\n{shares}  return {back}sum;\n}}\n\
         {0} {name}_through({name}_type *function) {{ return function({arguments}); }}\n\
         static void answer{index}(void) {{\n  printf(\"{label}: {format}\\n\", \
         {cast}{name}({arguments}));\n  \
         printf(\"{label}: {format} through\\n\", {cast}{name}_through({name}));\n}}",
        result.name
    )
    .expect("it is a string");
}
