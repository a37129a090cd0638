-- Tests tables and leases.
local check = require "check"
local process = require "baton.process"
local connect = require "cluster.connected"

local case = {}

function case.entries_have_revisions()
  local c <close> = connect()
  local t = assert(c:table "settings")
  check.results("nothing", { nil, 0, n = 2 }, t:get "color")
  local first = t:put("color", { "red" })
  local value, revision = t:get "color"
  check.equal(value[1], "red")
  check.equal(revision, first)
  check.that(t:put("color", "blue") > first)
  check.results("delete", { true }, t:delete "color")
  check.results("nothing", { nil, 0, n = 2 }, t:get "color")
end

function case.a_change_by_revision_is_made_once()
  local c <close> = connect()
  local other <close> = connect()
  local mine, theirs = c:table "counts", other:table "counts"
  local revision = check.that(mine:compare("n", 0, 1))
  check.results("it is there", { nil, "changed", n = 2 }, theirs:compare("n", 0, 1))
  local function add(t)
    for _ = 1, 20 do
      repeat
        local n, seen = t:get "n"
      until t:compare("n", seen, n + 1)
    end
  end
  local all = { process.spawn(add, mine), process.spawn(add, theirs) }
  for _, p in ipairs(all) do check.that(p:join(30)) end
  check.equal((mine:get "n"), 41)
  check.results("an old one", { nil, "changed", n = 2 }, mine:delete("n", revision))
  local _, last = mine:get "n"
  check.results("the last one", { true }, mine:delete("n", last))
  check.that(mine:compare("n", 0, 5))
end

function case.a_watch_sees_what_is_there_and_then_changes()
  local c <close> = connect()
  local other <close> = connect()
  local t, theirs = c:table "hosts", other:table "hosts"
  t:put("web.1", "a")
  t:put("db.1", "b")
  local seen, has_begun = {}, process.event()
  local watcher = process.spawn(function()
    for e in t:watch "web." do
      seen[#seen + 1] = e.key .. "=" .. tostring(e.value)
      has_begun:set()
      if e.key == "web.last" then break end
    end
  end)
  has_begun:wait(5)
  theirs:put("web.2", "c")
  theirs:put("db.2", "d")
  theirs:delete "web.1"
  theirs:put("web.last", true)
  check.that(watcher:join(10))
  check.list(seen, { "web.1=a", "web.2=c", "web.1=nil", "web.last=true" })
end

function case.a_watch_ends_with_its_connection()
  local c = connect()
  local t = c:table "hosts"
  local watcher = process.spawn(function()
    for _ in t:watch() do end
    return "over"
  end)
  process.sleep(0.05)
  c:close()
  check.results("the watcher", { true, "over" }, watcher:join(5))
end

function case.a_lease_has_one_holder()
  local c <close> = connect()
  local other <close> = connect()
  local lease = assert(c:lease("leader", 1))
  check.results("the other waits", { nil, "timeout", n = 2 }, other:lease("leader", 1, 0.3))
  check.equal(lease:lost():is_set(), false)
  lease:release()
  check.equal(lease:lost():is_set(), true)
  local next_one = check.that(other:lease("leader", 1, 5))
  check.that(next_one.token > lease.token)
  next_one:release()
end

function case.a_lease_is_extended_while_its_holder_lives()
  local c <close> = connect()
  local other <close> = connect()
  local lease <close> = assert(c:lease("leader", 0.5))
  check.results("the other waits", { nil, "timeout", n = 2 }, other:lease("leader", 0.5, 1.5))
  check.equal(lease:lost():is_set(), false)
end

function case.a_lease_of_a_closed_connection_passes_on()
  local c = connect()
  local other <close> = connect()
  local lease = assert(c:lease("leader", 0.5))
  c:close()
  check.that(lease:lost():wait(5))
  local next_one <close> = check.that(other:lease("leader", 0.5, 10))
  check.that(next_one.token > lease.token)
end

function case.a_child_with_a_lease_runs_once_at_a_time()
  local one <close> = connect()
  local other <close> = connect()
  local running, most, runs, tokens = 0, 0, 0, {}
  local function count(n)
    process.critical(function()
      running, runs = running + n, runs + math.max(n, 0)
      most = math.max(most, running)
    end)
  end
  local function lead(lease, name)
    local guard <close> = setmetatable({}, { __close = function() count(-1) end })
    count(1)
    table.insert(tokens, lease.token)
    check.equal(name, "me")
    lease:lost():wait()
  end
  local function supervisor(c)
    return process.supervise({
      { name = "leader", start = { lead, "me" }, lease = c:leasing("leader", 0.5) },
    }, { quiet = true })
  end
  local first, second = supervisor(one), supervisor(other)
  while runs < 1 do process.sleep(0.001) end
  process.sleep(0.7)
  check.equal(runs, 1)
  first:kill()
  first:join(10)
  if running == 0 then
    while runs < 2 do process.sleep(0.001) end
  end
  second:kill()
  second:join(10)
  check.equal(most, 1)
  check.equal(running, 0)
  for i = 2, #tokens do check.that(tokens[i] > tokens[i - 1]) end
end

function case.misuse_is_an_error()
  local c <close> = connect()
  local t = c:table "settings"
  for text, wrong in pairs {
    ["key of letters"] = function() t:put("a b", 1) end,
    ["got '.a'"] = function() t:get ".a" end,
    ["a value expected"] = function() t:put("a", nil) end,
    ["revision expected"] = function() t:compare("a", -1, 1) end,
    ["positive number of seconds"] = function() c:lease("a", 0) end,
    ["cannot send value: function"] = function() t:put("a", print) end,
  } do
    local is_done, message = pcall(wrong)
    check.that(not is_done, text)
    check.that(message:find(text, 1, true), message)
  end
end

check.run(case)
