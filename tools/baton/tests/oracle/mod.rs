//! Declarations of C made from a seed, and what a program in C and one in Lua have to say about
//! them: line for line the same.

mod c_program;
mod generator;
mod lua_program;
mod random;

pub(crate) use generator::Generator;

/// How a number or address is written and shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// An integer that may be negative; of an enumeration, one of its constants.
    Integer,
    Unsigned,
    Bool,
    Floating,
    /// Its bytes have some that nobody writes.
    LongDouble,
    Pointer,
}

/// A number or address in a structure, that both programs write and read.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    /// As C names it, from the structure.
    pub(crate) path: String,
    pub(crate) form: Form,
    pub(crate) is_bits: bool,
    /// The type that Lua casts an address to.
    pub(crate) cast: String,
    /// Two values, both as C and as Lua write them.
    pub(crate) values: [String; 2],
    /// It shares no byte with a leaf before it, as the members of a union do.
    pub(crate) is_apart: bool,
}

/// What is declared.
pub(crate) enum Kind {
    Record {
        leaves: Vec<Leaf>,
        /// By value, as an argument and as what comes back.
        is_passed: bool,
        is_returned: bool,
    },
    Enumeration {
        constants: Vec<String>,
    },
    Function(Signature),
}

/// A function of numbers and addresses.
pub(crate) struct Signature {
    pub(crate) result: Scalar,
    pub(crate) parameters: Vec<(Scalar, String)>,
}

/// A type of one number or address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scalar {
    pub(crate) name: &'static str,
    pub(crate) form: Form,
}

/// One declaration.
pub(crate) struct Declaration {
    pub(crate) index: usize,
    pub(crate) text: String,
    /// The name of the type; of a function, its own.
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// So many declarations, each of which may use those before it.
pub(crate) struct Oracle {
    declarations: Vec<Declaration>,
}

impl Oracle {
    pub(crate) fn new(seed: u64, count: usize) -> Self {
        let mut generator = Generator::new(seed);
        Self {
            declarations: (0..count)
                .map(|index| generator.declaration(index))
                .collect(),
        }
    }

    /// A library, whose function `oracle_answer` prints what C has to say.
    pub(crate) fn library_source(&self) -> String {
        c_program::library(&self.declarations)
    }

    /// The script that says the same by the ffi; the library's path is its argument.
    pub(crate) fn script(&self) -> String {
        lua_program::script(&self.declarations)
    }

    /// The declaration that a line is about.
    pub(crate) fn about(&self, line: &str) -> &str {
        let name = line.split([' ', '.', ':']).next().unwrap_or_default();
        let found = self.declarations.iter().find(|one| one.label() == name);
        found.map_or("", |one| one.text.as_str())
    }
}

impl Declaration {
    /// What lines about it begin with.
    pub(crate) fn label(&self) -> String {
        format!("d{}", self.index)
    }

    /// How many arguments come before the structures: they take the registers away.
    pub(crate) fn leading(&self) -> usize {
        self.index % 8
    }
}
