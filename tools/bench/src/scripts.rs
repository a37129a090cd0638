//! Runs the same small program in other systems, which are used as the distribution installs them.

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::child;
use crate::contest::Arm;
use crate::peers::REMEDY;
use crate::report;

/// The time limit for a compiler.
const BUILD_LIMIT: Duration = Duration::from_secs(300);

/// A system, and how it runs its program. In the words, `{file}` is the source and `{directory}` is
/// its directory. `{stem}` is the file's name without extension, and `{program}` is the compiled
/// program.
struct System {
    name: &'static str,
    file: &'static str,
    text: &'static str,
    build: &'static str,
    run: &'static str,
}

macro_rules! system {
    ($name:literal, $file:literal, $build:literal, $run:literal) => {
        System {
            name: $name,
            file: $file,
            text: include_str!(concat!("../programs/", $file)),
            build: $build,
            run: $run,
        }
    };
}

static SYSTEMS: [System; 5] = [
    system!("asyncio", "waits.py", "", "python3 {file}"),
    system!("Node", "waits.js", "", "node {file}"),
    system!(
        "Go",
        "waits.go",
        "go build -o {program} {file}",
        "{program}"
    ),
    system!(
        "Java",
        "Waits.java",
        "javac -d {directory} {file}",
        "java -cp {directory} {stem}"
    ),
    system!("Erlang", "waits.erl", "", "escript {file}"),
];

/// The names of the systems.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    SYSTEMS.iter().map(|system| system.name)
}

/// An arm for each system. `what` precedes the arguments of a case: `idle` or `delay`.
pub(crate) fn arms(directory: &Path, what: &'static str) -> Result<Vec<Arm>> {
    let arms = SYSTEMS.iter().map(|system| system.arm(directory, what));
    arms.collect()
}

impl System {
    fn arm(&'static self, directory: &Path, what: &'static str) -> Result<Arm> {
        let tool = [self.build, self.run]
            .into_iter()
            .find(|words| !words.is_empty());
        let tool = tool.and_then(|words| words.split(' ').next());
        if !tool.is_some_and(is_installed) {
            return Ok(Arm::missing(self.name, REMEDY));
        }
        let source = directory.join(self.file);
        report::write(&source, self.text)?;
        if !self.build.is_empty() {
            let built = child::run(&mut command(self.build, &source), BUILD_LIMIT);
            built.and_then(|run| run.succeeded(&format!("the compilation of {}", self.file)))?;
        }
        Ok(Arm::present(self.name, move || {
            let mut command = command(self.run, &source);
            command.arg(what);
            command
        }))
    }
}

/// Whether a program with this name is on the search path.
pub(crate) fn is_installed(program: &str) -> bool {
    env::var_os("PATH")
        .is_some_and(|path| env::split_paths(&path).any(|at| at.join(program).exists()))
}

fn command(words: &str, source: &Path) -> Command {
    let directory = source.parent().unwrap_or(Path::new("."));
    let fill = |word| match word {
        "{file}" => source.as_os_str().to_owned(),
        "{directory}" => directory.as_os_str().to_owned(),
        "{stem}" => source.file_stem().unwrap_or_default().to_owned(),
        "{program}" => source.with_extension("program").into_os_string(),
        plain => plain.into(),
    };
    let mut words = words.split(' ').map(fill);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::Contest;

    static NOBODY: System = System {
        name: "Nobody",
        file: "a.x",
        text: "",
        build: "",
        run: "no-such-program {file}",
    };

    #[test]
    fn a_system_that_is_not_installed_is_missing_with_its_remedy() {
        let directory = tempfile::tempdir().unwrap();
        let contest = Contest {
            arms: vec![NOBODY.arm(directory.path(), "idle").unwrap()],
            cases: Vec::new(),
            rounds: 1,
            figure: "late_us",
            limit: Duration::from_secs(1),
        };
        let lines: Vec<String> = contest
            .run()
            .failures()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            lines,
            ["UNMET   beside Nobody  (missing: run cargo xtask peers)"]
        );
    }

    #[test]
    fn placeholders_in_words_are_replaced() {
        let words = "{program} {file} -cp {directory} {stem}";
        let command = command(words, Path::new("/there/Idle.java"));
        let given: Vec<_> = command.get_args().collect();
        assert_eq!(command.get_program(), "/there/Idle.program");
        assert_eq!(given, ["/there/Idle.java", "-cp", "/there", "Idle"]);
    }
}
