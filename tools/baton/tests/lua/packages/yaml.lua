-- lyaml: documents, anchors, tags, block styles, and errors with their place.
local lyaml = require "lyaml"

local TEXT = [[
%YAML 1.1
---
base: &base {name: thing, size: 3}
copy:
  <<: *base
  size: 4
list: [1, 2.5, true, ~, "quoted\n", 'single']
folded: >
  one
  two
literal: |
  one
  two
number: 0x1F
---
- second
]]

return function(t)
  local first, second = table.unpack(lyaml.load(TEXT, { all = true }))
  t.say(first.base.name, first.copy.name, first.copy.size, #first.list, first.list[4] == lyaml.null)
  t.say(("%q %q"):format(first.folded, first.literal), first.number, second[1])
  local dumped = lyaml.dump { { list = { 1, 2, { nested = "yes" } } } }
  t.say((dumped:gsub("\n", "~")))
  t.say(lyaml.load(dumped).list[3].nested)
  t.say(pcall(lyaml.load, "a: [1, 2"))
  t.say(pcall(lyaml.load, "*unknown"))
  local rows = {}
  for i = 1, 500 do rows[i] = { id = i, text = "line\n" .. i } end
  local back = lyaml.load(lyaml.dump { rows })
  t.say(#back, back[500].text == "line\n500", back[250].id)
end
