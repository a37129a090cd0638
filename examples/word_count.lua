-- Counts the lines, words and bytes of many files at the same time, and names the most frequent
-- words.
--
--   baton examples/word_count.lua [-n FILES] [-w WORDS] FILE...
--
-- One process for each file reads it with io.open and file:read, as any Lua program does. A read
-- that blocks stops its own process only: on a slow disk, on a network, or on an empty pipe. The
-- others go on. The program prints a file's line when it is known, so slow files come last.
--
-- Each process counts into a table of its own, and the main process adds these up. The processes
-- share nothing, so they need no lock.

local process = require "baton.process"

local USAGE = "usage: word_count.lua [-n FILES] [-w WORDS] FILE..."
local BLOCK = 64 * 1024

local function count_block(block, counts)
  counts.bytes = counts.bytes + #block
  for _ in block:gmatch("\n") do counts.lines = counts.lines + 1 end
  local frequency = counts.frequency
  for word in block:gmatch("%S+") do
    counts.words = counts.words + 1
    word = word:match("^%p*(.-)%p*$"):lower()
    if word ~= "" then frequency[word] = (frequency[word] or 0) + 1 end
  end
end

local function count_file(name)
  local file <close> = assert(io.open(name, "rb"))
  local counts = { lines = 0, words = 0, bytes = 0, frequency = {} }
  while true do
    -- A block and the rest of its last line, so that no word is cut in two.
    local block, rest = file:read(BLOCK, "L")
    if not block then return counts end
    count_block(block .. (rest or ""), counts)
  end
end

local function show(counts, name)
  print(("%8d %8d %10d  %s"):format(counts.lines, counts.words, counts.bytes, name))
end

local function add(total, counts)
  for _, what in ipairs { "lines", "words", "bytes" } do
    total[what] = total[what] + counts[what]
  end
  for word, times in pairs(counts.frequency) do
    total.frequency[word] = (total.frequency[word] or 0) + times
  end
end

local function show_most_frequent(frequency, wanted)
  local words = {}
  for word in pairs(frequency) do words[#words + 1] = word end
  table.sort(words, function(a, b)
    if frequency[a] ~= frequency[b] then return frequency[a] > frequency[b] end
    return a < b
  end)
  for i = 1, math.min(wanted, #words) do
    print(("%8d  %s"):format(frequency[words[i]], words[i]))
  end
end

local function read_options(arguments)
  local options = { files = 64, words = 10 }
  local names = { ["-n"] = "files", ["-w"] = "words" }
  local i = 1
  while names[arguments[i]] do
    options[names[arguments[i]]] = math.tointeger(tonumber(arguments[i + 1]))
    i = i + 2
  end
  options.names = table.move(arguments, i, #arguments, 1, {})
  if #options.names == 0 or not options.words or not options.files or options.files < 1 then
    io.stderr:write(USAGE, "\n")
    os.exit(2)
  end
  return options
end

local options = read_options(arg)
-- What the pool lends is no more than the right to have a file open.
local open_files = process.pool { size = options.files, make = function() return true end }
local counted = process.channel()

for _, name in ipairs(options.names) do
  process.spawn({ name = name }, function()
    local ok, counts = pcall(open_files.with, open_files, function() return count_file(name) end)
    counted:send { name = name, counts = ok and counts, why = not ok and counts }
  end)
end

local total = { lines = 0, words = 0, bytes = 0, frequency = {} }
local failed = 0
for _ = 1, #options.names do
  local result = counted:receive()
  if result.counts then
    show(result.counts, result.name)
    add(total, result.counts)
  else
    failed = failed + 1
    io.stderr:write("word_count: ", result.why, "\n")
  end
end
show(total, "total")
show_most_frequent(total.frequency, options.words)
os.exit(failed == 0)
