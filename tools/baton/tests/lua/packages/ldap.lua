-- LuaLDAP with an OpenLDAP server at the address SERVER. Each copy has an organizational unit. No
-- list of attributes is requested: Debian's build crashes on it, under `lua5.4` too.
local lualdap = require "lualdap"
local units = 0

local function later(f, ...)
  local ok, why = f(...)()
  return ok, why
end

return function(t)
  units = units + 1
  local unit = "ou=unit" .. units .. ",dc=test"
  local function shown(text) return (text:gsub("unit%d+", "UNIT")) end
  local connection =
    assert(lualdap.open_simple(os.getenv "SERVER", "cn=admin,dc=test", "secret", false))
  t.say(
    later(
      connection.add,
      connection,
      unit,
      { objectClass = "organizationalUnit", ou = "unit" .. units }
    )
  )
  for i = 1, 10 do
    local name = "person " .. i
    local attributes =
      { objectClass = { "person", "top" }, cn = name, sn = i % 2 == 0 and "even" or "odd" }
    assert(later(connection.add, connection, "cn=" .. name .. "," .. unit, attributes))
  end
  local found = {}
  local search = { base = unit, scope = "onelevel", filter = "(sn=even)" }
  for dn, attributes in connection:search(search) do
    found[#found + 1] = attributes.cn .. " " .. dn
    t.pause()
  end
  table.sort(found)
  t.say(#found, shown(found[1]))
  local one = "cn=person 3," .. unit
  t.say(
    later(connection.modify, connection, one, { "=", sn = "changed", description = { "a", "b" } })
  )
  t.say(
    later(connection.compare, connection, one, "sn", "changed"),
    later(connection.compare, connection, one, "sn", "odd")
  )
  for _, attributes in connection:search { base = one, scope = "base" } do
    table.sort(attributes.description)
    t.say(attributes.sn, table.concat(attributes.description, ","))
  end
  t.say(later(connection.rename, connection, one, "cn=renamed", nil, 1))
  t.say(later(connection.delete, connection, "cn=renamed," .. unit))
  t.say((later(connection.delete, connection, "cn=nobody," .. unit)))
  local left = {}
  for dn in connection:search { base = unit, scope = "onelevel" } do left[#left + 1] = dn end
  for _, dn in ipairs(left) do assert(later(connection.delete, connection, dn)) end
  t.say(#left, later(connection.delete, connection, unit))
  connection:close()
  t.say((lualdap.open_simple(os.getenv "SERVER", "cn=admin,dc=test", "wrong", false)))
end
