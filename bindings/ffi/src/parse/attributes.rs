//! Parses `__attribute__((...))`, `__asm__("name")` and `_Alignas(...)`.

use super::lexer::TokenKind;
use super::{Parsed, Parser};
use crate::types::{Kind, Length, Qualified, Scalar};

/// The largest alignment that a declaration may ask for, in bytes.
const MAX_ALIGN: u64 = 1 << 28;

/// The attributes that matter to types and linking. The parser skips all others.
#[derive(Clone, Default, Debug)]
pub(super) struct Attributes {
    pub(super) packed: bool,
    /// The largest alignment that was given, in bytes.
    pub(super) aligned: Option<u32>,
    /// The size of the vector (`vector_size`), in bytes.
    pub(super) vector: Option<u64>,
    /// The size of the number (`mode`), in bytes.
    pub(super) mode: Option<u64>,
    pub(super) link_name: Option<String>,
}

impl Attributes {
    /// Adds other attributes to these.
    pub(super) fn add(&mut self, others: Attributes) {
        self.packed |= others.packed;
        self.aligned = self.aligned.max(others.aligned);
        self.vector = others.vector.or(self.vector);
        self.mode = others.mode.or(self.mode);
        self.link_name = others.link_name.or(self.link_name.take());
    }
}

impl Parser<'_> {
    /// Reads all attributes and assembler names at this place.
    pub(super) fn attributes(&mut self) -> Parsed<Attributes> {
        let mut attributes = Attributes::default();
        loop {
            match self.token() {
                TokenKind::Word("__attribute__" | "__attribute") => {
                    self.next();
                    self.attribute_list(&mut attributes)?;
                }
                TokenKind::Word("__asm__" | "__asm" | "asm") => {
                    self.next();
                    self.expect("(")?;
                    attributes.link_name = Some(self.string()?);
                    self.expect(")")?;
                }
                TokenKind::Word("_Alignas") => {
                    self.next();
                    self.expect("(")?;
                    let align = if self.starts_type() {
                        let of = self.type_name()?;
                        self.declared.types.align_of(of)
                    } else {
                        self.alignment()?
                    };
                    attributes.aligned = attributes.aligned.max(Some(align));
                    self.expect(")")?;
                }
                _ => return Ok(attributes),
            }
        }
    }

    fn attribute_list(&mut self, attributes: &mut Attributes) -> Parsed<()> {
        self.expect("(")?;
        self.expect("(")?;
        while !self.accept(")") {
            if self.accept(",") {
                continue;
            }
            let TokenKind::Word(name) = *self.token() else {
                return self.unexpected("the name of an attribute");
            };
            self.next();
            match name.trim_matches('_') {
                "packed" => attributes.packed = true,
                "aligned" => {
                    let align = if self.accept("(") {
                        let align = self.alignment()?;
                        self.expect(")")?;
                        align
                    } else {
                        16 // the most that any scalar type needs, on x86-64 and AArch64
                    };
                    attributes.aligned = attributes.aligned.max(Some(align));
                }
                "vector_size" => {
                    self.expect("(")?;
                    attributes.vector = Some(self.length()?);
                    self.expect(")")?;
                }
                "mode" => {
                    self.expect("(")?;
                    attributes.mode = Some(self.mode()?);
                    self.expect(")")?;
                }
                _ if self.is("(") => self.skip_group()?,
                _ => {}
            }
        }
        self.expect(")")
    }

    fn alignment(&mut self) -> Parsed<u32> {
        let place = self.place();
        let align = self.length()?;
        if !align.is_power_of_two() || align > MAX_ALIGN {
            return self.error_at(
                place,
                format!("a power of two up to {MAX_ALIGN} expected as alignment, got {align}"),
            );
        }
        Ok(align as u32)
    }

    /// Reads a machine mode of GCC and returns its size in bytes.
    fn mode(&mut self) -> Parsed<u64> {
        let TokenKind::Word(mode) = *self.token() else {
            return self.unexpected("a machine mode such as DI");
        };
        let size = match mode.trim_matches('_') {
            "QI" | "byte" => 1,
            "HI" => 2,
            "SI" | "SF" => 4,
            "DI" | "DF" | "word" | "pointer" => 8,
            "TI" => 16,
            _ => {
                return self.unexpected(
                    "one of the machine modes QI, HI, SI, DI, TI, SF, DF, word, pointer",
                );
            }
        };
        self.next();
        Ok(size)
    }

    /// Skips a group in parentheses.
    fn skip_group(&mut self) -> Parsed<()> {
        let mut depth = 0_u32;
        loop {
            if self.is("(") {
                depth += 1;
            } else if self.is(")") {
                depth -= 1;
            } else if self.is_end() {
                return self.unexpected("')'");
            }
            self.next();
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Reads a string literal, or several adjacent ones as one string.
    pub(super) fn string(&mut self) -> Parsed<String> {
        let mut whole = String::new();
        if !matches!(self.token(), TokenKind::Text(_)) {
            return self.unexpected("a string in double quotes");
        }
        while let TokenKind::Text(text) = self.token() {
            whole.push_str(text);
            self.next();
        }
        Ok(whole)
    }

    /// The type after `mode` and `vector_size` have been applied.
    pub(super) fn attributed(
        &mut self,
        of: Qualified,
        attributes: &Attributes,
    ) -> Parsed<Qualified> {
        let mut id = of.id;
        if let Some(size) = attributes.mode {
            let changed = match self.declared.types.as_scalar(id) {
                Some(scalar) if scalar.is_integer() => Scalar::integer(size, scalar.is_signed()),
                Some(_) if size == 4 => Some(Scalar::Float),
                Some(_) if size == 8 => Some(Scalar::Double),
                _ => None,
            };
            match changed {
                Some(scalar) => id = self.declared.types.scalar(scalar),
                None => {
                    return self
                        .error_here("the attribute mode does not fit this type; take it away");
                }
            }
        }
        if let Some(bytes) = attributes.vector {
            let fits = |scalar: Scalar| {
                bytes.is_power_of_two() && bytes % scalar.size() == 0 && bytes <= MAX_ALIGN
            };
            match self.declared.types.kind(id) {
                Kind::Scalar(scalar) if fits(*scalar) => id = self.declared.types.vector(id, bytes),
                _ => {
                    return self.error_here(
                        "vector_size makes vectors of numbers only, and its bytes are a power of \
                         two that the number's size divides",
                    );
                }
            }
        }
        Ok(Qualified { id, ..of })
    }

    /// The type with qualifiers added. For an array, its elements get them.
    pub(super) fn qualify(
        &mut self,
        of: Qualified,
        is_const: bool,
        is_volatile: bool,
    ) -> Qualified {
        if !is_const && !is_volatile {
            return of;
        }
        if let Kind::Array(element, length) = *self.declared.types.kind(of.id) {
            let element = self.qualify(element, is_const, is_volatile);
            return self.array_of(element, length);
        }
        Qualified {
            is_const: of.is_const || is_const,
            is_volatile: of.is_volatile || is_volatile,
            ..of
        }
    }

    pub(super) fn array_of(&mut self, element: Qualified, length: Length) -> Qualified {
        self.declared.types.array(element, length).into()
    }
}
