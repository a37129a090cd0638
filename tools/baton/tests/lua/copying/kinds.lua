-- Userdata that are sent as references: tokens of the test's host.
local check = require "check"
local process = require "baton.process"
local case = {}

-- Checks how many references there are once nothing is left that is not kept.
local function check_references(wanted)
  collectgarbage()
  collectgarbage()
  check.equal(token_references(), wanted)
end

function case.a_userdata_of_a_kind_arrives_as_a_reference()
  local sent = token(7)
  local got = copy { list = { sent } }
  check.that(got.list[1] ~= sent)
  check.equal(token_number(got.list[1]), 7)
  check_references(2)
  got = nil
  check_references(1)
  check.equal(token_number(sent), 7)
end

function case.a_userdata_that_is_shared_arrives_as_one()
  local one, two = token(1), token(2)
  local got = copy { one, two, one, [one] = two, x = { one } }
  check.equal(got[1], got[3])
  check.equal(got[1], got.x[1])
  check.equal(got[got[1]], got[2])
  check.equal(token_number(got[1]), 1)
  check.equal(token_number(got[2]), 2)
  check_references(4)
  local many = {}
  for i = 1, 1000 do many[i] = token(i) end
  for i, each in ipairs(copy(many)) do check.equal(token_number(each), i) end
end

function case.another_heap_receives_it()
  local sent = token(5)
  local read = "local t = receive() return t, token_number(t.x), token_references()"
  local got, number, count = elsewhere(read, { x = sent, y = sent })
  check.equal(number, 5)
  check.equal(count, 2)
  check.equal(got.x, got.y)
  check_references(2)
end

function case.what_cannot_be_held_is_refused_with_the_reason()
  local good, bad = token(1), token(2, true)
  local reason = ": userdata token %(it is stuck%)$"
  check.raises("^cannot send job%.x%[2%]" .. reason, copy, { x = { good, bad, good } })
  check.raises("^cannot send job%[userdata key%]" .. reason, copy, { [bad] = good })
  check.raises("^cannot send job%[3%]" .. reason, copy, good, 1, bad)
  check_references(2)
end

function case.a_block_that_is_not_read_gives_its_references_back()
  local sent = token(1)
  local block = copy_out { sent, token(2), sent }
  check_references(3)
  block = nil
  check_references(1)
  local other = copy_out(sent)
  check.equal(token_number(copy_in(other)), 1)
  check.raises("the block was read", copy_in, other)
  check_references(1)
end

function case.without_memory_references_are_given_back()
  local sent = { token(1), { token(2) }, token(3), text = ("x"):rep(100) }
  local needed, ok, result = 0, nil, nil
  repeat
    local block = copy_out(sent)
    fail_after(needed)
    ok, result = pcall(copy_in, block)
    fail_after()
    needed = needed + 1
    block = nil
    if not ok then
      check.equal(result, "not enough memory")
      check_references(3)
    end
  until ok
  check.within(needed, 5, 50)
  check.equal(token_number(result[2][1]), 2)
  result = nil
  check_references(3)
end

function case.processes_send_them_beside_each_other()
  process.params.slice = 0.0001
  local shared = token(9)
  check.join_all(check.spawn_all(4, function(n)
    for i = 1, 1000 do
      local got = copy { shared, token(i), n, shared }
      check.equal(got[1], got[4])
      check.equal(token_number(got[1]), 9)
      check.equal(token_number(got[2]), i)
      if i % 100 == 0 then collectgarbage "step" end
    end
  end))
  check_references(1)
end

check.run(case)
