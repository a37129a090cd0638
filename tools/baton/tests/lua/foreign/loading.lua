-- Loading a library stops only the process that loads it, even if the library's constructors take
-- long.
local check = require "check"
local ffi = require "baton.ffi"
local process = require "baton.process"
local case = {}

local setenv = ffi.fn "int setenv(const char *name, const char *value, int overwrite)"

-- Loads with load(path). This process calls `meanwhile`, and then releases the constructor, which
-- waits for it.
local function load_beside(load, meanwhile)
  local fifo, path = check.fifo(), check.scratch "library" .. ".so"
  check.write_file(path, check.read_file(assert(package.searchpath("slow_to_load", package.cpath))))
  setenv("SLOW_TO_LOAD", fifo, 1)
  local loader = process.spawn(load, path)
  check.becomes_stuck(loader, "open")
  if meanwhile then meanwhile() end
  assert(io.open(fifo, "w")):close()
  local ok, result = loader:join()
  assert(ok, result)
  return result
end

function case.by_the_ffi()
  local library = load_beside(ffi.load)
  check.equal(ffi.fn("int slow_to_load_answer(void)", library)(), 42)
end

function case.by_package_loadlib()
  local open = load_beside(
    function(path) return assert(package.loadlib(path, "luaopen_slow_to_load")) end
  )
  check.equal(open(), "loaded")
end

function case.by_require()
  local result = load_beside(function(path)
    package.cpath = path
    return (require "slow_to_load")
  end)
  check.equal(result, "loaded")
end

-- A module that opens in an exclusive call must not wait for the dynamic loader's lock, as all
-- processes would wait with it.
function case.beside_a_module_that_opens()
  setenv("SLOW_TO_LOAD", "", 1)
  local path = assert(package.searchpath("slow_to_load", package.cpath))
  package.preload.loaded_before = assert(package.loadlib(path, "luaopen_slow_to_load"))
  load_beside(ffi.load, function() check.equal(require "loaded_before", "loaded") end)
end

-- The dynamic loader's lock is held while a constructor runs. A native thread that starts meanwhile
-- must not wait for that lock: it may be given the VM.
function case.beside_calls_that_need_new_threads()
  local usleep = ffi.fn "int usleep(unsigned microseconds)"
  local function call_on_many_threads()
    local callers = {}
    for i = 1, 12 do callers[i] = process.spawn(usleep, 50000) end
    for _, caller in ipairs(callers) do assert(caller:join()) end
  end
  load_beside(ffi.load, call_on_many_threads)
end

check.run(case)
