//! Splits a text of C declarations into tokens.

use std::iter::Peekable;
use std::str::CharIndices;

use crate::error::DeclarationError;

/// The kind of a token, with its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TokenKind<'t> {
    /// A name or keyword.
    Word(&'t str),
    /// An integer constant.
    Integer {
        value: u64,
        is_unsigned: bool,
        is_long: bool,
    },
    /// A character constant.
    Character(i64),
    /// A string literal, with its escapes resolved.
    Text(String),
    /// An operator or other mark.
    Mark(&'static str),
    /// `$`, which stands for an argument.
    Placeholder,
    /// The end of the text.
    End,
}

/// A token and its place in the text.
#[derive(Clone, Debug)]
pub(super) struct Token<'t> {
    pub(super) kind: TokenKind<'t>,
    /// The offset of its first byte.
    pub(super) at: usize,
    /// The value of `#pragma pack` at this place.
    pub(super) pack: Option<u32>,
}

/// All marks. A longer mark stands before its own prefixes, so that it is found first.
const MARKS: [&str; 44] = [
    "...", "<<=", ">>=", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "->", "++", "--", "##",
    "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "[", "]", "(", ")", "{", "}", ",", ";", ":",
    "=", "*", "+", "-", "/", "%", "&", "|", "^", "~", "!", "?",
];
const MORE_MARKS: [&str; 3] = ["<", ">", "."];

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    pack: Option<u32>,
    packs: Vec<Option<u32>>,
    tokens: Vec<Token<'t>>,
}

/// Splits a text into tokens. The last token is [`TokenKind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, DeclarationError> {
    let mut lexer = Lexer {
        text,
        at: 0,
        pack: None,
        packs: Vec::new(),
        tokens: Vec::new(),
    };
    while lexer.skip_blanks()? {
        lexer.token()?;
    }
    lexer.push(text.len(), TokenKind::End);
    Ok(lexer.tokens)
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn is_word(byte: u8) -> bool {
    is_word_start(byte) || byte.is_ascii_digit()
}

impl<'t> Lexer<'t> {
    fn error<T>(&self, at: usize, message: impl Into<String>) -> Result<T, DeclarationError> {
        Err(DeclarationError::at(self.text, at, message))
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn push(&mut self, at: usize, kind: TokenKind<'t>) {
        let pack = self.pack;
        self.tokens.push(Token { kind, at, pack });
    }

    /// Skips white space, comments and directives. Returns whether any text is left.
    fn skip_blanks(&mut self) -> Result<bool, DeclarationError> {
        loop {
            let rest = self.rest();
            if rest.starts_with("/*") {
                match rest.find("*/") {
                    Some(length) => self.at += length + 2,
                    None => {
                        return self
                            .error(self.at, "a comment that does not end; write */ behind it");
                    }
                }
            } else if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("\\\n") {
                self.at += 2;
            } else if rest.starts_with('#') && self.is_line_start() {
                self.directive()?;
            } else {
                match rest.chars().next() {
                    None => return Ok(false),
                    Some(character) if character.is_whitespace() => self.at += character.len_utf8(),
                    Some(_) => return Ok(true),
                }
            }
        }
    }

    fn is_line_start(&self) -> bool {
        let line = self.text[..self.at].rsplit('\n').next().unwrap_or_default();
        line.trim().is_empty()
    }

    /// Reads a line that begins with `#`. `#pragma pack` takes effect. Other pragmas and line
    /// markers are skipped, and everything else is an error.
    fn directive(&mut self) -> Result<(), DeclarationError> {
        let rest = self.rest();
        let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
        let words = line[1..].trim();
        let name: String = words
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric())
            .collect();
        match name.as_str() {
            "pragma" => self.pragma(words["pragma".len()..].trim())?,
            "line" | "" => {}
            digits if digits.starts_with(|c: char| c.is_ascii_digit()) => {}
            "define" => {
                return self.error(
                    self.at,
                    "#define is the preprocessor's, which does not run here; for a number write \
                     `static const int NAME = 1;` or `enum { NAME = 1 };`",
                );
            }
            _ => {
                let message = format!(
                    "#{name} is the preprocessor's, which does not run here; pass the text through \
                     `cc -E -P` first, or take the line away"
                );
                return self.error(self.at, message);
            }
        }
        self.at += line.len();
        Ok(())
    }

