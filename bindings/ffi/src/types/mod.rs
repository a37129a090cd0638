//! The types of C: their kinds, sizes and names.
//!
//! A [`Types`] holds all types, and a [`TypeId`] identifies one. Pointers, arrays and functions are
//! interned: the same parts always give the same id. Each definition of a structure, union or
//! enumeration makes a new id. So two ids are equal exactly where C says "same type".

mod layout;
mod name;
mod scalar;

use std::collections::HashMap;
use std::ops::Range;

pub use layout::{Member, Placed, Rules, lay_out};
pub use scalar::Scalar;

/// The largest size of a type, in bytes. In a larger object, the difference between two addresses
/// would overflow.
pub const MAX_SIZE: u64 = i64::MAX as u64;

/// The largest number of types in one [`Types`]; more are an error.
pub const MAX_TYPES: usize = 1 << 24;

/// The deepest nesting of arrays, structures and unions. The limit exists because code that walks
/// through types is recursive.
pub const MAX_NESTING: u32 = 256;

/// The largest alignment, in bytes, that a type has without an attribute. GCC gives larger vectors
/// this alignment on the baseline processor.
const MOST_NATURAL_ALIGN: u64 = 16;

/// The identity of one type in a [`Types`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TypeId(u32);

impl TypeId {
    /// The id as a number, for guests that are not written in Rust.
    pub fn to_bits(self) -> u32 {
        self.0
    }
}

/// A type with its qualifiers, and with the alignment that a typedef may give it.
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
        Self {
            is_const: true,
            ..self
        }
    }
}

/// The length of an array.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Length {
    /// A fixed number of elements.
    Known(u64),
    /// `[]`: no length is given.
    Unknown,
    /// `[?]`: the length is given when an object is made.
    Variable,
}

/// The kind of a type, with its parts.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// `void`.
    Void,
    /// A number.
    Scalar(Scalar),
    /// A complex number: two numbers of this floating-point type.
    Complex(Scalar),
    /// A vector (`vector_size`), whose elements the processor computes together.
    Vector {
        /// The type of the elements.
        element: TypeId,
        /// The size of the whole vector, in bytes.
        bytes: u64,
    },
    /// An enumeration.
    Enum(Enum),
    /// A pointer to a type.
    Pointer(Qualified),
    /// A C++ reference. It is passed like a pointer and used like the object that it refers to.
    Reference(Qualified),
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
    /// The integer type that holds its values; `None` while only the tag is known.
    pub underlying: Option<Scalar>,
    /// Its constants, in the order of their declaration.
    pub constants: Vec<(String, i64)>,
}

/// A structure or union.
#[derive(Clone, PartialEq, Debug)]
pub struct Record {
    /// Whether it is a union.
    pub is_union: bool,
    /// Its tag, if it has one.
    pub tag: Option<String>,
    /// Its members; `None` while only the tag is known.
    pub body: Option<Body>,
}

/// The members of a structure or union that has been defined.
#[derive(Clone, PartialEq, Debug)]
pub struct Body {
    /// Size in bytes. A flexible array at the end ([`Body::tail`]) is not counted.
    pub size: u64,
    /// Alignment in bytes.
    pub align: u32,
    /// The alignment in bytes that the members need. It is less than `align` if an attribute of the
    /// whole type raises that.
    pub align_of_members: u32,
    /// The members in their order, including those without names.
    pub fields: Vec<Field>,
    /// The flexible array that ends the structure, if there is one.
    pub tail: Option<Tail>,
    /// The bits of bit-fields without a name, counted from the beginning of the structure. Those
    /// without bits are listed for unions only, where they count as integers in calls.
    pub padding: Vec<Range<u64>>,
    names: HashMap<String, Found>,
}

impl Body {
    /// A body with this size and these fields, without a tail and without padding bits.
    pub fn new(size: u64, align: u32, fields: Vec<Field>) -> Self {
        Self {
            size,
            align,
            align_of_members: align,
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
    /// Whether the length is given when an object is made (`[?]`), or never (`[]`).
    pub is_variable: bool,
}

/// One member.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// Its name. An anonymous structure or union has none.
    pub name: Option<String>,
    /// Its place and type.
    pub found: Found,
}

/// The place and type of a member.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Found {
    /// Its type.
    pub of: Qualified,
    /// Bytes from the beginning of the structure. A bit-field has the offset of its first byte.
    pub offset: u64,
    /// Its bits, if it is a bit-field.
    pub bits: Option<Bits>,
}

/// The position of a bit-field's bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bits {
    /// The first bit within the byte at the field's offset: 0..8, from the least significant.
    pub first: u8,
    /// The number of bits: 1..=64.
    pub width: u8,
}

