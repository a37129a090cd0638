//! `cargo xtask generate`: writes the files that are made from other files of the repository.
//!
//! The manual page and the shells' completions come from the text of `baton --help`, in the
//! interpreter's `command_line.c`. The reference pages of the book come from the definitions that
//! editors read, and from the comments of the C header. A test of this crate fails if a generated
//! file is not up to date.

mod completions;
mod definitions;
mod header;
mod help;
mod man;
mod reference;

use crate::{Outcome, workspace};
use definitions::Definitions;
use help::Help;

/// The file that contains the help text.
const HELP_SOURCE: &str = "tools/baton/c/command_line.c";

/// The directory of the generated files. They have the same places below it as below `/usr/share`.
pub(crate) const SHARE: &str = "tools/baton/share";

/// The directory of the definitions, and the pages of the book that are made from them.
const DEFINITIONS: &str = "editor/lua-language-server/library/baton";
const REFERENCES: &[(&str, &str, &str)] = &[
    (
        "baton.process",
        "process.lua",
        "docs/book/src/reference-process.md",
    ),
    ("baton.ffi", "ffi.lua", "docs/book/src/reference-ffi.md"),
    (
        "baton.inspect",
        "inspect.lua",
        "docs/book/src/reference-inspect.md",
    ),
    (
        "baton.cluster",
        "cluster.lua",
        "docs/book/src/reference-cluster.md",
    ),
    ("baton.http", "http.lua", "docs/book/src/reference-http.md"),
    ("baton.net", "net.lua", "docs/book/src/reference-net.md"),
    ("baton.web", "web.lua", "docs/book/src/reference-web.md"),
    ("baton.vm", "vm.lua", "docs/book/src/reference-vm.md"),
    (
        "baton.json",
        "json.lua",
        "docs/book/src/reference-baton-json.md",
    ),
    ("baton.log", "log.lua", "docs/book/src/reference-log.md"),
];

/// The C headers, in the order of their page in the book.
const HEADERS: &str = "bindings/capi/include";
const IN_ORDER: [&str; 3] = ["baton/guest.h", "baton.h", "baton/shared.h"];
const PAGE_OF_HEADERS: &str = "docs/book/src/reference-header.md";

/// A generated file: its path in the repository, and its text.
type Generated = (String, String);

/// Writes all generated files that are not up to date.
pub(crate) fn run() -> Outcome {
    for (name, text) in generate()? {
        let path = workspace::root().join(&name);
        if std::fs::read_to_string(&path).is_ok_and(|present| present == text) {
            println!("unchanged  {name}");
            continue;
        }
        let directory = path.parent().ok_or("a generated file is in a directory")?;
        std::fs::create_dir_all(directory)
            .map_err(|why| format!("cannot make {}: {why}", directory.display()))?;
        std::fs::write(&path, text)
            .map_err(|why| format!("cannot write {}: {why}", path.display()))?;
        println!("written    {name}");
    }
    Ok(())
}

fn generate() -> Result<Vec<Generated>, String> {
    let source = workspace::root().join(HELP_SOURCE);
    let source = std::fs::read_to_string(source)
        .map_err(|why| format!("cannot read {HELP_SOURCE}: {why}"))?;
    let text = help::text_in(&source)
        .ok_or(format!("{HELP_SOURCE} has no `help_text[] = \"...\" ...;`"))?;
    let help = Help::parse(&text)?;
    let shared = [
        ("man/man1/baton.1", man::page(&help)),
        (
            "bash-completion/completions/baton",
            completions::bash(&help),
        ),
        ("zsh/vendor-completions/_baton", completions::zsh(&help)),
        (
            "fish/vendor_completions.d/baton.fish",
            completions::fish(&help),
        ),
    ];
    let shared = shared.map(|(name, text)| (format!("{SHARE}/{name}"), text));
    shared
        .into_iter()
        .map(Ok)
        .chain(REFERENCES.iter().copied().map(reference))
        .chain([headers()])
        .collect()
}

fn headers() -> Result<Generated, String> {
    let mut all = Vec::new();
    for name in IN_ORDER {
        let text = std::fs::read_to_string(workspace::root().join(HEADERS).join(name))
            .map_err(|why| format!("cannot read {HEADERS}/{name}: {why}"))?;
        all.push((name, text));
    }
    Ok((PAGE_OF_HEADERS.to_owned(), header::page(&all)?))
}

fn reference((module, source, page): (&str, &str, &str)) -> Result<Generated, String> {
    let path = workspace::root().join(DEFINITIONS).join(source);
    let text = std::fs::read_to_string(path)
        .map_err(|why| format!("cannot read {DEFINITIONS}/{source}: {why}"))?;
    let definitions =
        Definitions::parse(&text).map_err(|why| format!("{DEFINITIONS}/{source}, {why}"))?;
    Ok((page.to_owned(), reference::page(module, &definitions)))
}

#[cfg(test)]
mod checks {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_generated_files_are_up_to_date() {
        for (name, text) in generate().expect("what it is made of can be read") {
            let present =
                std::fs::read_to_string(workspace::root().join(&name)).unwrap_or_default();
            assert!(
                present == text,
                "{name} is not up to date; run: cargo xtask generate"
            );
        }
    }

    #[test]
    fn bash_completes_options_before_the_script_and_files_after_it() {
        let completions = workspace::root()
            .join(SHARE)
            .join("bash-completion/completions/baton");
        let completed = |words: &[&str]| {
            let script = "source \"$0\" && COMP_WORDS=(baton \"$@\") && COMP_CWORD=$# && _baton && \
                          echo \"${COMPREPLY[@]}\"";
            let mut bash = Command::new("bash");
            bash.args(["-c", script]).arg(&completions).args(words);
            let output = bash
                .current_dir(workspace::root())
                .output()
                .expect("bash can be started");
            assert!(output.stderr.is_empty(), "{output:?}");
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        assert_eq!(
            completed(&["--"]),
            "--simulate --jobs --limit --explain --trace -- --help --version"
        );
        assert_eq!(completed(&["-e", "x = 1", "--v"]), "--version");
        assert_eq!(completed(&["examples/to"]), "examples/tour.lua");
        assert_eq!(completed(&["-l", "exam"]), "");
        assert_eq!(completed(&["script.lua", "--v"]), "");
        assert_eq!(completed(&["script.lua", "READ"]), "README.md");
    }
}
