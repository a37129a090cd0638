//! Checks what C code calls that must be async-signal-safe: that of signal handlers, and that of
//! copies of the program.
//!
//! One file has the functions that may run in a handler. They call each other, functions that POSIX
//! calls async-signal-safe, and those listed here with the reason. The handlers in other files call
//! only functions of that file, and each other.
//!
//! One folder has the functions that run in a copy of the program. They call each other, functions
//! of POSIX, and those of Lua that are listed here.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::source::Source;

/// The file of the functions that may run in a handler.
const SAFE_FILE: &str = "guests/lua/c/seam/signal_safe.c";

/// The handlers in other files, and the functions that only they share.
const HANDLERS: [(&str, &[&str]); 3] = [
    (
        "guests/lua/c/program/signals.c",
        &["on_interrupt", "on_quit"],
    ),
    ("guests/lua/c/objects/signal_channels.c", &["on_signal"]),
    ("tools/baton/c/terminal.c", &["on_deadly", "put_back"]),
];

/// Async-signal-safe by POSIX.1-2017, section 2.4.3; or it is no function.
const BY_POSIX: [&str; 12] = [
    "memcpy",
    "raise",
    "sigaction",
    "sigemptyset",
    "signal",
    "strcmp",
    "strlen",
    "strnlen", // not in the list, but like strlen
    "tcsetattr",
    "write",
    "sizeof",
    "return",
];

/// Ours and Lua's. They read the calling thread's words or a stopped process's frames, or use
/// atomics. `baton_note_signal` and `baton_note_quit` set a bit of an atomic.
/// `baton_request_signalled` sets a bit and writes to a descriptor. `baton_note_running` opens and
/// writes a file, by system calls. `baton_is_observers` reads a `siginfo_t`.
const OURS: [&str; 14] = [
    "__atomic_add_fetch",
    "__atomic_compare_exchange_n",
    "__atomic_fetch_or",
    "baton_gate_here",
    "baton_gate_process",
    "baton_is_observers",
    "baton_lua_called_name",
    "baton_lua_function_of",
    "baton_lua_innermost",
    "baton_note_quit",
    "baton_note_running",
    "baton_note_signal",
    "baton_request_signalled",
    "isLua",
];

/// The folder of what runs in a copy of the program.
const IN_COPIES: &str = "guests/lua/c/heap/";

/// Functions of POSIX that only the copies use.
const BY_POSIX_IN_COPIES: [&str; 2] = ["memcmp", "strchr"];

/// Functions of ours and of Lua for the copies. They read Lua's objects and allocate nothing. The
/// others that the folder uses are macros of Lua's headers, which call none but these.
const OURS_IN_COPIES: [&str; 7] = [
    "baton_lua_seal",
    "luaF_getlocalname",
    "luaH_getshortstr",
    "luaH_realasize",
    "luaO_chunkid",
    "luaS_hash",
    "isLua",
];

/// Macros of Lua's headers: they read fields of objects, or compute sizes.
const MACROS_IN_COPIES: [&str; 42] = [
    "G",
    "allocsizenode",
    "ci_func",
    "gckey",
    "gco2ccl",
    "gco2lcl",
    "gco2p",
    "gco2t",
    "gco2th",
    "gco2ts",
    "gco2u",
    "gco2upv",
    "gcvalue",
    "getstr",
    "gettotalbytes",
    "getudatamem",
    "gnode",
    "gval",
    "hvalue",
    "iscollectable",
    "isdead",
    "isempty",
    "keyiscollectable",
    "keyisinteger",
    "keyival",
    "keytt",
    "lmod",
    "novariant",
    "obj2gco",
    "pcRel",
    "s2v",
    "sizeCclosure",
    "sizeLclosure",
    "sizelstring",
    "sizenode",
    "sizeudata",
    "stacksize",
    "tsslen",
    "tsvalue",
    "ttisstring",
    "udatamemoffset",
    "upisopen",
];

const KEYWORDS: [&str; 4] = ["if", "for", "while", "switch"];

/// A function that may run in a handler, with its body.
struct Handler<'source> {
    name: String,
    /// The lines of the body, counted from 0.
    lines: std::ops::RangeInclusive<usize>,
    source: &'source Source,
}

/// Finds calls that are not known to be safe, and handlers that are not where they should be.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let Some(safe) = sources.iter().find(|source| source.name == SAFE_FILE) else {
        return Vec::new();
    };
    let mut checked = functions(safe);
    let names = |functions: &[Handler<'_>]| -> BTreeSet<String> {
        functions
            .iter()
            .map(|function| function.name.clone())
            .collect()
    };
    let mut known = names(&checked);
    let mut findings = Vec::new();
    for (file, handlers) in HANDLERS {
        let found = sources.iter().find(|source| source.name == file);
        let mut there: Vec<Handler<'_>> = found.map(functions).unwrap_or_default();
        there.retain(|function| handlers.contains(&function.name.as_str()));
        if there.len() != handlers.len() {
            let message = format!("has not all of the signal handlers {}", handlers.join(", "));
            findings.push(Finding::error(file, 0, message));
        }
        known.extend(names(&there));
        checked.extend(there);
    }
    known.extend(
        BY_POSIX
            .iter()
            .chain(&OURS)
            .chain(&KEYWORDS)
            .map(|name| (*name).to_owned()),
    );
    for function in &checked {
        findings.extend(unknown_calls(
            function,
            "may run in a signal handler",
            &known,
        ));
    }
    findings.extend(check_copies(sources));
    findings
}