/// A function.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Function {
    /// The type of the result.
    pub result: Qualified,
    /// The types of the parameters. Arrays and functions have become pointers.
    pub parameters: Vec<Qualified>,
    /// Whether further arguments may follow (`...`).
    pub is_variadic: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Derived {
    Scalar(Scalar),
    Complex(Scalar),
    Vector(TypeId, u64),
    Pointer(Qualified),
    Reference(Qualified),
    Array(Qualified, Length),
    Function(Function),
}

/// All types of one VM.
#[derive(Clone)]
pub struct Types {
    kinds: Vec<Kind>,
    /// The nesting of each type, see [`Types::nesting`].
    nesting: Vec<u32>,
    derived: HashMap<Derived, TypeId>,
    definitions: u64,
    /// Those definitions that have a tag or constants, so that a text can make them only once.
    named_definitions: u64,
}

impl Default for Types {
    fn default() -> Self {
        Self {
            kinds: vec![Kind::Void],
            nesting: vec![0],
            derived: HashMap::new(),
            definitions: 0,
            named_definitions: 0,
        }
    }
}

impl Types {
    /// `void`.
    pub const VOID: TypeId = TypeId(0);

    /// The kind of a type.
    pub fn kind(&self, id: TypeId) -> &Kind {
        &self.kinds[id.0 as usize]
    }

    /// The type that [`TypeId::to_bits`] turned into this number; `None` if there is no such type.
    pub fn from_bits(&self, bits: u32) -> Option<TypeId> {
        ((bits as usize) < self.kinds.len()).then_some(TypeId(bits))
    }

    /// The number of types.
    pub fn count(&self) -> usize {
        self.kinds.len()
    }

    /// The number of structures, unions and enumerations that have been defined. A type without a
    /// size can only get one when this number grows.
    pub fn definitions(&self) -> u64 {
        self.definitions
    }

    /// The number of definitions that gave something a name: a tag, or constants of an enumeration.
    pub fn named_definitions(&self) -> u64 {
        self.named_definitions
    }

    /// The depth of the arrays, structures and unions in this type, itself included.
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

    /// The type of a number.
    pub fn scalar(&mut self, scalar: Scalar) -> TypeId {
        self.intern(Derived::Scalar(scalar), Kind::Scalar(scalar))
    }

    /// The type of a complex number.
    pub fn complex(&mut self, part: Scalar) -> TypeId {
        self.intern(Derived::Complex(part), Kind::Complex(part))
    }

    /// A vector type of `bytes` bytes.
    pub fn vector(&mut self, element: TypeId, bytes: u64) -> TypeId {
        self.intern(
            Derived::Vector(element, bytes),
            Kind::Vector { element, bytes },
        )
    }

    /// A pointer type.
    pub fn pointer(&mut self, to: Qualified) -> TypeId {
        self.intern(Derived::Pointer(to), Kind::Pointer(to))
    }

    /// A reference type. A reference to a reference is the reference itself.
    pub fn reference(&mut self, to: Qualified) -> TypeId {
        if let Kind::Reference(_) = self.kind(to.id) {
            return to.id;
        }
        self.intern(Derived::Reference(to), Kind::Reference(to))
    }

    /// The same type with `const`. For an array, its elements become `const`.
    pub fn constant(&mut self, of: Qualified) -> Qualified {
        match *self.kind(of.id) {
            Kind::Array(element, length) => {
                let element = self.constant(element);
                self.array(element, length).into()
            }
            _ => of.constant(),
        }
    }

    /// An array type.
    pub fn array(&mut self, of: Qualified, length: Length) -> TypeId {
        self.intern(Derived::Array(of, length), Kind::Array(of, length))
    }

    /// A function type.
    pub fn function(&mut self, function: Function) -> TypeId {
        self.intern(
            Derived::Function(function.clone()),
            Kind::Function(function),
        )
    }

    /// A new structure or union, still without a definition.
    pub fn record(&mut self, is_union: bool, tag: Option<String>) -> TypeId {
        self.add(Kind::Record(Record {
            is_union,
            tag,
            body: None,
        }))
    }

    /// Defines a structure or union with its members and their places.
    pub fn define_record(&mut self, id: TypeId, mut body: Body) {
        for field in &body.fields {
            self.note_names(field, &mut body.names);
        }
        let inner = body
            .fields
            .iter()
            .map(|field| self.nesting(field.found.of.id))
            .max();
        self.nesting[id.0 as usize] = inner.unwrap_or(0) + 1;
        if let Kind::Record(record) = &mut self.kinds[id.0 as usize] {
            record.body = Some(body);
            self.definitions += 1;
            self.named_definitions += u64::from(record.tag.is_some());
        }
    }

    /// Adds the names that a field makes accessible: its own, or those of an anonymous structure's
    /// members.
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

