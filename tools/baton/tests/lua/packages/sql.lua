-- The common cases of LuaSQL's drivers: tables, cursors, transactions, errors. Each copy has a
-- table of its own.
local tables = 0

return function(t, environment, connection, options)
  tables = tables + 1
  local name = "person_" .. tables
  local function run(text) return connection:execute((text:gsub("person", name))) end
  assert(run "create table person (id integer primary key, name varchar(40), height float)")
  local people = { "Ann", "Bob O'Hara", "Cid", "D\u{e9}a" }
  for i, person in ipairs(people) do
    local quoted = connection.escape and connection:escape(person) or person:gsub("'", "''")
    t.say(run(("insert into person values (%d, '%s', %s)"):format(i, quoted, i + 0.5)))
  end
  local cursor = assert(run "select id, name, height from person order by id")
  t.say(table.concat(cursor:getcolnames(), ","), #cursor:getcoltypes())
  local row = cursor:fetch({}, "a")
  while row do
    t.say(row.id, row.name, tonumber(row.height))
    t.pause()
    row = cursor:fetch(row, "a")
  end
  t.say(pcall(cursor.fetch, cursor) == options.fetch_after_end)
  cursor:close()
  assert(connection:setautocommit(false))
  assert(run "delete from person where id > 1")
  local function count()
    local counting = assert(run "select count(*) from person")
    local number = tonumber((counting:fetch()))
    counting:close()
    return number
  end
  t.say(count())
  assert(connection:rollback())
  t.say(count())
  assert(run "update person set name = null where id = 1")
  assert(connection:commit())
  assert(connection:setautocommit(true))
  cursor = assert(run "select name, height from person where id = 1")
  t.say(cursor:fetch())
  cursor:close()
  local failed, why = run "select nothing from person_who_is_not"
  t.say(failed, why ~= nil)
  t.say(run "insert into person values (1, 'again', 0)" == nil)
  local many = {}
  for i = 10, 509 do many[#many + 1] = ("(%d, 'name %d', %d)"):format(i, i, i) end
  t.say(run("insert into person values " .. table.concat(many, ",")))
  t.say(count())
  assert(run "drop table person")
  t.say(connection:close(), environment:close())
end
