-- Frozen values on their way from one heap to another.
local check = require "check"
local vm = require "baton.vm"
local case = {}

local function sample()
  return vm.freeze {
    1, 2, x = "text", long = ("long"):rep(100), n = { deep = { 7 } }, [1.5] = true, print = print,
  }
end

function case.a_message_has_a_reference_to_it()
  local f = sample()
  check.equal(copy(f), f)
  local got = copy { f, part = f.n, [f] = 1, again = f }
  check.equal(got[1], f)
  check.equal(got.again, f)
  check.equal(got.part, f.n)
  check.equal(got[f], 1)
  local large = vm.freeze { ("x"):rep(1000000) }
  check.within(block_size(copy_out(large)), 1, 1000)
end

function case.another_heap_reads_it()
  local read = [[
    local f = receive()
    local vm = require "baton.vm"
    assert(f.n == f.n and f.n.deep[1] == 7 and f[1.5] == true and f.absent == nil and f[2] == 2)
    assert(f.x == "text" and #f == 2 and f.print == print)
    local count = 0
    for key, value in pairs(f) do assert(f[key] == value) count = count + 1 end
    local plain = vm.thaw(f)
    assert(plain.n.deep[1] == 7 and plain.long == f.long)
    assert(vm.freeze(f) == f)
    return count, f.long, f, f.n, vm.freeze { own = "of the other heap", ref = f }
  ]]
  local f = sample()
  local count, long, same, part, other = elsewhere(read, f)
  check.equal(count, 7, long)
  check.equal(long, ("long"):rep(100))
  check.equal(same, f)
  check.equal(part, f.n)
  check.equal(other.own, "of the other heap") -- that heap is gone, and hashed by another seed
  check.equal(other.ref, f)
  check.equal(other.absent, nil)
end

function case.it_outlives_the_heap_that_made_it()
  local f = elsewhere [[
    local t = {}
    for i = 1, 1000 do t["name" .. i] = { i } end
    return require("baton.vm").freeze(t)
  ]]
  for i = 1, 1000 do check.equal(f["name" .. i][1], i) end
end

function case.a_block_that_nobody_reads_releases_it()
  local function resident()
    collectgarbage()
    collectgarbage()
    local file <close> = io.open "/proc/self/statm"
    file:read "n"
    return file:read "n" * 4096
  end
  local function round(i)
    local f = vm.freeze { ("x"):rep(1 << 20), i }
    copy_out(f, { f, f[1] })
    check.raises("cannot send job%[2%]: userdata FILE%*", copy, f, io.stdout)
    check.that(not pcall(copy, { f, io.stdout }))
  end
  for i = 1, 20 do round(i) end
  local before = resident()
  for i = 1, 500 do
    round(i)
    if i % 20 == 0 then collectgarbage() end
  end
  check.within(resident() - before, -math.huge, 100 << 20)
end

check.run(case)
