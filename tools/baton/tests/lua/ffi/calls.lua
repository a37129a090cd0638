-- Calls of C functions: arguments and results.
local check = require "check"
local ffi = require "baton.ffi"
local subject = require "ffi.subject"
local case = {}

function case.integers_of_all_widths_go_in_and_out()
  check.equal(subject.subject_add(2, -3), -1)
  check.equal(subject.subject_add(2147483647, 1), -2147483648)
  check.equal(subject.subject_negate_8(-5), 5)
  check.equal(subject.subject_negate_8(300), -44)
  check.equal(subject.subject_next_16(65535), 0)
  check.equal(subject.subject_smallest(), math.mininteger)
  check.equal(tostring(subject.subject_largest()), "18446744073709551615ULL")
  check.equal(subject.subject_add(2.75, ffi.cast("short", 4)), 6)
end

function case.booleans_and_floating_point_numbers_go_in_and_out()
  check.equal(subject.subject_not(true), false)
  check.equal(subject.subject_not(false), true)
  check.equal(subject.subject_half(3), 1.5)
  check.equal(subject.subject_longer(1.5), 2.5)
  check.equal(subject.subject_weigh(1, 2.5, 3.25, 4), 1286.5)
  check.equal(ffi.fn("double sqrt(double)", ffi.load "libm.so.6")(2), math.sqrt(2))
end

-- Its file may be a linker script.
function case.a_library_is_found_by_its_short_name()
  check.equal(ffi.fn("double sqrt(double)", ffi.load "m")(2), math.sqrt(2))
end

function case.enumerations_take_names()
  check.equal(subject.subject_next_colour "RED", 5)
  check.equal(subject.subject_next_colour(5), 6)
  check.raises(
    "bad argument #1 to 'subject_next_colour' %(cannot convert 'string'",
    subject.subject_next_colour,
    "PINK"
  )
end

function case.structures_and_unions_go_by_value()
  local p = subject.subject_mirror(ffi.new("struct point", 1, 2))
  check.list({ p.x, p.y }, { 2, 1 })
  p = subject.subject_mirror { x = 3 }
  check.list({ p.x, p.y }, { 0, 3 })
  local m = subject.subject_scale({ 1.5, ("a"):byte(), { 4, 5 } }, 2)
  check.list({ m.weight, m.tag, m.at.x, m.at.y }, { 3.0, ("b"):byte(), 8, 5 })
  check.equal(subject.subject_whole(ffi.new("union word", 0x12345678)), 0x12345678)
  check.equal(subject.subject_flags { 5, -3, 1 << 39 }, 5000000 - 3000 + (1 << 39))
end

function case.more_arguments_than_registers_are_passed()
  check.equal(subject.subject_eight(1, 2, 3, 4, 5, 6, 7, 8), 204)
end

function case.variable_arguments_have_the_types_of_their_values()
  check.equal(subject.subject_sum(0), 0)
  check.equal(subject.subject_sum(4, 1, 2, 3, ffi.new("int", 4)), 10)
  local buffer = ffi.new "char[100]"
  check.equal(
    subject.subject_sum(3, ffi.new("int8_t", -5), ffi.new("uint16_t", 60000), true),
    59996
  )
  ffi.cdef "int snprintf(char *to, size_t size, const char *format, ...);"
  ffi.C.snprintf(
    buffer,
    100,
    "%d %ld %g %s %p %c %.1f",
    ffi.new("int", -1),
    1 << 40,
    2.5,
    "text",
    nil,
    ffi.new("int", 65),
    ffi.new("float", 1.25)
  )
  check.equal(ffi.string(buffer), "-1 1099511627776 2.5 text (nil) A 1.2")
end

function case.null_is_passed_as_nil_and_comes_back_as_a_pointer()
  check.equal(subject.subject_is_null(nil), 1)
  check.equal(subject.subject_is_null(ffi.nullptr), 1)
  check.equal(subject.subject_is_null "text", 0)
  check.equal(subject.subject_is_null(ffi.new "int[1]"), 0)
  check.equal(subject.subject_is_null(io.stdout), 0)
  ffi.cdef "char *getenv(const char *name);"
  check.that(ffi.C.getenv "NO_SUCH_VARIABLE" == ffi.nullptr)
end

