//! Compiles the Lua modules in C and C++ under tests/modules, once, into cargo's directory for
//! test files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::SystemTime;

/// The directory of Lua's headers.
pub(crate) const INCLUDE: &str = env!("BATON_LUA_INCLUDE");

/// The directory of the guest's headers for modules.
const OF_GUEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/lua/include");

/// The directory of the compiled modules, each `name.so`.
pub(crate) fn dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(build_all)
}

fn build_all() -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lua-modules");
    std::fs::create_dir_all(&target).expect("a directory for the modules can be made");
    for entry in std::fs::read_dir(sources).expect("the modules' sources are there") {
        let source = entry.expect("a directory entry can be read").path();
        match source.extension().and_then(|extension| extension.to_str()) {
            Some("c") => build(&source, &target, compiler("CC", "cc")),
            Some("cpp") if has_cpp() => build(&source, &target, compiler("CXX", "c++")),
            _ => {}
        }
    }
    target
}

fn compiler(variable: &str, usual: &str) -> Command {
    Command::new(std::env::var_os(variable).unwrap_or_else(|| usual.into()))
}

/// Whether there is a compiler for C++.
pub(crate) fn has_cpp() -> bool {
    let version = compiler("CXX", "c++").arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}

/// Compiles one module if it is missing or out of date. Several test binaries may do so at once, so
/// the last step is a rename.
fn build(source: &Path, target: &Path, mut compiler: Command) {
    let stem = source
        .file_stem()
        .expect("a source has a name")
        .to_string_lossy()
        .into_owned();
    let module = target.join(format!("{stem}.so"));
    let changed = modified(source);
    if modified(&module).is_some_and(|built| changed.is_some_and(|changed| built > changed)) {
        return;
    }
    let fresh = target.join(format!("{stem}.{}.new", std::process::id()));
    compiler
        .args(["-O2", "-shared", "-fPIC", "-Wall"])
        .args(["-I", INCLUDE, "-I", OF_GUEST, "-o"])
        .arg(&fresh)
        .arg(source)
        .arg("-pthread");
    if cfg!(target_os = "macos") {
        compiler.args(["-undefined", "dynamic_lookup"]);
    }
    run(&mut compiler, source);
    std::fs::rename(&fresh, &module).expect("the module can be put in its place");
}

fn run(compiler: &mut Command, source: &Path) {
    let output = compiler.output();
    let output = output
        .unwrap_or_else(|why| panic!("cannot start {}: {why}", compiler.get_program().display()));
    assert!(
        output.status.success(),
        "{} failed on {}: {}",
        compiler.get_program().display(),
        source.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path)
        .and_then(|metadata| metadata.modified())
        .ok()
}
