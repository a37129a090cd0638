//! `cargo xtask deb --libraries`: Debian packages of the libraries for programs in C.
//!
//! | package | what |
//! |---|---|
//! | `libbaton0`, `libbaton-lua0` | the shared library, which programs need when they run |
//! | `libbaton-dev`, `libbaton-lua-dev` | headers, the static library, what the linker and pkg-config need, examples; `baton-conformance` is in the first one |
//!
//! The names of the first two have the number of the shared library's interface, as Debian's policy
//! asks. So a later interface can be installed beside this one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tree::Tree;
use super::{VERSION, changelog, copyright, dependencies, maintainer, output};
use crate::Outcome;
use crate::install::{ABI, CONFORMANCE, LUA, Library, Plan, RUNTIME, install};
use crate::own_modules::OwnModule;
use crate::workspace;

/// The system that packages are made for.
pub(super) struct System {
    /// The architecture, as Debian names it.
    architecture: String,
    /// The directory of its libraries.
    pub(super) libraries: PathBuf,
}

impl System {
    /// This one.
    pub(super) fn own() -> Result<System, String> {
        let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
        let triplet = output(Command::new("dpkg-architecture").arg("-qDEB_HOST_MULTIARCH"))?;
        Ok(System {
            architecture: architecture.trim().to_owned(),
            libraries: Path::new("/usr/lib").join(triplet.trim()),
        })
    }
}

/// A package's own part of its control file.
struct Control<'a> {
    name: &'a str,
    section: &'a str,
    depends: &'a str,
    summary: &'a str,
    /// Lines of at most 79 characters.
    description: &'a str,
}

/// Builds the packages of both libraries, and returns their files.
pub(super) fn build(profile: &'static str) -> Result<Vec<PathBuf>, String> {
    let system = System::own()?;
    let mut packages = Vec::new();
    for library in [&RUNTIME, &LUA] {
        packages.extend(build_one(library, profile, &system)?);
    }
    Ok(packages)
}

fn build_one(
    library: &'static Library,
    profile: &'static str,
    system: &System,
) -> Result<[PathBuf; 2], String> {
    let directory = workspace::target_directory("deb").join(library.name);
    let development = Tree::new(directory.join("dev"))?;
    install(&Plan {
        library,
        prefix: PathBuf::from("/usr"),
        libraries: system.libraries.clone(),
        root: Some(development.root().to_owned()),
        profile,
    })?;
    let runtime = Tree::new(directory.join("runtime"))?;
    divide(library, &development, &runtime, system)?;
    let to = match profile {
        workspace::DIST => workspace::directory_to_publish()?,
        _ => directory.clone(),
    };
    let crates = copyright::linked_crates(&library.packages(), None)?;
    let copyright = copyright::text_with(&crates, std::ptr::eq(library, &LUA))?;

    let mut needing = vec![runtime.path(&system.inside(&library.soname()))];
    let modules = library.modules().iter();
    needing.extend(modules.map(|own| runtime.path(&system.inside(&own.installed()))));
    let name = format!("lib{}{ABI}", library.name);
    runtime.make_directory(Path::new("DEBIAN"))?;
    runtime.write(
        "DEBIAN/shlibs",
        &format!("lib{} {ABI} {name} (>= {VERSION})\n", library.name),
    )?;
    runtime.write("DEBIAN/triggers", "activate-noawait ldconfig\n")?;
    let control = Control {
        name: &name,
        section: "libs",
        depends: &dependencies(&directory, &needing)?,
        summary: library.description,
        description: " This package has the shared library, which programs need when they run.\n",
    };
    let runtime = pack(&runtime, &control, system, &copyright, &to)?;

    development.make_directory(Path::new("DEBIAN"))?;
    let control = Control {
        name: &format!("lib{}-dev", library.name),
        section: "libdevel",
        depends: &format!("{name} (= {VERSION}), libc6-dev"),
        summary: &format!("{} (development files)", library.description),
        description: " This package has the headers, the static library, what the linker and\n \
                      pkg-config need, and examples.\n",
    };
    let development = pack(&development, &control, system, &copyright, &to)?;
    Ok([runtime, development])
}

impl System {
    /// The name of a library's file in a tree.
    fn inside(&self, file: &str) -> String {
        let path = self.libraries.join(file);
        path.to_string_lossy().trim_start_matches('/').to_owned()
    }
}

/// Moves the shared library and its modules from one tree to the other, and adds examples.
fn divide(library: &Library, development: &Tree, runtime: &Tree, system: &System) -> Outcome {
    let archive = system.inside(&format!("lib{}.a", library.name));
    let mut stripped = vec![("--strip-debug", development.path(&archive))];
    let modules = library.modules().iter().map(OwnModule::installed);
    for file in std::iter::once(library.soname()).chain(modules) {
        let file = system.inside(&file);
        let from = development.path(&file);
        runtime.copy(&from, &file)?;
        fs::remove_file(&from).map_err(|why| format!("cannot remove {}: {why}", from.display()))?;
        stripped.push(("--strip-unneeded", runtime.path(&file)));
    }
    let examples = match std::ptr::eq(library, &LUA) {
        true => "examples/embedding",
        false => {
            let program = Path::new("usr/bin").join(CONFORMANCE);
            stripped.push(("--strip-all", development.root().join(program)));
            "guests/template"
        }
    };
    for (flag, file) in stripped {
        output(Command::new("strip").arg(flag).arg(file))?;
    }
    development.copy_directory(
        &workspace::root().join(examples),
        &format!("usr/share/doc/lib{}-dev/examples", library.name),
    )
}

/// Adds what each package has, and packs it. Returns the package.
fn pack(
    tree: &Tree,
    control: &Control<'_>,
    system: &System,
    copyright: &str,
    to: &Path,
) -> Result<PathBuf, String> {
    let Control {
        name,
        section,
        depends,
        summary,
        description,
    } = control;
    let documents = format!("usr/share/doc/{name}");
    tree.write(&format!("{documents}/copyright"), copyright)?;
    let news = workspace::root().join("CHANGELOG.md");
    tree.copy(&news, &format!("{documents}/NEWS.md"))?;
    tree.compress(&format!("{documents}/NEWS.md"))?;
    tree.write(&format!("{documents}/changelog"), &changelog(None)?)?;
    tree.compress(&format!("{documents}/changelog"))?;
    tree.write("DEBIAN/md5sums", &tree.checksums()?)?;
    let (architecture, maintainer) = (&system.architecture, maintainer());
    let size = tree.kilobytes()?;
    // The one with headers has a program as well, which exists once on a system.
    let several = match *section {
        "libs" => "Multi-Arch: same\n",
        _ => "",
    };
    tree.write(
        "DEBIAN/control",
        &format!(
            "Package: {name}\nSource: baton\nVersion: {VERSION}\nArchitecture: {architecture}\n\
             {several}Maintainer: {maintainer}\nInstalled-Size: {size}\n\
             Depends: {depends}\nSection: {section}\nPriority: optional\n\
             Description: {summary}\n{description}"
        ),
    )?;
    let package = to.join(format!("{name}_{VERSION}_{architecture}.deb"));
    output(
        Command::new("dpkg-deb")
            .args(["-Zgzip", "--root-owner-group", "--build"])
            .arg(tree.root())
            .arg(&package),
    )?;
    Ok(package)
}
