// Which files in C are compiled, and with which defines. Shared by the build script of the guest
// and by the tests that check its memory.

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

/// A file to compile.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// It is the guest's own, and not Lua's.
    pub(crate) is_ours: bool,
    /// `NAME` or `NAME=VALUE` each.
    pub(crate) defines: Vec<String>,
}

impl Source {
    fn of_lua(path: PathBuf, defines: Vec<String>) -> Source {
        Source {
            path,
            is_ours: false,
            defines,
        }
    }
}

/// All files: those of Lua in the directory `lua`, and those of the guest in the folders of `own`.
pub(crate) fn sources(lua: &Path, own: &Path) -> Vec<Source> {
    let of_lua = in_c(lua).into_iter().map(|path| {
        let is_it = |name: &str| path.file_name().is_some_and(|file| file == name);
        let renamed = RENAMED.iter().find(|(name, _)| is_it(name));
        let defines = renamed.map(|(_, define)| (*define).to_owned());
        Source::of_lua(path, defines.into_iter().collect())
    });
    let unlocked = EXPORTED_BY_LDEBUG.iter();
    let unlocked = unlocked.map(|name| format!("{name}=baton_unlocked_{name}"));
    let second_copy = Source::of_lua(own.join(UNLOCKED), unlocked.collect());
    let folders = entries(own).into_iter().filter(|path| path.is_dir());
    let ours = folders.flat_map(|folder| in_c(&folder));
    let ours = ours.filter(|path| !path.ends_with(UNLOCKED));
    let ours = ours.map(|path| Source {
        path,
        is_ours: true,
        defines: vec!["_GNU_SOURCE".to_owned()],
    });
    of_lua.chain([second_copy]).chain(ours).collect()
}

/// The files in C of a directory.
fn in_c(directory: &Path) -> Vec<PathBuf> {
    let mut files = entries(directory);
    files.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    files
}

/// What is in a directory, in order.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("the directory is readable")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    entries.sort();
    entries
}
