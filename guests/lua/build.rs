//! Compiles Lua, unmodified but with the seam included before each file, and the guest's C files.

#[path = "build/files.rs"]
mod files;
#[path = "build/lua_source.rs"]
mod lua_source;
#[path = "build/module_interface.rs"]
mod module_interface;

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rerun-if-changed=include");
    println!("cargo::rerun-if-env-changed=CFLAGS");
    let manifest = PathBuf::from(
        std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"),
    );
    let source = lua_source::lua_source_directory();
    let gate = PathBuf::from(
        std::env::var_os("DEP_BATON_GATE_INCLUDE").expect("baton-sys says where gate.h is"),
    );
    let direct = PathBuf::from(
        std::env::var_os("DEP_BATON_FFI_INCLUDE").expect("baton-ffi says where direct.h is"),
    );
    let runtime = PathBuf::from(
        std::env::var_os("DEP_BATON_CAPI_INCLUDE").expect("baton-capi says where baton.h is"),
    );
    let own = manifest.join("include");
    write_exports(&runtime, &own);
    let built_for = module_interface::built_for(&runtime, &own);
    compile_lua(
        &source,
        &[gate, direct, runtime],
        &manifest.join("c"),
        &built_for,
    );
    export_headers(&source);
}

/// Writes the linker's list of what an executable exports to modules: Lua's interface, that of
/// `baton.h`, and that for our own modules. A module must not take anything else from the
/// executable: its libraries and ours may have functions of the same names.
fn write_exports(headers: &Path, own: &Path) {
    let mut names = vec![
        "lua_*".to_owned(),
        "luaL_*".to_owned(),
        "luaopen_*".to_owned(),
    ];
    let of_runtime = ["baton.h", "baton/guest.h", "baton/inline.h"];
    let of_runtime = of_runtime.map(|name| headers.join(name));
    let of_guest = ["baton_module.h", "baton_net.h"].map(|name| own.join(name));
    for path in of_runtime.into_iter().chain(of_guest) {
        println!("cargo::rerun-if-changed={}", path.display());
        let text = std::fs::read_to_string(path).expect("the header is readable");
        names.extend(names_in(&text));
    }
    names.sort();
    names.dedup();
    let list = format!("{{ global: {}; local: *; }};\n", names.join("; "));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let file = out.join("exports.map");
    std::fs::write(&file, list).expect("OUT_DIR is writable");
    println!("cargo::metadata=exports={}", file.display());
}

/// The identifiers of a header that begin with `baton_`, as patterns: linkers refuse a whole name
/// that is no symbol, such as that of a structure.
fn names_in(header: &str) -> impl Iterator<Item = String> {
    let is_other = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
    let names = header.split(is_other);
    let ours = names.filter_map(|name| name.strip_prefix("baton_")?.split_at_checked(1));
    ours.map(|(first, rest)| format!("baton_[{first}]{rest}"))
}

fn is_for_macos() -> bool {
    std::env::var_os("CARGO_CFG_TARGET_OS").is_some_and(|system| system == "macos")
}

fn compile_lua(source: &Path, headers: &[PathBuf], own: &Path, built_for: &str) {
    // Cloned for each file: clones ask the compiler only once what it is.
    let base = {
        let mut build = cc::Build::new();
        build
            .include(source)
            .includes(headers)
            .include(own)
            .include(own.with_file_name("include"))
            .cargo_metadata(false)
            .force_frame_pointer(false)
            .define(
                "BATON_MODULE_BUILT_FOR",
                format!("\"{built_for}\"").as_str(),
            );
        lua_source::LUA_FLAGS.iter().for_each(|flag| {
            build.flag(flag);
        });
        // Programs run in C. The first build makes what is in Rust around it small, not fast.
        if std::env::var("OPT_LEVEL").is_ok_and(|level| level != "0") {
            build.opt_level(3);
        }
        // The profiles want line tables alone, for which the environment has no word.
        if std::env::var_os("DEBUG").is_some_and(|debug| debug != "false") {
            build.flag("-g1");
        }
        if is_for_macos() {
            build.flag("-ULUA_USE_LINUX").define("LUA_USE_MACOSX", None);
        }
        if std::env::var_os("CARGO_CFG_DEBUG_ASSERTIONS").is_some() {
            build.define("BATON_CHECKS", None);
        }
        if std::env::var_os("CARGO_CFG_BATON_SHARED").is_some() {
            build.define("BATON_SHARED", None);
        }
        build
    };
    let seam = own.join("seam/seam.h");
    let mut objects = Vec::new();
    for source in files::sources(source, own) {
        let mut build = base.clone();
        build
            .warnings(source.is_ours)
            .extra_warnings(source.is_ours)
            .flag("-Werror=implicit-function-declaration")
            .flag("-include")
            .flag(&seam)
            .file(&source.path);
        for define in &source.defines {
            build.flag(format!("-D{define}"));
        }
        objects.extend(build.compile_intermediates());
    }
    archive(&objects);
}

fn archive(objects: &[PathBuf]) {
    let mut build = cc::Build::new();
    build.cargo_metadata(false);
    objects.iter().for_each(|object| {
        build.object(object);
    });
    build.compile("baton_lua_c");
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    println!("cargo::rustc-link-search=native={out}");
    // Link all of it: compiled modules need API functions that nothing here uses.
    println!("cargo::rustc-link-lib=static:+whole-archive=baton_lua_c");
    println!("cargo::rustc-link-lib=dylib=m");
    // macOS has all of it in one library.
    if !is_for_macos() {
        println!("cargo::rustc-link-lib=dylib=dl");
    }
}

/// The four public headers, for the standalone and for tests that compile modules.
fn export_headers(source: &Path) {
    let out =
        PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("include");
    std::fs::create_dir_all(&out).expect("OUT_DIR is writable");
    for header in ["lua.h", "luaconf.h", "lauxlib.h", "lualib.h"] {
        std::fs::copy(source.join(header), out.join(header)).expect("OUT_DIR is writable");
    }
    println!("cargo::metadata=include={}", out.display());
}
