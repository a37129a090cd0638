//! The types of C: what there is, how large it is, what it is called.
//!
//! Types live in a [`Types`] and are named by [`TypeId`]s. Pointers, arrays and functions are the same type if they are made of the same
//! types, so that equality of ids is C's "same type" for all but structures, unions and enumerations, which are new at each definition.

mod layout;
mod name;
mod scalar;

use std::collections::HashMap;
use std::ops::Range;

pub use layout::{Member, Placed, Rules, lay_out};
pub use scalar::Scalar;

/// The largest size of a type, in bytes: beyond it, differences of addresses within an object would not be representable.
pub const MAX_SIZE: u64 = i64::MAX as u64;

/// Most types in one [`Types`]; reaching it is an error.
pub const MAX_TYPES: usize = 1 << 24;

/// Most arrays, structures and unions within each other: what walks through them is recursive.
pub const MAX_NESTING: u32 = 256;

/// No type needs more alignment than this on its own: GCC aligns larger vectors so for the baseline processor.
const MOST_NATURAL_ALIGN: u64 = 16;

/// One type in a [`Types`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TypeId(u32);

impl TypeId {
    /// As a number, for a guest written in another language.
    pub fn to_bits(self) -> u32 {
        self.0
    }
}

/// A type with what stands beside it: qualifiers, and the alignment that a typedef may give it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Qualified {
    /// The type itself.
    pub id: TypeId,
    /// `const`: it may not be written to.
    pub is_const: bool,
    /// `volatile`.
    pub is_volatile: bool,
    /// An alignment in bytes that differs from the type's own.
    pub aligned: Option<u32>,
}

impl From<TypeId> for Qualified {
    fn from(id: TypeId) -> Self {
        Self {
            id,
            is_const: false,
            is_volatile: false,
            aligned: None,
        }
    }
}

impl Qualified {
    /// The same type without qualifiers and without an alignment of its own.
    pub fn plain(self) -> Self {
        self.id.into()
    }

    /// The same type, `const`.
    pub fn constant(self) -> Self {
        Self { is_const: true, ..self }
    }
}

/// How many elements an array has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Length {
    /// So many.
    Known(u64),
    /// `[]`: not said, or as many as there is room for.
    Unknown,
    /// `[?]`: said when an object is made.
    Variable,
}

/// What a type is.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// No value.
    Void,
    /// A number.
    Scalar(Scalar),
    /// Two numbers of the given floating-point type.
    Complex(Scalar),
    /// `vector_size`: elements that are computed with at once.
    Vector {
        /// The type of the elements.
        element: TypeId,
        /// The size of all.
        bytes: u64,
    },
    /// An enumeration.
    Enum(Enum),
    /// A pointer to a type.
    Pointer(Qualified),
    /// An array of a type.
    Array(Qualified, Length),
    /// A structure or union.
    Record(Record),
    /// A function.
    Function(Function),
}

/// An enumeration.
#[derive(Clone, PartialEq, Debug)]
pub struct Enum {
    /// Its tag, if it has one.
    pub tag: Option<String>,
    /// The integer type that holds its values; none while only the tag is known.
    pub underlying: Option<Scalar>,
    /// Its constants in the order of their declaration.
    pub constants: Vec<(String, i64)>,
}

/// A structure or union.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// Whether it is a union.
    pub is_union: bool,
    /// Its tag, if it has one.
    pub tag: Option<String>,
    /// Its members; none while only the tag is known.
    pub body: Option<Body>,
}

/// The members of a structure or union that has been defined.
#[derive(Clone, PartialEq, Debug)]
pub struct Body {
    /// Size in bytes, without a tail.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u32,
    /// The members in their order, those without names included.
    pub fields: Vec<Field>,
    /// The element of the array without a fixed length that ends it.
    pub tail: Option<Tail>,
    /// The bits of bit-fields without a name, counted from the beginning.
    pub padding: Vec<Range<u64>>,
    names: HashMap<String, Found>,
}

impl Body {
    /// So many bytes with these members, without a tail and without padding of bits.
    pub fn new(size: u64, align: u32, fields: Vec<Field>) -> Self {
        Self {
            size,
            align,
            fields,
            tail: None,
            padding: Vec::new(),
            names: HashMap::new(),
        }
    }
}

/// An array without a fixed length at the end of a structure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tail {
    /// The type of its elements.
    pub element: Qualified,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Whether its length is said when an object is made (`[?]`), rather than never (`[]`).
    pub is_variable: bool,
}

/// One member.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// Its name; none for an anonymous structure or union, and for padding.
    pub name: Option<String>,
    /// Its place and type.
    pub found: Found,
}

/// The place and type of a member.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Found {
    /// Its type.
    pub of: Qualified,
    /// Bytes from the beginning; for a bit-field, of the first byte that it has bits in.
    pub offset: u64,
    /// Its bits, if it is a bit-field.
    pub bits: Option<Bits>,
}

