-- Cache stampede: the count of loads that run is to keep a second one away, but it is raised late.
local process = require "baton.process"

local cache, loading, loads = {}, 0, 0
local function load_value(key)
  loads = loads + 1
  return key .. "!"
end
local function get(key)
  while cache[key] == nil do
    if loading == 0 then
      loading = loading + 1
      cache[key] = load_value(key)
      loading = loading - 1
    else
      process.yield()
    end
  end
  return cache[key]
end
local all = {}
for i = 1, 3 do all[i] = process.spawn(get, "page") end
for _, p in ipairs(all) do assert(p:join()) end
assert(loads == 1, "the page was loaded more than once")
