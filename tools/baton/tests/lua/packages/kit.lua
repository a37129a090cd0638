-- What a program of this directory is given. Each is a file that returns `function(t)`, where t has
--   say(...)        one line of output, the same in every run: the path of `scratch` is written as
--                   SCRATCH
--   scratch         a directory of its own
--   together(...)   runs functions side by side: as coroutines under `plain.lua`, as processes
--                   under `crowd.lua`
--   pause()         lets the others of `together` go on
--   alone(f)        runs f while no other copy of the program is in its own `alone`
--   child(code)     starts another interpreter on a chunk, and returns its standard output
local kit = {}

local interpreter = arg[-1]

-- As a pattern that matches nothing but the text.
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

-- A `t` whose lines go to `write`, which gets one string; `number` tells it from others.
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
