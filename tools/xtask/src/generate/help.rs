//! Parses the text of `baton --help`.
//!
//! The text begins with a description. Sections follow; each has a title that ends in a colon, and
//! its lines are indented by two spaces. An entry is a name, two or more spaces, and a meaning.
//! Lines that are indented further continue the meaning.

/// An entry of a section, such as `-e stat     run the string 'stat'`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) meaning: String,
}

/// One part of a section: an entry or prose.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Entry(Entry),
    Prose(String),
}

/// A section other than the example.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) title: String,
    pub(super) pieces: Vec<Piece>,
}

/// The parsed help text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Help {
    pub(super) description: String,
    pub(super) sections: Vec<Section>,
    /// The lines of code of the section `Example`.
    pub(super) example: Vec<String>,
}

/// An option, as a shell needs it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CommandOption<'a> {
    /// The flag as typed, such as `-e` or `--help`.
    pub(super) flag: &'a str,
    /// The argument after the flag, if it takes one.
    pub(super) argument: Option<&'a str>,
    pub(super) meaning: &'a str,
}

impl Help {
    /// Parses a help text. The error says what is missing.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut help = Self {
            description: String::new(),
            sections: Vec::new(),
            example: Vec::new(),
        };
        let mut in_example = false;
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            match line.strip_prefix("  ") {
                None if line.ends_with(':') => {
                    in_example = line == "Example:";
                    if !in_example {
                        help.sections.push(Section {
                            title: line.trim_end_matches(':').to_owned(),
                            pieces: Vec::new(),
                        });
                    }
                }
                None => append(&mut help.description, line),
                Some(code) if in_example => help.example.push(code.to_owned()),
                Some(indented) => match help.sections.last_mut() {
                    Some(section) => section.add(indented),
                    None => {
                        return Err(format!(
                            "the help text has a line outside of any section: {line:?}"
                        ));
                    }
                },
            }
        }
        if help.description.is_empty() || help.options().is_empty() || help.example.is_empty() {
            return Err(
                "the help text must have a description, a section 'Options:' and one 'Example:'"
                    .to_owned(),
            );
        }
        Ok(help)
    }

    /// The options, with each flag once: of `-l mod` and `-l g=mod`, the first.
    pub(super) fn options(&self) -> Vec<CommandOption<'_>> {
        let mut options: Vec<CommandOption<'_>> = Vec::new();
        for entry in self.entries("Options") {
            let (flag, argument) = match entry.name.split_once(' ') {
                Some((flag, argument)) => (flag, Some(argument)),
                None => (entry.name.as_str(), None),
            };
            if options.iter().all(|option| option.flag != flag) {
                options.push(CommandOption {
                    flag,
                    argument,
                    meaning: &entry.meaning,
                });
            }
        }
        options
    }

    /// The commands, by name, and their meanings.
    pub(super) fn commands(&self) -> Vec<(&str, &str)> {
        let entries = self.entries("Commands");
        entries
            .map(|entry| {
                let name = entry.name.split(' ').next().unwrap_or(&entry.name);
                (name, entry.meaning.as_str())
            })
            .collect()
    }

    fn entries(&self, title: &str) -> impl Iterator<Item = &Entry> {
        let sections = self
            .sections
            .iter()
            .filter(move |section| section.title == title);
        sections
            .flat_map(|section| &section.pieces)
            .filter_map(|piece| match piece {
                Piece::Entry(entry) => Some(entry),
                Piece::Prose(_) => None,
            })
    }
}

impl Section {
    /// Adds a line. Its indentation by two is already removed.
    fn add(&mut self, line: &str) {
        let last = self.pieces.last_mut();
        if let Some(continued) = line.strip_prefix(' ') {
            match last {
                Some(Piece::Entry(entry)) => append(&mut entry.meaning, continued.trim()),
                Some(Piece::Prose(prose)) => append(prose, continued.trim()),
                None => self.pieces.push(Piece::Prose(continued.trim().to_owned())),
            }
            return;
        }
        match (line.split_once("  "), last) {
            (Some((name, meaning)), _) => self.pieces.push(Piece::Entry(Entry {
                name: name.to_owned(),
                meaning: meaning.trim().to_owned(),
            })),
            (None, Some(Piece::Prose(prose))) => append(prose, line),
            (None, _) => self.pieces.push(Piece::Prose(line.to_owned())),
        }
    }
}

fn append(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(line);
}

/// The value of the C string `help_text`, composed from its pieces.
pub(super) fn text_in(source: &str) -> Option<String> {
    let (_, definition) = source.split_once("help_text[] =")?;
    let mut text = String::new();
    let mut characters = definition.chars();
    let mut in_string = false;
    loop {
        match (in_string, characters.next()?) {
            (_, '"') => in_string = !in_string,
            (false, ';') => return Some(text),
            (true, '\\') => text.push(match characters.next()? {
                'n' => '\n',
                escaped @ ('"' | '\\') => escaped,
                _ => return None,
            }),
            (true, character) => text.push(character),
            (false, _) => {}
        }
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    const TEXT: &str = "\nRuns a\nprogram.\n\nOptions:\n  -e code  runs it\n  -e x     too\n  \
                        --help   shows\n           this\n\
                        More:\n  Prose that\n  goes on.\nExample:\n  f()\n    g()\n";

    #[test]
    fn a_help_text_is_parsed() {
        let help = Help::parse(TEXT).expect("the text is as it should be");
        assert_eq!(help.description, "Runs a program.");
        assert_eq!(help.example, ["f()", "  g()"]);
        let options: Vec<_> = help
            .options()
            .iter()
            .map(|option| (option.flag, option.argument, option.meaning))
            .collect();
        assert_eq!(
            options,
            [
                ("-e", Some("code"), "runs it"),
                ("--help", None, "shows this")
            ]
        );
        assert_eq!(help.sections[1].title, "More");
        assert_eq!(
            help.sections[1].pieces,
            [Piece::Prose("Prose that goes on.".to_owned())]
        );
    }

    #[test]
    fn a_text_without_options_is_refused() {
        assert!(Help::parse("Runs.\n\nExample:\n  f()\n").is_err());
    }

    #[test]
    fn the_text_is_found_in_c() {
        let source =
            "int x;\nstatic const char help_text[] =\n  \"a \\\"b\\\";\\n\"\n  \"c\\n\";\n\"d\";";
        assert_eq!(text_in(source).as_deref(), Some("a \"b\";\nc\n"));
        assert_eq!(text_in("int x;"), None);
    }
}
