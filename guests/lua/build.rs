//! Compiles Lua, unmodified but with the seam included before each file, and the guest's C files.

#[path = "build/lua_source.rs"]
mod lua_source;
#[path = "build/module_interface.rs"]
mod module_interface;

use std::path::{Path, PathBuf};

/// Files of Lua in which the seam renames something, each with the define that names the file.
const RENAMED: &[(&str, &str)] = &[
    ("lauxlib.c", "BATON_IN_LAUXLIB"),
    ("ldebug.c", "BATON_IN_LDEBUG"),
    ("ldo.c", "BATON_IN_LDO"),
    ("lapi.c", "BATON_IN_LAPI"),
    ("lfunc.c", "BATON_IN_LFUNC"),
    ("lgc.c", "BATON_IN_LGC"),
    ("liolib.c", "BATON_IN_LIOLIB"),
    ("loadlib.c", "BATON_IN_LOADLIB"),
    ("loslib.c", "BATON_IN_LOSLIB"),
    ("lstate.c", "BATON_IN_LSTATE"),
    ("lvm.c", "BATON_IN_LVM"),
];

/// Our file with a second copy of ldebug.c.
const UNLOCKED: &str = "seam/called_name.c";

/// The names that ldebug.c exports. They are renamed in the second copy.
const EXPORTED_BY_LDEBUG: &[&str] = &[
    "luaG_addinfo",
    "luaG_callerror",
    "luaG_concaterror",
    "luaG_errormsg",
    "luaG_findlocal",
    "luaG_forerror",
    "luaG_getfuncline",
    "luaG_opinterror",
    "luaG_ordererror",
    "luaG_runerror",
    "luaG_tointerror",
    "luaG_tracecall",
    "luaG_traceexec",
    "luaG_typeerror",
    "lua_gethook",
    "lua_gethookcount",
    "lua_gethookmask",
    "lua_getinfo",
    "lua_getlocal",
    "lua_getstack",
    "lua_sethook",
    "lua_setlocal",
];

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
    for path in of_runtime.into_iter().chain([own.join("baton_module.h")]) {
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

fn files_of(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the directory is readable")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    files.sort();
    files
}

fn folders_of(directory: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the directory is readable")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

fn compile_lua(source: &Path, headers: &[PathBuf], own: &Path, built_for: &str) {
    let base = || {
        let mut build = cc::Build::new();
        build
            .include(source)
            .includes(headers)
            .include(own)
            .include(own.with_file_name("include"))
            .cargo_metadata(false)
            .force_frame_pointer(false);
        lua_source::LUA_FLAGS.iter().for_each(|flag| {
            build.flag(flag);
        });
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
    for file in files_of(source) {
        let name = file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let mut build = base();
        build
            .warnings(false)
            .flag("-Werror=implicit-function-declaration")
            .flag("-include")
            .flag(&seam)
            .file(&file);
        if let Some((_, define)) = RENAMED.iter().find(|(renamed, _)| *renamed == name) {
            build.define(define, None);
        }
        objects.extend(build.compile_intermediates());
    }
    let mut build = base();
    build
        .warnings(false)
        .flag("-include")
        .flag(&seam)
        .file(own.join(UNLOCKED));
    for name in EXPORTED_BY_LDEBUG {
        build.define(name, format!("baton_unlocked_{name}").as_str());
    }
    objects.extend(build.compile_intermediates());
    let mut build = base();
    build
        .warnings(true)
        .extra_warnings(true)
        .flag("-Werror=implicit-function-declaration")
        .flag("-include")
        .flag(&seam)
        .define("_GNU_SOURCE", None)
        .define(
            "BATON_MODULE_BUILT_FOR",
            format!("\"{built_for}\"").as_str(),
        );
    for folder in folders_of(own) {
        build.files(
            files_of(&folder)
                .iter()
                .filter(|file| !file.ends_with(UNLOCKED)),
        );
    }
    objects.extend(build.compile_intermediates());
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
