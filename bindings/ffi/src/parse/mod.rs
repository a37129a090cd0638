//! A recursive-descent parser for C declarations, which builds types as it reads.
//!
//! It reads the declarations of C11 and the compiler extensions that headers use. These are
//! attributes (`packed`, `aligned`, `vector_size`, `mode`), `__asm__` names, `__extension__`,
//! `typeof` and 128-bit integers. It also reads two additions of LuaJIT: `$` for an argument, and
//! `[?]` for a length that is given later. There is no preprocessor. Function bodies and initial
//! values of variables are errors, because nothing could execute them.

mod attributes;
mod declarator;
mod expression;
mod items;
mod lexer;
mod record;
mod specifiers;

use crate::declarations::{Argument, Declarations, Prototype, Symbol};
use crate::error::DeclarationError;
use crate::types::{MAX_NESTING, MAX_TYPES, Qualified, TypeId};
use lexer::{Token, TokenKind};

type Parsed<T> = Result<T, DeclarationError>;

/// The deepest nesting of parentheses, structures and declarators.
const MAX_DEPTH: u32 = 100;

/// Words that cannot be names.
const KEYWORDS: [&str; 59] = [
    "auto",
    "break",
    "case",
    "char",
    "const",
    "continue",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "float",
    "for",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "register",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "typedef",
    "union",
    "unsigned",
    "void",
    "volatile",
    "while",
    "_Alignas",
    "_Alignof",
    "_Atomic",
    "_Bool",
    "_Complex",
    "complex",
    "_Noreturn",
    "_Static_assert",
    "_Thread_local",
    "__attribute__",
    "__attribute",
    "__asm__",
    "__asm",
    "asm",
    "__extension__",
    "__inline",
    "__inline__",
    "__restrict",
    "__restrict__",
    "__const",
    "__const__",
    "__volatile__",
    "__signed__",
    "__typeof__",
    "typeof",
];

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token<'a>>,
    at: usize,
    arguments: &'a [Argument],
    used: usize,
    depth: u32,
    /// The structures, unions and enumerations whose definitions are being read; the outermost
    /// comes first.
    defining: Vec<TypeId>,
    declared: &'a mut Declarations,
}

/// Reads all declarations of a text and stores them in `declared`.
pub(crate) fn declarations(
    declared: &mut Declarations,
    text: &str,
    arguments: &[Argument],
) -> Parsed<()> {
    let mut parser = Parser::new(declared, text, arguments)?;
    while !parser.is_end() {
        parser.item()?;
    }
    parser.check_arguments()
}

/// Reads the name of a type.
pub(crate) fn type_name(
    declared: &mut Declarations,
    text: &str,
    arguments: &[Argument],
) -> Parsed<Qualified> {
    let mut parser = Parser::new(declared, text, arguments)?;
    let of = parser.type_name()?;
    if !parser.is_end() {
        return parser.unexpected("the end of the type's name");
    }
    parser.check_arguments()?;
    Ok(of)
}

/// Reads the declaration of one function or variable.
pub(crate) fn prototype(declared: &mut Declarations, text: &str) -> Parsed<Prototype> {
    let mut parser = Parser::new(declared, text, &[])?;
    let prototype = parser.prototype()?;
    parser.accept(";");
    if !parser.is_end() {
        return parser.unexpected("the end of the declaration");
    }
    Ok(prototype)
}

impl<'a> Parser<'a> {
    fn new(
        declared: &'a mut Declarations,
        text: &'a str,
        arguments: &'a [Argument],
    ) -> Parsed<Self> {
        Ok(Self {
            text,
            tokens: lexer::tokens(text)?,
            at: 0,
            arguments,
            used: 0,
            depth: 0,
            defining: Vec::new(),
            declared,
        })
    }

