//! `cargo xtask dist`: makes packages of the interpreter for systems with an older C library, and
//! for other architectures.
//!
//! For each target there are an archive, a Debian package, a wheel for pip, a package for npm, and
//! a list of what is in the program. All are in `target/packages/baton-VERSION`, with their
//! checksums. The same sources make the same bytes: `--twice` proves it. Each package is installed
//! and used.

mod archive;
mod bill;
mod npm;
mod sums;
mod symbols;
pub(crate) mod target;
mod trial;
mod wheel;
pub(crate) mod zig;

use std::fs;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};

use crate::Outcome;
use crate::cargo::Steps;
use crate::deb::copyright::{self, folded};
use crate::deb::tree::Tree;
use crate::deb::{self, Wanted};
use crate::own_modules;
use crate::workspace;
use target::{GLIBC, TARGETS, Target};
use zig::Zig;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The directory of the builds for other systems.
const BUILD: &str = "dist-build";

/// What the user asked for.
#[derive(Debug, PartialEq, Eq)]
struct Order {
    targets: Vec<&'static Target>,
    is_made_twice: bool,
    /// Whether the programs are built faster, and are slower. The tests need no more.
    is_quick: bool,
}

/// Makes the packages, tries them, and prints their names and sizes.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    make_and_try(&parse(arguments)?)
}

/// Does the same for this machine's architecture, as a step of the tests.
pub(crate) fn step(steps: &mut Steps) {
    steps.check("packages for older systems", || {
        let own = Target::of(std::env::consts::ARCH);
        let made = make_and_try(&Order {
            targets: own.into_iter().collect(),
            is_made_twice: false,
            is_quick: true,
        });
        for directory in [BUILD, "dist-trial"] {
            workspace::remove(&workspace::target_directory(directory));
        }
        made
    });
}

fn parse(arguments: &[String]) -> Result<Order, String> {
    let mut order = Order {
        targets: Vec::new(),
        is_made_twice: false,
        is_quick: false,
    };
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--twice" => order.is_made_twice = true,
            "--target" => {
                let name = words.next().unwrap_or_default();
                let known = TARGETS.map(|target| target.architecture).join(" or ");
                let target = Target::of(name)
                    .ok_or_else(|| format!("dist: expected --target {known}, got '{name}'"))?;
                order.targets.push(target);
            }
            other => {
                return Err(format!(
                    "dist: expected '--target ARCHITECTURE' or '--twice', got '{other}'"
                ));
            }
        }
    }
    if order.targets.is_empty() {
        order.targets.extend(&TARGETS);
    }
    Ok(order)
}

/// The files for one target.
struct Made {
    archive: PathBuf,
    deb: PathBuf,
    wheel: PathBuf,
    npm: PathBuf,
    /// A quick build has none: the program that writes it takes minutes to build.
    bill: Option<PathBuf>,
}

fn make_and_try(order: &Order) -> Outcome {
    let zig = Zig::installed()?;
    let progress = progress(order);
    let directory = workspace::directory_to_publish()?.join(format!("baton-{VERSION}"));
    let (made, launcher, sums) = make_all(&zig, order, &directory, BUILD, &progress)?;
    for (target, made) in order.targets.iter().zip(&made) {
        progress.set_message(format!("try the packages for {}", target.architecture));
        trial::run(&zig, target, made, &launcher)?;
        progress.inc(1);
    }
    if order.is_made_twice {
        let again = workspace::target_directory("dist-again");
        let (.., others) = make_all(&zig, order, &again, "dist-build-again", &progress)?;
        if sums != others {
            return Err(format!(
                "two builds differ; the checksums are\n{sums}and\n{others}"
            ));
        }
    }
    progress.finish_and_clear();
    sums::check(&directory)?;
    for line in sums.lines() {
        let name = line.split_whitespace().last().unwrap_or_default();
        let size = fs::metadata(directory.join(name)).map_or(0, |file| file.len());
        println!("{:>11} bytes  {}", size, directory.join(name).display());
    }
    Ok(())
}

fn progress(order: &Order) -> ProgressBar {
    let rounds = if order.is_made_twice { 5 } else { 3 };
    let progress = ProgressBar::new(rounds * order.targets.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:20} {pos}/{len} {elapsed} {msg}") {
        progress.set_style(style);
    }
    progress
}

