//! Parses constant expressions: lengths of arrays, widths of bit-fields, values of constants.

use super::lexer::TokenKind;
use super::{Parsed, Parser};
use crate::declarations::{Argument, Symbol};
use crate::types::{Kind, MAX_SIZE, Qualified, Scalar};

/// An integer with its type: `int`, `unsigned`, `long` or `unsigned long`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Number {
    /// The value, extended to 64 bits by the rules of its type.
    pub(super) bits: u64,
    is_unsigned: bool,
    is_long: bool,
}

impl Number {
    /// An `int`.
    pub(super) fn int(value: i64) -> Self {
        Self {
            bits: value as u64,
            is_unsigned: false,
            is_long: false,
        }
    }

    fn long(bits: u64, is_unsigned: bool) -> Self {
        Self {
            bits,
            is_unsigned,
            is_long: true,
        }
    }

    fn of(value: i64, scalar: Scalar) -> Self {
        let wide = scalar.size() >= 4;
        let made = Self {
            bits: value as u64,
            is_unsigned: wide && !scalar.is_signed(),
            is_long: scalar.size() >= 8,
        };
        made.wrapped()
    }

    /// The type as a scalar.
    pub(super) fn scalar(self) -> Scalar {
        match (self.is_long, self.is_unsigned) {
            (false, false) => Scalar::Int,
            (false, true) => Scalar::UnsignedInt,
            (true, false) => Scalar::Long,
            (true, true) => Scalar::UnsignedLong,
        }
    }

    /// Whether it is below zero.
    pub(super) fn is_negative(self) -> bool {
        !self.is_unsigned && (self.bits as i64) < 0
    }

    /// The value plus one, in a type that can hold it.
    pub(super) fn successor(self) -> Self {
        let bits = self.bits.wrapping_add(1);
        let is_long = self.is_long
            || if self.is_unsigned {
                bits > u64::from(u32::MAX)
            } else {
                bits as i64 > i64::from(i32::MAX)
            };
        Self {
            bits,
            is_long,
            ..self
        }
    }

    /// The value reduced to the bits that its type has.
    fn wrapped(self) -> Self {
        let bits = match (self.is_long, self.is_unsigned) {
            (true, _) => self.bits,
            (false, true) => u64::from(self.bits as u32),
            (false, false) => self.bits as i32 as u64,
        };
        Self { bits, ..self }
    }

    /// The value converted to the common type of both operands.
    fn converted(self, other: Self) -> Self {
        let is_long = self.is_long || other.is_long;
        let is_unsigned = [self, other]
            .iter()
            .any(|number| number.is_unsigned && (number.is_long || !is_long));
        let made = Self {
            bits: self.bits,
            is_unsigned,
            is_long,
        };
        made.wrapped()
    }

    /// The value cast to an integer type of at most 64 bits, and then promoted.
    pub(super) fn cast(self, scalar: Scalar) -> Self {
        let shift = 64 - scalar.size() * 8;
        let value = if scalar == Scalar::Bool {
            i64::from(self.is_true())
        } else if scalar.is_signed() {
            ((self.bits << shift) as i64) >> shift
        } else {
            ((self.bits << shift) >> shift) as i64
        };
        Self::of(value, scalar)
    }

    fn is_true(self) -> bool {
        self.bits != 0
    }
}

/// Binary operators with their precedence; a higher number binds more tightly.
const OPERATORS: [(&str, u8); 18] = [
    ("||", 1),
    ("&&", 2),
    ("|", 3),
    ("^", 4),
    ("&", 5),
    ("==", 6),
    ("!=", 6),
    ("<", 7),
    (">", 7),
    ("<=", 7),
    (">=", 7),
    ("<<", 8),
    (">>", 8),
    ("+", 9),
    ("-", 9),
    ("*", 10),
    ("/", 10),
    ("%", 10),
];

