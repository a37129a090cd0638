//! Waits in callbacks of real libraries: the process has its native thread to itself meanwhile, so
//! a call of another process neither delays it nor gets between it and the library.

mod harness;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Outcome, Run, baton, missing, peer};

/// The start of each program: `beside(call)` starts a process that opens a FIFO, whose other end
/// `open_other_end` opens. So the program ends only if the callback goes on meanwhile.
const BESIDE_A_FIFO: &str = "
    local check = require 'check'
    local path = check.fifo()
    local gate = process.event()
    local function open_other_end()
      gate:wait()
      check.write_file(path, '')
    end
    local function beside_a_fifo(f)
      local p = process.spawn({ quiet = true }, f)
      check.becomes(p, 'waiting')
      local reader = process.spawn(io.open, path)
      check.becomes(reader, 'foreign')
      gate:set()
      local ok, result = p:join()
      assert(ok, result)
      assert(reader:join())
      return result
    end\n";

/// Runs a program whose callback goes on beside the opening of a FIFO. It must print `wanted`. Does
/// nothing if `module` is not installed.
fn goes_on_beside_a_fifo(module: &str, code: &str, wanted: &str) {
    if missing::is_module(module, "waits in its callbacks") {
        return;
    }
    let outcome = run_quietly(baton().process_code(&format!("{BESIDE_A_FIFO}{code}")));
    assert_eq!(outcome.stdout, wanted);
}

#[test]
fn a_callback_of_lpeg_opens_the_other_end_of_a_fifo_that_another_process_opens() {
    goes_on_beside_a_fifo(
        "lpeg",
        "local lpeg = require 'lpeg'
         print(beside_a_fifo(function()
           local pattern = lpeg.Cmt('x', function(_, at)
             open_other_end()
             return at
           end)
           return pattern:match 'x'
         end))",
        "2\n",
    );
}

#[test]
fn a_callback_of_luv_opens_the_other_end_of_a_fifo_that_another_process_opens() {
    goes_on_beside_a_fifo(
        "luv",
        "local uv = require 'luv'
         print(beside_a_fifo(function()
           local timer, result = uv.new_timer(), nil
           timer:start(1, 0, function()
             open_other_end()
             result = 'called'
             timer:close()
           end)
           uv.run()
           return result
         end))",
        "called\n",
    );
}

#[test]
fn a_callback_of_expat_opens_the_other_end_of_a_fifo_that_another_process_opens() {
    goes_on_beside_a_fifo(
        "lxp",
        "local lxp = require 'lxp'
         print(beside_a_fifo(function()
           local seen
           local parser = lxp.new {
             StartElement = function(_, name)
               open_other_end()
               seen = name
             end,
           }
           assert(parser:parse '<root/>')
           parser:close()
           return seen
         end))",
        "root\n",
    );
}

/// The directory of what the tests of this file compile.
fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("callbacks")
        .join(name);
    fs::create_dir_all(&directory).expect("the directory of the target is writable");
    directory
}

/// Compiles a library. `false`: the compiler is missing, which was reported.
fn compile(program: &str, remedy: &str, arguments: &[&str], directory: &Path) -> bool {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .env("GOCACHE", directory.join("cache"))
        .env("GOFLAGS", "-mod=mod")
        .output();
    match output {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{program} failed:\n{said}");
            true
        }
        Err(_) => {
            peer::skip(&format!("libraries built by {program}"), remedy);
            false
        }
    }
}

/// A library in Go keeps a stack of its callbacks for each native thread, and ends the program if
/// they do not return in that order.
const IN_GO: &str = r#"package main

/*
typedef int (*callback)(int);
static int call_back(callback f, int value) { return f(value); }
*/
import "C"

//export Through
func Through(f C.callback, value C.int) C.int { return C.call_back(f, value) }

func main() {}
"#;

#[test]
fn callbacks_through_a_library_in_go_wait_and_return_in_any_order() {
    let directory = scratch("go");
    fs::write(directory.join("through.go"), IN_GO).expect("it is writable");
    let build = [
        "build",
        "-buildmode=c-shared",
        "-o",
        "libthrough.so",
        "through.go",
    ];
    if !compile("go", "install golang-go", &build, &directory) {
        return;
    }
    let library = directory.join("libthrough.so");
    let code = format!(
        "local ffi = require 'baton.ffi'
         ffi.cdef 'int Through(int (*f)(int), int value);'
         local go = ffi.load('{}')
         local function through(f, value) return go.Through(f, value) end
         for i = 1, 300 do through(function(n) return n end, i) end
         local all = {{}}
         for i = 1, 8 do
           all[i] = process.spawn({{ quiet = true }}, function()
             local sum = 0
             for k = 1, 5 do
               sum = sum + through(function(n)
                 process.sleep((8 - i) * 0.001)
                 return through(function(m) process.yield() return m + 1 end, n)
               end, k)
             end
             return sum
           end)
         end
         for i = 1, 8 do assert(select(2, all[i]:join()) == 20) end
         print 'returned'
         os.exit(0)",
        library.display()
    );
    let outcome = baton().process_code(&code).run();
    outcome.succeeds();
    assert_eq!(outcome.stdout, "returned\n");
}

/// A module that calls Lua while it handles an exception. What the C++ runtime knows of exceptions
/// belongs to the native thread.
const IN_CPP: &str = r#"extern "C" {
#include <lauxlib.h>
#include <lua.h>
}
#include <exception>
#include <stdexcept>
#include <string>

static int in_handler(lua_State *L) {
  const std::string text = luaL_checkstring(L, 1);
  try {
    throw std::runtime_error(text);
  } catch (const std::exception &) {
    lua_pushvalue(L, 2);
    lua_call(L, 0, 0);
    try {
      throw;
    } catch (const std::exception &again) {
      lua_pushstring(L, again.what());
    }
  }
  lua_pushinteger(L, std::uncaught_exceptions());
  return 2;
}

extern "C" int luaopen_handler(lua_State *L) {
  lua_pushcfunction(L, in_handler);
  return 1;
}
"#;

#[test]
fn exceptions_that_are_handled_beneath_callbacks_stay_those_of_their_process() {
    let directory = scratch("cpp");
    fs::write(directory.join("handler.cpp"), IN_CPP).expect("it is writable");
    let include = format!("-I{}", env!("BATON_LUA_INCLUDE"));
    let headers = [include.as_str(), "-shared", "-fPIC", "-O1"];
    let build = [&headers[..], &["handler.cpp", "-o", "handler.so"]].concat();
    if !compile("c++", "install g++", &build, &directory) {
        return;
    }
    let code = format!(
        "package.cpath = '{}/?.so;' .. package.cpath
         process.concurrent('handler', 'loop')
         local handle = require 'handler'
         local all = {{}}
         for i = 1, 10 do
           all[i] = process.spawn({{ quiet = true }}, function()
             for k = 1, 5 do
               local text, uncaught = handle(i .. ' ' .. k, function()
                 process.sleep((i * k % 3) * 0.001)
                 assert(handle('inner', process.yield) == 'inner')
               end)
               assert(text == i .. ' ' .. k and uncaught == 0, text)
             end
           end)
         end
         for i = 1, 10 do assert(all[i]:join()) end
         print 'handled'",
        directory.display()
    );
    let outcome = run_quietly(baton().process_code(&code));
    assert_eq!(outcome.stdout, "handled\n");
}

fn run_quietly(run: Run) -> Outcome {
    let outcome = run.run();
    outcome.succeeds().quietly();
    outcome
}