/// Finds calls in copies of the program that are not known to be safe.
fn check_copies(sources: &[Source]) -> Vec<Finding> {
    let files = sources
        .iter()
        .filter(|source| source.name.starts_with(IN_COPIES) && source.name.ends_with(".c"));
    let functions: Vec<Handler<'_>> = files.flat_map(functions).collect();
    let lists: [&[&str]; 5] = [
        &BY_POSIX,
        &BY_POSIX_IN_COPIES,
        &OURS_IN_COPIES,
        &MACROS_IN_COPIES,
        &KEYWORDS,
    ];
    let listed = lists
        .iter()
        .copied()
        .flatten()
        .map(|name| (*name).to_owned());
    let own = functions.iter().map(|function| function.name.clone());
    let known: BTreeSet<String> = listed.chain(own).collect();
    functions
        .iter()
        .flat_map(|function| unknown_calls(function, "runs in a copy of the program", &known))
        .collect()
}

fn unknown_calls(function: &Handler<'_>, place: &str, known: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for line in function.lines.clone() {
        for called in calls(&function.source.code[line]) {
            if !known.contains(called) {
                let message = format!(
                    "{} {place} and calls {called}, which is not known to be async-signal-safe",
                    function.name
                );
                findings.push(Finding::error(&function.source.name, line + 1, message));
            }
        }
    }
    findings
}

/// The names before an opening parenthesis.
fn calls(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices('(').filter_map(|(at, _)| {
        let before = line[..at].trim_end();
        let begin = before
            .rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .map_or(0, |end| end + 1);
        let name = &before[begin..];
        (!name.is_empty()).then_some(name)
    })
}

/// The functions of a file in this project's format: a head begins at the start of a line, and a
/// body ends with `}` there, or on the line where it begins.
fn functions(source: &Source) -> Vec<Handler<'_>> {
    let code = &source.code;
    let mut found = Vec::new();
    let mut line = 0;
    while line < code.len() {
        let begins = code[line].starts_with(|c: char| c.is_ascii_alphabetic());
        let name = calls(&code[line]).next().filter(|_| begins);
        let opens = (line..code.len()).find(|&at| code[at].contains(['{', ';', '=']));
        if let (Some(name), Some(opens)) = (name, opens)
            && let Some(at) = code[opens].find(['{', ';', '='])
            && code[opens][at..].starts_with('{')
        {
            let ends = match code[opens].trim_end().ends_with('}') {
                true => opens,
                false => (opens + 1..code.len())
                    .find(|&end| code[end].starts_with('}'))
                    .unwrap_or(code.len() - 1),
            };
            // The name itself is known, so its head may count as a part of the body.
            found.push(Handler {
                name: name.to_owned(),
                lines: opens..=ends,
                source,
            });
            line = ends;
        }
        line += 1;
    }
    found
}

#[cfg(test)]
mod checks {
    use super::*;

    const SIGNALS: &str = "static void on_interrupt(int signal) {\n  note();\n}\nstatic void \
                           on_quit(int signal) {\n  note();\n}\n";

    fn found(safe: &str, signals: &str) -> Vec<String> {
        let channel = "static void on_signal(int signal) {\n  note();\n}\n";
        let terminal = "static void put_back(void) {\n  tcsetattr(0, 0, &mode);\n}\n\nstatic void \
                        on_deadly(int number) {\n  put_back();\n  raise(number);\n}\n";
        let sources = [
            Source::parse(SAFE_FILE, safe),
            Source::parse(HANDLERS[0].0, signals),
            Source::parse(HANDLERS[1].0, channel),
            Source::parse(HANDLERS[2].0, terminal),
        ];
        check(&sources).iter().map(Finding::to_string).collect()
    }

    const NOTE: &str = "static int noted;\nint is_noted(void) { return noted; }\nvoid note(void) \
                        {\n  if (noted) return;\n  noted = 1; /* printf(1) */\n}\n";

    #[test]
    fn functions_of_the_file_call_each_other_and_what_posix_allows() {
        let all = format!("{NOTE}void tell(void) {{\n  note();\n  write(2, \"f(x)\", 4);\n}}\n");
        assert_eq!(found(&all, SIGNALS), [""; 0]);
    }

    #[test]
    fn another_call_is_found_with_its_line() {
        let messages = found(
            &format!("{NOTE}void tell(void) {{\n  free(NULL);\n}}\n"),
            SIGNALS,
        );
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].contains("signal_safe.c:8"), "{messages:?}");
        let messages = found(
            &format!("{NOTE}int last(void) {{ return rand(); }}\n"),
            SIGNALS,
        );
        assert_eq!(messages.len(), 1, "{messages:?}");
    }

    #[test]
    fn a_handler_calls_no_function_of_its_own_file() {
        let other = format!("static void help(void) {{\n  printf(\"\");\n}}\n{SIGNALS}");
        assert_eq!(found(NOTE, &other), [""; 0]);
        let messages = found(
            NOTE,
            &other.replace("  note();\n}\nstatic", "  help();\n}\nstatic"),
        );
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].contains("calls help"), "{messages:?}");
    }

    #[test]
    fn a_handler_that_is_gone_is_found() {
        let messages = found(NOTE, &SIGNALS.replace("on_quit", "on_exit"));
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].contains("has not all"), "{messages:?}");
    }

    #[test]
    fn what_runs_in_a_copy_allocates_nothing() {
        let of = |text: &str| {
            let sources = [
                Source::parse(SAFE_FILE, NOTE),
                Source::parse("guests/lua/c/heap/tables.c", text),
            ];
            check_copies(&sources)
                .iter()
                .map(Finding::to_string)
                .collect::<Vec<_>>()
        };
        let text = "static int size(const Table *t) { return sizenode(t); }\n\
                    void put(Table *t) {\n  write(1, t, size(t));\n}\n";
        assert_eq!(of(text), [""; 0]);
        let messages = of(&text.replace("write(1", "fwrite(1"));
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].contains("put runs in a copy of the program and calls fwrite"));
    }
}
