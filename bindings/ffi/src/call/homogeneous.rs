//! Finds homogeneous floating-point aggregates: up to four numbers of one type, without padding.
//! AArch64 passes each of the numbers in a register of its own (AAPCS64, section 5.9.5).
//!
//! The rules are those of GCC (`aapcs_vfp_sub_candidate` in `config/aarch64/aarch64.cc`) and Clang
//! (`ABIInfo::isHomogeneousAggregate`). Each structure, union and array in the whole has to be as
//! large as its numbers. So padding that a union's other member fills still counts. A bit-field
//! counts as an integer, with and without a name, and so does an array without elements. A
//! bit-field without bits does so in a union only.
//!
//! GCC has one exception, and Clang does not: a structure with one complex number and members
//! without bytes is passed like that number, whatever those members are. GCC gives it the machine
//! mode of the number, and looks no further (`compute_record_mode` in `stor-layout.cc`).

use crate::types::{Kind, Length, Scalar, TypeId, Types};

/// The most numbers in a homogeneous aggregate.
const MOST: u64 = 4;

/// The numbers of a homogeneous aggregate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Homogeneous {
    /// The type of each.
    pub(super) scalar: Scalar,
    /// How many there are, from 1 to 4.
    pub(super) count: usize,
}

/// The numbers of a type if it is a homogeneous aggregate, else `None`.
pub(super) fn parts(types: &Types, id: TypeId) -> Option<Homogeneous> {
    if let Some(scalar) = only_complex(types, id) {
        return Some(Homogeneous { scalar, count: 2 });
    }
    let found = count(types, id)?;
    Some(Homogeneous {
        scalar: found.scalar?,
        count: usize::try_from(found.numbers).ok()?,
    })
    .filter(|_| found.numbers <= MOST)
}

/// The type of both parts, if a type has the bytes of one complex number and no others.
fn only_complex(types: &Types, id: TypeId) -> Option<Scalar> {
    match types.kind(id) {
        Kind::Complex(part) => Some(*part),
        Kind::Array(of, Length::Known(1)) => only_complex(types, of.id),
        Kind::Record(record) if !record.is_union => {
            let size = types.size_of(id).filter(|size| *size > 0)?;
            let mut fields = record.body.as_ref()?.fields.iter();
            let whole = fields.find(|field| types.size_of(field.found.of.id) == Some(size))?;
            only_complex(types, whole.found.of.id)
        }
        _ => None,
    }
}

/// The numbers in a part of the whole. Without numbers, the scalar is not known.
#[derive(Clone, Copy, Default)]
struct Count {
    scalar: Option<Scalar>,
    numbers: u64,
}

impl Count {
    fn of(scalar: Scalar, numbers: u64) -> Option<Count> {
        scalar.is_floating().then_some(Count {
            scalar: Some(scalar),
            numbers,
        })
    }

    /// The same, if the numbers fill all bytes of a type.
    fn filling(self, size: u64) -> Option<Count> {
        let bytes = self.numbers * self.scalar.map_or(0, Scalar::size);
        (bytes == size).then_some(self)
    }

    /// Adds the member of a structure or, if they overlap, of a union.
    fn and(self, member: Count, overlap: bool) -> Option<Count> {
        let is_alike = match (self.scalar, member.scalar) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        is_alike.then_some(Count {
            scalar: self.scalar.or(member.scalar),
            numbers: match overlap {
                true => self.numbers.max(member.numbers),
                false => self.numbers + member.numbers,
            },
        })
    }
}

/// Counts the numbers in a type. `None` if something else is in it.
fn count(types: &Types, id: TypeId) -> Option<Count> {
    let size = types.size_of(id)?;
    match types.kind(id) {
        Kind::Scalar(scalar) => Count::of(*scalar, 1),
        Kind::Complex(part) => Count::of(*part, 2),
        Kind::Array(_, Length::Known(0)) => None,
        // Nothing without bytes is looked into, as it may contain any number of such types.
        Kind::Array(..) | Kind::Record(_) if size == 0 => Some(Count::default()),
        Kind::Array(of, Length::Known(length)) => {
            let element = count(types, of.id)?;
            let numbers = element.numbers.checked_mul(*length)?;
            Count { numbers, ..element }.filling(size)
        }
        Kind::Record(record) => {
            let body = record.body.as_ref()?;
            if !body.padding.is_empty() || body.tail.is_some() {
                return None;
            }
            let mut fields = body.fields.iter();
            let found = fields.try_fold(Count::default(), |found, field| {
                if field.found.bits.is_some() {
                    return None;
                }
                found.and(count(types, field.found.of.id)?, record.is_union)
            })?;
            found.filling(size)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declarations::Declarations;

    /// The count of numbers in the type with this definition; 0 if it is not homogeneous.
    fn numbers(definition: &str) -> usize {
        let mut declared = Declarations::default();
        let of = declared
            .type_name(definition, &[])
            .unwrap_or_else(|error| panic!("{error}"));
        parts(&declared.types, of.id).map_or(0, |found| found.count)
    }

    #[test]
    fn up_to_four_equal_numbers_are_homogeneous() {
        for (definition, expected) in [
            ("struct { float a; }", 1),
            ("struct { double a, b, c, d; }", 4),
            ("struct { double a, b, c, d, e; }", 0),
            ("struct { float a; double b; }", 0),
            ("struct { float a; int b; }", 0),
            ("struct { float *a; }", 0),
            ("struct { float a[2]; struct { float b, c; } d; }", 4),
            ("struct { float _Complex a, b; }", 4),
            ("union { float a; float b[3]; }", 3),
            ("union { float a; double b; }", 0),
            ("struct { long double a, b; }", 2),
            ("struct { float a; struct { } b[3]; }", 1),
        ] {
            assert_eq!(numbers(definition), expected, "{definition}");
        }
    }

    #[test]
    fn a_structure_with_the_bytes_of_a_complex_number_is_passed_like_it() {
        for (definition, expected) in [
            ("struct { float a[0]; float _Complex b; }", 2),
            ("struct { struct { float _Complex b[1]; int a[0]; } c; }", 2),
            ("struct { float a[0]; float _Complex b[2]; }", 0),
            (
                "struct { struct { } a; double _Complex b; } __attribute__((aligned(32)))",
                0,
            ),
            ("union { float a[0]; float _Complex b; }", 0),
        ] {
            assert_eq!(numbers(definition), expected, "{definition}");
        }
    }

    #[test]
    fn padding_and_bit_fields_are_not_homogeneous() {
        for definition in [
            "struct { double a; } __attribute__((aligned(16)))",
            "struct { float a; float b __attribute__((aligned(8))); }",
            "struct { float a; unsigned char b : 7; }",
            "struct { float a; unsigned char : 7; }",
            "union { float a; unsigned char b : 7; }",
            "union { float a; unsigned char : 7; }",
            "union { float a; unsigned : 0; }",
            "union { struct { float a; } __attribute__((aligned(8))) b; float c[2]; }",
            "struct { float a; float b[0]; }",
            "struct { float a; float b[]; }",
        ] {
            assert_eq!(numbers(definition), 0, "{definition}");
        }
        assert_eq!(
            numbers("struct { float a; unsigned char : 0; float b; }"),
            2
        );
    }
}