/// The bits of a bit-field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bits {
    /// The first, within the byte at the field's offset: 0..8, from the least significant.
    pub first: u8,
    /// How many: 1..=64.
    pub width: u8,
}

/// A function.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Function {
    /// What it returns.
    pub result: Qualified,
    /// What it takes; arrays and functions have become pointers.
    pub parameters: Vec<Qualified>,
    /// Whether more may follow.
    pub is_variadic: bool,
}

#[derive(PartialEq, Eq, Hash)]
enum Derived {
    Scalar(Scalar),
    Complex(Scalar),
    Vector(TypeId, u64),
    Pointer(Qualified),
    Array(Qualified, Length),
    Function(Function),
}

/// All types of one VM.
pub struct Types {
    kinds: Vec<Kind>,
    /// [`Types::nesting`] of each.
    nesting: Vec<u32>,
    derived: HashMap<Derived, TypeId>,
    definitions: u64,
}

impl Default for Types {
    fn default() -> Self {
        Self {
            kinds: vec![Kind::Void],
            nesting: vec![0],
            derived: HashMap::new(),
            definitions: 0,
        }
    }
}

impl Types {
    /// `void`.
    pub const VOID: TypeId = TypeId(0);

    /// What a type is.
    pub fn kind(&self, id: TypeId) -> &Kind {
        &self.kinds[id.0 as usize]
    }

    /// The type of a number that [`TypeId::to_bits`] made; none if there is no such type.
    pub fn from_bits(&self, bits: u32) -> Option<TypeId> {
        ((bits as usize) < self.kinds.len()).then_some(TypeId(bits))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.kinds.len()
    }

    /// How many structures, unions and enumerations have been defined. Only then does a type come by a size.
    pub fn definitions(&self) -> u64 {
        self.definitions
    }

    /// How many arrays, structures and unions are within each other in this type, itself included.
    pub fn nesting(&self, id: TypeId) -> u32 {
        self.nesting[id.0 as usize]
    }

    fn add(&mut self, kind: Kind) -> TypeId {
        let id = TypeId(u32::try_from(self.kinds.len()).expect("the parser keeps to MAX_TYPES"));
        self.nesting.push(match &kind {
            Kind::Array(of, _) => self.nesting(of.id) + 1,
            _ => 0,
        });
        self.kinds.push(kind);
        id
    }

    fn intern(&mut self, key: Derived, kind: Kind) -> TypeId {
        if let Some(id) = self.derived.get(&key) {
            return *id;
        }
        let id = self.add(kind);
        self.derived.insert(key, id);
        id
    }

    /// A number.
    pub fn scalar(&mut self, scalar: Scalar) -> TypeId {
        self.intern(Derived::Scalar(scalar), Kind::Scalar(scalar))
    }

    /// A complex number.
    pub fn complex(&mut self, part: Scalar) -> TypeId {
        self.intern(Derived::Complex(part), Kind::Complex(part))
    }

    /// A vector.
    pub fn vector(&mut self, element: TypeId, bytes: u64) -> TypeId {
        self.intern(Derived::Vector(element, bytes), Kind::Vector { element, bytes })
    }

    /// A pointer.
    pub fn pointer(&mut self, to: Qualified) -> TypeId {
        self.intern(Derived::Pointer(to), Kind::Pointer(to))
    }

    /// An array.
    pub fn array(&mut self, of: Qualified, length: Length) -> TypeId {
        self.intern(Derived::Array(of, length), Kind::Array(of, length))
    }

    /// A function.
    pub fn function(&mut self, function: Function) -> TypeId {
        self.intern(Derived::Function(function.clone()), Kind::Function(function))
    }

    /// A new structure or union, to be defined later.
    pub fn record(&mut self, is_union: bool, tag: Option<String>) -> TypeId {
        self.add(Kind::Record(Record {
            is_union,
            tag,
            body: None,
        }))
    }

    /// Defines a structure or union: its members with their places.
    pub fn define_record(&mut self, id: TypeId, mut body: Body) {
        for field in &body.fields {
            self.note_names(field, &mut body.names);
        }
        let inner = body.fields.iter().map(|field| self.nesting(field.found.of.id)).max();
        self.nesting[id.0 as usize] = inner.unwrap_or(0) + 1;
        if let Kind::Record(record) = &mut self.kinds[id.0 as usize] {
            record.body = Some(body);
            self.definitions += 1;
        }
    }

    /// The names that a field brings: its own, or those of the anonymous structure that it is.
    fn note_names(&self, field: &Field, names: &mut HashMap<String, Found>) {
        if let Some(name) = &field.name {
            names.insert(name.clone(), field.found);
        } else if let Some(inner) = self.body(field.found.of.id) {
            for (name, found) in &inner.names {
                let mut found = *found;
                found.offset += field.found.offset;
                found.of.is_const |= field.found.of.is_const;
                names.insert(name.clone(), found);
            }
        }
    }

