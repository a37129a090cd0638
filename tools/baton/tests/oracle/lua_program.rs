//! Writes the script: the declarations, and the data that `ffi/oracle.lua` needs about each.

use std::fmt::Write;

use super::{Declaration, Form, Kind, Leaf, Signature};

pub(super) fn script(declarations: &[Declaration]) -> String {
    let mut text = String::from("local oracle = require \"ffi.oracle\"\noracle.load(arg[1])\n");
    for declaration in declarations {
        match &declaration.kind {
            Kind::Record {
                leaves,
                is_passed,
                is_returned,
            } => {
                record(&mut text, declaration, leaves, (*is_passed, *is_returned));
            }
            Kind::Enumeration { constants } => {
                let list: Vec<String> = constants.iter().map(|name| format!("{name:?}")).collect();
                declare(&mut text, &declaration.text);
                writeln!(
                    text,
                    "oracle.enumeration({:?}, {:?}, {{ {} }})",
                    declaration.label(),
                    declaration.name,
                    list.join(", ")
                )
                .expect("it is a string");
            }
            Kind::Function(signature) => function(&mut text, declaration, signature),
        }
    }
    text
}

fn declare(text: &mut String, declarations: &str) {
    writeln!(text, "oracle.declare [[\n{declarations}\n]]").expect("it is a string");
}

fn form(form: Form) -> &'static str {
    match form {
        Form::Integer => "integer",
        Form::Unsigned => "unsigned",
        Form::Bool => "bool",
        Form::Floating => "floating",
        Form::LongDouble => "long double",
        Form::Pointer => "pointer",
    }
}

/// Returns a value as Lua passes it: values of enumerations by name.
fn literal(value: &str) -> String {
    match value.starts_with(|first: char| first.is_ascii_alphabetic()) {
        true => format!("{value:?}"),
        false => value.to_owned(),
    }
}

fn record(
    text: &mut String,
    declaration: &Declaration,
    leaves: &[Leaf],
    (is_passed, is_returned): (bool, bool),
) {
    let Declaration {
        index,
        name,
        text: declared,
        ..
    } = declaration;
    let parameters: String = (0..declaration.leading()).map(|_| "long, ").collect();
    let mut all = format!("{declared}\nvoid fill{index}({name} *p, int which);");
    if is_passed {
        write!(
            all,
            "\nvoid take{index}(char *to, {parameters}{name} x, double d, {name} y, float f);"
        )
        .expect("it is a string");
    }
    if is_returned {
        write!(
            all,
            "\n{name} make{index}(int which); {name} turn{index}({name} (*f)({name}, int, double), \
             {name} x);"
        )
        .expect("it is a string");
    }
    declare(text, &all);
    let leading = declaration.leading();
    writeln!(
        text,
        "oracle.record({:?}, {name:?}, {index}, {leading}, {is_passed}, {is_returned}, {{",
        declaration.label()
    )
    .expect("it is a string");
    for leaf in leaves {
        let [first, second] = [0, 1].map(|which| literal(&leaf.values[which]));
        writeln!(
            text,
            "  {{ {:?}, {:?}, {first}, {second}, bits = {}, apart = {}, cast = {:?} }},",
            leaf.path,
            form(leaf.form),
            leaf.is_bits,
            leaf.is_apart,
            leaf.cast
        )
        .expect("it is a string");
    }
    text.push_str("})\n");
}

fn function(text: &mut String, declaration: &Declaration, signature: &Signature) {
    declare(text, &declaration.text);
    let list = signature.parameters.iter().enumerate();
    let list: String = list
        .map(|(number, (of, value))| {
            format!(
                ", {{ {number}, {:?}, {value}, cast = {:?} }}",
                form(of.form),
                of.name
            )
        })
        .collect();
    writeln!(
        text,
        "oracle.call({:?}, {:?}, {:?}{list})",
        declaration.label(),
        declaration.name,
        form(signature.result.form)
    )
    .expect("it is a string");
}