function case.variables_and_constants_of_a_library_are_its_members()
  check.equal(subject.subject_counter, 7)
  subject.subject_counter = 8
  check.equal(subject.subject_counter, 8)
  check.equal(ffi.string(subject.subject_name), "subject")
  check.equal(subject.subject_grid[1][2], 6)
  check.equal(ffi.C.GREEN, 5)
  check.raises("no variable that can be written", function() subject.subject_add = 1 end)
  check.raises("no variable", function() subject.subject_name = nil end)
end

function case.errno_is_kept_for_each_process()
  local process = require "baton.process"
  check.equal(subject.subject_fail(11), -1)
  check.equal(ffi.errno(), 11)
  local other = process.spawn(function()
    subject.subject_fail(12)
    process.yield()
    return ffi.errno()
  end)
  process.yield()
  check.equal(ffi.errno(), 11)
  check.results("errno of another", { true, 12 }, other:join())
  check.equal(ffi.errno(0), 11)
  check.equal(ffi.errno(), 0)
end

function case.one_function_is_prepared_from_its_prototype()
  local add = ffi.fn("int subject_add(int a, int b)", subject)
  check.equal(add(1, 2), 3)
  local renamed = ffi.fn('int plus(int a, int b) __asm__("subject_add")', subject)
  check.equal(renamed(1, 2), 3)
  check.that(ffi.fn "int getpid(void)" () > 0)
  check.raises("undefined symbol 'no_such_function'", ffi.fn, "int no_such_function(void)")
  check.raises("prototype expected", ffi.fn, "int subject_counter", subject)
  check.raises("library expected", ffi.fn, "int subject_add(int, int)", {})
end

function case.functions_are_called_through_pointers()
  local add = ffi.cast("int (*)(int, int)", subject.subject_add)
  check.equal(add(20, 3), 23)
  check.raises("wrong number of arguments", add, 1)
  ffi.cdef "struct operations { int (*binary)(int, int); };"
  local operations = ffi.new("struct operations", { subject.subject_add })
  check.equal(operations.binary(1, 1), 2)
end

function case.wrong_calls_raise_clear_errors()
  check.raises(
    "wrong number of arguments to 'subject_add' %(2 expected, got 1%)",
    subject.subject_add,
    1
  )
  check.raises(
    "wrong number of arguments to 'subject_add' %(2 expected, got 3%)",
    subject.subject_add,
    1,
    2,
    3
  )
  check.raises(
    "wrong number of arguments to 'subject_sum' %(1 expected at least, got 0%)",
    subject.subject_sum
  )
  check.raises(
    "bad argument #2 to 'subject_add' %(cannot convert 'string' to 'int'%)",
    subject.subject_add,
    1,
    "2"
  )
  check.raises(
    "bad argument #1 to 'subject_mirror' %(cannot convert 'struct mixed' to 'struct point'%)",
    subject.subject_mirror,
    ffi.new "struct mixed"
  )
  check.raises("missing declaration of 'strfry'", function() return ffi.C.strfry end)
  ffi.cdef "void no_such_symbol(void);"
  check.raises("undefined symbol 'no_such_symbol'", function() return ffi.C.no_such_symbol end)
  check.raises("cannot load library 'no_such_library'", ffi.load, "no_such_library")
  ffi.cdef "typedef float four __attribute__((vector_size(16))); void take_vector(four v);"
  check.raises("cannot be passed or returned by value", ffi.fn, "void abs(four v)")
end

function case.a_string_argument_lives_as_long_as_the_call()
  local process = require "baton.process"
  ffi.cdef "size_t strlen(const char *);"
  local to = ffi.new "char[8]"
  local filler = process.spawn(subject.subject_fill_later, 50, to, 120, 8)
  for _ = 1, 10 do
    collectgarbage()
    process.sleep(0.001)
  end
  filler:join()
  check.equal(ffi.string(to, 8), ("x"):rep(8))
  check.equal(ffi.C.strlen(("y"):rep(1000)), 1000)
end

function case.memory_that_only_the_call_knows_is_not_collected()
  local process = require "baton.process"
  local collected = false
  local filler = process.spawn(function()
    subject.subject_fill_later(
      50,
      ffi.gc(ffi.new "char[100000]", function() collected = true end),
      1,
      100000
    )
    return collected
  end)
  while filler:status() ~= "dead" do
    collectgarbage()
    process.sleep(0.001)
  end
  check.results("collected", { true, false }, filler:join())
end

check.run(case)
