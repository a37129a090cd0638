-- Makes small copies of pictures, on all cores.
--
--   baton examples/resize.lua [-n VMS] [-s SIZE] [-o DIRECTORY] FILE...
--   baton examples/resize.lua --paint COUNT DIRECTORY       makes pictures to try it with
--
-- Reads binary PGM and PPM files (P5 and P6, 8 bits), and writes copies of at most SIZE pixels each
-- way into DIRECTORY. A line is printed when a picture is done.
--
-- vm.map starts a VM for each core. The files' names are sent to them, and short results come back.
-- The pictures themselves are read and written where they are made smaller. So each function below
-- may use its arguments, its own local variables and Lua's libraries: it runs in another VM.

local process = require "baton.process"
local vm = require "baton.vm"

local USAGE = [[
usage: resize.lua [-n VMS] [-s SIZE] [-o DIRECTORY] FILE...
       resize.lua --paint COUNT DIRECTORY]]

local function read_all(name)
  local file <close> = assert(io.open(name, "rb"))
  return assert(file:read "a")
end

local function write_all(name, ...)
  local file <close> = assert(io.open(name, "wb"))
  assert(file:write(...))
end

-- Returns the kind, width, height, and pixels of a picture. Raises an error if it is not one.
local function read_picture(name)
  local text = read_all(name)
  local kind, at = text:match "^(P[56])()%s"
  assert(kind, "neither P5 nor P6")
  local numbers = {}
  for i = 1, 3 do
    while text:find("^%s*#", at) do at = text:match("^%s*#[^\n]*()", at) end
    numbers[i], at = text:match("^%s*(%d+)()", at)
    assert(numbers[i], "its head is wrong")
  end
  local width, height, most = math.tointeger(numbers[1]), math.tointeger(numbers[2]), numbers[3]
  assert(most == "255", "it has not 8 bits")
  local pixels = text:sub(at + 1)
  assert(#pixels >= width * height * (kind == "P6" and 3 or 1), "it is cut off")
  return kind, width, height, pixels
end

-- Each new pixel is the mean of `factor` times `factor` old ones.
local function shrink(pixels, width, height, channels, factor)
  local new_width, new_height = math.max(1, width // factor), math.max(1, height // factor)
  local step_x, step_y = math.min(factor, width), math.min(factor, height)
  local byte, rows = string.byte, {}
  for y = 0, new_height - 1 do
    local row = {}
    for x = 0, new_width - 1 do
      for channel = 1, channels do
        local sum = 0
        for line = y * factor, y * factor + step_y - 1 do
          local at = (line * width + x * factor) * channels + channel
          for _ = 1, step_x do
            sum, at = sum + byte(pixels, at), at + channels
          end
        end
        row[#row + 1] = string.char(sum // (step_x * step_y))
      end
    end
    rows[#rows + 1] = table.concat(row)
  end
  return new_width, new_height, table.concat(rows)
end

-- What a worker does with a file. An error would end the whole map, so it is a result.
local function resize(job)
  local function make()
    local kind, width, height, pixels = read_picture(job.name)
    local factor = math.ceil(math.max(width, height) / job.size)
    local channels = kind == "P6" and 3 or 1
    local new_width, new_height, small = shrink(pixels, width, height, channels, factor)
    local head = ("%s\n%d %d\n255\n"):format(kind, new_width, new_height)
    write_all(job.directory .. "/" .. job.name:match "[^/]+$", head, small)
    return ("%dx%d to %dx%d"):format(width, height, new_width, new_height)
  end
  local ok, what = pcall(make)
  return ok, (what:gsub("^[^:]*:%d+: ", "")) -- without the place in this file
end

-- Writes a picture with a pattern of its own.
local function paint(job)
  local width, height, rows = 640, 480, {}
  for y = 1, height do
    local row = {}
    for x = 1, width do
      row[x] = string.char(x * job.number % 256, y * 255 // height, (x ~ y) % 256)
    end
    rows[y] = table.concat(row)
  end
  local name = ("%s/picture-%d.ppm"):format(job.directory, job.number)
  write_all(name, ("P6\n%d %d\n255\n"):format(width, height), table.concat(rows))
  return true, name
end

local function fail(text)
  io.stderr:write(text, "\n")
  os.exit(2)
end

local options, jobs, work = { n = vm.cores(), s = 96, o = "thumbnails" }, {}, resize
local i = 1
while arg[i] do
  local letter = arg[i]:match "^%-([nso])$"
  if arg[i] == "--paint" and math.tointeger(arg[i + 1]) and arg[i + 2] then
    options.o, work = arg[i + 2], paint
    for number = 1, arg[i + 1] do jobs[number] = { number = number } end
    i = i + 3
  elseif letter and arg[i + 1] then
    options[letter] = letter == "o" and arg[i + 1] or math.tointeger(arg[i + 1])
    if not options[letter] or options[letter] == 0 then fail(USAGE) end
    i = i + 2
  elseif arg[i]:find "^%-" then
    fail(USAGE)
  else
    jobs[#jobs + 1], i = { name = arg[i] }, i + 1
  end
end
if #jobs == 0 then fail(USAGE) end
for _, job in ipairs(jobs) do job.directory, job.size = options.o, options.s end
assert(os.execute("mkdir -p '" .. options.o:gsub("'", "'\\''") .. "'"))

-- Results come in the order in which they are ready.
local began, done, failed = process.now(), 0, 0
local how = { workers = options.n, chunk = 1, ordered = false }
for index, ok, what in vm.map(jobs, work, how) do
  done = done + 1
  if not ok then failed = failed + 1 end
  local name = jobs[index].name or ""
  print(("%d of %d  %s%s%s"):format(done, #jobs, name, ok and "  " or "  FAILED: ", what))
end
print(("%d pictures, %d failed; %.1f s"):format(done, failed, process.now() - began))
os.exit(failed == 0)
