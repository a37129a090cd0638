//! The functions of `baton.h` have the same parameters and results in C and in Rust.
//!
//! Neither compiler sees the other side. So this reads each function's definition in Rust, writes
//! its type in C, and has the compiler of C compare that with the header's declaration. What a
//! pointer's target promises (`const`, a reference) is not compared.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Types of the Rust side, and their names in C.
const TYPES: [(&str, &str); 33] = [
    ("()", "void"),
    ("c_void", "void"),
    ("c_char", "char"),
    ("c_int", "int"),
    ("c_uint", "unsigned"),
    ("i32", "int32_t"),
    ("i64", "int64_t"),
    ("u32", "uint32_t"),
    ("u64", "uint64_t"),
    ("usize", "size_t"),
    ("u8", "unsigned char"),
    ("f64", "double"),
    ("Vm", "baton_vm"),
    ("CTable", "struct baton_guest"),
    ("CWake", "struct baton_wake"),
    ("CSpawn", "struct baton_spawn_options"),
    ("CTimeUsed", "struct baton_time_used"),
    ("CLastAccount", "struct baton_last_account"),
    ("CWatch", "struct baton_watch"),
    ("CCase", "struct baton_case"),
    ("Turn", "struct baton_turn"),
    ("Waker", "struct baton_waker"),
    ("Counter", "struct baton_counter"),
    ("Commands", "struct baton_commands"),
    ("Handler", "baton_signal_handler"),
    ("CMessageKind", "struct baton_message_kind"),
    ("CVisitor<'_>", "struct baton_visitor"),
    ("CSharedChannel", "struct baton_shared_channel"),
    ("CWords", "struct baton_words"),
    ("CDict", "struct baton_dict"),
    ("CDictKey", "struct baton_dict_key"),
    ("CDictValue", "struct baton_dict_value"),
    ("CDictKeys", "struct baton_dict_keys"),
];

fn sources(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the sources are there") {
        let path = entry.expect("the directory can be read").path();
        if path.is_dir() {
            sources(&path, into);
        } else {
            into.push(path);
        }
    }
}

/// The text without comments.
fn code(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join(" ")
}

/// The text up to the bracket that closes the one before it, and the rest behind that.
fn until_closed(text: &str) -> (&str, &str) {
    let mut depth = 1;
    for (index, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return (&text[..index], &text[index + 1..]);
        }
    }
    panic!("no bracket closes: {text}");
}

