//! What a mistyped word was meant to be, and the variables of the environment that nobody knows.

use baton_capi::parameters;
use baton_core::parameters::Parameters;
use std::ffi::{CStr, c_char};
use std::io::Write;

/// The variables of Baton that are no parameters. The last three are between its own programs.
const VARIABLES: [&str; 8] = [
    "BATON_ATTACH",
    "BATON_CONCURRENT",
    "BATON_FFI",
    "BATON_HISTORY",
    "BATON_METRICS",
    "BATON_DEBUGGER",
    "BATON_OBSERVER",
    "BATON_SIMULATION",
];

const PREFIX: &str = "BATON_";

/// The name that a mistyped word is closest to, if it is close to one: one letter too many, too
/// few, wrong, or two exchanged; in words of more than six letters, two such mistakes.
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = if word.len() > 6 { 2 } else { 1 };
    names
        .into_iter()
        .map(|name| (mistakes(word.as_bytes(), name.as_bytes()), name))
        .filter(|&(count, _)| (1..=most).contains(&count))
        .min_by_key(|&(count, _)| count)
        .map(|(_, name)| name)
}

/// The number of letters to insert, delete, replace or exchange with the next one.
fn mistakes(one: &[u8], other: &[u8]) -> usize {
    let width = other.len() + 1;
    // by the number of letters of `one`: the row of mistakes by the number of letters of `other`
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..width).collect();
    for i in 1..=one.len() {
        let mut row = vec![i; width];
        for j in 1..width {
            let is_other = usize::from(one[i - 1] != other[j - 1]);
            row[j] = (last[j - 1] + is_other)
                .min(last[j] + 1)
                .min(row[j - 1] + 1);
            let exchanged =
                i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1];
            if exchanged {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[width - 1]
}

/// The message about a variable that is close to one of Baton's. `None` if it is one of Baton's, or
/// somebody else's.
fn complaint(variable: &str, known: &[String]) -> Option<String> {
    if known.iter().any(|name| name == variable) {
        return None;
    }
    let name = nearest(variable, known.iter().map(String::as_str))?;
    Some(format!(
        "baton: warning: the environment has {variable}, which Baton does not know: did you mean \
         {name}?\n"
    ))
}

/// Warns of each variable that begins with `BATON_` and is close to one of Baton's, but none of
/// them: it would be without effect. Called once, before the program runs.
// SAFETY: the only definition of this symbol, with the signature that `libraries.c` declares.
#[unsafe(no_mangle)]
extern "C" fn baton_lua_check_environment() {
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let own: Vec<String> = variables.filter(|name| name.starts_with(PREFIX)).collect();
    if own.is_empty() {
        return;
    }
    let parameters = parameters::list_values(&Parameters::default());
    let of_parameter = |(name, _): (String, String)| format!("{PREFIX}{}", name.to_uppercase());
    let mut known: Vec<String> = parameters.into_iter().map(of_parameter).collect();
    known.extend(VARIABLES.iter().map(|&name| name.to_owned()));
    for variable in own {
        if let Some(text) = complaint(&variable, &known) {
            // Without stderr, nobody would read it.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }
}

/// For C: the name that `word` is closest to, of a list that NULL ends. NULL: none.
///
/// # Safety
/// `word` and the names are C strings.
// SAFETY: the only definition of this symbol, with the signature that `tools/baton/c/runtime.h`
// declares.
#[unsafe(no_mangle)]
unsafe extern "C" fn baton_lua_nearest(
    word: *const c_char,
    names: *const *const c_char,
) -> *const c_char {
    // SAFETY: the caller's condition, for each use of this function.
    let text = |text: *const c_char| unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("");
    let mut all = Vec::new();
    // SAFETY: the caller's condition: the list has elements until one is null.
    while let name = unsafe { *names.add(all.len()) }
        && !name.is_null()
    {
        all.push(name);
    }
    let found = nearest(text(word), all.iter().map(|&name| text(name)));
    let is_found = |&name: &*const c_char| Some(text(name)) == found;
    all.iter()
        .copied()
        .find(is_found)
        .unwrap_or(std::ptr::null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_with_a_mistake_is_recognized_and_another_word_is_not() {
        let names = ["stacks", "top", "profile", "--help", "BATON_SLICE"];
        for (word, wanted) in [
            ("stack", Some("stacks")),
            ("stakcs", Some("stacks")),
            ("tpo", Some("top")),
            ("porfil", None),
            ("profiel", Some("profile")),
            ("--hlp", Some("--help")),
            ("BATON_SLCIE", Some("BATON_SLICE")),
            ("BATON_HOME", None),
            ("main.lua", None),
            ("top", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, names), wanted, "{word}");
        }
    }

    #[test]
    fn a_variable_gets_a_complaint_only_if_it_is_close_to_a_known_one() {
        let known = ["BATON_SLICE".to_owned()];
        assert_eq!(complaint("BATON_SLICE", &known), None);
        let text = complaint("BATON_SLCIE", &known).expect("a complaint");
        assert!(text.contains("did you mean BATON_SLICE?"), "{text}");
        assert_eq!(complaint("BATON_HOME", &known), None);
    }
}
