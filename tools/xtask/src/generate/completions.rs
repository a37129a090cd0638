//! Writes completions for the shells. They complete the options, the commands, and files where a
//! script may stand.

use super::help::{CommandOption, Help};

const ORIGIN: &str = "# Made from the text of baton --help by: cargo xtask generate\n";

/// The completion for bash, in the form that the package bash-completion loads.
pub(super) fn bash(help: &Help) -> String {
    let options = help.options();
    let flags: Vec<&str> = options.iter().map(|option| option.flag).collect();
    let with_argument: Vec<&str> = options
        .iter()
        .filter(|option| option.argument.is_some())
        .map(|option| option.flag)
        .collect();
    let commands: Vec<&str> = help.commands().into_iter().map(|(name, _)| name).collect();
    format!(
        r#"{ORIGIN}
_baton() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${{COMP_WORDS[i]}}" in
            {argument}) i=$((i + 1)) ;;
            -?*) ;;
            *) # a script: what follows is for it
                mapfile -t COMPREPLY < <(compgen -f -- "$current")
                return ;;
        esac
    done
    if [ "$i" -gt "$COMP_CWORD" ]; then
        return # the argument of an option
    fi
    case "$current" in
        -*) mapfile -t COMPREPLY < <(compgen -W "{flags}" -- "$current") ;;
        *)
            mapfile -t COMPREPLY < <(
                [ "$COMP_CWORD" -eq 1 ] && compgen -W "{commands}" -- "$current"
                compgen -f -X '!*.lua' -- "$current"
                compgen -d -- "$current"
            ) ;;
    esac
}}
complete -o filenames -F _baton baton
"#,
        argument = with_argument.join("|"),
        flags = flags.join(" "),
        commands = commands.join(" "),
    )
}

/// The completion for zsh, as an autoloaded function of its completion system.
pub(super) fn zsh(help: &Help) -> String {
    let mut text = format!("#compdef baton\n{ORIGIN}\n_baton_first() {{\n  local -a commands\n");
    text += "  commands=(\n";
    for (name, meaning) in help.commands() {
        let meaning = in_single_quotes(meaning).replace(':', "\\:");
        text += &format!("    '{name}:{meaning}'\n");
    }
    text += "  )\n  _describe command commands\n  _files -g \"*.lua\"\n}\n\n";
    text += "_arguments -S -A '-*' \\\n";
    for option in help.options().iter().filter(|option| is_no_end(option)) {
        let meaning = in_single_quotes(option.meaning)
            .replace('[', "\\[")
            .replace(']', "\\]");
        // Options with an argument may occur more than once. The argument may directly follow a
        // short flag.
        text += &match option.argument {
            Some(argument) if option.flag.starts_with("--") => {
                format!("  '{}[{meaning}]:{argument}: ' \\\n", option.flag)
            }
            Some(argument) => format!("  '*{}+[{meaning}]:{argument}: ' \\\n", option.flag),
            None => format!("  '{}[{meaning}]' \\\n", option.flag),
        };
    }
    text + "  '1:script or command:_baton_first' \\\n  '*:argument:_files'\n"
}

/// The completion for fish.
pub(super) fn fish(help: &Help) -> String {
    let mut text = format!("{ORIGIN}\n");
    for option in help.options().iter().filter(|option| is_no_end(option)) {
        let flag = match option.flag.strip_prefix("--") {
            Some(long) => format!("-l {long}"),
            None => format!("-s {}", option.flag.trim_start_matches('-')),
        };
        let argument = if option.argument.is_some() { " -x" } else { "" };
        text += &format!(
            "complete -c baton {flag}{argument} -d '{}'\n",
            in_fish_quotes(option.meaning)
        );
    }
    for (name, meaning) in help.commands() {
        text += &format!(
            "complete -c baton -n __fish_is_first_token -a {name} -d '{}'\n",
            in_fish_quotes(meaning)
        );
    }
    text
}

/// Whether the entry is a real option. `-` and `--` only end the options.
fn is_no_end(option: &CommandOption<'_>) -> bool {
    !option.flag.trim_start_matches('-').is_empty()
}

fn in_fish_quotes(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}

fn in_single_quotes(text: &str) -> String {
    text.replace('\'', "'\\''")
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn quotes_in_a_meaning_end_no_string() {
        let help =
            Help::parse("Runs.\nOptions:\n  -e x  runs [the] 'x'\n  --    ends\nExample:\n  f()\n")
                .expect("a help text");
        assert!(
            zsh(&help).contains(r"'*-e+[runs \[the\] '\''x'\'']:x: '"),
            "{}",
            zsh(&help)
        );
        assert!(fish(&help).contains(r"complete -c baton -s e -x -d 'runs [the] \'x\''"));
        assert!(!fish(&help).contains("ends"));
        assert!(bash(&help).contains("compgen -W \"-e --\""));
    }
}
