//! Writes types as C does, for messages: `int (*)[3]`, `struct point *`, `void (*)(int, ...)`.

use super::{Enum, Function, Kind, Length, Qualified, Record, Scalar, TypeId, Types};

/// The depth at which a name is cut short.
const MAX_DEPTH: u32 = 64;

/// The number of types after which a name is cut short. Without this limit, parameters that are
/// functions could double the length at each level.
const MAX_PARTS: u32 = 1000;

impl Types {
    /// The type as C writes it.
    pub fn name(&self, of: Qualified) -> String {
        self.declare(of, "", 0, &mut { MAX_PARTS })
    }

    /// The declaration of something called `name` with this type.
    pub fn declaration(&self, of: Qualified, name: &str) -> String {
        self.declare(of, name, 0, &mut { MAX_PARTS })
    }

    /// Wraps a type around the text that is declared with it.
    fn declare(&self, of: Qualified, inner: &str, depth: u32, parts: &mut u32) -> String {
        if depth > MAX_DEPTH || *parts == 0 {
            return format!("...{inner}");
        }
        *parts -= 1;
        match self.kind(of.id) {
            Kind::Pointer(to) | Kind::Reference(to) => {
                let is_pointer = matches!(self.kind(of.id), Kind::Pointer(_));
                let mark = if is_pointer { '*' } else { '&' };
                let star = format!("{mark}{}{inner}", qualifiers_after(of, inner));
                match self.kind(to.id) {
                    Kind::Array(..) | Kind::Function(_) => {
                        self.declare(*to, &format!("({star})"), depth + 1, parts)
                    }
                    _ => self.declare(*to, &star, depth + 1, parts),
                }
            }
            Kind::Array(element, length) => {
                let length = match length {
                    Length::Known(length) => length.to_string(),
                    Length::Unknown => String::new(),
                    Length::Variable => "?".to_owned(),
                };
                self.declare(*element, &format!("{inner}[{length}]"), depth + 1, parts)
            }
            Kind::Function(function) => {
                let parameters = self.parameters(function, depth, parts);
                self.declare(
                    function.result,
                    &format!("{inner}({parameters})"),
                    depth + 1,
                    parts,
                )
            }
            _ => {
                let space = if inner.is_empty() || inner.starts_with('[') {
                    ""
                } else {
                    " "
                };
                format!(
                    "{}{}{space}{inner}",
                    qualifiers_before(of),
                    self.base_name(of.id)
                )
            }
        }
    }

    fn parameters(&self, function: &Function, depth: u32, parts: &mut u32) -> String {
        let mut list: Vec<String> = function
            .parameters
            .iter()
            .map(|parameter| self.declare(*parameter, "", depth + 1, parts))
            .collect();
        if function.is_variadic {
            list.push("...".to_owned());
        }
        if list.is_empty() {
            list.push("void".to_owned());
        }
        list.join(", ")
    }

    /// The name of a type that is not derived from another type.
    fn base_name(&self, id: TypeId) -> String {
        let tagged = |keyword: &str, tag: &Option<String>| match tag {
            Some(tag) => format!("{keyword} {tag}"),
            None => format!("{keyword} {}", id.to_bits()),
        };
        match self.kind(id) {
            Kind::Scalar(scalar) => scalar.name().to_owned(),
            // As LuaJIT names these types: "complex" alone has parts of the type double.
            Kind::Complex(Scalar::Double) => "complex".to_owned(),
            Kind::Complex(part) => format!("complex {}", part.name()),
            Kind::Vector { element, bytes } => {
                format!(
                    "{} __attribute__((vector_size({bytes})))",
                    self.name((*element).into())
                )
            }
            Kind::Enum(Enum { tag, .. }) => tagged("enum", tag),
            Kind::Record(Record { is_union, tag, .. }) => {
                tagged(if *is_union { "union" } else { "struct" }, tag)
            }
            Kind::Void
            | Kind::Pointer(_)
            | Kind::Reference(_)
            | Kind::Array(..)
            | Kind::Function(_) => "void".to_owned(),
        }
    }
}

fn words(of: Qualified) -> String {
    let words = [(of.is_const, "const"), (of.is_volatile, "volatile")];
    let present: Vec<&str> = words
        .iter()
        .filter(|(on, _)| *on)
        .map(|(_, word)| *word)
        .collect();
    present.join(" ")
}

fn qualifiers_before(of: Qualified) -> String {
    let mut text = words(of);
    if !text.is_empty() {
        text.push(' ');
    }
    text
}

fn qualifiers_after(of: Qualified, inner: &str) -> String {
    let mut text = words(of);
    if !text.is_empty() && !inner.is_empty() && !inner.starts_with(['[', ')']) {
        text.push(' ');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Scalar;

    #[test]
    fn long_names_are_cut_short() {
        let mut types = Types::default();
        let mut last: Qualified = types.scalar(Scalar::Int).into();
        for _ in 0..60 {
            let function = types.function(Function {
                result: Types::VOID.into(),
                parameters: vec![last, last],
                is_variadic: false,
            });
            last = types.pointer(function.into()).into();
        }
        let name = types.name(last);
        assert!(name.contains("...") && name.len() < 20_000, "{name}");
    }

    #[test]
    fn types_are_written_as_c_writes_them() {
        let mut types = Types::default();
        let int: Qualified = types.scalar(Scalar::Int).into();
        let text: Qualified = types.scalar(Scalar::Char).into();
        let pointer: Qualified = types.pointer(text.constant()).into();
        assert_eq!(types.name(pointer.constant()), "const char *const");
        let array = types.array(pointer, Length::Known(3));
        assert_eq!(types.name(array.into()), "const char *[3]");
        let to_array = types.pointer(array.into());
        assert_eq!(types.name(to_array.into()), "const char *(*)[3]");
        let function = types.function(Function {
            result: to_array.into(),
            parameters: vec![int, pointer],
            is_variadic: true,
        });
        let callback = types.pointer(function.into());
        let expected = "const char *(*(*callback)(int, const char *, ...))[3]";
        assert_eq!(types.declaration(callback.into(), "callback"), expected);
        let anonymous = types.record(false, None);
        assert_eq!(
            types.name(anonymous.into()),
            format!("struct {}", anonymous.to_bits())
        );
    }
}
