//! Parses the definitions that editors read (LuaCATS): modules, classes, fields and functions.

/// The contents of one file of definitions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Definitions {
    /// Remarks about the whole module: its comments that begin with two dashes.
    pub(super) remarks: String,
    /// The classes in the order of the file. The first one is the module itself.
    pub(super) classes: Vec<Class>,
    pub(super) aliases: Vec<Named>,
}

/// A table or an object, with its fields and functions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Class {
    /// The full name, such as `baton.process.Channel`.
    pub(super) name: String,
    pub(super) meaning: String,
    pub(super) fields: Vec<Named>,
    pub(super) functions: Vec<Function>,
    /// The name of the variable in which the functions are defined.
    variable: Option<String>,
}

/// A function or method.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Function {
    /// The forms of the call, such as `process.spawn(f, ...)`. Overloads follow the first form.
    pub(super) forms: Vec<String>,
    pub(super) meaning: String,
    pub(super) parameters: Vec<Named>,
    pub(super) results: Vec<Named>,
}

/// A field, a parameter, a result or an alias.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// The name; empty for a result without one. A question mark at the end means optional.
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) meaning: String,
}

/// The comments that have been read before a definition.
#[derive(Default)]
struct Pending {
    meaning: Vec<String>,
    parameters: Vec<Named>,
    results: Vec<Named>,
    overloads: Vec<String>,
}

impl Definitions {
    /// Parses a file. The error names the line that is not understood.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut all = Self::default();
        let mut pending = Pending::default();
        for (index, line) in text.lines().enumerate() {
            let wrong = |why: &str| format!("line {}: {why}: {line}", index + 1);
            if let Some(annotation) = line.strip_prefix("---@") {
                all.annotate(annotation, &mut pending)
                    .ok_or(wrong("not understood"))?;
            } else if let Some(prose) = line.strip_prefix("---") {
                let prose = prose.strip_prefix(' ').unwrap_or(prose);
                pending.meaning.push(prose.trim_end().to_owned());
            } else if let Some(remark) = line.strip_prefix("-- ") {
                all.remarks = format!("{} {remark}", all.remarks).trim().to_owned();
            } else if let Some(definition) = line.strip_prefix("function ") {
                let definition = definition.strip_suffix(" end").ok_or(wrong("no end"))?;
                all.define(definition, std::mem::take(&mut pending))
                    .ok_or(wrong("no such class"))?;
            } else if let Some(variable) = line.strip_prefix("local ") {
                let (variable, _) = variable.split_once(" = ").ok_or(wrong("no value"))?;
                let class = all.classes.last_mut().ok_or(wrong("no class"))?;
                class.variable = Some(variable.to_owned());
            } else if !line.is_empty() && !line.starts_with("return ") {
                return Err(wrong("not understood"));
            }
        }
        Ok(all)
    }

    fn annotate(&mut self, annotation: &str, pending: &mut Pending) -> Option<()> {
        let (tag, rest) = annotation.split_once(' ').unwrap_or((annotation, ""));
        match tag {
            "class" => self.classes.push(Class {
                name: rest
                    .trim_start_matches("(exact) ")
                    .split(':')
                    .next()?
                    .trim()
                    .to_owned(),
                meaning: std::mem::take(pending).meaning.join("\n"),
                ..Class::default()
            }),
            "alias" => {
                let (name, kind) = rest.split_once(' ')?;
                self.aliases.push(Named {
                    name: name.to_owned(),
                    kind: kind.trim().to_owned(),
                    meaning: std::mem::take(pending).meaning.join("\n"),
                });
            }
            "field" => self.classes.last_mut()?.fields.push(named(rest)?),
            "param" => pending.parameters.push(named(rest)?),
            "return" => pending.results.extend(results(rest)),
            "overload" => pending.overloads.push(rest.to_owned()),
            "meta" | "nodiscard" | "operator" | "deprecated" | "async" => {}
            _ => return None,
        }
        Some(())
    }

    fn define(&mut self, definition: &str, pending: Pending) -> Option<()> {
        let variable = definition.split(['.', ':']).next()?;
        let is_its = |class: &&mut Class| class.variable.as_deref() == Some(variable);
        let class = self.classes.iter_mut().rev().find(is_its)?;
        let (called, given) = definition.strip_suffix(')')?.split_once('(')?;
        let is_optional = |name: &str| {
            pending
                .parameters
                .iter()
                .any(|parameter| parameter.name.strip_suffix('?') == Some(name))
        };
        let names = given.split(", ").filter(|name| !name.is_empty());
        let mut forms = vec![form(
            called,
            names.map(|name| (name.to_owned(), is_optional(name))),
        )];
        for overload in &pending.overloads {
            let parameters = inside(overload.strip_prefix("fun")?)?;
            let parameters = split(parameters, ',').into_iter().filter_map(|parameter| {
                let name = parameter.split(':').next()?.trim();
                let plain = name.trim_end_matches('?');
                (plain != "self").then(|| (plain.to_owned(), name.ends_with('?')))
            });
            forms.push(form(called, parameters));
        }
        class.functions.push(Function {
            forms,
            meaning: pending.meaning.join("\n"),
            parameters: pending.parameters,
            results: pending.results,
        });
        Some(())
    }
}

/// A call as it is shown to readers, with optional arguments in brackets.
fn form(called: &str, parameters: impl Iterator<Item = (String, bool)>) -> String {
    let mut text = format!("{called}(");
    for (index, (name, is_optional)) in parameters.enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        text += &match is_optional {
            true => format!("[{comma}{name}]"),
            false => format!("{comma}{name}"),
        };
    }
    text + ")"
}

