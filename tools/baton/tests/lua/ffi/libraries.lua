-- Widely available libraries, through their own functions and callbacks.
local check = require "check"
local ffi = require "baton.ffi"
local process = require "baton.process"
local case = {}

local function sqlite()
  ffi.cdef [[
  typedef struct sqlite3 sqlite3;
  int sqlite3_open(const char *name, sqlite3 **db);
  int sqlite3_close(sqlite3 *db);
  int sqlite3_exec(sqlite3 *db, const char *sql, int (*row)(void *, int, char **, char **),
                   void *, char **message);
  const char *sqlite3_errmsg(sqlite3 *db);
  void sqlite3_free(void *);
  ]]
  local library = ffi.load "libsqlite3.so.0"
  local place = ffi.new "sqlite3 *[1]"
  check.equal(library.sqlite3_open(":memory:", place), 0)
  return library, ffi.gc(place[0], library.sqlite3_close)
end

function case.sqlite_hands_its_rows_to_a_callback()
  local library, db = sqlite()
  check.equal(library.sqlite3_exec(db, "create table t (a integer, b text)", nil, nil, nil), 0)
  for i = 1, 50 do
    library.sqlite3_exec(db, ("insert into t values (%d, 'row %d')"):format(i, i), nil, nil, nil)
  end
  local rows = {}
  local status = library.sqlite3_exec(
    db,
    "select a, b from t order by a",
    function(_, count, values, names)
      local row = {}
      for i = 0, count - 1 do
        row[ffi.string(names[i])] = ffi.string(values[i])
      end
      rows[#rows + 1] = row
      return 0
    end,
    nil,
    nil
  )
  check.equal(status, 0)
  check.equal(#rows, 50)
  check.equal(rows[50].b, "row 50")
end

function case.sqlite_reports_errors_and_takes_an_abort()
  local library, db = sqlite()
  local message = ffi.new "char *[1]"
  check.that(library.sqlite3_exec(db, "select nonsense", nil, nil, message) ~= 0)
  check.matches(ffi.string(message[0]), "nonsense")
  library.sqlite3_free(message[0])
  -- SQLITE_ABORT
  check.equal(library.sqlite3_exec(db, "select 1", function() return 1 end, nil, nil), 4)
  check.raises(
    "from the row",
    library.sqlite3_exec,
    db,
    "select 1",
    function() error "from the row" end,
    nil,
    nil
  )
end

function case.a_long_query_does_not_stop_a_ticker()
  local library, db = sqlite()
  local ticks = 0
  process.spawn({ daemon = true }, function()
    while true do
      process.sleep(0.001)
      ticks = ticks + 1
    end
  end)
  local answer
  check.equal(
    library.sqlite3_exec(
      db,
      [[with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000)
    select sum(i) from n]],
      function(_, _, values)
        answer = ffi.string(values[0])
        return 0
      end,
      nil,
      nil
    ),
    0
  )
  check.equal(answer, "500000500000")
  check.that(ticks > 0, "others went on")
end

local function curl()
  ffi.cdef [[
  typedef void CURL;
  CURL *curl_easy_init(void);
  int curl_easy_setopt(CURL *handle, int option, ...);
  int curl_easy_perform(CURL *handle);
  void curl_easy_cleanup(CURL *handle);
  const char *curl_easy_strerror(int);
  enum { CURLOPT_URL = 10002, CURLOPT_WRITEFUNCTION = 20011, CURLOPT_READFUNCTION = 20012 };
  ]]
  return ffi.load "libcurl.so.4"
end

local function fetch(library, url, write)
  local handle = ffi.gc(library.curl_easy_init(), library.curl_easy_cleanup)
  local callback = ffi.cast("size_t (*)(char *, size_t, size_t, void *)", write)
  check.equal(library.curl_easy_setopt(handle, ffi.C.CURLOPT_URL, url), 0)
  check.equal(library.curl_easy_setopt(handle, ffi.C.CURLOPT_WRITEFUNCTION, callback), 0)
  local status = library.curl_easy_perform(handle)
  callback:free()
  return status
end

function case.curl_hands_what_it_reads_to_a_callback()
  local library = curl()
  local path = check.scratch "page"
  check.write_file(path, ("0123456789"):rep(100000))
  local all = {}
  for i = 1, 4 do
    all[i] = process.spawn(function()
      local parts = {}
      check.equal(fetch(library, "file://" .. path, function(data, size, count)
        parts[#parts + 1] = ffi.string(data, size * count)
        if #parts % 10 == 0 then process.sleep(0.001) end
        return size * count
      end), 0)
      return table.concat(parts)
    end)
  end
  for i = 1, 4 do
    local _, text = all[i]:join()
    check.equal(#text, 1000000)
    check.equal(text, ("0123456789"):rep(100000))
  end
end

function case.curl_is_stopped_by_a_callback_and_tells_its_error()
  local library = curl()
  local path = check.scratch "page"
  check.write_file(path, "text")
  check.equal(fetch(library, "file://" .. path, function() return 0 end), 23) -- CURLE_WRITE_ERROR
  check.matches(ffi.string(library.curl_easy_strerror(23)), "writ")
end

function case.zlib_compresses_and_expands()
  ffi.cdef [[
  unsigned long compressBound(unsigned long size);
  int compress2(uint8_t *to, unsigned long *size, const uint8_t *from, unsigned long count,
                int level);
  int uncompress(uint8_t *to, unsigned long *size, const uint8_t *from, unsigned long count);
  ]]
  local zlib = ffi.load "libz.so.1"
  local text = ("to be or not to be "):rep(1000)
  local size = ffi.new("unsigned long[1]", zlib.compressBound(#text))
  local buffer = ffi.new("uint8_t[?]", size[0])
  check.equal(zlib.compress2(buffer, size, text, #text, 9), 0)
  check.that(size[0] < 200)
  local back, back_size = ffi.new("uint8_t[?]", #text), ffi.new("unsigned long[1]", #text)
  check.equal(zlib.uncompress(back, back_size, buffer, size[0]), 0)
  check.equal(ffi.string(back, back_size[0]), text)
end

check.run(case)