    /// Reads something nested. Nesting deeper than [`MAX_DEPTH`] is an error.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == MAX_DEPTH {
            return self.error_here(format!(
                "nested more than {MAX_DEPTH} deep; divide it by typedefs"
            ));
        }
        if self.declared.types.count() > MAX_TYPES {
            return self.error_here(format!("more than {MAX_TYPES} types"));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Reads the definition of a type. A second definition of the same type inside it is an error.
    fn definition<T>(
        &mut self,
        id: TypeId,
        place: usize,
        read: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Parsed<T> {
        if self.defining.contains(&id) {
            let name = self.declared.types.name(id.into());
            return self.error_at(
                place,
                format!("'{name}' is being defined here already; give the inner one another tag"),
            );
        }
        self.defining.push(id);
        let result = read(self);
        self.defining.pop();
        result
    }

    /// Reports an error if an element or member is nested too deeply.
    fn check_nesting(&self, of: Qualified, place: usize) -> Parsed<()> {
        if self.declared.types.nesting(of.id) < MAX_NESTING {
            return Ok(());
        }
        self.error_at(
            place,
            format!(
                "more than {MAX_NESTING} arrays and structures within each other; use a pointer"
            ),
        )
    }

    fn token(&self) -> &TokenKind<'a> {
        &self.tokens[self.at].kind
    }

    fn token_after(&self, count: usize) -> &TokenKind<'a> {
        &self.tokens[(self.at + count).min(self.tokens.len() - 1)].kind
    }

    fn place(&self) -> usize {
        self.tokens[self.at].at
    }

    fn next(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    fn is_end(&self) -> bool {
        *self.token() == TokenKind::End
    }

    fn is(&self, mark: &str) -> bool {
        match self.token() {
            TokenKind::Mark(found) => *found == mark,
            TokenKind::Word(found) => *found == mark,
            _ => false,
        }
    }

    fn accept(&mut self, text: &str) -> bool {
        let found = self.is(text);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, mark: &str) -> Parsed<()> {
        if self.accept(mark) {
            return Ok(());
        }
        self.unexpected(&format!("'{mark}'"))
    }

    /// Reads a name, if there is one here. A name is a word that is not a keyword, or a `$` whose
    /// argument is a name.
    fn name(&mut self) -> Parsed<Option<String>> {
        let name = match self.token() {
            TokenKind::Word(word) if !KEYWORDS.contains(word) => (*word).to_owned(),
            TokenKind::Placeholder => match self.arguments.get(self.used) {
                Some(Argument::Name(name)) => {
                    self.used += 1;
                    name.clone()
                }
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        self.next();
        Ok(Some(name))
    }

    /// The argument for the `$` at this place.
    fn argument(&mut self) -> Parsed<&'a Argument> {
        let Some(argument) = self.arguments.get(self.used) else {
            let message = format!(
                "'$' number {} has no argument; pass one more",
                self.used + 1
            );
            return self.error_here(message);
        };
        self.used += 1;
        self.next();
        Ok(argument)
    }

    fn check_arguments(&self) -> Parsed<()> {
        if self.used < self.arguments.len() {
            let (used, given) = (self.used, self.arguments.len());
            return self.error_here(format!(
                "{given} arguments for {used} '$'; each '$' takes one"
            ));
        }
        Ok(())
    }

    /// The type that a `typedef` gave this name.
    fn typedef(&self, word: &str) -> Option<Qualified> {
        match self.declared.symbols.get(word) {
            Some(Symbol::Type(of)) => Some(*of),
            _ => None,
        }
    }

    fn error_at<T>(&self, place: usize, message: impl Into<String>) -> Parsed<T> {
        Err(DeclarationError::at(self.text, place, message))
    }

    fn error_here<T>(&self, message: impl Into<String>) -> Parsed<T> {
        self.error_at(self.place(), message)
    }

    /// The error that `expected` should have stood here.
    fn unexpected<T>(&self, expected: &str) -> Parsed<T> {
        let end = self
            .tokens
            .get(self.at + 1)
            .map_or(self.text.len(), |token| token.at);
        let found = match self.token() {
            TokenKind::End => "the text ends".to_owned(),
            _ => format!(
                "got '{}'",
                self.text[self.place()..end]
                    .trim()
                    .lines()
                    .next()
                    .unwrap_or_default()
            ),
        };
        self.error_here(format!("{expected} expected, {found}"))
    }
}
