//! Random structures and unions, by value.

use std::fmt::Write;

use baton_ffi::types::{Kind, Length, Scalar, TypeId, Types};

use crate::generator::Generator;
use crate::trial::{double, trial};

/// How many integers come before the structures varies: up to one less. Eight fill the registers of
/// AArch64, so that even the first structure is on the stack, or its address.
const LEADING: usize = 11;

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
        Kind::Array(of, Length::Known(length)) => {
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
        let leading: String = (0..index % LEADING)
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
            let mut arguments = vec![vec![9_u8; 8]; index % LEADING];
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
