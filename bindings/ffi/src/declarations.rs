//! Holds what a program has declared: types, functions, variables and constants of C.

use std::collections::{HashMap, HashSet};

use crate::types::{Qualified, Scalar, TypeId, Types};

/// The meaning of a declared name.
#[derive(Clone, PartialEq, Debug)]
pub enum Symbol {
    /// A `typedef`.
    Type(Qualified),
    /// A function or variable of a library.
    External(External),
    /// A number: a constant of an enumeration, or a `static const`.
    Constant(Constant),
}

/// A function or variable of a library.
#[derive(Clone, PartialEq, Debug)]
pub struct External {
    /// Its type.
    pub of: Qualified,
    /// The name in the library, if `__asm__("name")` gave another one than the program uses.
    pub link_name: Option<String>,
}

/// An integer constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Constant {
    /// Its value. A large value of `unsigned long` is negative here, since it has the same bits.
    pub value: i64,
    /// Its type.
    pub scalar: Scalar,
}

/// An argument that replaces a `$` in a declaration.
#[derive(Clone, PartialEq, Debug)]
pub enum Argument {
    /// A type.
    Type(Qualified),
    /// A number.
    Number(i64),
    /// A name.
    Name(String),
}

/// The declaration of one function or variable.
#[derive(Clone, PartialEq, Debug)]
pub struct Prototype {
    /// The name that the program uses for it.
    pub name: String,
    /// Its type and its name in the library.
    pub external: External,
}

/// All declarations of one VM. Only the VM's owner reads or changes them.
#[derive(Clone)]
pub struct Declarations {
    /// The types.
    pub types: Types,
    pub(crate) symbols: HashMap<String, Symbol>,
    /// Names of the prelude that the program has not declared itself.
    pub(crate) predeclared: HashSet<String>,
    /// The tags of structures, unions and enumerations, which share one name space.
    pub(crate) tags: HashMap<String, TypeId>,
}

impl Declarations {
    /// The meaning of a name; `None` if it is not declared.
    pub fn symbol(&self, name: &str) -> Option<&Symbol> {
        self.symbols.get(name)
    }
}