    /// A new enumeration, to be defined later.
    pub fn enumeration(&mut self, tag: Option<String>) -> TypeId {
        self.add(Kind::Enum(Enum {
            tag,
            underlying: None,
            constants: Vec::new(),
        }))
    }

    /// Defines an enumeration.
    pub fn define_enumeration(&mut self, id: TypeId, holder: Scalar, defined: Vec<(String, i64)>) {
        if let Kind::Enum(Enum {
            underlying, constants, ..
        }) = &mut self.kinds[id.0 as usize]
        {
            *underlying = Some(holder);
            *constants = defined;
            self.definitions += 1;
        }
    }

    /// The body of a structure or union that is defined.
    pub fn body(&self, id: TypeId) -> Option<&Body> {
        match self.kind(id) {
            Kind::Record(record) => record.body.as_ref(),
            _ => None,
        }
    }

    /// Whether the type, or that of an array's elements, is still to be defined.
    pub fn is_incomplete(&self, id: TypeId) -> bool {
        match self.kind(id) {
            Kind::Array(of, _) => self.is_incomplete(of.id),
            Kind::Enum(of) => of.underlying.is_none(),
            Kind::Record(record) => record.body.is_none(),
            _ => false,
        }
    }

    /// A member of a structure or union by name, those of anonymous members included.
    pub fn field(&self, id: TypeId, name: &str) -> Option<Found> {
        self.body(id)?.names.get(name).copied()
    }

    /// The scalar type that holds values of this type: of numbers and enumerations.
    pub fn as_scalar(&self, id: TypeId) -> Option<Scalar> {
        match self.kind(id) {
            Kind::Scalar(scalar) => Some(*scalar),
            Kind::Enum(of) => of.underlying,
            _ => None,
        }
    }

    /// The size in bytes; none of what has no size (`void`, functions, what is not defined, arrays without a length). An array of
    /// variable length at the end of a structure counts for nothing.
    pub fn size_of(&self, id: TypeId) -> Option<u64> {
        match self.kind(id) {
            Kind::Void | Kind::Function(_) => None,
            Kind::Scalar(scalar) => Some(scalar.size()),
            Kind::Complex(part) => Some(part.size() * 2),
            Kind::Vector { bytes, .. } => Some(*bytes),
            Kind::Enum(of) => of.underlying.map(Scalar::size),
            Kind::Pointer(_) => Some(size_of::<*const ()>() as u64),
            Kind::Array(of, Length::Known(length)) => self.array_size(*of, *length),
            Kind::Array(..) => None,
            Kind::Record(record) => record.body.as_ref().map(|body| body.size),
        }
    }

    /// The size of so many of a type; none if that is more than [`MAX_SIZE`], or if the type has no size.
    pub fn array_size(&self, of: Qualified, length: u64) -> Option<u64> {
        self.size_of(of.id)?
            .checked_mul(length)
            .filter(|size| *size <= MAX_SIZE)
    }

    /// The size of an object of a type whose length is said when it is made, with so many elements; the plain size of all others.
    pub fn size_with(&self, id: TypeId, elements: u64) -> Option<u64> {
        match self.kind(id) {
            Kind::Array(of, Length::Variable | Length::Unknown) => self.array_size(*of, elements),
            Kind::Record(Record {
                body: Some(Body {
                    size, tail: Some(tail), ..
                }),
                ..
            }) => {
                let end = tail.offset.checked_add(self.array_size(tail.element, elements)?)?;
                Some(end.max(*size)).filter(|size| *size <= MAX_SIZE)
            }
            _ => self.size_of(id),
        }
    }

    /// The alignment of a type in bytes; 1 of what has none.
    pub fn align_of(&self, of: Qualified) -> u32 {
        of.aligned.unwrap_or_else(|| match self.kind(of.id) {
            Kind::Void | Kind::Function(_) => 1,
            Kind::Scalar(scalar) | Kind::Complex(scalar) => scalar.align(),
            Kind::Vector { bytes, .. } => (*bytes).min(MOST_NATURAL_ALIGN) as u32,
            Kind::Enum(of) => of.underlying.map_or(1, Scalar::align),
            Kind::Pointer(_) => align_of::<*const ()>() as u32,
            Kind::Array(of, _) => self.align_of(*of),
            Kind::Record(record) => record.body.as_ref().map_or(1, |body| body.align),
        })
    }

    /// Whether the length is said when an object is made.
    pub fn is_variable(&self, id: TypeId) -> bool {
        match self.kind(id) {
            Kind::Array(_, Length::Variable) => true,
            Kind::Record(record) => record
                .body
                .as_ref()
                .is_some_and(|body| body.tail.is_some_and(|tail| tail.is_variable)),
            _ => false,
        }
    }
}
