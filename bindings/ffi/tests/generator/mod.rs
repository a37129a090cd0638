//! Generates random C types from a seed.

use std::fmt::Write;

/// A random number generator that is determined by its seed. The algorithm is xorshift64* (Vigna,
/// "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016).
pub(crate) struct Generator {
    state: u64,
    /// The types generated so far, by name.
    known: Vec<String>,
}

pub(crate) const SCALARS: [&str; 22] = [
    "char",
    "signed char",
    "unsigned char",
    "short",
    "unsigned short",
    "int",
    "unsigned",
    "long",
    "unsigned long",
    "long long",
    "unsigned long long",
    "float",
    "double",
    "long double",
    "_Bool",
    "void *",
    "const char *",
    "int8_t",
    "uint64_t",
    "double _Complex",
    "__int128",
    "size_t",
];

const BIT_TYPES: [&str; 11] = [
    "int",
    "unsigned",
    "char",
    "unsigned char",
    "short",
    "unsigned short",
    "long",
    "unsigned long long",
    "uint8_t",
    "int64_t",
    "_Bool",
];

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            state: seed | 1,
            known: Vec::new(),
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// Returns a definition on one line (except for directives), and the name of its type.
    pub(crate) fn definition(&mut self, index: usize) -> (String, String) {
        match self.below(12) {
            0 => self.enumeration(index),
            1 => self.typedef(index),
            _ => self.record(index),
        }
    }

    /// Returns a definition of a structure or union of few floating-point numbers, and its name.
    /// Some have padding, bit-fields or members without bytes. On AArch64 these decide on the
    /// registers.
    pub(crate) fn floats(&mut self, index: usize) -> (String, String) {
        let keyword = if self.one_in(4) { "union" } else { "struct" };
        let name = format!("{keyword} f{index}");
        let of = self.pick(&["float", "double"]);
        let mut body = String::new();
        for number in 0..1 + self.below(4) {
            let member = format!("m{index}_{number}");
            let text = match self.below(16) {
                0 => format!("{of} {member}[{}]", 1 + self.below(3)),
                1 => format!("struct {{ {of} {member}, {member}b; }}"),
                2 => format!(
                    "{of} {member} __attribute__((aligned({})))",
                    4 << self.below(3)
                ),
                3 => format!("unsigned char {member} : {}", 1 + self.below(8)),
                4 => format!("unsigned : {}", self.below(9)),
                5 => format!("struct {{ }} {member}"),
                6 => format!("{of} {member}[0]"),
                7 => format!("{of} _Complex {member}"),
                8 => format!("{} {member}", self.pick(&["float", "double", "int"])),
                _ => format!("{of} {member}"),
            };
            write!(body, "{text}; ").expect("it is a string");
        }
        let attribute = match self.below(8) {
            0 => "__attribute__((packed))".to_owned(),
            1 => format!("__attribute__((aligned({})))", 4 << self.below(3)),
            _ => String::new(),
        };
        (format!("{keyword} f{index} {{ {body}}} {attribute};"), name)
    }

    fn enumeration(&mut self, index: usize) -> (String, String) {
        let packed = if self.one_in(3) {
            "__attribute__((packed)) "
        } else {
            ""
        };
        let last = self.pick(&[
            "1",
            "127",
            "128",
            "-1",
            "255 + 1",
            "1u << 31",
            "0x7fffffff",
            "-40000",
            "1L << 40",
        ]);
        let name = format!("enum e{index}");
        let text = format!(
            "enum {packed}e{index} {{ A{index}, B{index} = sizeof(int) * 2 - 1, C{index}, D{index} \
             = {last} }};"
        );
        self.known.push(name.clone());
        (text, name)
    }

    fn typedef(&mut self, index: usize) -> (String, String) {
        let name = format!("t{index}");
        let align = 1 << self.below(6);
        let text = match self.below(4) {
            0 => format!("typedef int {name} __attribute__((aligned({align})));"),
            1 => format!(
                "typedef float {name} __attribute__((vector_size({})));",
                8 << self.below(3)
            ),
            2 => format!(
                "typedef unsigned {name} __attribute__((mode({})));",
                self.pick(&["QI", "HI", "SI", "DI", "TI"])
            ),
            _ => format!("typedef int (*(*{name}[{align}])(void *, int))[3];"),
        };
        // Arrays cannot have elements of an over-aligned type. So other types do not use this one.
        (text, name)
    }

    fn record(&mut self, index: usize) -> (String, String) {
        let keyword = if self.one_in(4) { "union" } else { "struct" };
        let name = format!("{keyword} s{index}");
        let attribute = match self.below(8) {
            0 => "__attribute__((packed)) ".to_owned(),
            1 => format!("__attribute__((aligned({}))) ", 1 << self.below(6)),
            2 => format!("__attribute__((packed, aligned({}))) ", 1 << self.below(4)),
            _ => String::new(),
        };
        let behind = self.one_in(2);
        let (before, after) = if behind {
            ("", attribute.as_str())
        } else {
            (attribute.as_str(), "")
        };
        let body = self.members(index, 0);
        let mut text = format!("{keyword} {before}s{index} {{ {body}}} {after};");
        if self.one_in(8) {
            let pack = 1 << self.below(4);
            text = format!("#pragma pack(push, {pack})\n{text}\n#pragma pack(pop)");
        }
        // Arrays cannot have elements whose size is not a multiple of the alignment. Sizes are
        // multiples here.
        self.known.push(name.clone());
        (text, name)
    }

    fn members(&mut self, index: usize, depth: usize) -> String {
        let count = 1 + self.below(7);
        let mut text = String::new();
        for number in 0..count {
            let name = format!("m{index}_{depth}_{number}");
            let member = match self.below(10) {
                0..=3 => self.bit_field(&name),
                4 if depth < 2 => {
                    let keyword = self.pick(&["struct", "union"]);
                    format!(
                        "{keyword} {{ {}}}",
                        self.members(index, depth * 8 + number + 1)
                    )
                }
                _ => self.plain(&name),
            };
            write!(text, "{member}; ").expect("it is a string");
        }
        text
    }

    fn bit_field(&mut self, name: &str) -> String {
        let of = self.pick(&BIT_TYPES);
        let most = match of {
            "_Bool" => 1,
            "char" | "unsigned char" | "uint8_t" => 8,
            "short" | "unsigned short" => 16,
            "int" | "unsigned" => 32,
            _ => 64,
        };
        if self.one_in(8) {
            return format!("{of} : {}", self.below(most + 1));
        }
        let attribute = match self.below(16) {
            0 => " __attribute__((packed))".to_owned(),
            1 => format!(" __attribute__((aligned({})))", 1 << self.below(4)),
            _ => String::new(),
        };
        format!("{of} {name} : {}{attribute}", 1 + self.below(most))
    }

    fn plain(&mut self, name: &str) -> String {
        let of = if self.known.is_empty() || self.one_in(2) {
            self.pick(&SCALARS).to_owned()
        } else {
            let at = self.below(self.known.len());
            self.known[at].clone()
        };
        let attribute = match self.below(12) {
            0 => " __attribute__((packed))".to_owned(),
            1 => format!(" __attribute__((aligned({})))", 1 << self.below(6)),
            _ => String::new(),
        };
        let array = match self.below(6) {
            0 => format!("[{}]", 1 + self.below(4)),
            1 => "[2][3]".to_owned(),
            _ => String::new(),
        };
        format!("{of} {name}{array}{attribute}")
    }
}