    /// A new enumeration, still without a definition.
    pub fn enumeration(&mut self, tag: Option<String>) -> TypeId {
        self.add(Kind::Enum(Enum {
            tag,
            underlying: None,
            constants: Vec::new(),
        }))
    }

    /// Defines an enumeration with its integer type and its constants.
    pub fn define_enumeration(&mut self, id: TypeId, holder: Scalar, defined: Vec<(String, i64)>) {
        if let Kind::Enum(Enum {
            underlying,
            constants,
            ..
        }) = &mut self.kinds[id.0 as usize]
        {
            *underlying = Some(holder);
            *constants = defined;
            self.definitions += 1;
            self.named_definitions += 1;
        }
    }

    /// The body of a structure or union; `None` if it is not defined.
    pub fn body(&self, id: TypeId) -> Option<&Body> {
        match self.kind(id) {
            Kind::Record(record) => record.body.as_ref(),
            _ => None,
        }
    }

    /// Whether the type is still without a definition. For an array, this asks about its elements.
    pub fn is_incomplete(&self, id: TypeId) -> bool {
        match self.kind(id) {
            Kind::Array(of, _) => self.is_incomplete(of.id),
            Kind::Enum(of) => of.underlying.is_none(),
            Kind::Record(record) => record.body.is_none(),
            _ => false,
        }
    }

    /// A member of a structure or union by name, including the members of anonymous members.
    pub fn field(&self, id: TypeId, name: &str) -> Option<Found> {
        self.body(id)?.names.get(name).copied()
    }

    /// The scalar type that holds values of this type. Only numbers and enumerations have one.
    pub fn as_scalar(&self, id: TypeId) -> Option<Scalar> {
        match self.kind(id) {
            Kind::Scalar(scalar) => Some(*scalar),
            Kind::Enum(of) => of.underlying,
            _ => None,
        }
    }

    /// The size in bytes. `None` for `void`, functions, undefined types, and arrays without a
    /// length. A flexible array at the end of a structure adds nothing.
    pub fn size_of(&self, id: TypeId) -> Option<u64> {
        match self.kind(id) {
            Kind::Void | Kind::Function(_) => None,
            Kind::Scalar(scalar) => Some(scalar.size()),
            Kind::Complex(part) => Some(part.size() * 2),
            Kind::Vector { bytes, .. } => Some(*bytes),
            Kind::Enum(of) => of.underlying.map(Scalar::size),
            Kind::Pointer(_) | Kind::Reference(_) => Some(size_of::<*const ()>() as u64),
            Kind::Array(of, Length::Known(length)) => self.array_size(*of, *length),
            Kind::Array(..) => None,
            Kind::Record(record) => record.body.as_ref().map(|body| body.size),
        }
    }

    /// The size in bytes of `length` elements. `None` if the type has no size, or if the result is
    /// more than [`MAX_SIZE`].
    pub fn array_size(&self, of: Qualified, length: u64) -> Option<u64> {
        self.size_of(of.id)?
            .checked_mul(length)
            .filter(|size| *size <= MAX_SIZE)
    }

    /// The size in bytes of an object with `elements` elements in its array of variable length. All
    /// other types have their plain size.
    pub fn size_with(&self, id: TypeId, elements: u64) -> Option<u64> {
        match self.kind(id) {
            Kind::Array(of, Length::Variable | Length::Unknown) => self.array_size(*of, elements),
            Kind::Record(Record {
                body:
                    Some(Body {
                        size,
                        tail: Some(tail),
                        ..
                    }),
                ..
            }) => {
                let end = tail
                    .offset
                    .checked_add(self.array_size(tail.element, elements)?)?;
                Some(end.max(*size)).filter(|size| *size <= MAX_SIZE)
            }
            _ => self.size_of(id),
        }
    }

    /// The alignment of a type in bytes; 1 for a type that has none.
    pub fn align_of(&self, of: Qualified) -> u32 {
        of.aligned.unwrap_or_else(|| match self.kind(of.id) {
            Kind::Void | Kind::Function(_) => 1,
            Kind::Scalar(scalar) | Kind::Complex(scalar) => scalar.align(),
            Kind::Vector { bytes, .. } => (*bytes).min(MOST_NATURAL_ALIGN) as u32,
            Kind::Enum(of) => of.underlying.map_or(1, Scalar::align),
            Kind::Pointer(_) | Kind::Reference(_) => align_of::<*const ()>() as u32,
            Kind::Array(of, _) => self.align_of(*of),
            Kind::Record(record) => record.body.as_ref().map_or(1, |body| body.align),
        })
    }

    /// Whether the type is a structure that ends in an array without a length. An object of it may
    /// be made with some elements.
    pub fn is_flexible(&self, id: TypeId) -> bool {
        let tail = self.body(id).and_then(|body| body.tail);
        tail.is_some_and(|tail| !tail.is_variable)
    }

    /// Whether the length is given when an object is made.
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
