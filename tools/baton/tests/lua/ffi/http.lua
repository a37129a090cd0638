-- libcurl's own functions over HTTP. The test runs the server, and passes its address in the
-- environment.
local check = require "check"
local ffi = require "baton.ffi"
local process = require "baton.process"
local server = os.getenv "SERVER"
local case = {}

ffi.cdef [[
typedef void CURL;
CURL *curl_easy_init(void);
int curl_easy_setopt(CURL *handle, int option, ...);
int curl_easy_getinfo(CURL *handle, int info, ...);
int curl_easy_perform(CURL *handle);
void curl_easy_cleanup(CURL *handle);
enum { CURLOPT_URL = 10002, CURLOPT_WRITEFUNCTION = 20011, CURLOPT_NOSIGNAL = 99,
       CURLINFO_RESPONSE_CODE = 0x200002 };
]]
local curl = ffi.load "libcurl.so.4"
local write_type = ffi.typeof "size_t (*)(char *data, size_t size, size_t count, void *)"

-- Fetches a page and calls `take` with each piece. Returns curl's status and the HTTP status.
local function fetch(url, take)
  local handle = ffi.gc(curl.curl_easy_init(), curl.curl_easy_cleanup)
  local callback = ffi.cast(write_type, function(data, size, count)
    take(ffi.string(data, size * count))
    return size * count
  end)
  local _ <close> = check.closing(function() callback:free() end)
  check.equal(curl.curl_easy_setopt(handle, ffi.C.CURLOPT_URL, url), 0)
  check.equal(curl.curl_easy_setopt(handle, ffi.C.CURLOPT_NOSIGNAL, ffi.new("long", 1)), 0)
  check.equal(curl.curl_easy_setopt(handle, ffi.C.CURLOPT_WRITEFUNCTION, callback), 0)
  local status = curl.curl_easy_perform(handle)
  local code = ffi.new "long[1]"
  check.equal(curl.curl_easy_getinfo(handle, ffi.C.CURLINFO_RESPONSE_CODE, code), 0)
  return status, code[0]
end

-- The page that the server sends for a length.
local function page(length) return ("0123456789"):rep(length // 10 + 1):sub(1, length) end

function case.processes_fetch_concurrently_and_receive_pieces_in_callbacks()
  local ticks, all = 0, {}
  process.spawn({ daemon = true }, function()
    while true do
      process.sleep(0.001)
      ticks = ticks + 1
    end
  end)
  for i = 1, 8 do
    all[i] = process.spawn(function()
      local parts, length = {}, 50000 * i
      local status, code = fetch(server .. "/" .. length, function(part)
        parts[#parts + 1] = part
        if #parts % 3 == 0 then process.sleep(0.001) end
      end)
      check.list({ status, code }, { 0, 200 })
      check.that(#parts > 1, "it comes in pieces")
      return table.concat(parts) == page(length)
    end)
  end
  for i = 1, 8 do check.results("join", { true, true }, all[i]:join()) end
  check.that(ticks > 0, "others go on")
end

function case.missing_pages_and_servers_are_reported()
  local status, code = fetch(server .. "/nothing", function() end)
  check.list({ status, code }, { 0, 404 })
  check.equal(fetch("http://127.0.0.1:1/", function() end), 7) -- CURLE_COULDNT_CONNECT
end

function case.an_error_and_a_kill_in_a_callback_end_the_transfer_first()
  check.raises("enough", fetch, server .. "/1000000", function() error "enough" end)
  local started, closed = process.event(), false
  local p = process.spawn(function()
    local _ <close> = check.closing(function() closed = true end)
    fetch(server .. "/1000000", function()
      started:set()
      process.sleep(1000)
    end)
  end)
  check.equal(started:wait(30), true)
  p:kill "enough"
  check.results("join", { false, "enough" }, p:join(30))
  check.equal(closed, true)
end

check.run(case)