    /// Reads `#pragma pack(n)`, `pack()`, `pack(push)`, `pack(push, n)` or `pack(pop)`.
    fn pragma(&mut self, words: &str) -> Result<(), DeclarationError> {
        let Some(after) = words.strip_prefix("pack") else {
            return Ok(());
        };
        let inside = after
            .trim()
            .strip_prefix('(')
            .and_then(|inner| inner.split(')').next());
        let mut parts = inside
            .unwrap_or_default()
            .split(',')
            .map(str::trim)
            .peekable();
        match parts.peek() {
            Some(&"push") => {
                self.packs.push(self.pack);
                parts.next();
            }
            Some(&"pop") => {
                self.pack = self.packs.pop().flatten();
                return Ok(());
            }
            Some(&"") => self.pack = None,
            _ => {}
        }
        for part in parts.filter(|part| !part.is_empty()) {
            self.pack = match part.parse() {
                Ok(0) => None,
                Ok(n @ (1 | 2 | 4 | 8 | 16)) => Some(n),
                _ => {
                    return self.error(
                        self.at,
                        format!("#pragma pack: 1, 2, 4, 8 or 16 expected, got '{part}'"),
                    );
                }
            };
        }
        Ok(())
    }

    fn token(&mut self) -> Result<(), DeclarationError> {
        let start = self.at;
        let first = self.text.as_bytes()[start];
        if is_word_start(first) {
            let length = self
                .rest()
                .bytes()
                .take_while(|byte| is_word(*byte))
                .count();
            self.at += length;
            let word = &self.text[start..self.at];
            match self.text.as_bytes().get(self.at) {
                Some(b'\'') if ["L", "u", "U", "u8"].contains(&word) => {
                    return self.character(start);
                }
                _ => self.push(start, TokenKind::Word(word)),
            }
        } else if first.is_ascii_digit() {
            self.number(start)?;
        } else if first == b'\'' {
            self.character(start)?;
        } else if first == b'"' {
            self.string(start)?;
        } else if first == b'$' {
            self.at += 1;
            self.push(start, TokenKind::Placeholder);
        } else {
            let rest = self.rest();
            let Some(mark) = MARKS
                .iter()
                .chain(&MORE_MARKS)
                .find(|mark| rest.starts_with(**mark))
            else {
                let character = rest.chars().next().unwrap_or_default();
                return self.error(
                    start,
                    format!("'{character}' means nothing in C; take it away"),
                );
            };
            self.at += mark.len();
            self.push(start, TokenKind::Mark(mark));
        }
        Ok(())
    }

    fn number(&mut self, start: usize) -> Result<(), DeclarationError> {
        let length = self
            .rest()
            .bytes()
            .take_while(|byte| is_word(*byte) || *byte == b'.')
            .count();
        self.at += length;
        let text = self.text[start..self.at].to_ascii_lowercase();
        let (radix, digits) = match text.as_bytes() {
            [b'0', b'x', ..] => (16, &text[2..]),
            [b'0', b'b', ..] => (2, &text[2..]),
            [b'0', ..] => (8, &text[..]),
            _ => (10, &text[..]),
        };
        let end = digits
            .find(|c: char| !c.is_digit(radix))
            .unwrap_or(digits.len());
        let suffix = &digits[end..];
        if !["", "u", "l", "ul", "lu", "ll", "ull", "llu"].contains(&suffix) {
            return self.error(
                start,
                format!("'{text}' is no integer; only integers can stand here"),
            );
        }
        let Ok(value) = u64::from_str_radix(&digits[..end], radix) else {
            return self.error(start, format!("'{text}' does not fit into 64 bits"));
        };
        let is_long = suffix.contains('l')
            || value > u64::from(u32::MAX)
            || (radix == 10 && value > i32::MAX as u64);
        let holds = if is_long {
            i64::MAX as u64
        } else {
            i32::MAX as u64
        };
        let is_unsigned = suffix.contains('u') || (value > holds);
        let kind = TokenKind::Integer {
            value,
            is_unsigned,
            is_long,
        };
        self.push(start, kind);
        Ok(())
    }

    /// Reads a character constant, whose opening quote is the next byte.
    fn character(&mut self, start: usize) -> Result<(), DeclarationError> {
        let value = self.quoted('\'')?;
        let mut characters = value.chars();
        match (characters.next(), characters.next()) {
            (Some(character), None) => {
                let code = i64::from(u32::from(character));
                // A plain character constant has the value of a `char`, which may be negative.
                let narrow = self.text.as_bytes()[start] == b'\'' && code < 256;
                let signed = std::ffi::c_char::MIN != 0;
                let value = if narrow && signed {
                    i64::from(code as u8 as i8)
                } else {
                    code
                };
                self.push(start, TokenKind::Character(value));
                Ok(())
            }
            _ => self.error(start, "a character constant holds one character, as in 'a'"),
        }
    }

