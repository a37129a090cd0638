//! Generates declarations: structures, unions, arrays, bit-fields, packed and aligned types,
//! enumerations, pointers, functions.

use std::fmt::Write;

use super::random::Random;
use super::{Declaration, Form, Kind, Leaf, Scalar, Signature};

const fn scalar(name: &'static str, form: Form) -> Scalar {
    Scalar { name, form }
}

const SCALARS: [Scalar; 20] = [
    scalar("signed char", Form::Integer),
    scalar("unsigned char", Form::Unsigned),
    scalar("char", Form::Integer),
    scalar("short", Form::Integer),
    scalar("unsigned short", Form::Unsigned),
    scalar("int", Form::Integer),
    scalar("unsigned", Form::Unsigned),
    scalar("long", Form::Integer),
    scalar("unsigned long", Form::Unsigned),
    scalar("long long", Form::Integer),
    scalar("int8_t", Form::Integer),
    scalar("uint64_t", Form::Unsigned),
    scalar("size_t", Form::Unsigned),
    scalar("_Bool", Form::Bool),
    scalar("float", Form::Floating),
    scalar("double", Form::Floating),
    scalar("long double", Form::LongDouble),
    scalar("void *", Form::Pointer),
    scalar("const char *", Form::Pointer),
    scalar("double *", Form::Pointer),
];

/// Types of bit-fields, with the largest width of each.
const BIT_TYPES: [(Scalar, usize); 9] = [
    (scalar("int", Form::Integer), 32),
    (scalar("unsigned", Form::Unsigned), 32),
    (scalar("signed char", Form::Integer), 8),
    (scalar("unsigned char", Form::Unsigned), 8),
    (scalar("short", Form::Integer), 16),
    (scalar("unsigned short", Form::Unsigned), 16),
    (scalar("long", Form::Integer), 64),
    (scalar("unsigned long long", Form::Unsigned), 64),
    (scalar("_Bool", Form::Bool), 1),
];

/// A type that later declarations may use.
#[derive(Clone)]
struct Known {
    name: String,
    leaves: Vec<Leaf>,
    /// Aligned to more than 16 bytes; such types are not passed by value.
    is_wide: bool,
}

/// A member under construction: its text, and its leaves, which can be read and written.
struct Member {
    text: String,
    leaves: Vec<Leaf>,
    is_wide: bool,
}

