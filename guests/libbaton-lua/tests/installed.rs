//! The installed library: the programs of examples/embedding are built with it, and run; and it
//! takes the place of liblua5.4.

mod embedding;

use std::fs;
use std::path::Path;
use std::process::Command;

use baton_harness::skip::is_missing;
use baton_harness::{Screen, installed, succeed};
use embedding::{Example, prefix};

#[test]
fn a_games_loop_gives_scripts_their_time() {
    let Some(program) = Example::make("frames", None, "a game's loop") else {
        return;
    };
    let said = program.numbers("2", None);
    let [frames, _late, _limit, _longest, slept, blocked, computed] = said[..] else {
        panic!("{said:?}")
    };
    assert_eq!(frames, 120.0);
    // 200 sleeps and 40 calls, if nothing delays them.
    assert!(
        slept >= 40.0 && blocked >= 5.0 && computed > 1000.0,
        "{said:?}"
    );
}

#[test]
fn the_loop_of_libuv_runs_processes() {
    let Some(program) = Example::make("uv", None, "the loop of libuv") else {
        return;
    };
    let said = program.numbers("2", None);
    let [ticks, slept, blocked, computed] = said[..] else {
        panic!("{said:?}")
    };
    // 200 ticks and sleeps, and 40 calls, if nothing delays them.
    assert!(ticks >= 40.0 && slept >= 40.0, "{said:?}");
    assert!(blocked >= 5.0 && computed > 1000.0, "{said:?}");
}

#[test]
fn a_window_redraws_while_scripts_sleep_block_and_compute() {
    let what = "a window of SDL";
    let Some(program) = Example::make("window", None, what) else {
        return;
    };
    let Some(screen) = Screen::start(what) else {
        return;
    };
    let said = program.numbers("2", Some(&screen));
    let [frames, late, _limit, _latest, slept, blocked, computed] = said[..] else {
        panic!("{said:?}")
    };
    assert_eq!(frames, 120.0);
    // A machine with other work may delay some of them.
    assert!(late < 60.0, "{said:?}");
    assert!(
        slept >= 20.0 && blocked >= 5.0 && computed > 1000.0,
        "{said:?}"
    );
}

/// Draws with gnuplot's terminal `tikz`, which is written in Lua. The libraries of the directory
/// come first. Without comments, as one of them has the time.
fn drawing(libraries: Option<&Path>) -> String {
    let mut gnuplot = Command::new("gnuplot");
    gnuplot.args([
        "-e",
        "set terminal tikz; set samples 50; plot sin(x), cos(x) with points",
    ]);
    if let Some(libraries) = libraries {
        gnuplot.env("LD_LIBRARY_PATH", libraries);
    }
    let said = succeed(&mut gnuplot);
    let lines = said.lines().filter(|line| !line.starts_with('%'));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn gnuplot_draws_the_same_with_this_library_in_place_of_liblua() {
    if is_missing(&["gnuplot", "--version"], "gnuplot-nox", "gnuplot's Lua") {
        return;
    }
    let libraries = Path::new(env!("CARGO_TARGET_TMPDIR")).join("in-place-of-liblua");
    fs::create_dir_all(&libraries).expect("a directory for the library");
    let library = prefix().join("lib/libbaton-lua.so.0");
    fs::copy(library, libraries.join("liblua5.4.so.0")).expect("the library is installed");
    let with_lua = drawing(None);
    assert!(with_lua.contains("\\gp3point{"), "{with_lua}");
    assert_eq!(drawing(Some(&libraries)), with_lua);
}

/// A program whose script requires the module that is a file.
const WITH_CLUSTER: &str = r#"
#include <baton_lua.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
int main(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  if (luaL_dostring(L, "print(type(require 'baton.cluster'.connect))") != LUA_OK) {
    puts(lua_tostring(L, -1));
    return 1;
  }
  lua_close(L);
  return 0;
}
"#;

#[test]
fn the_module_of_the_cluster_is_found_from_the_library() {
    if is_missing(
        &["pkg-config", "--version"],
        "pkg-config",
        "baton.cluster in a program",
    ) {
        return;
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("with-cluster");
    fs::create_dir_all(&directory).expect("a directory for the program");
    fs::write(directory.join("program.c"), WITH_CLUSTER).expect("it can be written");
    let mut compile = Command::new("sh");
    compile
        .args([
            "-c",
            "cc -o program program.c $(pkg-config --cflags --libs baton-lua)",
        ])
        .current_dir(&directory)
        .env("PKG_CONFIG_PATH", installed::descriptions(prefix()));
    succeed(&mut compile);
    let mut program = Command::new(directory.join("program"));
    program.env("LD_LIBRARY_PATH", prefix().join("lib"));
    assert_eq!(succeed(&mut program), "function\n");
}
