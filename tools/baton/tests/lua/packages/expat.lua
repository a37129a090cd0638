-- LuaExpat: a stream of events, its errors, and the document as tables.
local lxp = require "lxp"
local lom = require "lxp.lom"
local totable = require "lxp.totable"

local DOCUMENT = [==[<?xml version="1.0"?>
<!DOCTYPE list [<!ENTITY who "world">]>
<list xmlns:x="urn:x"><item id="1" x:kind="a">hello &who;</item><!-- note -->
<?target data?><item id="2"><![CDATA[<raw> & text]]></item></list>]==]

local function events(t)
  local seen = {}
  local function note(kind)
    return function(_, name) seen[#seen + 1] = kind .. (name or "") end
  end
  local parser = lxp.new({
    StartElement = function(_, name, attributes)
      seen[#seen + 1] = "<" .. name .. (attributes.id or "")
    end,
    EndElement = note "/",
    CharacterData = note "",
    Comment = note "!",
    ProcessingInstruction = note "?",
    StartCdataSection = note "[",
    EndCdataSection = note "]",
    StartNamespaceDecl = note "ns ",
  }, "|")
  for at = 1, #DOCUMENT, 7 do assert(parser:parse(DOCUMENT:sub(at, at + 6))) end
  assert(parser:parse())
  t.say((table.concat(seen, ","):gsub("\n", "~")))
  parser:close()
end

return function(t)
  events(t)
  local parser = lxp.new { StartElement = function() end }
  local ok, why, line, column, position = parser:parse "<a>\n <b></c>"
  t.say(ok, why, line, column, position)
  t.say(pcall(parser.close, parser))
  local deep = lxp.new { StartElement = function(p, name) if name == "stop" then p:stop() end end }
  t.say(deep:parse "<a><stop/><after/></a>")
  t.say(pcall(function()
    lxp.new({ StartElement = function() error "from a handler" end }):parse "<a/>"
  end))
  local tree = lom.parse(DOCUMENT)
  t.say(tree.tag, tree[1].attr.id, tree[1][1], lom.find_elem(tree, "item").attr["x:kind"])
  local list = totable.clean(totable.parse(DOCUMENT))
  t.say(list[0], #list, list[2][1])
  local many = {}
  for i = 1, 3000 do many[i] = ("<row n='%d'>%d</row>"):format(i, i * i) end
  local sum = 0
  local counter = lxp.new {
    StartElement = function() end, -- without it, the text of all rows is joined
    CharacterData = function(_, text) sum = sum + tonumber(text) end,
  }
  assert(counter:parse("<rows>" .. table.concat(many) .. "</rows>"))
  assert(counter:parse())
  t.say(sum)
end
