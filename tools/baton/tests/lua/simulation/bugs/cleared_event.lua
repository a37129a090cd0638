-- An event that is cleared too late: what was added after the list was read goes unseen.
local process = require "baton.process"

local news, list, seen = process.event { name = "news" }, {}, 0
local reader = process.spawn(function()
  while seen < 3 do
    news:wait()
    while #list > 0 do
      table.remove(list)
      seen = seen + 1
    end
    news:clear()
  end
end)
local writer = process.spawn(function()
  for i = 1, 3 do
    list[#list + 1] = i
    news:set()
  end
end)
reader:join()
writer:join()
