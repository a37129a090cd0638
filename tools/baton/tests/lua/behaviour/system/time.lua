-- os: time and date, files by name, commands, environment, locale, clock.
local t = ...

-- A time to fields and back, over the years. Fields out of range are normalized.
for year = 1970, 2037 do
  local rows =
    { { 1, 1, 0, 0, 0 }, { 2, 28, 23, 59, 59 }, { 6, 15, 12, 30, 1 }, { 12, 31, 12, 0, 0 } }
  for _, row in ipairs(rows) do
    local at = os.time {
      year = year,
      month = row[1],
      day = row[2],
      hour = row[3],
      min = row[4],
      sec = row[5],
      isdst = false,
    }
    local d = os.date("*t", at)
    if d.isdst then d = os.date("*t", at - 3600) end
    t:that(
      d.year == year
        and d.month == row[1]
        and d.day == row[2]
        and d.hour == row[3]
        and d.min == row[4]
        and d.sec == row[5],
      year .. " " .. row[1]
    )
  end
end
do
  local base = os.time { year = 2020, month = 1, day = 1, hour = 12 }
  for _, row in ipairs {
    { { month = 13 }, "2021-01-01" }, { { month = 0 }, "2019-12-01" },
    { { month = -11 }, "2019-01-01" }, { { day = 0 }, "2019-12-31" },
    { { day = 32 }, "2020-02-01" }, { { day = 60 }, "2020-02-29" }, { { day = 366 }, "2020-12-31" },
    { { day = -1 }, "2019-12-30" },
    { { hour = 36 }, "2020-01-02" }, { { hour = -12 }, "2019-12-31" },
    { { min = 720 }, "2020-01-02" }, { { sec = 86400 }, "2020-01-02" },
    { { sec = -86400 }, "2019-12-31" }, { { month = 25, day = 31 }, "2022-01-31" },
  } do
    local fields = { year = 2020, month = 1, day = 1, hour = 12, isdst = false }
    for k, v in pairs(row[1]) do fields[k] = v end
    t:equal(os.date("%Y-%m-%d", os.time(fields)), row[2])
    -- The table is normalized too.
    t:equal(("%04d-%02d-%02d"):format(fields.year, fields.month, fields.day), row[2])
  end
  for days = -400, 400, 25 do
    local fields = { year = 2020, month = 1, day = 1 + days, hour = 12, isdst = false }
    t:equal(os.time(fields) - base, days * 86400)
    t:equal(os.difftime(os.time(fields), base), days * 86400.0)
  end
end
-- UTC by format: each letter at known times.
for _, row in ipairs {
  { 0, "%Y-%m-%d %H:%M:%S", "1970-01-01 00:00:00" }, { 86399, "%H:%M:%S", "23:59:59" },
  { 951782400, "%d/%m/%y", "29/02/00" }, { 0, "%j", "001" }, { 1609372800, "%j", "366" },
  { 0, "%a %A", "Thu Thursday" }, { 0, "%b %B", "Jan January" }, { 0, "%p %I", "AM 12" },
  { 43200, "%p %I", "PM 12" }, { 46800, "%I", "01" },
  { 0, "%w %u", "4 4" }, { 0, "%%", "%" }, { 0, "", "" }, { 0, "plain", "plain" },
  { 0, "%D", "01/01/70" }, { 0, "%F", "1970-01-01" }, { 0, "%T", "00:00:00" }, { 0, "%R", "00:00" },
  { 0, "%e", " 1" }, { 0, "%C", "19" }, { 0, "%y", "70" }, { 0, "%n%t", "\n\t" },
  { 0, "%G %V %g", "1970 01 70" }, { 0, "%U %W", "00 00" }, { 0, "%c", "Thu Jan  1 00:00:00 1970" },
  { 0, "%x %X", "01/01/70 00:00:00" }, { 0, "%r", "12:00:00 AM" }, { 0, "%h", "Jan" },
  { -1, "%Y-%m-%d %H:%M:%S", "1969-12-31 23:59:59" }, { 4102444800, "%Y", "2100" },
  { 253402300799, "%F", "9999-12-31" }, { 0, "%Ey %Od", "70 01" },
  { 0, ("%Y"):rep(100), ("1970"):rep(100) }, { 0, "a\0%Y", "a\0001970" },
} do t:equal(os.date("!" .. row[2], row[1]), row[3]) end
do
  local d = os.date("!*t", 951826154)
  t:values(
    "2000 2 29 12 9 14 3 60 false",
    d.year,
    d.month,
    d.day,
    d.hour,
    d.min,
    d.sec,
    d.wday,
    d.yday,
    d.isdst
  )
  for _, wrong in ipairs { "%", "%Q", "%E", "%Ez", "%O", "%5Y", "%q x" } do
    t:raises("invalid conversion specifier", os.date, wrong, 0)
  end
  t:raises("field 'year' missing", os.time, {})
  t:raises("field 'day' missing", os.time, { month = 1, year = 2000 })
  t:raises("field 'year' missing", os.time, { day = 1, month = 1 })
  t:raises("field 'month' missing", os.time, { day = 1, year = 2000 })
  t:raises("field 'day' is not an integer", os.time, { year = 2000, month = 1, day = "x" })
  t:raises("field 'day' is not an integer", os.time, { year = 2000, month = 1, day = 1.5 })
  t:raises("field 'year' is out-of-bound", os.time, { year = 1 << 40, month = 1, day = 1 })
  t:raises("table expected", os.time, 5)
  t:raises("no integer representation", os.date, "%Y", 1.5)
  t:raises("cannot be represented", os.date, "%Y", math.maxinteger)
  t:equal(
    os.time { year = "2000", month = "1", day = "1", hour = 12 },
    os.time { year = 2000, month = 1, day = 1 }
  )
  t:equal(math.type(os.time()), "integer")
  t:equal(math.type(os.clock()), "float")
  t:equal(math.type(os.difftime(2, 1)), "float")
  t:equal(os.difftime(2, 1), 1.0)
  t:equal(type(os.date()), "string")
  local before, clock = os.time(), os.clock()
  for i = 1, 1000 do local x = i end
  t:that(os.time() >= before) t:that(os.clock() >= clock)
