//! Parses declarators: the pointers, arrays and functions around a declared name.

use super::attributes::Attributes;
use super::lexer::TokenKind;
use super::specifiers::is_calling_convention;
use super::{Parsed, Parser};
use crate::types::{Function, Kind, Length, Qualified};

/// The result of parsing one declarator.
pub(super) struct Declarator {
    /// The name and its place in the text. The name of a type has none, and a parameter may have
    /// none.
    pub(super) name: Option<(String, usize)>,
    pub(super) of: Qualified,
    pub(super) attributes: Attributes,
}

/// One step from a type to a type derived from it.
enum Derivation {
    Pointer {
        is_const: bool,
        is_volatile: bool,
    },
    Reference {
        place: usize,
    },
    Array {
        length: Length,
        place: usize,
    },
    Function {
        parameters: Vec<Qualified>,
        is_variadic: bool,
        place: usize,
    },
}

impl Parser<'_> {
    /// Reads the name of a type: specifiers, then a declarator without a name.
    pub(super) fn type_name(&mut self) -> Parsed<Qualified> {
        let specifiers = self.specifiers()?;
        let declarator = self.declarator(specifiers.of)?;
        match declarator.name {
            Some((name, place)) => {
                self.error_at(place, format!("no name can stand here; take '{name}' away"))
            }
            None => self.attributed(declarator.of, &declarator.attributes),
        }
    }

    /// Reads a declarator whose innermost type is `base`.
    pub(super) fn declarator(&mut self, base: Qualified) -> Parsed<Declarator> {
        let mut derivations = Vec::new();
        let mut attributes = self.attributes()?;
        let name = self.nested(|parser| parser.derivations(&mut derivations, &mut attributes))?;
        let mut of = base;
        for derivation in derivations.into_iter().rev() {
            of = self.derive(of, derivation)?;
        }
        let more = self.attributes()?;
        attributes.add(more);
        Ok(Declarator {
            name,
            of,
            attributes,
        })
    }

    /// Reads the derivations of one declarator. The one nearest to the name comes first.
    fn derivations(
        &mut self,
        derivations: &mut Vec<Derivation>,
        attributes: &mut Attributes,
    ) -> Parsed<Option<(String, usize)>> {
        let mut pointers = Vec::new();
        while self.accept("*") {
            pointers.push(self.pointer(attributes)?);
        }
        let place = self.place();
        if self.accept("&") || self.accept("&&") {
            pointers.push(Derivation::Reference { place });
        }
        self.skip_calling_conventions();
        let name = if self.is("(") && self.is_nested_declarator() {
            self.next();
            self.skip_calling_conventions();
            let inner = self.attributes()?;
            attributes.add(inner);
            let name = self.nested(|parser| parser.derivations(derivations, attributes))?;
            self.expect(")")?;
            name
        } else {
            let place = self.place();
            self.name()?.map(|name| (name, place))
        };
        loop {
            let place = self.place();
            if self.accept("[") {
                let length = self.array_length()?;
                derivations.push(Derivation::Array { length, place });
            } else if self.accept("(") {
                let (parameters, is_variadic) = self.nested(Self::parameters)?;
                derivations.push(Derivation::Function {
                    parameters,
                    is_variadic,
                    place,
                });
            } else {
                break;
            }
        }
        derivations.extend(pointers.into_iter().rev());
        Ok(name)
    }

    fn pointer(&mut self, attributes: &mut Attributes) -> Parsed<Derivation> {
        let (mut is_const, mut is_volatile) = (false, false);
        loop {
            match self.token() {
                TokenKind::Word("const" | "__const" | "__const__") => is_const = true,
                TokenKind::Word("volatile" | "__volatile__" | "__volatile") => is_volatile = true,
                TokenKind::Word(
                    "restrict" | "__restrict" | "__restrict__" | "_Atomic" | "__ptr64",
                ) => {}
                TokenKind::Word(word) if is_calling_convention(word) => {}
                TokenKind::Word("__attribute__" | "__attribute") => {
                    let more = self.attributes()?;
                    attributes.add(more);
                    continue;
                }
                _ => {
                    return Ok(Derivation::Pointer {
                        is_const,
                        is_volatile,
                    });
                }
            }
            self.next();
        }
    }

    fn skip_calling_conventions(&mut self) {
        while matches!(self.token(), TokenKind::Word(word) if is_calling_convention(word)) {
            self.next();
        }
    }

    /// Whether this parenthesis groups a declarator. Otherwise it begins a list of parameters.
    fn is_nested_declarator(&self) -> bool {
        match self.token_after(1) {
            TokenKind::Mark("*" | "&" | "&&" | "(" | "[") => true,
            TokenKind::Word("__attribute__" | "__attribute") => true,
            TokenKind::Word(word) if is_calling_convention(word) => true,
            TokenKind::Word(word) => {
                !super::KEYWORDS.contains(word) && self.typedef(word).is_none() && *word != "bool"
            }
            _ => false,
        }
    }

    /// Reads an array's length and the closing bracket.
    fn array_length(&mut self) -> Parsed<Length> {
        while let TokenKind::Word("static" | "const" | "restrict" | "volatile" | "__restrict") =
            self.token()
        {
            self.next();
        }
        if self.accept("]") {
            return Ok(Length::Unknown);
        }
        let is_star = self.is("*") && *self.token_after(1) == TokenKind::Mark("]");
        if is_star || self.is("?") {
            self.next();
            self.expect("]")?;
            return Ok(Length::Variable);
        }
        let length = self.length()?;
        self.expect("]")?;
        Ok(Length::Known(length))
    }

    /// Reads a function's parameters and the closing parenthesis. `()` means no parameters.
    fn parameters(&mut self) -> Parsed<(Vec<Qualified>, bool)> {
        let mut parameters = Vec::new();
        if self.accept(")") {
            return Ok((parameters, false));
        }
        if self.is("void") && *self.token_after(1) == TokenKind::Mark(")") {
            self.next();
            self.next();
            return Ok((parameters, false));
        }
        loop {
            if self.accept("...") {
                self.expect(")")?;
                return Ok((parameters, true));
            }
            let place = self.place();
            let specifiers = self.specifiers()?;
            let declarator = self.declarator(specifiers.of)?;
            parameters.push(self.parameter(declarator.of, place)?);
            if self.accept(")") {
                return Ok((parameters, false));
            }
            if !self.accept(",") {
                return self.unexpected("',' or ')'");
            }
        }
    }

    /// The type of a parameter: arrays and functions become pointers.
    fn parameter(&mut self, of: Qualified, place: usize) -> Parsed<Qualified> {
        let types = &mut self.declared.types;
        Ok(match *types.kind(of.id) {
            Kind::Array(element, _) => types.pointer(element).into(),
            Kind::Function(_) => types.pointer(of).into(),
            Kind::Void => {
                return self.error_at(
                    place,
                    "a parameter cannot be void; write 'void *', or (void) for none",
                );
            }
            _ => of,
        })
    }

    fn derive(&mut self, of: Qualified, derivation: Derivation) -> Parsed<Qualified> {
        let is_function = matches!(self.declared.types.kind(of.id), Kind::Function(_));
        match derivation {
            Derivation::Pointer {
                is_const,
                is_volatile,
            } => Ok(Qualified {
                is_const,
                is_volatile,
                ..self.declared.types.pointer(of).into()
            }),
            Derivation::Reference { place } => {
                if of.id == crate::types::Types::VOID {
                    return self
                        .error_at(place, "there are no references to void; make it a pointer");
                }
                Ok(self.declared.types.reference(of).into())
            }
            Derivation::Array { length, place } => {
                if matches!(self.declared.types.kind(of.id), Kind::Reference(_)) {
                    return self.error_at(
                        place,
                        "an array of references cannot be; make it one of pointers",
                    );
                }
                if is_function || of.id == crate::types::Types::VOID {
                    return self.error_at(
                        place,
                        "an array of functions or of void cannot be; make it one of pointers",
                    );
                }
                self.check_element(of, length, place)?;
                Ok(self.array_of(of, length))
            }
            Derivation::Function {
                parameters,
                is_variadic,
                place,
            } => {
                if is_function || matches!(self.declared.types.kind(of.id), Kind::Array(..)) {
                    return self.error_at(
                        place,
                        "a function returns no function and no array; return a pointer to it",
                    );
                }
                let function = Function {
                    result: of,
                    parameters,
                    is_variadic,
                };
                Ok(self.declared.types.function(function).into())
            }
        }
    }

    fn check_element(&mut self, of: Qualified, length: Length, place: usize) -> Parsed<()> {
        self.check_nesting(of, place)?;
        let types = &self.declared.types;
        let is_extern_array = length == Length::Unknown;
        if types.size_of(of.id).is_none() && !is_extern_array {
            let name = types.name(of);
            return self.error_at(
                place,
                format!("the size of '{name}' is not known here; define it before"),
            );
        }
        if let Length::Known(length) = length
            && types.array_size(of, length).is_none()
        {
            return self.error_at(place, "an array of more than 2^63 - 1 bytes");
        }
        Ok(())
    }
}
