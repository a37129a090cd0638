//! Tests LuaRocks, busted and luacheck, which are programs in Lua.

use std::path::{Path, PathBuf};

use crate::harness::{Outcome, Run, baton, modules, peer};

/// luacheck's files are in the directory of Lua 5.1; all versions use the same ones.
const LUACHECK_PATH: &str = "/usr/share/lua/5.1/?.lua;/usr/share/lua/5.1/?/init.lua;;";

const MODULE: &str = r#"
#include "lua.h"
#include "lauxlib.h"
static int twice(lua_State *L) {
  lua_pushinteger(L, 2 * luaL_checkinteger(L, 1));
  return 1;
}
int luaopen_twice(lua_State *L) {
  lua_pushcfunction(L, twice);
  return 1;
}
"#;

#[test]
fn luarocks_builds_a_rock_with_a_c_module_that_can_be_required() {
    let dir = new_dir("luarocks");
    let tree = dir.join("tree");
    write(&dir, "twice.c", MODULE);
    let source = dir.display();
    let rockspec = format!(
        "package = 'twice' version = '1.0-1' source = {{ url = 'file://{source}' }}
         build = {{ type = 'builtin', modules = {{ twice = {{ sources = {{ '{source}/twice.c' }} \
         }} }} }}"
    );
    let rockspec = write(&dir, "twice-1.0-1.rockspec", &rockspec);
    let tree_text = tree.to_string_lossy();
    let options = ["--lua-version", "5.4", "--tree", &tree_text];
    let in_dir = |run: Run| run.in_dir(&dir).env("HOME", &dir);
    let luarocks = |arguments: &[&str]| {
        let all = [&options, arguments].concat();
        same_tool("/usr/bin/luarocks", "luarocks", &all, in_dir)
    };
    let compiler = std::env::var("CC").unwrap_or_else(|_| "gcc".to_owned());
    let include = format!("LUA_INCDIR={}", modules::INCLUDE);
    let [compiler, linker] = ["CC", "LD"].map(|name| format!("{name}={compiler}"));
    let variables = [include.as_str(), compiler.as_str(), linker.as_str()];
    let rockspec = rockspec.to_string_lossy();
    let Some(made) = luarocks(&[&["make", &rockspec], &variables[..]].concat()) else {
        return;
    };
    assert!(
        made.stdout.contains("twice 1.0-1 is now installed"),
        "{made}"
    );
    baton()
        .env("LUA_CPATH_5_4", tree.join("lib/lua/5.4/?.so"))
        .code("print(require 'twice'(21))")
        .run()
        .succeeds()
        .wrote("42\n");
    let listed = luarocks(&["list"]).expect("luarocks is there");
    assert!(listed.stdout.contains("1.0-1 (installed)"), "{listed}");
    // Not compared: the name of the file has that of the interpreter's architecture.
    let packed = tool(
        baton(),
        "/usr/bin/luarocks",
        &[&options, &["pack", "twice"][..]].concat(),
        in_dir,
    );
    assert!(
        packed.succeeds().stdout.contains("twice-1.0-1.linux"),
        "{packed}"
    );
    // Files that stay only take room in the target directory.
    let _ = std::fs::remove_dir_all(dir);
}

#[test]
fn busted_runs_a_specification() {
    let dir = new_dir("busted");
    let specification = "describe('arithmetic', function()
        local log = spy.new(function() end)
        before_each(function() log('before') end)
        it('adds', function() assert.are.equal(4, 2 + 2) assert.spy(log).was.called(1) end)
        it('compares deeply', function() assert.are.same({ 1, { 2 } }, { 1, { 2 } }) end)
        it('sees errors', function() assert.has_error(function() error('wrong', 0) end, 'wrong') \
        end)
        it('fails where it should', function() assert.is_true(false) end)
        pending('is not written yet')
    end)";
    let path = write(&dir, "arithmetic_spec.lua", specification);
    let path = path.to_string_lossy();
    let Some(outcome) = same_tool(
        "/usr/bin/busted",
        "lua-busted",
        &["-o", "plainTerminal", &path],
        |run| run,
    ) else {
        return;
    };
    outcome.ends_with(1);
    let counts = "3 successes / 1 failure / 0 errors / 1 pending";
    assert!(outcome.stdout.contains(counts), "{outcome}");
    // Files that stay only take room in the target directory.
    let _ = std::fs::remove_dir_all(dir);
}

#[test]
fn luacheck_finds_a_known_warning() {
    let dir = new_dir("luacheck");
    let path = write(&dir, "unused.lua", "local unused = 1\nprint(undefined)\n");
    let path = path.to_string_lossy();
    let prepare = |run: Run| run.env("LUA_PATH_5_4", LUACHECK_PATH);
    let Some(outcome) = same_tool(
        "/usr/bin/luacheck",
        "lua-check",
        &["--no-color", &path],
        prepare,
    ) else {
        return;
    };
    outcome.ends_with(1);
    for warning in [
        "1:7: unused variable 'unused'",
        "2:7: accessing undefined variable 'undefined'",
    ] {
        assert!(outcome.stdout.contains(warning), "{warning}\n{outcome}");
    }
    // Files that stay only take room in the target directory.
    let _ = std::fs::remove_dir_all(dir);
}

/// Runs a script of a package under the system's Lua and under ours. Both must end, and print the
/// same. If it is not installed, returns none and reports that.
fn same_tool(
    script: &str,
    package: &str,
    arguments: &[&str],
    prepare: impl Fn(Run) -> Run,
) -> Option<Outcome> {
    if !Path::new(script).exists() {
        peer::skip(script, &format!("install {package}"));
        return None;
    }
    let run = |interpreter| tool(interpreter, script, arguments, &prepare);
    let (wanted, got) = (run(peer::lua()?), run(baton()));
    let quiet = |outcome: &Outcome| without_times(&outcome.stdout);
    assert_eq!(
        quiet(&wanted),
        quiet(&got),
        "another stdout than lua's\n{wanted}\n{got}"
    );
    assert_eq!(wanted.status, got.status, "{wanted}\n{got}");
    Some(got)
}

/// Runs a script of a package.
fn tool(
    interpreter: Run,
    script: &str,
    arguments: &[&str],
    prepare: impl Fn(Run) -> Run,
) -> Outcome {
    let interpreter = interpreter
        .without_env("LUA_PATH_5_4")
        .without_env("LUA_CPATH_5_4");
    let run = prepare(interpreter).arg(script);
    arguments.iter().fold(run, Run::arg).run()
}

/// Removes the time that busted reports.
fn without_times(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split(" : ").next().unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("the test's directory can be written to");
    path
}

fn new_dir(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory for the test can be made");
    dir
}