/// Builds and packs for all targets. Returns the files, npm's other package, and the checksums.
fn make_all(
    zig: &Zig,
    order: &Order,
    directory: &Path,
    build: &str,
    progress: &ProgressBar,
) -> Result<(Vec<Made>, PathBuf, String), String> {
    if directory.exists() {
        fs::remove_dir_all(directory)
            .map_err(|why| format!("cannot empty {}: {why}", directory.display()))?;
    }
    fs::create_dir_all(directory)
        .map_err(|why| format!("cannot make {}: {why}", directory.display()))?;
    let time = zig::time_of_sources()?;
    let mut made = Vec::new();
    for target in &order.targets {
        progress.set_message(format!("build for {}", target.architecture));
        let program = zig.build(target, order.is_quick, &workspace::target_directory(build))?;
        progress.inc(1);
        let (major, minor) = symbols::check_file(&program)?;
        for own in own_modules::ALL {
            symbols::check_file(&program.with_file_name(own.built()))?;
        }
        progress.suspend(|| {
            println!("    {}: needs glibc {major}.{minor}", target.triple);
        });
        progress.set_message(format!("pack for {}", target.architecture));
        let mut packed = pack(zig, target, &program, directory, &time)?;
        if !order.is_quick {
            packed.bill = Some(bill::write(target, directory, &time)?);
        }
        made.push(packed);
        progress.inc(1);
    }
    let launcher = npm::pack_launcher(directory)?;
    let mut files = vec![launcher.clone()];
    for made in &made {
        let of_target = [&made.archive, &made.deb, &made.wheel, &made.npm];
        files.extend(of_target.into_iter().chain(&made.bill).cloned());
    }
    let sums = sums::write(&files, directory)?;
    Ok((made, launcher, sums))
}

/// Makes all packages for one target, without the list of what is in them.
fn pack(zig: &Zig, target: &Target, program: &Path, to: &Path, time: &str) -> Result<Made, String> {
    let licences = licences(zig, target)?;
    Ok(Made {
        archive: archive::pack(program, &target.archive_name(), &licences, to, time)?,
        deb: pack_deb(target, program, &licences, to, time)?,
        wheel: wheel::pack(zig, target, program, &licences, to, time)?,
        npm: npm::pack_program(target, program, &licences, to)?,
        bill: None,
    })
}

fn pack_deb(
    target: &Target,
    program: &Path,
    licences: &str,
    to: &Path,
    time: &str,
) -> Result<PathBuf, String> {
    let tree = Tree::new(to.join("deb"))?;
    tree.copy_program(program, deb::PROGRAM)?;
    own_modules::copy(program, &tree, deb::LIBRARIES)?;
    let (major, minor) = GLIBC;
    let wanted = Wanted {
        architecture: target.debian,
        depends: &format!("libc6 (>= {major}.{minor})"),
        copyright: licences,
        time: Some(time),
    };
    let package = deb::pack(&tree, &wanted, to)?;
    fs::remove_dir_all(tree.root())
        .map_err(|why| format!("cannot remove {}: {why}", tree.root().display()))?;
    Ok(package)
}

/// The licences of everything in a program that is not ours.
fn licences(zig: &Zig, target: &Target) -> Result<String, String> {
    let packages = own_modules::with_program("baton");
    let linked = copyright::linked_crates(&packages, Some(target.triple))?;
    let mut text = copyright::text(&linked)?;
    let [compiler_rt, libunwind] = zig.licences()?;
    text += "\nFiles: rust/*\nCopyright: The Rust Project contributors\n\
             License: Expat or Apache-2.0\nComment: Rust's standard library.\n";
    text += &format!(
        "\nFiles: zig/compiler-rt/*\nCopyright: Zig contributors\nLicense: Zig\n{}",
        folded(&compiler_rt)
    );
    text += &format!(
        "\nFiles: zig/libunwind/*\nCopyright: The LLVM project\nLicense: LLVM\n{}",
        folded(&libunwind)
    );
    Ok(text)
}

#[cfg(test)]
mod checks {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn without_arguments_all_targets_are_made_once() {
        let order = parse(&[]).expect("an order");
        assert_eq!(order.targets.len(), TARGETS.len());
        assert!(!order.is_made_twice);
        let one = parse(&words("--twice --target aarch64")).expect("an order");
        assert_eq!(one.targets, [&TARGETS[1]]);
        assert!(one.is_made_twice);
    }

    #[test]
    fn an_unknown_target_is_refused_with_the_known_ones() {
        assert_eq!(
            parse(&words("--target sparc")),
            Err("dist: expected --target x86_64 or aarch64, got 'sparc'".to_owned())
        );
        assert!(parse(&words("--fast")).is_err());
    }
}
