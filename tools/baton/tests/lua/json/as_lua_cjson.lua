-- Compares baton.json with lua-cjson 2.1.0.11, whose results are in as_lua_cjson.txt.
--
-- To write that file again, run this in this folder, with a Lua 5.4 that finds lua-cjson:
--   local generator, cjson = require "generator", require "cjson"
--   for seed = 1, 2000 do print(generator.line(seed, cjson)) end
local check = require "check"
local json = require "baton.json"
local generator = require "json.generator"
local case = {}

local function lines_of_lua_cjson()
  local path = check.that(package.searchpath("json.generator", package.path))
  return io.lines((path:gsub("generator%.lua$", "as_lua_cjson.txt")))
end

function case.results_and_messages_are_those_of_lua_cjson()
  local seed = 0
  for line in lines_of_lua_cjson() do
    seed = seed + 1
    check.equal(generator.line(seed, json), line, "seed " .. seed)
  end
  check.equal(seed, 2000)
end

-- Version 2.1.0, which Debian has, knows no integers.
function case.the_installed_lua_cjson_reads_what_is_written()
  local cjson = require "cjson"
  local compared = 0
  for seed = 3001, 4000 do
    local ok, text = pcall(json.encode, generator.value(generator.new(seed), json))
    if ok and not text:find "-0" and not text:find(("%d"):rep(15)) then
      check.equal(cjson.encode { cjson.decode(text) }, cjson.encode { json.decode(text) }, text)
      compared = compared + 1
    end
  end
  check.that(compared > 500)
end

check.run(case)