impl Parser<'_> {
    /// Reads a constant expression.
    pub(super) fn constant(&mut self) -> Parsed<Number> {
        self.nested(|parser| {
            let condition = parser.binary(1)?;
            if !parser.accept("?") {
                return Ok(condition);
            }
            let then = parser.constant()?;
            parser.expect(":")?;
            let otherwise = parser.constant()?;
            Ok(if condition.is_true() {
                then.converted(otherwise)
            } else {
                otherwise.converted(then)
            })
        })
    }

    /// Reads a constant expression that counts something. It must not be negative, or larger than
    /// any size.
    pub(super) fn length(&mut self) -> Parsed<u64> {
        let place = self.place();
        let number = self.constant()?;
        if number.is_negative() {
            return self.error_at(
                place,
                format!("0 or more expected, got {}", number.bits as i64),
            );
        }
        if number.bits > MAX_SIZE {
            return self.error_at(
                place,
                format!("at most 2^63 - 1 expected, got {}", number.bits),
            );
        }
        Ok(number.bits)
    }

    fn binary(&mut self, least: u8) -> Parsed<Number> {
        let mut left = self.unary()?;
        loop {
            let TokenKind::Mark(mark) = *self.token() else {
                return Ok(left);
            };
            let Some((_, strength)) = OPERATORS
                .iter()
                .find(|(text, strength)| *text == mark && *strength >= least)
            else {
                return Ok(left);
            };
            let place = self.place();
            self.next();
            let right = self.nested(|parser| parser.binary(strength + 1))?;
            left = match compute(mark, left, right) {
                Ok(value) => value,
                Err(why) => return self.error_at(place, why),
            };
        }
    }

    fn unary(&mut self) -> Parsed<Number> {
        let operator = match *self.token() {
            TokenKind::Mark(mark @ ("-" | "+" | "~" | "!")) => mark,
            TokenKind::Mark("(") => return self.parenthesis(),
            _ => return self.primary(),
        };
        self.next();
        let number = self.nested(Self::unary)?;
        let bits = match operator {
            "-" => number.bits.wrapping_neg(),
            "~" => !number.bits,
            "!" => return Ok(Number::int(i64::from(!number.is_true()))),
            _ => number.bits,
        };
        Ok(Number { bits, ..number }.wrapped())
    }

    /// Reads a cast, or an expression in parentheses.
    fn parenthesis(&mut self) -> Parsed<Number> {
        self.expect("(")?;
        if !self.starts_type() {
            let number = self.constant()?;
            self.expect(")")?;
            return Ok(number);
        }
        let place = self.place();
        let of = self.nested(Self::type_name)?;
        self.expect(")")?;
        let number = self.nested(Self::unary)?;
        match self.declared.types.as_scalar(of.id) {
            Some(scalar) if scalar.is_integer() && scalar.size() <= 8 => Ok(number.cast(scalar)),
            _ => self.error_at(place, "only casts to integers can be computed here"),
        }
    }

    fn primary(&mut self) -> Parsed<Number> {
        let number = match self.token().clone() {
            TokenKind::Integer {
                value,
                is_unsigned,
                is_long,
            } => Number {
                bits: value,
                is_unsigned,
                is_long,
            },
            TokenKind::Character(value) => Number::int(value),
            TokenKind::Placeholder => {
                let place = self.place();
                return match self.argument()? {
                    Argument::Number(value) => Ok(Number::long(*value as u64, false)),
                    _ => self.error_at(
                        place,
                        "'$' stands for a number here, and its argument is none",
                    ),
                };
            }
            TokenKind::Word("sizeof") => return self.size_of(),
            TokenKind::Word("_Alignof" | "alignof" | "__alignof__" | "__alignof") => {
                return self.align_of();
            }
            TokenKind::Word("offsetof" | "__builtin_offsetof") => return self.offset_of(),
            TokenKind::Word(word) => match self.declared.symbols.get(word) {
                Some(Symbol::Constant(constant)) => Number::of(constant.value, constant.scalar),
                _ => {
                    return self.error_here(format!(
                        "'{word}' is no constant; give it a value by enum or static const"
                    ));
                }
            },
            _ => return self.unexpected("a number"),
        };
        self.next();
        Ok(number)
    }

    fn type_in_parentheses(&mut self) -> Parsed<Qualified> {
        self.next();
        self.expect("(")?;
        self.nested(Self::type_name)
    }

    fn size_of(&mut self) -> Parsed<Number> {
        let place = self.place();
        if *self.token_after(1) != TokenKind::Mark("(") {
            return self.error_here("sizeof takes a type in parentheses here");
        }
        let of = self.type_in_parentheses()?;
        self.expect(")")?;
        match self.declared.types.size_of(of.id) {
            Some(size) => Ok(Number::long(size, true)),
            None => {
                let message = format!(
                    "'{}' has no size that is known here",
                    self.declared.types.name(of)
                );
                self.error_at(place, message)
            }
        }
    }

    fn align_of(&mut self) -> Parsed<Number> {
        let of = self.type_in_parentheses()?;
        self.expect(")")?;
        Ok(Number::long(
            u64::from(self.declared.types.align_of(of)),
            true,
        ))
    }

    fn offset_of(&mut self) -> Parsed<Number> {
        let mut of = self.type_in_parentheses()?;
        self.expect(",")?;
        let mut offset = 0;
        loop {
            let place = self.place();
            let name = self.name()?.unwrap_or_default();
            let Some(found) = self
                .declared
                .types
                .field(of.id, &name)
                .filter(|found| found.bits.is_none())
            else {
                let message = format!(
                    "'{}' has no member '{name}' with an offset",
                    self.declared.types.name(of)
                );
                return self.error_at(place, message);
            };
            offset += found.offset;
            of = found.of;
            while self.accept("[") {
                let index = self.length()?;
                let Kind::Array(element, _) = *self.declared.types.kind(of.id) else {
                    return self.error_here("this is no array");
                };
                offset += self.declared.types.array_size(element, index).unwrap_or(0);
                of = element;
                self.expect("]")?;
            }
            if !self.accept(".") {
                self.expect(")")?;
                return Ok(Number::long(offset, true));
            }
        }
    }
}

