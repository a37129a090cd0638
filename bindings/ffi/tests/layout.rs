//! Compares the layout of generated declarations with the C compiler: sizes, alignments, offsets
//! and bits.

mod compiler;
mod generator;

use std::collections::HashMap;
use std::fmt::Write;

use baton_ffi::declarations::Declarations;
use baton_ffi::types::{Field, Qualified, TypeId, Types};
use generator::Generator;

/// How many types are compared in one run.
const TYPES: usize = 400;

/// A member to compare: its name in C, and its expected place.
struct Asked {
    path: String,
    offset: u64,
    bits: Option<(u64, u64)>,
}

/// Returns all named members of a structure, including those of anonymous members.
fn members(types: &Types, id: TypeId, offset: u64, found: &mut Vec<Asked>) {
    let fields: &[Field] = types.body(id).map_or(&[], |body| &body.fields);
    for field in fields {
        let place = offset + field.found.offset;
        match &field.name {
            Some(name) => found.push(Asked {
                path: name.clone(),
                offset: place,
                bits: field
                    .found
                    .bits
                    .map(|bits| (place * 8 + u64::from(bits.first), u64::from(bits.width))),
            }),
            None => members(types, field.found.of.id, place, found),
        }
    }
}

/// Returns a C program that prints a line for each type and for each of its members.
fn program(text: &str, types: &[(String, Qualified)], declared: &Declarations) -> String {
    let mut source = format!(
        "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n#include \
         <string.h>\n{text}\n\
         static void bits(const char *name, const unsigned char *bytes, size_t size) {{\n\
           size_t i, first = 0, count = 0;\n\
           for (i = 0; i < size * 8; i++) if (bytes[i / 8] >> i % 8 & 1) {{ if (!count) first = i; \
           count++; }}\n\
           printf(\"%s %zu %zu\\n\", name, first, count);\n}}\nint main(void) {{\n"
    );
    for (name, of) in types {
        writeln!(
            source,
            "printf(\"{name} %zu %zu\\n\", sizeof({name}), _Alignof({name}));"
        )
        .expect("it is a string");
        let mut asked = Vec::new();
        members(&declared.types, of.id, 0, &mut asked);
        for Asked { path, bits, .. } in asked {
            if bits.is_some() {
                writeln!(
                    source,
                    "{{ static {name} x; x.{path} = -1; bits(\"{name}.{path}\", (void *)&x, sizeof \
                     x); }}"
                )
            } else {
                writeln!(
                    source,
                    "printf(\"{name}.{path} %zu 0\\n\", offsetof({name}, {path}));"
                )
            }
            .expect("it is a string");
        }
    }
    source.push_str("return 0;\n}\n");
    source
}

fn answers(output: &str) -> HashMap<&str, (u64, u64)> {
    let number = |word: Option<&str>| {
        word.and_then(|word| word.parse().ok())
            .expect("the program prints numbers")
    };
    let lines = output.lines().map(|line| {
        let at = line.len()
            - line
                .rsplitn(3, ' ')
                .take(2)
                .map(|word| word.len() + 1)
                .sum::<usize>();
        let mut words = line[at..].split_whitespace();
        (&line[..at], (number(words.next()), number(words.next())))
    });
    lines.collect()
}

fn compare(seed: u64, generate: fn(&mut Generator, usize) -> (String, String)) {
    let mut generator = Generator::new(seed);
    let mut declared = Declarations::default();
    let mut text = String::new();
    let mut types = Vec::new();
    for index in 0..TYPES {
        let (definition, name) = generate(&mut generator, index);
        if let Err(error) = declared.declare(&definition, &[]) {
            panic!("seed {seed}: {error} in\n{definition}");
        }
        let of = declared
            .type_name(&name, &[])
            .expect("it was just declared");
        text.push_str(&definition);
        text.push('\n');
        types.push((name, of));
    }
    let output = compiler::run(&program(&text, &types, &declared));
    let expected = answers(&output);
    let mut compared = 0;
    for (name, of) in &types {
        let size = declared.types.size_of(of.id).expect("it is defined");
        let align = u64::from(declared.types.align_of(*of));
        let definition = || {
            text.lines()
                .find(|line| line.contains(name.as_str()))
                .unwrap_or_default()
                .to_owned()
        };
        assert_eq!(
            (size, align),
            expected[name.as_str()],
            "seed {seed}: size, alignment of {}",
            definition()
        );
        let mut asked = Vec::new();
        members(&declared.types, of.id, 0, &mut asked);
        for Asked { path, offset, bits } in asked {
            let whole = format!("{name}.{path}");
            let place = bits.unwrap_or((offset, 0));
            assert_eq!(
                place,
                expected[whole.as_str()],
                "seed {seed}: {path} of {}",
                definition()
            );
            compared += 1;
        }
    }
    assert!(compared > TYPES, "only {compared} members were compared");
}

#[test]
fn generated_types_have_the_layout_of_the_c_compiler() {
    compare(1, Generator::definition);
}

#[test]
fn more_generated_types_have_the_layout_of_the_c_compiler() {
    compare(20_261_121, Generator::definition);
}

#[test]
fn generated_structures_of_floats_have_the_layout_of_the_c_compiler() {
    compare(63, Generator::floats);
}