    fn string(&mut self, start: usize) -> Result<(), DeclarationError> {
        let text = self.quoted('"')?;
        self.push(start, TokenKind::Text(text));
        Ok(())
    }

    /// Reads the text between two quotes and resolves its escapes.
    fn quoted(&mut self, quote: char) -> Result<String, DeclarationError> {
        let start = self.at;
        let mut text = String::new();
        let mut characters = self.text[start + 1..].char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            match character {
                '\n' => break,
                '\\' => match escape_sequence(&mut characters) {
                    Some(character) => text.push(character),
                    None => {
                        return self.error(
                            start + 1 + at,
                            "no such escape; C has \\n, \\t, \\0, \\x41 and the like",
                        );
                    }
                },
                _ if character == quote => {
                    self.at = start + 1 + at + 1;
                    return Ok(text);
                }
                _ => text.push(character),
            }
        }
        self.error(
            start,
            format!("{quote} begins what does not end on its line; write {quote} behind it"),
        )
    }
}

/// Reads the rest of an escape sequence, after the backslash.
fn escape_sequence(characters: &mut Peekable<CharIndices<'_>>) -> Option<char> {
    let mut digits = |radix: u32, most: usize| {
        let mut found = String::new();
        while let Some((_, digit)) =
            characters.next_if(|(_, c)| found.len() < most && c.is_digit(radix))
        {
            found.push(digit);
        }
        found
    };
    let octal = digits(8, 3);
    let code = if octal.is_empty() {
        match characters.next()?.1 {
            'x' => {
                let mut found = String::new();
                while let Some((_, digit)) =
                    characters.next_if(|(_, c)| found.len() < 8 && c.is_ascii_hexdigit())
                {
                    found.push(digit);
                }
                u32::from_str_radix(&found, 16).ok()?
            }
            escaped => escape(escaped)?,
        }
    } else {
        u32::from_str_radix(&octal, 8).ok()?
    };
    char::from_u32(code)
}

/// The value of the escape `\c`, where `c` is `character`.
fn escape(character: char) -> Option<u32> {
    Some(match character {
        'n' => 10,
        't' => 9,
        'r' => 13,
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'v' => 11,
        'e' => 27,
        '\\' | '\'' | '"' | '?' => u32::from(character),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind<'_>> {
        let tokens = tokens(text).expect("the text is right");
        tokens.into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn comments_and_line_marks_are_skipped_and_packing_is_noted() {
        let text = "# 1 \"a.h\"\n#pragma pack(push, 2)\nint /* a\n*/ x; // b\n#pragma pack(pop)\ny";
        let packs: Vec<Option<u32>> = tokens(text)
            .expect("it is right")
            .iter()
            .map(|token| token.pack)
            .collect();
        assert_eq!(packs, [Some(2), Some(2), Some(2), None, None]);
    }

    #[test]
    fn numbers_have_their_c_type() {
        let expect = |value, is_unsigned, is_long| TokenKind::Integer {
            value,
            is_unsigned,
            is_long,
        };
        assert_eq!(
            kinds("0x10 017 0b11 4294967295 0xffffffff 7ull")[..6],
            [
                expect(16, false, false),
                expect(15, false, false),
                expect(3, false, false),
                expect(4_294_967_295, false, true),
                expect(4_294_967_295, true, false),
                expect(7, true, true)
            ]
        );
    }

    #[test]
    fn characters_and_strings_lose_their_escapes() {
        assert_eq!(
            kinds(r#"'a' '\n' '\x41' '\0' "a\"b""#)[..5],
            [
                TokenKind::Character(97),
                TokenKind::Character(10),
                TokenKind::Character(65),
                TokenKind::Character(0),
                TokenKind::Text("a\"b".to_owned())
            ]
        );
    }

    #[test]
    fn errors_have_line_and_column() {
        for (text, line, column) in [
            ("int x;\n  @", 2, 3),
            ("/* a", 1, 1),
            ("\n#define X 1", 2, 1),
            ("\"a\n\"", 1, 1),
        ] {
            let error = tokens(text).expect_err("it is wrong");
            assert_eq!((error.line, error.column), (line, column), "{text}");
        }
    }
}
