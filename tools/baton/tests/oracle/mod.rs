//! Generates C declarations from a seed, and two programs about them, in C and in Lua, that must
//! print the same lines.

mod c_program;
mod generator;
mod lua_program;
mod random;

pub(crate) use generator::Generator;

/// How a number or address is written and printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// An integer that may be negative; in an enumeration, one of its constants.
    Integer,
    Unsigned,
    Bool,
    Floating,
    /// Some of its bytes are padding.
    LongDouble,
    Pointer,
}

/// A number or address in a structure that both programs write and read.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    /// Its name in C, relative to the structure.
    pub(crate) path: String,
    pub(crate) form: Form,
    pub(crate) is_bits: bool,
    /// The type that Lua casts an address to.
    pub(crate) cast: String,
    /// Two values, each as written in C and in Lua.
    pub(crate) values: [String; 2],
    /// It shares no byte with an earlier leaf; members of a union do share bytes.
    pub(crate) is_apart: bool,
}

/// The kind of a declaration.
pub(crate) enum Kind {
    Record {
        leaves: Vec<Leaf>,
        /// Whether it is passed by value, as an argument and as a result.
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
    /// The name of the type or function.
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// Several declarations; each may use earlier ones.
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

    /// The source of a library whose function `oracle_answer` prints the C side's lines.
    pub(crate) fn library_source(&self) -> String {
        c_program::library(&self.declarations)
    }

    /// The script that prints the same lines through the ffi. Its argument is the library's path.
    pub(crate) fn script(&self) -> String {
        lua_program::script(&self.declarations)
    }

    /// Returns the declaration that a line is about.
    pub(crate) fn about(&self, line: &str) -> &str {
        let name = line.split([' ', '.', ':']).next().unwrap_or_default();
        let found = self.declarations.iter().find(|one| one.label() == name);
        found.map_or("", |one| one.text.as_str())
    }
}

impl Declaration {
    /// The prefix of its lines.
    pub(crate) fn label(&self) -> String {
        format!("d{}", self.index)
    }

    /// The number of arguments before the structures. They use up registers.
    pub(crate) fn leading(&self) -> usize {
        self.index % 8
    }
}
