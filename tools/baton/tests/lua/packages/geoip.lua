-- GeoIP: look-ups in the database of countries that Debian ships.
local country = require "geoip.country"
local geoip = require "geoip"

local DATABASE = "/usr/share/GeoIP/GeoIP.dat"

return function(t)
  local flags = { geoip.STANDARD, geoip.MEMORY_CACHE, geoip.MMAP_CACHE }
  for _, flag in ipairs(flags) do
    local database = assert(country.open(DATABASE, flag))
    local answer = database:query_by_addr "194.2.0.1"
    t.say(answer.code, answer.name, answer.continent, database:query_by_addr("8.8.8.8").code)
    t.say(database:query_by_ipnum(0x08080808, "code"), database:query_by_addr("127.0.0.1", "name"))
    local found = {}
    for i = 1, 220 do found[database:query_by_ipnum(i << 24, "code") or "none"] = true end
    local count = 0
    for _ in pairs(found) do count = count + 1 end
    t.say(count)
    database:close()
  end
  t.say(geoip.name_by_id(geoip.id_by_code "DE"), geoip.code_by_id(geoip.id_by_code "FR"))
  t.say(country.open(t.scratch .. "/none"))
end