/// Parses a name, a type and a meaning.
fn named(text: &str) -> Option<Named> {
    let (name, rest) = text.split_once(' ')?;
    let (kind, meaning) = kind_first(rest);
    Some(Named {
        name: name.to_owned(),
        kind,
        meaning,
    })
}

/// Parses types with names, separated by commas. The last one may have a meaning.
fn results(text: &str) -> Vec<Named> {
    let result = |text: &str| {
        let (kind, rest) = kind_first(text.trim());
        let (name, meaning) = rest.split_once(' ').unwrap_or((&rest, ""));
        Named {
            name: name.to_owned(),
            kind,
            meaning: meaning.to_owned(),
        }
    };
    // A comma in the meaning does not separate results, because a result begins with a type.
    let mut pieces: Vec<String> = Vec::new();
    for piece in split(text, ',') {
        match pieces.last_mut() {
            Some(last) if kind_first(last).1.contains(' ') => *last = format!("{last},{piece}"),
            _ => pieces.push(piece.to_owned()),
        }
    }
    pieces.iter().map(|piece| result(piece)).collect()
}

/// Splits off a type, which may contain blanks. Returns the type and the text after it.
fn kind_first(text: &str) -> (String, String) {
    let words = split(text, ' ');
    let mut length = 0;
    for (index, word) in words.iter().enumerate() {
        let goes_on = word.ends_with(':') || *word == "|" || words.get(index + 1) == Some(&"|");
        length = index + 1;
        if !goes_on {
            break;
        }
    }
    (words[..length].join(" "), words[length..].join(" "))
}

/// The pieces between the separators that are outside of brackets and quotes.
fn split(text: &str, separator: char) -> Vec<&str> {
    let (mut pieces, mut begin, mut depth, mut quoted) = (Vec::new(), 0, 0, false);
    for (at, symbol) in text.char_indices() {
        match symbol {
            '"' => quoted = !quoted,
            '(' | '{' | '[' | '<' => depth += 1,
            ')' | '}' | ']' | '>' => depth -= 1,
            _ if symbol == separator && depth == 0 && !quoted => {
                pieces.push(&text[begin..at]);
                begin = at + symbol.len_utf8();
            }
            _ => {}
        }
    }
    pieces.push(&text[begin..]);
    pieces
}

/// The text between the first bracket and the matching one.
fn inside(text: &str) -> Option<&str> {
    let text = text.strip_prefix('(')?;
    let mut depth = 1;
    let end = text.find(|symbol| {
        depth += match symbol {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        depth == 0
    })?;
    Some(&text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
---@meta m

-- It is about nothing.

---A module.
---@class m
---@field main integer a number, of no meaning
local m = {}

---@alias m.Way \"a\" | \"b\"

---Does it.
---For long.
---@param f fun(...): ...
---@param ... any
---@return boolean done, \"dead\"? why
---@overload fun(options: m.Options, f: (fun(...): ...), ...): boolean
function m.go(f, ...) end

---@class m.Box
local Box = {}

---@param to integer
---@param timeout? number seconds
---@return m.Box | \"x\" | nil note
---@return any ... results of f, or none
function Box:move(to, timeout) end

return m
";

    fn of(name: &str, kind: &str, meaning: &str) -> Named {
        Named {
            name: name.to_owned(),
            kind: kind.to_owned(),
            meaning: meaning.to_owned(),
        }
    }

    #[test]
    fn a_type_may_have_a_comma_between_angle_brackets() {
        assert_eq!(
            named("fields? table<string, string | string[]> of the head"),
            Some(of(
                "fields?",
                "table<string, string | string[]>",
                "of the head"
            ))
        );
    }

    #[test]
    fn a_file_of_definitions_is_parsed() {
        let all = Definitions::parse(TEXT).unwrap();
        assert_eq!(all.remarks, "It is about nothing.");
        assert_eq!(all.aliases, [of("m.Way", "\"a\" | \"b\"", "")]);
        let [module, class] = &all.classes[..] else {
            panic!("{:?}", all.classes)
        };
        assert_eq!(
            (module.name.as_str(), module.meaning.as_str()),
            ("m", "A module.")
        );
        assert_eq!(
            module.fields,
            [of("main", "integer", "a number, of no meaning")]
        );
        let go = &module.functions[0];
        assert_eq!(go.forms, ["m.go(f, ...)", "m.go(options, f, ...)"]);
        assert_eq!(go.meaning, "Does it.\nFor long.");
        assert_eq!(
            go.parameters,
            [of("f", "fun(...): ...", ""), of("...", "any", "")]
        );
        assert_eq!(
            go.results,
            [of("done", "boolean", ""), of("why", "\"dead\"?", "")]
        );
        let walk = &class.functions[0];
        assert_eq!(walk.forms, ["Box:move(to[, timeout])"]);
        assert_eq!(walk.results[0], of("note", "m.Box | \"x\" | nil", ""));
        assert_eq!(walk.results[1], of("...", "any", "results of f, or none"));
    }

    #[test]
    fn a_line_that_cannot_be_parsed_is_named() {
        let error = Definitions::parse("---@meta m\n---@nonsense x\n").unwrap_err();
        assert_eq!(error, "line 2: not understood: ---@nonsense x");
        assert!(
            Definitions::parse("function m.f() end\n")
                .unwrap_err()
                .contains("no such class")
        );
    }
}
