-- The common cases of lrexlib's flavours: searching, iterating, splitting, and replacing with
-- functions.
local TEXT = "Ann 1987-03-04, Bob 2001-12-31; Cid 1999-01-01"

local function exercise(t, rex, is_posix)
  local digit, word = "[0-9]", "[A-Za-z]"
  local date = rex.new(
    ("(%s%s%s%s)-(%s%s)-(%s%s)"):format(digit, digit, digit, digit, digit, digit, digit, digit)
  )
  t.say(date:find(TEXT))
  local from, to, captures = date:exec(TEXT, 17)
  t.say(from, to, table.concat(captures, ",", 1, 2))
  t.say(rex.match(TEXT, "(" .. word .. "+)$"), rex.find(TEXT, "none"), rex.count(TEXT, word .. "+"))
  local years = {}
  for year in rex.gmatch(TEXT, "(" .. digit .. "+)-") do years[#years + 1] = year end
  t.say(table.concat(years, ","))
  local fields = {}
  for field in rex.split(TEXT, "[,;] *") do fields[#fields + 1] = field end
  t.say(table.concat(fields, "|"))
  t.say(rex.gsub(TEXT, word .. "+", string.upper))
  t.say(rex.gsub(TEXT, "(" .. word .. ")(" .. word .. "+)", "%2%1", 2))
  t.say(rex.gsub(TEXT, digit .. "+", { ["04"] = "four", ["31"] = false }))
  local calls = 0
  local long = TEXT:rep(200)
  local replaced = rex.gsub(long, date, function(year, month)
    calls = calls + 1
    if calls % 50 == 0 then t.pause() end
    return month .. "/" .. year
  end)
  t.say(calls, #replaced, replaced:sub(1, 12))
  t.say(pcall(rex.gsub, TEXT, word, function() error "from a replacement" end))
  t.say((pcall(rex.new, "(unclosed")))
  t.say(pcall(rex.find, {}, "x"))
  if not is_posix then t.say(rex.match(TEXT, "(?<!A)" .. word .. "+(?= 2)")) end
end

return exercise
