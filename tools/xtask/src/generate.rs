//! `cargo xtask generate`: the manual page and the shells' completions, from the text of `baton --help`.
//!
//! That text stands in one place, the interpreter's `command_line.c`. A test of this crate fails while what was generated
//! from it is not what is in the repository.

mod completions;
mod help;
mod man;

use std::path::PathBuf;

use crate::{Outcome, workspace};
use help::Help;

/// Where the help text is.
const HELP_SOURCE: &str = "tools/baton/c/command_line.c";

/// Below here are the files, each in the place that it has below `/usr/share`.
pub(crate) const SHARE: &str = "tools/baton/share";

/// A file to be generated: its place below [`SHARE`], and its text.
type Generated = (&'static str, String);

/// Writes all files that are not as they should be.
pub(crate) fn run() -> Outcome {
    for (name, text) in generate()? {
        let path = path_of(name);
        if std::fs::read_to_string(&path).is_ok_and(|present| present == text) {
            println!("unchanged  {SHARE}/{name}");
            continue;
        }
        let directory = path.parent().ok_or("a generated file is in a directory")?;
        std::fs::create_dir_all(directory).map_err(|why| format!("cannot make {}: {why}", directory.display()))?;
        std::fs::write(&path, text).map_err(|why| format!("cannot write {}: {why}", path.display()))?;
        println!("written    {SHARE}/{name}");
    }
    Ok(())
}

fn path_of(name: &str) -> PathBuf {
    workspace::root().join(SHARE).join(name)
}

fn generate() -> Result<Vec<Generated>, String> {
    let source = workspace::root().join(HELP_SOURCE);
    let source = std::fs::read_to_string(source).map_err(|why| format!("cannot read {HELP_SOURCE}: {why}"))?;
    let text = help::text_in(&source).ok_or(format!("{HELP_SOURCE} has no `help_text[] = \"...\" ...;`"))?;
    let help = Help::parse(&text)?;
    Ok(vec![
        ("man/man1/baton.1", man::page(&help)),
        ("bash-completion/completions/baton", completions::bash(&help)),
        ("zsh/vendor-completions/_baton", completions::zsh(&help)),
        ("fish/vendor_completions.d/baton.fish", completions::fish(&help)),
    ])
}

#[cfg(test)]
mod checks {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_is_generated_is_up_to_date() {
        for (name, text) in generate().expect("the help text can be read") {
            let present = std::fs::read_to_string(path_of(name)).unwrap_or_default();
            assert!(
                present == text,
                "{SHARE}/{name} is not what the help text gives; run: cargo xtask generate"
            );
        }
    }

    #[test]
    fn bash_completes_options_before_the_script_and_files_after_it() {
        let completions = path_of("bash-completion/completions/baton");
        let completed = |words: &[&str]| {
            let script =
                "source \"$0\" && COMP_WORDS=(baton \"$@\") && COMP_CWORD=$# && _baton && echo \"${COMPREPLY[@]}\"";
            let mut bash = Command::new("bash");
            bash.args(["-c", script]).arg(&completions).args(words);
            let output = bash
                .current_dir(workspace::root())
                .output()
                .expect("bash can be started");
            assert!(output.stderr.is_empty(), "{output:?}");
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        assert_eq!(completed(&["--"]), "--simulate -- --help --version");
        assert_eq!(completed(&["-e", "x = 1", "--v"]), "--version");
        assert_eq!(completed(&["examples/to"]), "examples/tour.lua");
        assert_eq!(completed(&["-l", "exam"]), "");
        assert_eq!(completed(&["script.lua", "--v"]), "");
        assert_eq!(completed(&["script.lua", "READ"]), "README.md");
    }
}
