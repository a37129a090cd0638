//! Parses the beginning of a declaration: storage class, qualifiers, and the type that all its
//! declarators share.

use super::attributes::Attributes;
use super::lexer::TokenKind;
use super::{Parsed, Parser};
use crate::declarations::Argument;
use crate::types::{Qualified, Scalar, TypeId, Types};

/// The storage class of a declaration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Storage {
    Plain,
    Typedef,
    Static,
}

/// The result of parsing the specifiers of a declaration.
pub(super) struct Specifiers {
    pub(super) of: Qualified,
    pub(super) storage: Storage,
    pub(super) attributes: Attributes,
    /// Whether the type is a structure or union that is defined here without a tag.
    pub(super) is_anonymous: bool,
}

/// How often each word of an arithmetic type's name has been read (`unsigned`, `long`, ...).
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Words {
    void: u8,
    bool: u8,
    char: u8,
    short: u8,
    int: u8,
    long: u8,
    float: u8,
    double: u8,
    signed: u8,
    unsigned: u8,
    complex: u8,
    int128: u8,
    float128: u8,
}

impl Words {
    /// The counter of a word; `None` for any other word.
    fn count(&mut self, word: &str) -> Option<&mut u8> {
        Some(match word {
            "void" => &mut self.void,
            "_Bool" | "bool" => &mut self.bool,
            "char" => &mut self.char,
            "short" => &mut self.short,
            "int" => &mut self.int,
            "long" => &mut self.long,
            "float" | "_Float32" => &mut self.float,
            "double" | "_Float64" | "_Float32x" => &mut self.double,
            "signed" | "__signed" | "__signed__" => &mut self.signed,
            "unsigned" => &mut self.unsigned,
            "_Complex" | "__complex__" | "__complex" | "complex" => &mut self.complex,
            "__int128" => &mut self.int128,
            "_Float128" | "__float128" => &mut self.float128,
            _ => return None,
        })
    }

    /// The type that the words name together; `None` if the combination is not valid.
    fn scalar(self) -> Option<Scalar> {
        let unsigned = self.unsigned > 0;
        let sign = self.signed + self.unsigned;
        if sign > 1 || self.int > 1 || self.long > 2 {
            return None;
        }
        let base = Words {
            signed: 0,
            unsigned: 0,
            int: 0,
            complex: 0,
            ..self
        };
        let pick = |signed, otherwise| Some(if unsigned { otherwise } else { signed });
        let one = |change: fn(&mut Words)| {
            let mut words = Words::default();
            change(&mut words);
            words
        };
        let plain = sign == 0 && self.int == 0;
        match base {
            _ if base == Words::default() && sign + self.int > 0 => {
                pick(Scalar::Int, Scalar::UnsignedInt)
            }
            _ if base == one(|w| w.short = 1) => pick(Scalar::Short, Scalar::UnsignedShort),
            _ if base == one(|w| w.long = 1) => pick(Scalar::Long, Scalar::UnsignedLong),
            _ if base == one(|w| w.long = 2) => pick(Scalar::LongLong, Scalar::UnsignedLongLong),
            _ if self.int > 0 => None,
            _ if base == one(|w| w.char = 1) => match (self.signed, self.unsigned) {
                (0, 0) => Some(Scalar::Char),
                _ => pick(Scalar::SignedChar, Scalar::UnsignedChar),
            },
            _ if base == one(|w| w.int128 = 1) => pick(Scalar::Int128, Scalar::UnsignedInt128),
            _ if !plain => None,
            _ if base == one(|w| w.bool = 1) => Some(Scalar::Bool),
            _ if base == one(|w| w.float = 1) => Some(Scalar::Float),
            _ if base == one(|w| w.double = 1) => Some(Scalar::Double),
            _ if base
                == one(|w| {
                    w.long = 1;
                    w.double = 1;
                }) =>
            {
                Some(Scalar::LongDouble)
            }
            _ if base == one(|w| w.float128 = 1) => Some(Scalar::Float128),
            _ => None,
        }
    }

    fn type_id(self, types: &mut Types) -> Option<TypeId> {
        let void = Words {
            void: 1,
            ..Words::default()
        };
        if self == void {
            return Some(Types::VOID);
        }
        if self.complex == 0 {
            return self.scalar().map(|scalar| types.scalar(scalar));
        }
        let mut part = self;
        part.complex = 0;
        if part == Words::default() {
            part.double = 1;
        }
        let scalar = part
            .scalar()
            .filter(|scalar| scalar.is_floating() && self.complex == 1)?;
        Some(types.complex(scalar))
    }
}

/// The specifiers that have been read so far.
#[derive(Default)]
struct Reading {
    words: Words,
    base: Option<Qualified>,
    storage: Option<Storage>,
    attributes: Attributes,
    is_const: bool,
    is_volatile: bool,
    is_anonymous: bool,
}

impl Reading {
    fn has_type(&self) -> bool {
        self.base.is_some() || self.words != Words::default()
    }
}

