//! Names as text. Lua's names are bytes, and may hold anything.

/// Bytes as text. Each sequence that is not UTF-8 becomes U+FFFD.
pub(crate) fn lossy(bytes: impl AsRef<[u8]>) -> String {
    String::from_utf8_lossy(bytes.as_ref()).into_owned()
}

/// A name as one line of text that has no effect on a terminal or on a reader's eye: control
/// characters become their pictures (U+2400 to U+2421). Line separators, characters that change
/// the direction of writing, and those that XML forbids become U+FFFD.
pub(crate) fn visible(name: &str) -> String {
    name.chars().map(visible_character).collect()
}

fn visible_character(character: char) -> char {
    match character {
        '\0'..='\x1f' => char::from_u32(0x2400 + character as u32).unwrap_or('\u{fffd}'),
        '\x7f' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        | '\u{fffe}'
        | '\u{ffff}' => '\u{fffd}',
        other => other,
    }
}

/// A visible name, escaped for the text and for the attributes of XML.
pub(crate) fn xml(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for character in name.chars().map(visible_character) {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// At most `limit` characters of a text; the last one is an ellipsis if something was cut.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(limit.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod checks {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_that_are_no_text_become_replacement_characters() {
        assert_eq!(lossy(b"a\xffb"), "a\u{fffd}b");
        assert_eq!(lossy("ä"), "ä");
    }

    #[test]
    fn control_bytes_become_pictures() {
        assert_eq!(visible("a\n\x1b[31m\x7f"), "a\u{240a}\u{241b}[31m\u{2421}");
        assert_eq!(visible("x\u{202e}y"), "x\u{fffd}y");
    }

    #[test]
    fn a_script_cannot_be_ended_from_within() {
        assert_eq!(xml("</script>\"'&"), "&lt;/script&gt;&quot;&#39;&amp;");
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!(shortened("äöüx", 3), "äö…");
    }

    proptest! {
        #[test]
        fn a_visible_name_is_one_line_of_printable_characters(bytes: Vec<u8>) {
            let text = visible(&lossy(bytes));
            prop_assert!(!text.chars().any(char::is_control));
            prop_assert!(text.lines().count() <= 1);
        }

        #[test]
        fn escaped_text_has_no_markup_and_can_be_read_back(name: String) {
            let escaped = xml(&name);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            let back = escaped
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&quot;", "\"")
                .replace("&#39;", "'")
                .replace("&amp;", "&");
            prop_assert_eq!(back, visible(&name));
        }
    }
}
