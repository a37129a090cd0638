-- lua-readline: lines from an input that is no terminal, history, completion, and the callback
-- interface.
local readline = require "readline"

-- The library has one input and one history per program.
return function(t)
  t.alone(function()
    readline.set_readline_name "baton-test"
    readline.set_options { keeplines = 10, histfile = t.scratch .. "/history", auto_add = true }
    readline.set_complete_list { "alpha", "alphabet", "beta" }
    local first = readline.readline "> "
    local second = readline.readline "> "
    t.say(first, second)
    readline.add_history "added"
    t.say(readline.save_history())
    local lines = {}
    for line in io.lines(t.scratch .. "/history") do lines[#lines + 1] = line end
    t.say(table.concat(lines, "|"):match "one|two|added$")
    readline.set_complete_function(function(text) return { text .. "1", text .. "2" } end)
    local got
    readline.handler_install("? ", function(line)
      got = line
      readline.handler_remove()
    end)
    while not got do readline.read_char() end
    t.say(got)
  end)
end