/// Computes the result of a binary operator.
fn compute(mark: &str, left: Number, right: Number) -> Result<Number, String> {
    let truth = |value: bool| Ok(Number::int(i64::from(value)));
    match mark {
        "||" => return truth(left.is_true() || right.is_true()),
        "&&" => return truth(left.is_true() && right.is_true()),
        "<<" | ">>" => return shift(mark, left, right),
        _ => {}
    }
    let (a, b) = (left.converted(right), right.converted(left));
    let below = |a: Number, b: Number| {
        if a.is_unsigned {
            a.bits < b.bits
        } else {
            (a.bits as i64) < (b.bits as i64)
        }
    };
    let bits = match mark {
        "|" => a.bits | b.bits,
        "^" => a.bits ^ b.bits,
        "&" => a.bits & b.bits,
        "+" => a.bits.wrapping_add(b.bits),
        "-" => a.bits.wrapping_sub(b.bits),
        "*" => a.bits.wrapping_mul(b.bits),
        "==" => return truth(a.bits == b.bits),
        "!=" => return truth(a.bits != b.bits),
        "<" => return truth(below(a, b)),
        ">" => return truth(below(b, a)),
        "<=" => return truth(!below(b, a)),
        ">=" => return truth(!below(a, b)),
        _ if b.bits == 0 => return Err("division by zero".to_owned()),
        "/" if a.is_unsigned => a.bits / b.bits,
        "/" => (a.bits as i64).wrapping_div(b.bits as i64) as u64,
        _ if a.is_unsigned => a.bits % b.bits,
        _ => (a.bits as i64).wrapping_rem(b.bits as i64) as u64,
    };
    Ok(Number { bits, ..a }.wrapped())
}

fn shift(mark: &str, left: Number, right: Number) -> Result<Number, String> {
    let width = if left.is_long { 64 } else { 32 };
    let Some(by) = u32::try_from(right.bits).ok().filter(|by| *by < width) else {
        return Err(format!(
            "a shift by 0 to {} expected, got {}",
            width - 1,
            right.bits as i64
        ));
    };
    let bits = match mark {
        "<<" => left.bits << by,
        _ if left.is_unsigned => left.bits >> by,
        _ => ((left.bits as i64) >> by) as u64,
    };
    Ok(Number { bits, ..left }.wrapped())
}
