-- Metatables travel by name.
local check = require "check"
local vm = require "baton.vm"
local case = {}

function case.a_table_arrives_with_the_class_of_its_name()
  local Point = vm.class("point", {})
  Point.__index = Point
  function Point:sum() return self.x + self.y end
  local point = setmetatable({ x = 1, y = 2 }, Point)
  local got = copy { point, { point } }
  check.equal(getmetatable(got[1]), Point)
  check.equal(got[1], got[2][1])
  check.equal(got[1]:sum(), 3)
  local there = [[
    local methods = { sum = function() return 99 end }
    local class = require("baton.vm").class("point", { __index = methods })
    local point = receive()
    return point:sum(), getmetatable(point) == class
  ]]
  check.results("there", { 99, true }, elsewhere(there, point))
end

function case.a_class_that_the_reader_does_not_know_is_an_error()
  local class = vm.class("only here", {})
  local result, message = elsewhere("return receive()", { setmetatable({ { "inner" } }, class) })
  check.equal(result, nil)
  check.matches(message, "cannot receive: no class 'only here' is registered by vm%.class here$")
end

function case.a_metatable_that_is_no_class_is_refused()
  local job = { handle = { 1, 2, setmetatable({}, {}) } }
  check.raises(
    "^cannot send job%.handle%[3%]: table with a metatable that is not registered by vm%.class$",
    copy, job)
end

function case.a_name_stands_for_one_metatable()
  local class = {}
  check.equal(vm.class("one", class), class)
  check.equal(vm.class("one", class), class)
  check.raises("class 'one' is registered with another metatable", vm.class, "one", {})
  check.raises("this metatable is registered as class 'one'", vm.class, "two", class)
  check.equal(getmetatable(copy(setmetatable({}, class))), class)
end

function case.what_is_no_class_is_refused()
  check.raises("bad argument #1 .* %(string expected, got no value%)", vm.class)
  check.raises("bad argument #1 .* %(string expected, got number%)", vm.class, 1, {})
  check.raises("bad argument #2 .* %(table expected, got no value%)", vm.class, "name")
end

function case.finalizers_of_copies_run()
  local ended = 0
  local class = vm.class("finalized", { __gc = function(self) ended = ended + self.n end })
  local sent = {}
  for i = 1, 100 do
    sent[i] = setmetatable({ n = 1, text = { "long " .. ("x"):rep(50) } }, class)
  end
  copy(sent)
  copy(sent)
  collectgarbage()
  collectgarbage()
  check.equal(ended, 200)
  check.equal(#sent, 100)
end

function case.a_weak_class_stays_weak()
  local class = vm.class("weak", { __mode = "v" })
  local got = copy(setmetatable({ {}, 2 }, class))
  check.equal(type(got[1]), "table")
  collectgarbage()
  check.equal(got[1], nil)
  check.equal(got[2], 2)
end

function case.a_class_can_be_sent_itself()
  local class = vm.class("sent itself", { __index = { name = "method" } })
  local got, instance = copy(class, setmetatable({}, class))
  check.that(got ~= class) -- a plain table is copied, whatever else it is
  check.equal(got.__index.name, "method")
  check.equal(getmetatable(instance), class)
end

check.run(case)
