-- Modules without C code: Penlight, argparse, cliargs, dkjson, inifile, luassert, mediator, say,
-- LuaUnit.
local argparse = require "argparse"
local assert_that = require "luassert"
local cliargs = require "cliargs.core"
local dkjson = require "dkjson"
local inifile = require "inifile"
local luaunit = require "luaunit"
local mediator = require "mediator"
local pretty = require "pl.pretty"
local List = require "pl.List"
local OrderedMap = require "pl.OrderedMap"
local path = require "pl.path"
local say = require "say"
local seq = require "pl.seq"
local spy = require "luassert.spy"
local template = require "pl.template"

local function penlight(t)
  t.say(tostring(List { 3, 1, 2 }:sort():map(function(n) return n * n end)), seq.sum { 1, 2, 3 })
  local map = OrderedMap()
  for _, key in ipairs { "z", "a", "m" } do map:set(key, #key) end
  t.say(table.concat(map:keys(), ","), (pretty.write({ 1, { x = "y" } }, "")))
  t.say(
    template.substitute("# for i = 1, 3 do\n$(i * i),\n# end\n", { _escape = "#" }):gsub("\n", "")
  )
  t.say(
    path.join("a", "b/../c"),
    path.normpath "a/b/../c",
    path.extension "x.tar.gz",
    path.isdir(t.scratch)
  )
end

local function command_lines(t)
  local parser = argparse("program", "For a test")
  parser:argument("input")
  parser:option("-n --number"):convert(tonumber):default "7"
  parser:flag "-v --verbose"
  local parsed = parser:parse { "file", "--number", "12", "-v" }
  t.say(parsed.input, parsed.number, parsed.verbose, select(2, parser:pparse { "file", "--none" }))
  t.say(#parser:get_help() > 100)
  local other = cliargs()
  other:set_name "program"
  other:argument("INPUT", "what to read")
  other:option("-o, --output=FILE", "where to", "stdout")
  local values = other:parse { "-o", "there", "here" }
  t.say(values.INPUT, values.output)
end

local function formats(t)
  local value = dkjson.decode '{"a":[1,2.5,null,"\\u00e9"],"b":{"c":true}}'
  t.say(value.a[2], value.a[4], dkjson.encode(value, { keyorder = { "a", "b" } }))
  t.say(select(3, dkjson.decode '{"a":}'))
  local settings = inifile.parse("[section]\nkey = value ; why\nnumber=12\nyes = true\n", "memory")
  t.say(settings.section.key, settings.section.number, settings.section.yes)
end

local function checks(t)
  local spied = spy.new(function(n) return n end)
  spied(3)
  assert_that.spy(spied).was.called_with(3)
  assert_that.are.same({ 1, { 2 } }, { 1, { 2 } })
  t.say((pcall(assert_that.are.equal, 1, 2)))
  t.say((pcall(luaunit.assertEquals, { 1 }, { 2 })), luaunit.assertItemsEquals({ 1, 2 }, { 2, 1 }))
  say:set("greeting", "hello %s")
  t.say(say("greeting", { "world" }))
  local heard, bus = {}, mediator()
  bus:subscribe({ "news", "sport" }, function(text) heard[#heard + 1] = text end)
  bus:publish({ "news", "sport" }, "goal")
  bus:publish({ "news" }, "else")
  t.say(table.concat(heard, ","))
end

return function(t)
  penlight(t)
  command_lines(t)
  formats(t)
  checks(t)
end