/// The parts between commas that are in no bracket.
fn parts(list: &str) -> Vec<&str> {
    let mut depth = 0;
    let mut begin = 0;
    let mut parts = Vec::new();
    for (index, letter) in list.char_indices() {
        match letter {
            '(' | '<' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            // Not of an arrow.
            '>' if !list[..index].ends_with('-') => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list[begin..index].trim());
                begin = index + 1;
            }
            _ => {}
        }
    }
    parts.push(list[begin..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// A type of the Rust side in C. `code` may define other names of types.
fn in_c(rust: &str, code: &str) -> String {
    let rust = rust.trim();
    for pointer in ["*const ", "*mut ", "&mut ", "&"] {
        if let Some(target) = rust.strip_prefix(pointer) {
            let target = target.trim_start_matches("'static ");
            let target = in_c(target, code);
            // A pointer to a pointer to a function does not occur.
            assert!(!target.contains("(*)"), "{rust}");
            return format!("{target} *");
        }
    }
    if let Some(inner) = rust.strip_prefix("Option<") {
        return in_c(inner.trim_end_matches('>'), code);
    }
    let function = rust.trim_start_matches("unsafe ");
    if let Some(rest) = function.strip_prefix("extern \"C\" fn(") {
        let (parameters, result) = until_closed(rest);
        let types = parts(parameters).into_iter().map(|parameter| {
            let name_and_type = parameter.split_once(": ");
            name_and_type.map_or(parameter, |(_, kind)| kind)
        });
        return type_of(&types.collect::<Vec<_>>(), result, code);
    }
    let name = rust.rsplit("::").next().unwrap_or(rust);
    if let Some((_, name)) = TYPES.iter().find(|(known, _)| *known == name) {
        return (*name).to_owned();
    }
    let named = code.split(&format!("type {name} = ")).nth(1);
    let named = named.and_then(|rest| rest.split(';').next());
    in_c(
        named.unwrap_or_else(|| panic!("'{rust}' has no name in C here; add it to TYPES")),
        code,
    )
}

/// The type of a pointer to a function, from the types of the parameters and `-> RESULT`.
fn type_of(parameters: &[&str], result: &str, code: &str) -> String {
    let result = result.trim().strip_prefix("->").map_or("()", str::trim);
    let parameters: Vec<String> = parameters
        .iter()
        .map(|parameter| in_c(parameter, code))
        .collect();
    let parameters = match parameters.is_empty() {
        true => "void".to_owned(),
        false => parameters.join(", "),
    };
    format!("{} (*)({parameters})", in_c(result, code))
}

/// The functions that the Rust side defines: their names, and the types of pointers to them in C.
fn defined(code: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for definition in code.split("fn baton_").skip(1) {
        let Some((name, rest)) = definition.split_once('(') else {
            continue;
        };
        if !name
            .chars()
            .all(|letter| letter.is_alphanumeric() || letter == '_')
        {
            continue;
        }
        let (parameters, rest) = until_closed(rest);
        let result = rest.split('{').next().unwrap_or_default();
        let parameters: Vec<&str> = parts(parameters)
            .into_iter()
            .map(|parameter| match parameter.split_once(": ") {
                Some((_, kind)) => kind,
                // The macros add the type of this one.
                None => "&Vm",
            })
            .collect();
        all.push((format!("baton_{name}"), type_of(&parameters, result, code)));
    }
    all
}

fn all_defined() -> Vec<(String, String)> {
    let mut files = Vec::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut files,
    );
    let texts = files
        .iter()
        .map(|file| fs::read_to_string(file).expect("a source"));
    texts.flat_map(|text| defined(&code(&text))).collect()
}

/// The assertion that the header declares a function with this type.
fn assertion(name: &str, kind: &str) -> String {
    format!(
        "_Static_assert(__builtin_types_compatible_p(__typeof__(&{name}), {kind}), \"{name}\");\n"
    )
}

/// What the compiler of C says of assertions about the header.
fn check(assertions: &str) -> Result<(), String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut child = Command::new(compiler)
        .args(["-std=gnu11", "-fsyntax-only", "-x", "c", "-", "-I"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("there is a C compiler, which the build needs too");
    let text = format!(
        "#include <stddef.h>\n#include <stdint.h>\n#define const\n#include \"baton.h\"\n\
         {assertions}"
    );
    let mut input = child.stdin.take().expect("its input is a pipe");
    input.write_all(text.as_bytes()).expect("it reads the text");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn each_function_has_the_same_type_in_c_and_in_rust() {
    let all = all_defined();
    let names: BTreeSet<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.len() > 150, "{names:?}");
    assert_eq!(names.len(), all.len(), "two have one name");
    let assertions: String = all
        .iter()
        .map(|(name, kind)| assertion(name, kind))
        .collect();
    assert_eq!(check(&assertions), Ok(()));
}

#[test]
fn another_parameter_another_width_and_another_result_are_found() {
    let right = "fn baton_join(vm, pid: u64, timeout: i64) -> CWake {";
    let of = |rust: &str| {
        let all = defined(&code(rust));
        check(&assertion(&all[0].0, &all[0].1))
    };
    assert_eq!(of(right), Ok(()));
    for (part, wrong) in [
        ("pid: u64", "pid: u32"),
        ("timeout: i64", "timeout: u64"),
        (", timeout: i64", ""),
        ("-> CWake ", ""),
        ("vm, ", ""),
    ] {
        let said = of(&right.replace(part, wrong));
        assert!(
            said.is_err_and(|said| said.contains("baton_join")),
            "{wrong}"
        );
    }
}
