//! Parses structures, unions and enumerations.

use std::collections::HashSet;

use super::attributes::Attributes;
use super::expression::Number;
use super::{Parsed, Parser};
use crate::declarations::{Constant, Symbol};
use crate::types::{
    Bits, Body, Field, Found, Kind, Length, Member, Qualified, Rules, Scalar, Tail, TypeId, lay_out,
};

/// The members that have been read so far.
#[derive(Default)]
struct Members {
    members: Vec<Member>,
    fields: Vec<(Option<String>, Qualified)>,
    names: HashSet<String>,
    /// The element type of a flexible array at the end, and whether its length is given later.
    tail: Option<(Qualified, bool)>,
}

impl Parser<'_> {
    /// Reads `struct` or `union`: a tag, a definition, or both. The second result tells whether the
    /// type is defined here without a tag.
    pub(super) fn record(&mut self) -> Parsed<(TypeId, bool)> {
        let is_union = self.is("union");
        self.next();
        let mut attributes = self.attributes()?;
        let place = self.place();
        let tag = self.name()?;
        let more = self.attributes()?;
        attributes.add(more);
        let defines = self.is("{");
        if tag.is_none() && !defines {
            return self.unexpected("a tag or '{'");
        }
        let is_anonymous = tag.is_none();
        let id = match tag.as_ref().and_then(|tag| self.declared.tags.get(tag)) {
            Some(id) => *id,
            None => {
                let id = self.declared.types.record(is_union, tag.clone());
                if let Some(tag) = &tag {
                    self.declared.tags.insert(tag.clone(), id);
                }
                id
            }
        };
        match self.declared.types.kind(id) {
            Kind::Record(record) if record.is_union == is_union => {
                if defines && record.body.is_some() {
                    let message = format!(
                        "'{}' is defined already; take one away",
                        tag.unwrap_or_default()
                    );
                    return self.error_at(place, message);
                }
            }
            _ => {
                let message = format!(
                    "'{}' is the tag of another kind of type",
                    tag.unwrap_or_default()
                );
                return self.error_at(place, message);
            }
        }
        if defines {
            self.definition(id, place, |parser| parser.define(id, is_union, attributes))?;
        }
        Ok((id, is_anonymous && defines))
    }

    fn define(&mut self, id: TypeId, is_union: bool, mut attributes: Attributes) -> Parsed<()> {
        let place = self.place();
        self.expect("{")?;
        let mut read = Members::default();
        while !self.is("}") {
            self.member(&mut read, is_union)?;
        }
        let pack = self.tokens[self.at].pack;
        self.next();
        let more = self.attributes()?;
        attributes.add(more);
        let rules = Rules {
            is_union,
            packed: attributes.packed,
            aligned: attributes.aligned,
            pack,
        };
        let Some(placed) = lay_out(&read.members, rules) else {
            return self.error_at(place, "a structure of more than 2^63 - 1 bytes");
        };
        let tail = read.tail.map(|(element, is_variable)| Tail {
            element,
            offset: placed.bits.last().map_or(0, |bits| bits / 8),
            is_variable,
        });
        let places = placed.bits.iter().zip(&read.members);
        let unnamed = places.clone().filter(|(_, member)| !member.named);
        let padding = unnamed
            .filter_map(|(bit, member)| member.width.map(|width| *bit..*bit + u64::from(width)));
        let padding = padding
            .filter(|bits| is_union || !bits.is_empty())
            .collect();
        let fields = read.fields.into_iter().zip(places);
        let fields =
            fields.filter(|((name, _), (_, member))| name.is_some() || member.width.is_none());
        let fields = fields.map(|((name, of), (bit, member))| Field {
            name,
            found: Found {
                of,
                offset: bit / 8,
                bits: member.width.map(|width| Bits {
                    first: (bit % 8) as u8,
                    width: width as u8,
                }),
            },
        });
        let mut body = Body::new(placed.size, placed.align, fields.collect());
        body.align_of_members = placed.align_of_members;
        body.tail = tail;
        body.padding = padding;
        self.declared.types.define_record(id, body);
        Ok(())
    }

    /// Reads one declaration of members.
    fn member(&mut self, read: &mut Members, is_union: bool) -> Parsed<()> {
        if self.is("_Static_assert") {
            return self.static_assertion();
        }
        if self.accept(";") {
            return Ok(());
        }
        let specifiers = self.specifiers()?;
        if self.accept(";") {
            // A structure without a tag becomes a member without a name. Any other type without a
            // declarator declares no member.
            if specifiers.is_anonymous {
                self.add_member(
                    read,
                    None,
                    specifiers.of,
                    &specifiers.attributes,
                    None,
                    self.place(),
                )?;
            }
            return Ok(());
        }
        loop {
            let place = self.place();
            if read.tail.is_some() && !is_union {
                return self.error_at(
                    place,
                    "an array without a length must be the last member; move it to the end",
                );
            }
            let declarator = self.declarator(specifiers.of)?;
            let mut attributes = specifiers.attributes.clone();
            attributes.add(declarator.attributes.clone());
            let width = if self.accept(":") {
                Some((self.length()?, place))
            } else {
                None
            };
            let more = self.attributes()?;
            attributes.add(more.clone());
            let mut own = declarator.attributes;
            own.add(more);
            let of = self.attributed(declarator.of, &own)?;
            let name = declarator.name.map(|(name, _)| name);
            if name.is_none() && width.is_none() {
                return self.unexpected("the name of a member");
            }
            let width = match width {
                Some((width, place)) => Some(self.check_width(of, width, name.is_some(), place)?),
                None => None,
            };
            self.add_member(read, name, of, &attributes, width, place)?;
            if self.accept(";") {
                return Ok(());
            }
            if !self.accept(",") {
                return self.unexpected("';' or ','");
            }
        }
    }

    fn check_width(&mut self, of: Qualified, width: u64, named: bool, place: usize) -> Parsed<u32> {
        let scalar = self
            .declared
            .types
            .as_scalar(of.id)
            .filter(|scalar| scalar.is_integer());
        let Some(scalar) = scalar.filter(|scalar| scalar.size() <= 8) else {
            return self.error_at(
                place,
                "a bit-field is of an integer type of at most 64 bits, bool or an enumeration",
            );
        };
        let most = if scalar == Scalar::Bool {
            1
        } else {
            scalar.size() * 8
        };
        if width > most {
            let name = self.declared.types.name(of);
            return self.error_at(
                place,
                format!("{width} bits do not fit into '{name}', which has {most}"),
            );
        }
        if width == 0 && named {
            return self.error_at(
                place,
                "a bit-field of width 0 has no name; take the name away",
            );
        }
        Ok(width as u32)
    }

    fn add_member(
        &mut self,
        read: &mut Members,
        name: Option<String>,
        of: Qualified,
        attributes: &Attributes,
        width: Option<u32>,
        place: usize,
    ) -> Parsed<()> {
        self.check_nesting(of, place)?;
        let types = &self.declared.types;
        let size = match *types.kind(of.id) {
            Kind::Array(element, length @ (Length::Unknown | Length::Variable)) => {
                read.tail = Some((element, length == Length::Variable));
                0
            }
            Kind::Function(_) => {
                return self.error_at(
                    place,
                    "a member cannot be a function; make it a pointer to one",
                );
            }
            _ => match types.size_of(of.id) {
                Some(size) => size,
                None => {
                    let message = format!(
                        "the size of '{}' is not known here; define it before",
                        types.name(of)
                    );
                    return self.error_at(place, message);
                }
            },
        };
        let align = types.align_of(of);
        if let Some(name) = &name
            && !read.names.insert(name.clone())
        {
            return self.error_at(
                place,
                format!("a second member '{name}'; give it another name"),
            );
        }
        read.members.push(Member {
            size,
            align,
            aligned: attributes.aligned,
            packed: attributes.packed,
            width,
            named: name.is_some(),
        });
        read.fields.push((name, of));
        Ok(())
    }

    /// Reads `enum`: a tag, a definition, or both.
    pub(super) fn enumeration(&mut self) -> Parsed<TypeId> {
        self.next();
        let mut attributes = self.attributes()?;
        let place = self.place();
        let tag = self.name()?;
        if tag.is_none() && !self.is("{") {
            return self.unexpected("a tag or '{'");
        }
        let known = tag
            .as_ref()
            .and_then(|tag| self.declared.tags.get(tag))
            .copied();
        let id = known.unwrap_or_else(|| self.declared.types.enumeration(tag.clone()));
        let is_defined = match self.declared.types.kind(id) {
            Kind::Enum(known) => known.underlying.is_some(),
            _ => return self.error_at(place, "this is the tag of another kind of type"),
        };
        if let Some(tag) = tag {
            self.declared.tags.insert(tag, id);
        }
        if self.accept("{") {
            if is_defined {
                return self.error_at(place, "this enumeration is defined already; take one away");
            }
            let constants = self.definition(id, place, Self::enumerators)?;
            let more = self.attributes()?;
            attributes.add(more);
            let holder = holder(&constants, attributes.packed);
            let constants = constants
                .into_iter()
                .map(|(name, number)| (name, number.bits as i64));
            self.declared
                .types
                .define_enumeration(id, holder, constants.collect());
        }
        Ok(id)
    }

    fn enumerators(&mut self) -> Parsed<Vec<(String, Number)>> {
        let mut constants = Vec::new();
        let mut next = Number::int(0);
        while !self.accept("}") {
            let place = self.place();
            let Some(name) = self.name()? else {
                return self.unexpected("the name of a constant");
            };
            self.attributes()?;
            if self.accept("=") {
                next = self.constant()?;
            }
            let scalar = next.scalar();
            let value = next.bits as i64;
            self.remember(&name, Symbol::Constant(Constant { value, scalar }), place)?;
            constants.push((name, next));
            next = next.successor();
            if !self.accept(",") && !self.is("}") {
                return self.unexpected("',' or '}'");
            }
        }
        Ok(constants)
    }
}

/// The integer type that holds all constants of an enumeration. GCC's rules choose it.
fn holder(constants: &[(String, Number)], packed: bool) -> Scalar {
    let negative = constants.iter().any(|(_, number)| number.is_negative());
    let fits = |size: u64| {
        let bits = size * 8 - u64::from(negative);
        constants.iter().all(|(_, number)| {
            let value = number.bits;
            let magnitude = if number.is_negative() { !value } else { value };
            bits >= 64 || magnitude >> bits == 0
        })
    };
    let sizes: &[u64] = if packed { &[1, 2, 4, 8] } else { &[4, 8] };
    let size = sizes.iter().copied().find(|size| fits(*size)).unwrap_or(8);
    Scalar::integer(size, negative).unwrap_or(Scalar::Int)
}
