//! Parses whole declarations, and stores what they declare.

use super::declarator::Declarator;
use super::specifiers::{Specifiers, Storage};
use super::{Parsed, Parser};
use crate::declarations::{Constant, External, Prototype, Symbol};
use crate::types::{Kind, Qualified};

impl Parser<'_> {
    /// Reads one declaration with its semicolon.
    pub(super) fn item(&mut self) -> Parsed<()> {
        if self.accept(";") {
            return Ok(());
        }
        if self.is("_Static_assert") {
            return self.static_assertion();
        }
        let specifiers = self.specifiers()?;
        if self.accept(";") {
            return Ok(());
        }
        loop {
            let declarator = self.declarator(specifiers.of)?;
            self.declare(&specifiers, declarator)?;
            if self.accept(";") {
                return Ok(());
            }
            if self.is("{") {
                return self.error_here(
                    "a function's body; it cannot be compiled here: end the declaration with ';'",
                );
            }
            if self.accept(",") {
                continue;
            }
            // The last declaration may omit its semicolon.
            return if self.is_end() {
                Ok(())
            } else {
                self.unexpected("';' or ','")
            };
        }
    }

    /// Reads `_Static_assert(condition, "message");`.
    pub(super) fn static_assertion(&mut self) -> Parsed<()> {
        let place = self.place();
        self.next();
        self.expect("(")?;
        let holds = self.constant()?.bits != 0;
        let message = if self.accept(",") {
            self.string()?
        } else {
            String::new()
        };
        self.expect(")")?;
        self.expect(";")?;
        if holds {
            return Ok(());
        }
        self.error_at(place, format!("static assertion failed: {message}"))
    }

    /// Reads the declaration of one function or variable.
    pub(super) fn prototype(&mut self) -> Parsed<Prototype> {
        let specifiers = self.specifiers()?;
        let place = self.place();
        let declarator = self.declarator(specifiers.of)?;
        match declarator.name {
            Some((name, _)) if specifiers.storage == Storage::Plain => Ok(Prototype {
                name,
                external: External {
                    of: declarator.of,
                    link_name: declarator.attributes.link_name,
                },
            }),
            _ => self.error_at(
                place,
                "a prototype with a name expected, such as 'int add(int a, int b)'",
            ),
        }
    }

    fn declare(&mut self, specifiers: &Specifiers, declarator: Declarator) -> Parsed<()> {
        let Some((name, place)) = declarator.name else {
            return self.unexpected("a name");
        };
        let of = self.attributed(declarator.of, &declarator.attributes)?;
        if specifiers.storage == Storage::Typedef {
            let aligned = specifiers
                .attributes
                .aligned
                .max(declarator.attributes.aligned);
            let of = Qualified {
                aligned: aligned.or(of.aligned),
                ..of
            };
            return self.remember(&name, Symbol::Type(of), place);
        }
        if self.is("=") {
            return self.valued(specifiers, &name, of, place);
        }
        let link_name = declarator.attributes.link_name;
        self.remember(&name, Symbol::External(External { of, link_name }), place)
    }

    /// Reads `static const int NAME = value`.
    fn valued(
        &mut self,
        specifiers: &Specifiers,
        name: &str,
        of: Qualified,
        place: usize,
    ) -> Parsed<()> {
        let scalar = self
            .declared
            .types
            .as_scalar(of.id)
            .filter(|scalar| scalar.is_integer() && scalar.size() <= 8);
        let Some(scalar) = scalar.filter(|_| specifiers.storage == Storage::Static && of.is_const)
        else {
            return self.error_here(
                "only 'static const' integers can have a value here; take '= ...' away",
            );
        };
        self.next();
        let value = self.constant()?.cast(scalar).bits as i64;
        self.remember(name, Symbol::Constant(Constant { value, scalar }), place)
    }

    /// Stores what a name stands for. The same declaration may be repeated, and a predeclared name
    /// may be declared anew. A function or variable keeps its first declaration.
    pub(super) fn remember(&mut self, name: &str, symbol: Symbol, place: usize) -> Parsed<()> {
        let was_predeclared = self.declared.predeclared.remove(name);
        match self.declared.symbols.get(name) {
            // Two libraries may each have a function with this name. The program declared the one
            // that it calls first, so that one stays.
            Some(known @ Symbol::External(_))
                if matches!(symbol, Symbol::External(_)) && !self.agree(known, &symbol) =>
            {
                Ok(())
            }
            Some(known) if !was_predeclared && !self.agree(known, &symbol) => {
                let known = match known {
                    Symbol::Type(of) => {
                        format!("typedef {}", self.declared.types.declaration(*of, name))
                    }
                    Symbol::External(known) => self.declared.types.declaration(known.of, name),
                    Symbol::Constant(constant) => format!("the constant {}", constant.value),
                };
                self.error_at(
                    place,
                    format!("'{name}' is declared already, as {known}; both must agree"),
                )
            }
            _ => {
                self.declared.symbols.insert(name.to_owned(), symbol);
                Ok(())
            }
        }
    }

    /// Whether two declarations of one name are compatible.
    fn agree(&self, known: &Symbol, new: &Symbol) -> bool {
        let same = |a: Qualified, b: Qualified| a.id == b.id && a.is_const == b.is_const;
        match (known, new) {
            (Symbol::Type(a), Symbol::Type(b)) => same(*a, *b),
            (Symbol::Constant(a), Symbol::Constant(b)) => a == b,
            (Symbol::External(a), Symbol::External(b)) => {
                let arrays =
                    |of: Qualified| matches!(self.declared.types.kind(of.id), Kind::Array(..));
                same(a.of, b.of) || (arrays(a.of) && arrays(b.of))
            }
            _ => false,
        }
    }
}
