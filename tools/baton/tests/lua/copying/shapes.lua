-- Tables with the same fields again and again: their shape is known from the third one on.
local check = require "check"
local vm = require "baton.vm"
local case = {}

local AGAIN = 5

local function count_pairs(t)
  local count = 0
  for _ in next, t do count = count + 1 end
  return count
end

local function check_same(got, sent)
  for key, value in next, sent do check.equal(got[key], value, tostring(key)) end
  check.equal(count_pairs(got), count_pairs(sent))
end

local function names(n, prefix)
  local t = {}
  for i = 1, n do t[(prefix or "key") .. i] = i end
  return t
end

function case.tables_of_a_shape_arrive_each_time()
  for i = 1, 20 do
    local sent = { id = i, price = 12.5 + i, name = "a small order", open = i % 2 == 0 }
    check_same(copy(sent), sent)
  end
end

function case.all_numbers_of_keys_arrive()
  for n = 0, 40 do
    for _ = 1, AGAIN do check_same(copy(names(n)), names(n)) end
  end
end

function case.long_names_arrive()
  for length = 1, 60 do
    local sent = names(16, ("n"):rep(length))
    for _ = 1, AGAIN do check_same(copy(sent), sent) end
  end
end

function case.fields_that_were_removed_are_not_sent()
  for round = 1, 3 * AGAIN do
    local sent = names(8)
    sent["key" .. round % 8 + 1] = nil
    check_same(copy(sent), sent)
  end
end

function case.a_shape_stands_beside_an_array_part_and_other_keys()
  for i = 1, AGAIN do
    local sent = { 1, 2, nil, 4, x = i, y = "y" }
    check_same(copy(sent), sent)
    sent = { 1, 2, 3, x = i, y = "y" }
    check_same(copy(sent), sent)
    sent[1.5] = "half"
    check_same(copy(sent), sent)
    sent = { x = 1, y = 2, [("long"):rep(20)] = 3 }
    check_same(copy(sent), sent)
  end
end

function case.what_arrived_can_be_changed()
  for i = 1, AGAIN do
    local got = copy { id = i, name = "n" }
    got.more, got.id, got.name = "more", nil, "other"
    for j = 1, 20 do got[j] = j; got["key" .. j] = j end
    check.equal(got.more, "more")
    check.equal(got.key20, 20)
    local again = copy { id = i, name = "n" }
    check_same(again, { id = i, name = "n" })
  end
end

function case.objects_of_classes_have_shapes()
  local class = vm.class("shaped", {})
  for i = 1, AGAIN do
    local got = copy(setmetatable({ x = i, y = i + 1 }, class))
    check.equal(getmetatable(got), class)
    check_same(got, { x = i, y = i + 1 })
  end
end

function case.many_tables_of_some_shapes_arrive_in_one_message()
  for _ = 1, AGAIN do
    local sent = {}
    for i = 1, 200 do
      sent[i] = i % 3 == 0 and { x = i } or i % 3 == 1 and { x = i, y = "y" .. i }
        or { name = i, inner = { x = i, y = i }, list = { 1, n = i } }
    end
    local got = copy(sent)
    check.equal(#got, 200)
    for i = 1, 200 do
      for key, value in next, sent[i] do
        if type(value) == "table" then check_same(got[i][key], value) else
          check.equal(got[i][key], value)
        end
      end
      check.equal(count_pairs(got[i]), count_pairs(sent[i]))
    end
  end
end

function case.a_block_is_smaller_if_its_tables_have_a_shape()
  local sent = {}
  for i = 1, 100 do sent[i] = { a_long_name_of_a_field = i, another_name_of_a_field = i } end
  local first = block_size(copy_out(sent))
  local later
  for _ = 1, AGAIN do later = block_size(copy_out(sent)) end
  check.that(later <= first, ("%d bytes after %d"):format(later, first))
end

function case.references_are_kept_in_tables_of_a_shape()
  for _ = 1, AGAIN do
    local shared = { x = 1, y = 2 }
    local sent = { a = shared, b = shared, key = "key" }
    sent.self = sent
    local got = copy(sent)
    check.equal(got.self, got)
    check.equal(got.a, got.b)
    check_same(got.a, shared)
    check.equal(got.key, "key")
  end
end

-- More shapes than a VM keeps, so that they push each other out.
function case.many_shapes_push_each_other_out()
  for round = 1, 4 do
    for shape = 1, 200 do
      for _ = 1, 3 do
        local sent = { ["a" .. shape] = round, ["b" .. shape] = "b", c = shape }
        check_same(copy(sent), sent)
      end
    end
  end
end

function case.strings_that_were_collected_come_again()
  for _, mode in ipairs { "incremental", "generational" } do
    collectgarbage(mode)
    for round = 1, 50 do
      local block
      do -- names that nobody keeps
        local sent = {}
        for i = 1, 4 do sent[("gone%d"):format(i)] = i * round end
        copy(sent)
        copy(sent)
        block = copy_out(sent)
      end
      collectgarbage()
      for i = 1, 200 do local _ = ("other%d"):format(i + round) end
      local got = copy_in(block)
      for i = 1, 4 do check.equal(got["gone" .. i], i * round) end
      check.equal(count_pairs(got), 4)
      collectgarbage "step"
    end
  end
  collectgarbage "incremental"
end

function case.pairs_has_the_same_order_each_time()
  local function order(t)
    local keys = {}
    for key in next, t do keys[#keys + 1] = key end
    return table.concat(keys, " ")
  end
  local first
  for round = 1, 10 do
    local got = order(copy { one = 1, two = 2, three = 3, four = 4, five = 5 })
    if round == 1 then first = got end
    check.equal(got, first)
    if round % 3 == 0 then collectgarbage() end
  end
end

function case.frozen_values_have_no_shapes()
  for _ = 1, AGAIN do
    local sent = { x = 1, y = "y" }
    local frozen = vm.freeze(sent)
    check.equal(frozen.x, 1)
    check_same(vm.thaw(frozen), sent)
    check.equal(copy(frozen).y, "y")
  end
end

function case.without_memory_there_is_luas_error_and_the_next_copy_arrives()
  local sent = { id = 1, name = "name", inner = { x = 1, y = 2 } }
  for _ = 1, AGAIN do copy(sent) end
  for n = 0, 12 do
    local block = copy_out(sent)
    fail_after(n)
    local ok, got = pcall(copy_in, block)
    fail_after()
    if not ok then check.equal(got, "not enough memory") end
    got = copy(sent)
    check.equal(got.name, "name")
    check_same(got.inner, sent.inner)
  end
end

function case.another_heap_reads_shapes()
  local chunk = [[
    local got = receive()
    return got[1].x, got[2].x, got[3].y, got[3].x
  ]]
  for i = 1, AGAIN do
    local list = { { x = i, y = 1 }, { x = i + 1, y = 2 }, { x = i + 2, y = 3 } }
    local first, second, y, third = elsewhere(chunk, list)
    check.equal(first, i)
    check.equal(second, i + 1)
    check.equal(y, 3)
    check.equal(third, i + 2)
  end
end

check.run(case)
