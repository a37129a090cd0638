-- lua-term: colours, and whether an output is a terminal.
local term = require "term"
local colors = require "term.colors"

return function(t)
  t.say(term.isatty(io.stdin), term.isatty(io.stdout))
  t.say(
    ("%q"):format(tostring(colors.red) .. "red" .. tostring(colors.reset)),
    ("%q"):format(colors.bright "bold")
  )
  t.say(("%q"):format(colors.underscore .. colors.onblue .. "text" .. colors.reset))
  local file = assert(io.open(t.scratch .. "/file", "w"))
  t.say(term.isatty(file))
  term.cursor.goup(file, 3)
  term.cursor["goto"](file, 4, 5)
  term.clear(file)
  file:close()
  for line in io.lines(t.scratch .. "/file") do t.say(("%q"):format(line)) end
  t.say((pcall(term.isatty, "no file")))
end
