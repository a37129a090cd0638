-- LuaSQL over ODBC, with SQLite's driver. The file that ODBCINI names describes the data sources
-- copy1, copy2... It reads data that LuaSQL for SQLite has written: Debian's build overwrites its
-- own stack in statements without rows.
local driver = require "luasql.odbc"
local sqlite = require "luasql.sqlite3"

local function fill(path)
  local environment = assert(sqlite.sqlite3())
  local connection = assert(environment:connect(path))
  assert(connection:execute "drop table if exists person")
  assert(
    connection:execute [[
      create table person (id integer primary key, name varchar(40), height float)
    ]]
  )
  for i = 1, 300 do
    assert(
      connection:execute(("insert into person values (%d, 'name %d', %s)"):format(i, i, i / 4))
    )
  end
  assert(connection:execute "insert into person values (1000, null, null)")
  connection:close()
  environment:close()
end

return function(t)
  local source = t.scratch:match "copy%d+$"
  fill(os.getenv "ODBCSYSINI" .. "/" .. source .. ".database")
  local environment = assert(driver.odbc())
  local connection = assert(environment:connect(source))
  local cursor =
    assert(connection:execute "select id, name, height from person where id > 297 order by id")
  t.say(table.concat(cursor:getcolnames(), ","), table.concat(cursor:getcoltypes(), ","))
  local row = cursor:fetch({}, "a")
  while row do
    t.say(row.id, row.name, row.height)
    t.pause()
    row = cursor:fetch({}, "a")
  end
  cursor = assert(connection:execute "select count(*), sum(height) from person")
  t.say(cursor:fetch())
  cursor:close()
  local failed, why = connection:execute "select nothing from a_table_that_is_not"
  t.say(failed, why ~= nil)
  t.say(connection:close(), environment:close())
  local again = assert(driver.odbc())
  t.say((again:connect "a source that is not"))
  again:close()
end
