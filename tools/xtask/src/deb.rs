//! `cargo xtask deb`: makes a Debian package of the interpreter, and tries it in a clean system; or
//! packages of the libraries for programs in C ([`libraries`]).
//!
//! dpkg-deb makes the package from a directory of files. dpkg-shlibdeps finds the dependencies from
//! the packages of this system. So the package is for the same release of Debian as the system that
//! it is made on.

pub(crate) mod clean_root;
pub(crate) mod copyright;
mod libraries;
mod library_trial;
pub(crate) mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::cargo::{Steps, cargo};
use crate::own_modules;
use crate::packages::{self, Package, Probe};
use crate::workspace;
use tree::Tree;

const NAME: &str = "baton";
const VERSION: &str = env!("CARGO_PKG_VERSION");

const DPKG_DEV: Package = Package {
    name: "dpkg-dev",
    probe: Probe::Program("dpkg-shlibdeps", "--version"),
    needed_by: "the Debian package",
};

/// Builds the package. With `--try`, also installs it in a clean system and runs it there.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => build().map(|package| println!("{}", package.display())),
        ["--try"] => clean_root::possible().and_then(|()| build_and_try()),
        ["--libraries", ref options @ ..] => of_libraries(options),
        _ => Err(format!(
            "deb: expected nothing, '--try' or '--libraries', got '{}'",
            words.join(" ")
        )),
    }
}

/// Builds the packages of the libraries. With `--try`, also uses them.
fn of_libraries(options: &[&str]) -> Outcome {
    let mut profile = workspace::DIST;
    let mut is_tried = false;
    for option in options {
        match *option {
            "--debug" => profile = "debug",
            "--try" => is_tried = true,
            other => {
                return Err(format!(
                    "deb --libraries: expected '--debug' or '--try', got '{other}'"
                ));
            }
        }
    }
    expect_tools()?;
    let packages = libraries::build(profile)?;
    for package in &packages {
        println!("{}", package.display());
    }
    match is_tried {
        true => library_trial::run(&packages),
        false => Ok(()),
    }
}

/// Makes and tries the packages of the libraries, as a step of the tests.
pub(crate) fn step_of_libraries(steps: &mut Steps) {
    steps.check("Debian packages of the libraries", || {
        of_libraries(&["--debug", "--try"])
    });
}

fn expect_tools() -> Outcome {
    match packages::install_missing(&[DPKG_DEV]).is_empty() {
        true => Ok(()),
        false => Err("deb: install the Debian package dpkg-dev".to_owned()),
    }
}

/// Does the same as `--try`, as a step of the tests. If this system cannot do it, the step is
/// skipped with a message.
pub(crate) fn step(steps: &mut Steps) {
    const STEP: &str = "Debian package in a clean system";
    match clean_root::possible() {
        Ok(()) => steps.check(STEP, build_and_try),
        Err(why) => steps.skip(STEP, &why),
    }
}

fn build_and_try() -> Outcome {
    clean_root::try_package(&build()?)
}

/// Builds the package and returns its file.
fn build() -> Result<PathBuf, String> {
    expect_tools()?;
    let profile = ["--profile", workspace::DIST];
    output(&mut cargo(
        &[&["build"][..], &profile, &["-p", NAME]].concat(),
    ))?;
    // By itself, so that the program's crates stay as they are built.
    let modules = [&["build"][..], &profile, &own_modules::packages()].concat();
    output(&mut cargo(&modules))?;
    let program = workspace::published_program();

    let directory = workspace::target_directory("deb");
    let tree = Tree::new(directory.join("root"))?;
    tree.install_program(&program, PROGRAM)?;
    own_modules::copy(&program, &tree, LIBRARIES)?;
    let mut files = vec![tree.path(PROGRAM)];
    for own in own_modules::ALL {
        let module = tree.path(&format!("{LIBRARIES}/{}", own.installed()));
        output(Command::new("strip").arg("--strip-unneeded").arg(&module))?;
        files.push(module);
    }
    let depends = dependencies(&directory, &files)?;
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
    let copyright = copyright::text(&copyright::linked_crates(
        &own_modules::with_program(NAME),
        None,
    )?)?;
    let wanted = Wanted {
        architecture: architecture.trim(),
        depends: &depends,
        copyright: &copyright,
        time: None,
    };
    pack(&tree, &wanted, &workspace::directory_to_publish()?)
}

/// Where the program is in the package.
pub(crate) const PROGRAM: &str = "usr/bin/baton";

/// Where the directory of its modules is.
pub(crate) const LIBRARIES: &str = "usr/lib";

/// What differs between two packages of the same version.
pub(crate) struct Wanted<'a> {
    /// The architecture, as Debian names it.
    pub(crate) architecture: &'a str,
    /// The value of the field `Depends`.
    pub(crate) depends: &'a str,
    /// The copyright file.
    pub(crate) copyright: &'a str,
    /// The time of the changelog and of all files, in seconds since 1970; `None`: now.
    pub(crate) time: Option<&'a str>,
}

/// Adds everything else to a tree that has the program, and packs it. Returns the package.
pub(crate) fn pack(tree: &Tree, wanted: &Wanted<'_>, to: &Path) -> Result<PathBuf, String> {
    let architecture = wanted.architecture;
    tree.make_directory(Path::new("DEBIAN"))?;
    fill(tree, wanted)?;
    tree.write("DEBIAN/md5sums", &tree.checksums()?)?;
    tree.write(
        "DEBIAN/control",
        &control(architecture, wanted.depends, tree.kilobytes()?),
    )?;
    let package = to.join(format!("{NAME}_{VERSION}_{architecture}.deb"));
    let mut dpkg_deb = Command::new("dpkg-deb");
    if let Some(time) = wanted.time {
        dpkg_deb.env("SOURCE_DATE_EPOCH", time);
    }
    dpkg_deb
        .args(["--root-owner-group", "--build"])
        .arg(tree.root())
        .arg(&package);
    output(&mut dpkg_deb)?;
    Ok(package)
}

