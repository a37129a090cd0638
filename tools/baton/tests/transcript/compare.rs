//! Runs cases with both programs and compares the results.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::differences::{self, Difference, Effect};
use crate::parse::Case;
use crate::run;

/// The result of a script.
#[derive(PartialEq, Eq)]
struct Outcome {
    stdout: String,
    stderr: String,
    status: String,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            status,
            stdout,
            stderr,
        } = self;
        write!(f, "{status}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}

/// Runs every case with both programs, and fails with a list of all differences.
pub(crate) fn compare(cases: &[Case]) {
    let Some(reference) = run::reference() else {
        return;
    };
    let paths = [
        path_with("system", &reference),
        path_with("ours", run::baton()),
    ];
    let different: Vec<String> = cases
        .iter()
        .filter_map(|case| difference(case, &paths))
        .collect();
    assert!(
        different.is_empty(),
        "{} of {} cases differ\n\n{}",
        different.len(),
        cases.len(),
        different.join("\n\n")
    );
}

/// Returns a search path on which `lua` is this program.
fn path_with(name: &str, program: &Path) -> OsString {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join("transcript")
        .join(name);
    fs::create_dir_all(&directory).expect("a directory for the program's name");
    // Several tests do this concurrently: each makes the link at another path and renames it.
    let beside = directory.join(format!("{:?}", std::thread::current().id()));
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            panic!("{}: {error}", beside.display())
        }
        _ => symlink(program, &beside).expect("a link to the program"),
    }
    fs::rename(&beside, directory.join("lua")).expect("the program's name");
    let rest = env::var_os("PATH").unwrap_or_default();
    env::join_paths([directory].into_iter().chain(env::split_paths(&rest))).expect("a search path")
}

fn difference(case: &Case, paths: &[OsString; 2]) -> Option<String> {
    let [mut expected, mut found] = [outcome(case, &paths[0]), outcome(case, &paths[1])];
    for name in &case.differences {
        let allowed = differences::named(name)
            .ok_or_else(|| format!("there is no difference '{name}'"))
            .and_then(|known| allow(known, case, &mut expected, &mut found));
        if let Err(why) = allowed {
            return Some(format!("=== {}: {}: {why}", case.section, case.name));
        }
    }
    (expected != found).then(|| {
        format!(
            "=== {}: {}\n{}*** lua5.4: {expected}\n*** baton: {found}",
            case.section, case.name, case.script
        )
    })
}

/// Removes the difference from both results. Fails if it did not occur, since the case then names
/// it for nothing.
fn allow(
    known: &Difference,
    case: &Case,
    expected: &mut Outcome,
    found: &mut Outcome,
) -> Result<(), String> {
    match known.effect {
        Effect::Release => {
            without_release(&mut expected.stdout)?;
            without_release(&mut found.stdout)?;
            without_own_line(&mut found.stdout)
        }
        Effect::Echo => {
            without_echo(&mut expected.stdout, &case.input);
            Ok(())
        }
        Effect::Text { old, new } => {
            if expected == found {
                return Ok(()); // the system's Lua is as new as ours
            }
            for text in [&mut expected.stdout, &mut expected.stderr] {
                if text.contains(old) {
                    *text = text.replace(old, new);
                    return Ok(());
                }
            }
            Err(format!("lua5.4 did not print {old:?} ({})", known.reason))
        }
    }
}

fn without_release(text: &mut String) -> Result<(), String> {
    let start = text.find("Lua 5.4.").ok_or("there is no copyright line")?;
    let length = text[start..].find('\n').unwrap_or(text.len() - start);
    text.replace_range(start..start + length, "Lua 5.4");
    Ok(())
}

/// Removes the second line of the banner, which says that this is Baton.
fn without_own_line(text: &mut String) -> Result<(), String> {
    let start = text
        .find("Baton ")
        .ok_or("the banner does not name Baton")?;
    let length = text[start..]
        .find('\n')
        .map_or(text.len() - start, |at| at + 1);
    text.replace_range(start..start + length, "");
    Ok(())
}

/// Removes each line that readline repeated after a prompt.
fn without_echo(text: &mut String, input: &str) {
    let mut rest = 0;
    for line in input.lines() {
        let echo = format!("{line}\n");
        let after_prompt = text[rest..].find(&format!("> {echo}")).map(|at| at + 2);
        let Some(at) = after_prompt.or_else(|| text[rest..].find(&echo)) else {
            return; // the program ended before it read this line
        };
        rest += at;
        text.replace_range(rest..rest + echo.len(), "");
    }
}

fn outcome(case: &Case, path: &OsString) -> Outcome {
    let mut shell = Command::new("sh");
    run::clean(&mut shell)
        .args(["-c", &case.script])
        .env("PATH", path);
    let output = run::finish(run::spawn(&mut shell), case.input.as_bytes());
    Outcome {
        stdout: normal(&output.stdout),
        stderr: normal(&output.stderr),
        status: run::describe(output.status),
    }
}

/// Removes addresses, which differ between runs.
fn normal(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.split("0x");
    let mut normal = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|digit: char| digit.is_ascii_hexdigit());
        let is_address = part.len() - rest.len() >= 8;
        normal.push_str(if is_address { "ADDRESS" } else { "0x" });
        normal.push_str(if is_address { rest } else { part });
    }
    normal
}
