local process = require "baton.process"

local all = {}
for number = 1, 3 do
  all[number] = process.spawn(function()
    for _ = 1, 10 do
      for _ = 1, 100 do end
      print(number)
    end
  end)
end
for _, each in ipairs(all) do each:join() end
process.sleep(3600)
print "done"