/// Puts all files where Debian's policy wants them.
fn fill(tree: &Tree, wanted: &Wanted<'_>) -> Outcome {
    let root = workspace::root();
    tree.copy_directory(&root.join(crate::generate::SHARE), "usr/share")?;
    tree.compress("usr/share/man/man1/baton.1")?;
    tree.copy_directory(&root.join("editor"), "usr/share/baton")?;
    tree.copy_directory(&root.join("docs/book/src"), "usr/share/doc/baton/book")?;
    tree.copy_directory(&root.join("examples"), "usr/share/doc/baton/examples")?;
    tree.copy(&root.join("CHANGELOG.md"), "usr/share/doc/baton/NEWS.md")?;
    tree.compress("usr/share/doc/baton/NEWS.md")?;
    tree.write("usr/share/doc/baton/changelog", &changelog(wanted.time)?)?;
    tree.compress("usr/share/doc/baton/changelog")?;
    tree.write("usr/share/doc/baton/copyright", wanted.copyright)
}

/// The packages whose shared libraries the files need, as a value of the field `Depends`.
fn dependencies(directory: &Path, files: &[PathBuf]) -> Result<String, String> {
    // dpkg-shlibdeps works only in a directory that looks like a source package.
    let source = directory.join("source");
    fs::create_dir_all(source.join("debian"))
        .map_err(|why| format!("cannot make {}: {why}", source.display()))?;
    let control = source.join("debian/control");
    fs::write(
        &control,
        format!("Source: {NAME}\n\nPackage: {NAME}\nArchitecture: any\n"),
    )
    .map_err(|why| format!("cannot write {}: {why}", control.display()))?;
    let mut command = Command::new("dpkg-shlibdeps");
    command.arg("-O").args(files).current_dir(&source);
    let found = output(&mut command)?;
    found
        .lines()
        .find_map(|line| line.strip_prefix("shlibs:Depends="))
        .map(str::to_owned)
        .ok_or(format!(
            "dpkg-shlibdeps named no dependencies, but wrote: {found}"
        ))
}

/// The name and address of the package's maker, from the variables that Debian's own programs use.
fn maintainer() -> String {
    let name = std::env::var("DEBFULLNAME").unwrap_or_else(|_| "The authors of Baton".to_owned());
    let address =
        std::env::var("DEBEMAIL").unwrap_or_else(|_| "baton@localhost.localdomain".to_owned());
    format!("{name} <{address}>")
}

/// The package's changelog, in the format that Debian's programs read.
fn changelog(time: Option<&str>) -> Result<String, String> {
    let time = time.map(str::to_owned).ok_or(());
    let moment = time
        .or_else(|()| std::env::var("SOURCE_DATE_EPOCH"))
        .map_or("now".to_owned(), |seconds| format!("@{seconds}"));
    let date = output(Command::new("date").args(["-R", "-u", "-d", &moment]))?;
    let maintainer = maintainer();
    Ok(format!(
        "{NAME} ({VERSION}) unstable; urgency=medium\n\n  * What is new is in NEWS.md.gz.\n\n -- \
         {maintainer}  {date}"
    ))
}

fn control(architecture: &str, depends: &str, kilobytes: u64) -> String {
    let maintainer = maintainer();
    format!(
        "Package: {NAME}\nVersion: {VERSION}\nArchitecture: {architecture}\nMaintainer: \
         {maintainer}\n\
         Installed-Size: {kilobytes}\nDepends: {depends}\nSuggests: lua-socket\nSection: \
         interpreters\n\
         Priority: optional\n\
         Description: Lua interpreter with preemptive processes\n \
         Baton takes the place of the standalone lua 5.4, and runs Lua programs and\n \
         compiled Lua modules unmodified. It gives them processes by the thousand:\n \
         threads of the interpreter's own, preemptive, with priorities, channels and\n \
         mutexes. A call that blocks in Lua's library stops its own process only.\n"
    )
}

/// Runs a program to its end and returns its output. An error contains the whole output.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().display().to_string();
    let output = command
        .output()
        .map_err(|why| format!("cannot start {name}: {why}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name}: {}\n{text}{errors}", output.status))
}

#[cfg(test)]
mod checks {
    use super::*;

    #[test]
    fn the_control_file_has_a_field_on_every_line() {
        let control = control("amd64", "libc6 (>= 2.36)", 1234);
        let (fields, description) = control.split_once("Description: ").expect("a description");
        assert!(fields.lines().all(|line| line.contains(": ")), "{fields}");
        assert!(fields.contains("\nInstalled-Size: 1234\nDepends: libc6 (>= 2.36)\n"));
        assert!(
            description
                .lines()
                .skip(1)
                .all(|line| line.starts_with(' ')),
            "{description}"
        );
    }

    #[test]
    fn an_unknown_option_is_refused() {
        let refused = run(&["--install".to_owned()]);
        assert_eq!(
            refused,
            Err("deb: expected nothing, '--try' or '--libraries', got '--install'".to_owned())
        );
    }

    #[test]
    fn the_error_of_a_failed_program_has_its_output() {
        let failed = output(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]));
        assert_eq!(failed, Err("sh: exit status: 3\nout\nerr\n".to_owned()));
    }
}
