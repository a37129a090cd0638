//! The arithmetic types of C, as this platform's C compiler defines them.

use std::ffi::{c_char, c_long};

/// An arithmetic type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the names are C's")]
pub enum Scalar {
    Bool,
    Char,
    SignedChar,
    UnsignedChar,
    Short,
    UnsignedShort,
    Int,
    UnsignedInt,
    Long,
    UnsignedLong,
    LongLong,
    UnsignedLongLong,
    Int128,
    UnsignedInt128,
    Float,
    Double,
    LongDouble,
    Float128,
}

use Scalar::{
    Bool, Char, Double, Float, Float128, Int, Int128, Long, LongDouble, LongLong, Short,
    SignedChar, UnsignedChar, UnsignedInt, UnsignedInt128, UnsignedLong, UnsignedLongLong,
    UnsignedShort,
};

impl Scalar {
    /// All arithmetic types, in the order of their conversion rank.
    pub const ALL: [Scalar; 18] = [
        Bool,
        Char,
        SignedChar,
        UnsignedChar,
        Short,
        UnsignedShort,
        Int,
        UnsignedInt,
        Long,
        UnsignedLong,
        LongLong,
        UnsignedLongLong,
        Int128,
        UnsignedInt128,
        Float,
        Double,
        LongDouble,
        Float128,
    ];

    /// The type of `size_t`.
    pub const SIZE: Scalar = UnsignedLong;

    /// The size in bytes.
    pub fn size(self) -> u64 {
        match self {
            Bool | Char | SignedChar | UnsignedChar => 1,
            Short | UnsignedShort => 2,
            Int | UnsignedInt | Float => 4,
            Long | UnsignedLong => size_of::<c_long>() as u64,
            LongLong | UnsignedLongLong | Double => 8,
            LongDouble if cfg!(all(target_vendor = "apple", target_arch = "aarch64")) => 8,
            Int128 | UnsignedInt128 | LongDouble | Float128 => 16,
        }
    }

    /// The alignment in bytes. On the 64-bit platforms that Baton supports, it equals the size.
    pub fn align(self) -> u32 {
        self.size() as u32
    }

    /// Whether it is an integer, `_Bool` and `char` included.
    pub fn is_integer(self) -> bool {
        !self.is_floating()
    }

    /// Whether it is a real floating-point type.
    pub fn is_floating(self) -> bool {
        matches!(self, Float | Double | LongDouble | Float128)
    }

    /// Whether the type has negative values. The platform's C compiler decides this for plain
    /// `char`.
    pub fn is_signed(self) -> bool {
        match self {
            Char => c_char::MIN != 0,
            SignedChar | Short | Int | Long | LongLong | Int128 => true,
            other => other.is_floating(),
        }
    }

    /// The integer type with this size in bytes and this signedness; `None` if there is none.
    pub fn integer(size: u64, signed: bool) -> Option<Scalar> {
        Some(match (size, signed) {
            (1, true) => SignedChar,
            (1, false) => UnsignedChar,
            (2, true) => Short,
            (2, false) => UnsignedShort,
            (4, true) => Int,
            (4, false) => UnsignedInt,
            (8, true) => Long,
            (8, false) => UnsignedLong,
            (16, true) => Int128,
            (16, false) => UnsignedInt128,
            _ => return None,
        })
    }

    /// The type as C spells it.
    pub fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            Char => "char",
            SignedChar => "signed char",
            UnsignedChar => "unsigned char",
            Short => "short",
            UnsignedShort => "unsigned short",
            Int => "int",
            UnsignedInt => "unsigned int",
            Long => "long",
            UnsignedLong => "unsigned long",
            LongLong => "long long",
            UnsignedLongLong => "unsigned long long",
            Int128 => "__int128",
            UnsignedInt128 => "unsigned __int128",
            Float => "float",
            Double => "double",
            LongDouble => "long double",
            Float128 => "_Float128",
        }
    }
}
