//! Names and values of fields, and texts of addresses.

/// The value without spaces and tabs around it.
#[must_use]
pub fn trimmed(value: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    let Some(start) = value.iter().position(|byte| !is_space(byte)) else {
        return &value[..0];
    };
    let end = value
        .iter()
        .rposition(|byte| !is_space(byte))
        .unwrap_or(start);
    &value[start..=end]
}

/// The elements of a list with commas.
pub(crate) fn elements(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b',')
        .map(trimmed)
        .filter(|element| !element.is_empty())
}

/// The number that all bytes are the digits of, if it has at most 63 bits.
#[must_use]
pub fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 19 {
        return None;
    }
    let add = |number: u64, digit: &u8| {
        digit
            .is_ascii_digit()
            .then(|| number * 10 + u64::from(digit - b'0'))
    };
    let number = digits.iter().try_fold(0, add)?;
    (i64::try_from(number).is_ok()).then_some(number)
}

/// Whether this may be the name of a field, or a method: a token.
#[must_use]
pub fn is_token(name: &[u8]) -> bool {
    let may_be = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !name.is_empty() && name.iter().all(may_be)
}

/// Whether this may be the value of a field: no control characters but tabs.
#[must_use]
pub fn is_value(value: &[u8]) -> bool {
    value
        .iter()
        .all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f))
}

/// Decodes `%41` to the letter, and a plus to a space if `is_form`, into `out`. What is no code
/// stays as it is. Returns the number of bytes, which is never more than the text has.
pub fn decode(text: &[u8], is_form: bool, out: &mut [u8]) -> usize {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let (mut at, mut written) = (0, 0);
    while at < text.len() && written < out.len() {
        let code = match (text[at], digit(text.get(at + 1)), digit(text.get(at + 2))) {
            (b'%', Some(high), Some(low)) => Some((high * 16 + low) as u8),
            _ => None,
        };
        out[written] = match (code, text[at]) {
            (Some(byte), _) => byte,
            (None, b'+') if is_form => b' ',
            (None, byte) => byte,
        };
        at += if code.is_some() { 3 } else { 1 };
        written += 1;
    }
    written
}