impl Parser<'_> {
    /// Whether a type begins at this place.
    pub(super) fn starts_type(&self) -> bool {
        match self.token() {
            TokenKind::Word(word) => {
                let begins = [
                    "struct",
                    "union",
                    "enum",
                    "typeof",
                    "__typeof__",
                    "__typeof",
                    "_Atomic",
                    "__extension__",
                ];
                Words::default().count(word).is_some()
                    && (*word != "bool" || self.typedef(word).is_none())
                    || begins.contains(word)
                    || is_qualifier(word)
                    || self.typedef(word).is_some()
            }
            TokenKind::Placeholder => {
                matches!(self.arguments.get(self.used), Some(Argument::Type(_)))
            }
            _ => false,
        }
    }

    /// Reads all specifiers before the first declarator.
    pub(super) fn specifiers(&mut self) -> Parsed<Specifiers> {
        let start = self.place();
        let mut reading = Reading::default();
        while self.specifier(&mut reading)? {}
        let base = match reading.base {
            Some(_) if reading.words != Words::default() => None,
            Some(base) => Some(base),
            None if reading.words == Words::default() => return self.no_type(),
            None => reading
                .words
                .type_id(&mut self.declared.types)
                .map(Qualified::from),
        };
        let Some(base) = base else {
            return self.error_at(start, "these words together name no type of C");
        };
        let base = self.attributed(base, &reading.attributes)?;
        Ok(Specifiers {
            of: self.qualify(base, reading.is_const, reading.is_volatile),
            storage: reading.storage.unwrap_or(Storage::Plain),
            attributes: reading.attributes,
            is_anonymous: reading.is_anonymous,
        })
    }

    /// The error that a type is missing.
    fn no_type<T>(&self) -> Parsed<T> {
        match self.token() {
            TokenKind::Word(word) if !super::KEYWORDS.contains(word) => self.error_here(format!(
                "unknown type '{word}'; declare it first (typedef ... {word};), or write 'struct \
                 {word}' if it is a tag"
            )),
            _ => self.unexpected("a type"),
        }
    }

    /// Reads one specifier. Returns whether there was one.
    fn specifier(&mut self, reading: &mut Reading) -> Parsed<bool> {
        let word = match self.token() {
            TokenKind::Word(word) => *word,
            TokenKind::Placeholder if !reading.has_type() => {
                let place = self.place();
                let Argument::Type(of) = *self.argument()? else {
                    return self.error_at(
                        place,
                        "'$' stands for a type here, and its argument is none",
                    );
                };
                reading.base = Some(of);
                return Ok(true);
            }
            _ => return Ok(false),
        };
        match word {
            "typedef" => self.storage(reading, Storage::Typedef)?,
            "static" => self.storage(reading, Storage::Static)?,
            "const" | "__const" | "__const__" => reading.is_const = true,
            "volatile" | "__volatile__" | "__volatile" => reading.is_volatile = true,
            "struct" | "union" if !reading.has_type() => {
                let (id, is_anonymous) = self.nested(Self::record)?;
                reading.base = Some(id.into());
                reading.is_anonymous = is_anonymous;
                return Ok(true);
            }
            "enum" if !reading.has_type() => {
                reading.base = Some(self.enumeration()?.into());
                return Ok(true);
            }
            "typeof" | "__typeof__" | "__typeof" | "_Atomic"
                if *self.token_after(1) == TokenKind::Mark("(") =>
            {
                self.next();
                self.next();
                reading.base = Some(self.nested(Self::type_name)?);
                self.expect(")")?;
                return Ok(true);
            }
            "__attribute__" | "__attribute" | "__asm__" | "_Alignas" => {
                let attributes = self.attributes()?;
                reading.attributes.add(attributes);
                return Ok(true);
            }
            _ if is_qualifier(word) || is_ignored(word) => {}
            _ => return Ok(self.base(word, reading)),
        }
        self.next();
        Ok(true)
    }

    /// Reads a word that names a type, alone or together with others.
    fn base(&mut self, word: &str, reading: &mut Reading) -> bool {
        let typedef = if reading.has_type() {
            None
        } else {
            self.typedef(word)
        };
        if let Some(of) = typedef {
            reading.base = Some(of);
        } else if let Some(count) = reading.words.count(word) {
            *count = count.saturating_add(1);
        } else {
            return false;
        }
        self.next();
        true
    }

    fn storage(&mut self, reading: &mut Reading, storage: Storage) -> Parsed<()> {
        if reading.storage.replace(storage).is_some() {
            return self
                .error_here("one storage class at most (typedef, extern, static); take one away");
        }
        Ok(())
    }
}

fn is_qualifier(word: &str) -> bool {
    matches!(
        word,
        "const" | "__const" | "__const__" | "volatile" | "__volatile__" | "__volatile"
    ) || matches!(word, "restrict" | "__restrict" | "__restrict__" | "_Atomic")
}

/// Whether a word is one that changes nothing for a caller.
fn is_ignored(word: &str) -> bool {
    matches!(
        word,
        "extern" | "inline" | "__inline" | "__inline__" | "_Noreturn" | "__extension__"
    ) || matches!(word, "register" | "auto" | "_Thread_local" | "__thread")
        || is_calling_convention(word)
}

/// Whether a word is a calling convention of 32-bit Windows. The supported platforms have one
/// calling convention, so these words are skipped, as the corresponding attributes are.
pub(super) fn is_calling_convention(word: &str) -> bool {
    let bare = word.trim_start_matches('_');
    word.len() > bare.len()
        && matches!(
            bare,
            "cdecl" | "stdcall" | "fastcall" | "thiscall" | "vectorcall"
        )
}
