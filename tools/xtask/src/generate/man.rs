//! Writes the manual page, in the language of man(7).

use super::help::{Help, Piece};

/// The sections that the help text leaves out because it must be short.
const MORE: &str = r#".SH EXIT STATUS
.TP
.B 0
The program and all of its processes have ended well.
.TP
.B 1
An error in the main chunk, or in a process that nobody joined; or a wrong option.
.PP
A program may end with any other status by
.BR os.exit .
.SH SIGNALS
.TP
.B SIGINT
Raises an error in the main process. A second one ends the program.
.TP
.B SIGQUIT
Prints the state and the traceback of every process to the standard error.
.SH SEE ALSO
.BR lua (1),
.BR luac (1)
"#;

/// The whole page.
pub(super) fn page(help: &Help) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(
        ".\\\" Made from the text of baton --help by: cargo xtask generate\n\
         .TH BATON 1 \"\" \"Baton {version}\" \"User Commands\"\n\
         .SH NAME\nbaton \\- Lua interpreter with preemptive processes\n\
         .SH SYNOPSIS\n.B baton\n[\\fIoptions\\fR] [\\fIscript\\fR [\\fIargs\\fR]]\n\
         .SH DESCRIPTION\n{}\n",
        escaped(&help.description)
    );
    for section in &help.sections {
        page += &format!(".SH {}\n", escaped(&section.title.to_uppercase()));
        for piece in &section.pieces {
            page += &match piece {
                Piece::Prose(prose) => format!(".PP\n{}\n", escaped(prose)),
                Piece::Entry(entry) => {
                    format!(".TP\n{}\n{}\n", name(&entry.name), escaped(&entry.meaning))
                }
            };
        }
    }
    page += ".SH EXAMPLE\n.EX\n";
    for line in &help.example {
        page += &escaped(line);
        page.push('\n');
    }
    page += ".EE\n";
    page + MORE
}

/// An option in bold, and its argument in italics; any other name in bold.
fn name(name: &str) -> String {
    match name.split_once(' ') {
        Some((flag, argument)) if flag.starts_with('-') => {
            format!("\\fB{}\\fR \\fI{}\\fR", escaped(flag), escaped(argument))
        }
        _ => format!("\\fB{}\\fR", escaped(name)),
    }
}

/// Escapes text so that troff shows it unchanged.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    // A line that begins with one of these characters would be a request.
    if text.starts_with(['.', '\'']) {
        format!("\\&{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn characters_with_a_meaning_in_troff_are_escaped() {
        assert_eq!(escaped(".so a\\b -e"), "\\&.so a\\eb \\-e");
        assert_eq!(name("-l g=mod"), "\\fB\\-l\\fR \\fIg=mod\\fR");
        assert_eq!(name("require \"x\""), "\\fBrequire \"x\"\\fR");
    }
}
