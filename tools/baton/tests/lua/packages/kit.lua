-- The helper functions for programs of this directory. Each is a file that returns `function(t)`,
-- where t has
--   say(...)        prints one line, the same in every run: the path of `scratch` is written as
--                   SCRATCH
--   scratch         a directory of its own
--   together(...)   runs functions concurrently: as coroutines under `plain.lua`, as processes
--                   under `crowd.lua`
--   pause()         lets the other functions of `together` run
--   alone(f)        runs f while no other copy of the program is in its own `alone`
--   child(code)     starts another interpreter on a chunk, and returns its standard output
local kit = {}

local interpreter = arg[-1]

-- Returns a pattern that matches only this text.
local function literally(text) return (text:gsub("%p", "%%%0")) end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function child(scratch)
  return function(code)
    local path = scratch .. "/child.lua"
    local file = assert(io.open(path, "w"))
    assert(file:write(code))
    assert(file:close())
    return assert(io.popen(quoted(interpreter) .. " " .. quoted(path)))
  end
end

function kit.load(name)
  return assert(loadfile((arg[0]:gsub("[^/]*$", "")) .. name .. ".lua"))()
end

-- Makes a `t` whose lines go to `write`, as one string each. `number` distinguishes copies.
function kit.instance(number, write)
  local scratch = os.getenv "SCRATCH" .. "/copy" .. number
  assert(os.execute("mkdir " .. quoted(scratch)))
  local own_path = literally(scratch)
  local function say(...)
    local words = table.pack(...)
    for i = 1, words.n do words[i] = tostring(words[i]):gsub(own_path, "SCRATCH", 1) end
    write(table.concat(words, " "))
  end
  return {
    say = say,
    scratch = scratch,
    child = child(scratch),
    together = kit.together,
    pause = kit.pause,
    alone = kit.alone,
  }
end

return kit