end

-- Files by name.
for i = 1, 20 do
  local path, other = t:scratch(), t:scratch()
  t:equal(select(3, os.remove(path)), 2)
  t:equal((select(2, os.remove(path))), path .. ": No such file or directory")
  t:equal(select(3, os.rename(path, other)), 2)
  assert(io.open(path, "w")):close()
  t:equal(os.rename(path, other), true)
  t:equal(io.open(path), nil)
  t:equal(os.remove(other), true)
  t:equal(io.open(other), nil)
end
do
  local directory = t:scratch()
  t:values("true 'exit' 0", os.execute("mkdir '" .. directory .. "'"))
  assert(io.open(directory .. "/f", "w")):close()
  local ok, why = os.remove(directory)
  t:equal(ok, nil) t:has(why, "Directory not empty")
  t:equal(os.remove(directory .. "/f"), true)
  t:equal(os.remove(directory), true)
  local names = {}
  for i = 1, 10 do
    names[i] = os.tmpname()
    t:equal(type(names[i]), "string")
    t:that(io.open(names[i]), "the file is made")
    for k = 1, i - 1 do t:that(names[k] ~= names[i]) end
  end
  for i = 1, 10 do os.remove(names[i]) end
end

-- Commands and their results, the environment, the locale.
for code = 0, 20 do
  t:values(code == 0 and "true 'exit' 0" or "nil 'exit' " .. code, os.execute("exit " .. code))
end
for name, number in pairs { TERM = 15, KILL = 9, USR1 = 10 } do
  t:values("nil 'signal' " .. number, os.execute("kill -" .. name .. " $$"))
end
t:equal(os.execute(), true)
t:values("nil 'exit' 127", os.execute "exec 2>/dev/null; no_such_command_here")
t:values("true 'exit' 0", os.execute "")
t:equal(os.getenv "LC_ALL", "C")
t:equal(os.getenv "NO_SUCH_VARIABLE", nil)
t:equal(os.getenv "", nil)
t:equal(type(os.getenv "SCRATCH"), "string")
t:raises("string expected", os.getenv)
for _, category in ipairs { "all", "collate", "ctype", "monetary", "numeric", "time" } do
  t:equal(os.setlocale(nil, category), "C")
end
t:equal(os.setlocale "no such locale", nil)
t:equal(os.setlocale "C", "C")
t:equal(os.setlocale "", "C")
t:raises("invalid option", os.setlocale, "C", "x")
-- Ends of programs: the status, and what runs before the end.
do
  local program = arg[0]
  for i = -1, -20, -1 do if arg[i] then program = arg[i] end end
  local function ends(code)
    return select(3, os.execute("'" .. program .. "' -e '" .. code .. "' >/dev/null 2>&1"))
  end
  for code, wanted in pairs {
    ["os.exit()"] = 0, ["os.exit(true)"] = 0, ["os.exit(false)"] = 1, ["os.exit(3)"] = 3,
    ["os.exit(256 + 4)"] = 4, ["os.exit(0, true)"] = 0, ["os.exit(5, true)"] = 5, ["error()"] = 1,
    ["error {}"] = 1, ["error(nil)"] = 1, ["return 7"] = 0, ["x ="] = 1,
    ["coroutine.wrap(function() os.exit(6, true) end)()"] = 6, ["pcall(os.exit, 7)"] = 7,
    ["setmetatable({}, { __gc = function() os.exit(8) end })"] = 8,
    ["local x <close> = setmetatable({}, { __close = function() os.exit(9) end })"] = 9,
    ["local x <close> = setmetatable({}, { __close = function() os.exit(11, true) end }) "
      .. "os.exit(10, true)"] = 11,
    ["table.sort({ 1, 2 }, function() os.exit(12, true) end)"] = 12,
    ["debug.sethook(function() os.exit(13) end, \"l\") local x\nlocal y"] = 13,
  } do t:equal(ends(code), wanted, code) end
end
