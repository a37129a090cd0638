-- The common cases of LuaDBI's drivers. Each copy has a table of its own.
local DBI = require "DBI"
local tables = 0

return function(t, placeholder, ...)
  tables = tables + 1
  local name = "thing_" .. tables
  local function sql(text)
    local count = 0
    text = text:gsub("thing", name):gsub("%?", function()
      count = count + 1
      return placeholder == "$" and "$" .. count or "?"
    end)
    return text
  end
  local connection = assert(DBI.Connect(...))
  connection:autocommit(true)
  t.say(connection:ping(), connection:quote "it's")
  assert(
    DBI.Do(
      connection,
      sql "create table thing (id integer primary key, name varchar(40), weight float)"
    )
  )
  local insert = assert(connection:prepare(sql "insert into thing values (?, ?, ?)"))
  for i = 1, 200 do assert(insert:execute(i, i % 50 ~= 0 and "thing " .. i or nil, i / 4)) end
  t.say(insert:affected())
  insert:close()
  local select_some =
    assert(connection:prepare(sql "select id, name, weight from thing where id > ? order by id"))
  assert(select_some:execute(196))
  t.say(table.concat(select_some:columns(), ","))
  for row in select_some:rows(true) do
    t.say(row.id, row.name, row.weight)
    t.pause()
  end
  assert(select_some:execute(199))
  t.say(table.unpack(select_some:fetch(false), 1, 3))
  select_some:close()
  connection:autocommit(false)
  t.say(DBI.Do(connection, sql "delete from thing where id <= ?", 100))
  connection:rollback()
  connection:autocommit(true)
  local counting = assert(connection:prepare(sql "select count(*) from thing"))
  assert(counting:execute())
  t.say(counting:fetch()[1])
  counting:close()
  local broken, why = connection:prepare(sql "select none from thing_that_is_not")
  if broken then broken, why = broken:execute() end
  t.say(broken, why ~= nil)
  assert(DBI.Do(connection, sql "drop table thing"))
  t.say(connection:close())
end