pub(crate) struct Generator {
    random: Random,
    known: Vec<Known>,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            known: Vec::new(),
        }
    }

    pub(crate) fn declaration(&mut self, index: usize) -> Declaration {
        match self.random.below(10) {
            0 => self.enumeration(index),
            1 => self.function(index),
            _ => self.record(index),
        }
    }

    fn enumeration(&mut self, index: usize) -> Declaration {
        let packed = self.random.pick(&["", "", "__attribute__((packed)) "]);
        let last = self.random.pick(&[
            "1",
            "127",
            "128",
            "-1",
            "255 + 1",
            "0x7fffffff",
            "-40000",
            "1L << 40",
        ]);
        let name = format!("enum e{index}");
        let text = format!(
            "enum {packed}e{index} {{ A{index}, B{index} = sizeof(int) * 2 - 1, C{index}, D{index} \
             = {last} }};"
        );
        let constants: Vec<String> = ["A", "B", "C", "D"]
            .map(|letter| format!("{letter}{index}"))
            .to_vec();
        let leaf = Leaf {
            path: String::new(),
            form: Form::Integer,
            is_bits: false,
            cast: String::new(),
            values: [constants[2].clone(), constants[3].clone()],
            is_apart: true,
        };
        self.known.push(Known {
            name: name.clone(),
            leaves: vec![leaf],
            is_wide: false,
        });
        let kind = Kind::Enumeration { constants };
        Declaration {
            index,
            text,
            name,
            kind,
        }
    }

    fn function(&mut self, index: usize) -> Declaration {
        let count = self.random.below(13);
        let parameters: Vec<(Scalar, String)> = (0..count)
            .map(|_| {
                let of = self.random.pick(&SCALARS);
                (of, self.small_value(of.form))
            })
            .collect();
        let result = self.random.pick(&SCALARS);
        let name = format!("f{index}");
        let list: Vec<&str> = parameters.iter().map(|(of, _)| of.name).collect();
        let list = if list.is_empty() {
            "void".to_owned()
        } else {
            list.join(", ")
        };
        let text = format!(
            "typedef {0} {name}_type({list}); {0} {name}({list}); {0} {name}_through({name}_type \
             *function);",
            result.name
        );
        let kind = Kind::Function(Signature { result, parameters });
        Declaration {
            index,
            text,
            name,
            kind,
        }
    }

    fn record(&mut self, index: usize) -> Declaration {
        let is_union = self.random.one_in(4);
        let keyword = if is_union { "union" } else { "struct" };
        let name = format!("{keyword} s{index}");
        let (attribute, mut is_wide) = self.attribute();
        let body = self.members(index, 0, is_union);
        is_wide |= body.is_wide;
        let (before, behind) = match self.random.one_in(2) {
            true => (attribute.as_str(), ""),
            false => ("", attribute.as_str()),
        };
        let mut text = format!("{keyword} {before}s{index} {{ {}}} {behind};", body.text);
        if self.random.one_in(8) {
            let pack = 1 << self.random.below(4);
            text = format!("#pragma pack(push, {pack})\n{text}\n#pragma pack(pop)");
        }
        let leaves = body.leaves;
        if leaves.len() < 40 {
            self.known.push(Known {
                name: name.clone(),
                leaves: leaves.clone(),
                is_wide,
            });
        }
        let kind = Kind::Record {
            is_passed: !is_wide,
            is_returned: !is_wide && leaves.iter().any(|leaf| leaf.form != Form::LongDouble),
            leaves,
        };
        Declaration {
            index,
            text,
            name,
            kind,
        }
    }

    /// Returns an attribute that changes the layout of a whole type, and whether that aligns it to
    /// more than 16 bytes.
    fn attribute(&mut self) -> (String, bool) {
        match self.random.below(8) {
            0 => ("__attribute__((packed)) ".to_owned(), false),
            1 => {
                let align = 1 << self.random.below(6);
                (format!("__attribute__((aligned({align}))) "), align > 16)
            }
            2 => {
                let align = 1 << self.random.below(4);
                (format!("__attribute__((packed, aligned({align}))) "), false)
            }
            _ => (String::new(), false),
        }
    }

    /// Generates the members of a structure or union. In a union, only the leaves of the first
    /// member count as not overlapping.
    fn members(&mut self, index: usize, depth: usize, is_union: bool) -> Member {
        let count = 1 + self.random.below(6);
        let mut all = Member {
            text: String::new(),
            leaves: Vec::new(),
            is_wide: false,
        };
        for number in 0..count {
            let name = format!("m{index}_{depth}_{number}");
            let member = match self.random.below(10) {
                // The first one has a name and a size, so no structure is empty.
                0..=2 if number > 0 => self.bit_field(&name),
                3 if depth < 2 => self.nested(index, depth * 8 + number + 1, &name),
                4 => self.function_pointer(&name),
                _ => self.plain(&name),
            };
            write!(all.text, "{}; ", member.text).expect("it is a string");
            all.is_wide |= member.is_wide;
            let is_hidden = is_union && number > 0;
            all.leaves
                .extend(member.leaves.into_iter().map(|leaf| Leaf {
                    is_apart: leaf.is_apart && !is_hidden,
                    ..leaf
                }));
        }
        all
    }

    /// Generates a nested structure or union, with or without a name.
    fn nested(&mut self, index: usize, depth: usize, name: &str) -> Member {
        let is_union = self.random.one_in(2);
        let keyword = if is_union { "union" } else { "struct" };
        let inner = self.members(index, depth, is_union);
        if self.random.one_in(2) {
            return Member {
                text: format!("{keyword} {{ {}}}", inner.text),
                ..inner
            };
        }
        Member {
            text: format!("{keyword} {{ {}}} {name}", inner.text),
            leaves: below(name, &inner.leaves).collect(),
            is_wide: inner.is_wide,
        }
    }

    fn bit_field(&mut self, name: &str) -> Member {
        let (of, most) = self.random.pick(&BIT_TYPES);
        let mut member = Member {
            text: format!("{} : {}", of.name, self.random.below(most + 1)),
            leaves: Vec::new(),
            is_wide: false,
        };
        if !self.random.one_in(8) {
            let width = 1 + self.random.below(most);
            let attribute = self
                .random
                .pick(&["", "", "", "", "", " __attribute__((packed))"]);
            member.text = format!("{} {name} : {width}{attribute}", of.name);
            let leaf = self.leaf(of, of.name);
            member.leaves.push(Leaf {
                path: name.to_owned(),
                is_bits: true,
                ..leaf
            });
        }
        member
    }

    fn function_pointer(&mut self, name: &str) -> Member {
        let of = scalar("int (*)(int, double)", Form::Pointer);
        let leaf = self.leaf(of, of.name);
        Member {
            text: format!("int (*{name})(int, double)"),
            leaves: below(name, &[leaf]).collect(),
            is_wide: false,
        }
    }

    /// Generates a number, an address, an earlier type, or an array of these.
    fn plain(&mut self, name: &str) -> Member {
        let of = if self.known.is_empty() || self.random.one_in(2) {
            let of = self.random.pick(&SCALARS);
            Known {
                name: of.name.to_owned(),
                leaves: vec![self.leaf(of, of.name)],
                is_wide: false,
            }
        } else {
            let at = self.random.below(self.known.len());
            self.known[at].clone()
        };
        let (attribute, is_wide) = match self.random.below(12) {
            0 => (" __attribute__((packed))".to_owned(), false),
            1 => {
                let align = 1 << self.random.below(6);
                (format!(" __attribute__((aligned({align})))"), align > 16)
            }
            _ => (String::new(), false),
        };
        let indices: Vec<String> = match self.random.below(6) {
            0 if of.leaves.len() < 10 => (0..=self.random.below(4))
                .map(|at| format!("{name}[{at}]"))
                .collect(),
            1 if of.leaves.len() < 5 => (0..6)
                .map(|at| format!("{name}[{}][{}]", at / 3, at % 3))
                .collect(),
            _ => vec![name.to_owned()],
        };
        let last = indices.last().expect("it has one");
        // The length is the last index plus one.
        let array = match (last.matches('[').count(), indices.len()) {
            (0, _) => String::new(),
            (1, length) => format!("[{length}]"),
            _ => "[2][3]".to_owned(),
        };
        Member {
            text: format!("{} {name}{array}{attribute}", of.name),
            leaves: indices
                .iter()
                .flat_map(|place| below(place, &of.leaves))
                .collect(),
            is_wide: of.is_wide || is_wide,
        }
    }

    fn leaf(&mut self, of: Scalar, cast: &str) -> Leaf {
        Leaf {
            path: String::new(),
            form: of.form,
            is_bits: false,
            cast: cast.to_owned(),
            values: [(), ()].map(|()| self.value(of.form)),
            is_apart: true,
        }
    }

    /// Returns a value, possibly one that does not fit; a literal in both C and Lua.
    fn value(&mut self, form: Form) -> String {
        match form {
            Form::Integer | Form::Unsigned => {
                let bits = self.random.below(63);
                let value = (self.random.next() >> (63 - bits)) as i64;
                let value = if self.random.one_in(2) { -value } else { value };
                value.to_string()
            }
            _ => self.small_value(form),
        }
    }

    /// Returns a value that fits into every type of its form.
    fn small_value(&mut self, form: Form) -> String {
        match form {
            Form::Integer => (self.random.below(200) as i64 - 100).to_string(),
            Form::Unsigned => self.random.below(200).to_string(),
            Form::Bool => self.random.below(2).to_string(),
            Form::Floating | Form::LongDouble => {
                // Exactly representable in a float.
                let eighths = self.random.below(1 << 20) as f64 - f64::from(1 << 19);
                format!("{:.3}", eighths / 8.0)
            }
            Form::Pointer => (16 * (1 + self.random.below(1 << 20))).to_string(),
        }
    }
}

/// Returns the leaves of a member at `place`.
fn below<'a>(place: &'a str, leaves: &'a [Leaf]) -> impl Iterator<Item = Leaf> + 'a {
    leaves.iter().map(move |leaf| Leaf {
        path: match leaf.path.as_str() {
            "" => place.to_owned(),
            path => format!("{place}.{path}"),
        },
        ..leaf.clone()
    })
}
