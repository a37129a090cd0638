-- C types: which texts name a type, constants, types that refer to other memory, and metatables.
local check = require "check"
local ffi = require "baton.ffi"
local case = {}

-- A regression test: a loop over such a text made a type per iteration, and none was freed.
function case.a_text_without_tags_stands_for_one_type()
  check.that(ffi.typeof "struct { int a; }" == ffi.typeof "struct { int a; }")
  check.that(ffi.typeof "struct { int a; }" ~= ffi.typeof "struct { int  a; }")
  check.that(
    ffi.typeof("struct { $ a[$]; }", ffi.typeof "int", 3)
      == ffi.typeof("struct { $ a[$]; }", ffi.typeof "int", 3)
  )
  check.that(
    ffi.typeof("struct { $ a[$]; }", ffi.typeof "int", 3)
      ~= ffi.typeof("struct { $ a[$]; }", ffi.typeof "int", 4)
  )
  check.that(ffi.typeof("struct { int $; }", "a") ~= ffi.typeof("struct { int $; }", "b"))
  check.equal(ffi.istype("union { int a; }", ffi.new "union { int a; }"), true)
  check.that(ffi.typeof "int *" == ffi.typeof "int *")
  local first = tostring(ffi.typeof "struct { char last[7]; }")
  for i = 1, 1000 do
    ffi.new "struct { int a; struct { long b; } c; }"
    ffi.new(ffi.typeof("struct { $ x; int a[$]; }", ffi.typeof "double", i % 10 + 1))
  end
  local numbers = tonumber(tostring(ffi.typeof "struct { char next[7]; }"):match "%d+")
    - tonumber(first:match "%d+")
  check.within(numbers, 1, 60, "types made")
end

-- A regression test: a known text still named the type that it had defined earlier, with that
-- type's metatable.
function case.a_text_defines_a_new_type_once_the_first_one_has_a_metatable()
  local function module(name)
    return ffi.metatype("struct { double x, y; }", { __index = { who = name } })
  end
  local a, b = module "a", module "b"
  check.list({ a(1, 2).who, b(1, 2).who }, { "a", "b" })
  check.that(ffi.typeof "struct { double x, y; }" ~= a)
end

function case.a_text_with_a_tag_or_constants_defines_once()
  check.that(ffi.typeof "enum { ONE_OF_TWO }" ~= ffi.typeof "enum { ONE_OF_TWO }")
  check.equal(ffi.sizeof "struct only_once { int a; }", 4)
  check.raises("is defined already", ffi.sizeof, "struct only_once { int a; }")
  ffi.cdef "struct known_by_tag;"
  check.equal(ffi.sizeof "struct known_by_tag { int a; }", 4)
  check.raises("is defined already", ffi.sizeof, "struct known_by_tag { int a; }")
end

function case.members_of_a_constant_object_are_constant()
  ffi.cdef [[
    struct const_parts { int a; int b[2][2]; struct { int c[2]; } d; const struct { int e[2]; }; };
  ]]
  local object = ffi.new("const struct const_parts", { 1, { { 2, 3 } } })
  local message = "attempt to write to a constant"
  check.raises(message, function() object.a = 9 end)
  check.raises(message, function() object.b[0][1] = 9 end)
  check.raises(message, function() object.d.c[0] = 9 end)
  check.raises(message, function() object.b[0] = { 9, 9 } end)
  check.raises("written to", ffi.fill, object.b, 4)
  check.raises("written to", ffi.copy, object.d.c, "abc")
  check.raises("cannot convert", ffi.new, "int *", object.d.c)
  check.raises("cannot convert", ffi.new, "void *", object.b)
  check.equal(ffi.new("const void *", object.b) == object.b, true)
  check.list({ object.a, object.b[0][0], object.b[0][1] }, { 1, 2, 3 })
  local through = ffi.new("const struct const_parts *", ffi.new "struct const_parts")
  check.raises(message, function() through.b[1][1] = 9 end)
  local free = ffi.new "struct const_parts"
  free.b[1][1], free.d.c[1] = 8, 9
  check.list({ free.b[1][1], free.d.c[1] }, { 8, 9 })
  check.raises(message, function() free.e[0] = 9 end)
end

function case.references_lead_to_other_memory()
  local number, list = ffi.new("int", 5), ffi.new("int[3]", { 1, 2, 3 })
  local first = ffi.cast("int &", list)
  check.equal(ffi.tonumber(first), 1)
  list[0] = 7
  check.equal(ffi.tonumber(first), 7)
  check.equal(ffi.tonumber(ffi.cast("int &", number)), 5)
  check.raises("NULL pointer", ffi.cast, "int &", ffi.nullptr)
  check.list({ ffi.sizeof "int &", ffi.sizeof "char (&)[5]", ffi.alignof "int &" }, { 4, 5, 4 })
  check.that(
    ffi.istype("int &", number) and ffi.istype("int (&)[3]", list) and not ffi.istype("int &", list)
  )
  ffi.cdef [[
    struct with_array { int a; int b[2]; struct { int c; } d; };
    struct with_reference { int &r; int q; };
  ]]
  local object = ffi.new "struct with_array"
  check.equal(tostring(ffi.typeof(object.b)), "ctype<int (&)[2]>")
  check.matches(tostring(object.b), "^cdata<int %(&%)%[2%]>: ")
  check.matches(tostring(object.d), "^cdata<struct %d+ &>: ")
  check.matches(tostring(object), "^cdata<struct with_array>: ")
  check.equal(tostring(ffi.typeof(list)), "ctype<int[3]>")
  check.equal(ffi.typeof(object.b)(1, 2)[1], 2)
  local reference = ffi.new("struct with_reference", { number, 3 })
  check.equal(reference.r, 5)
  reference.r = 6
  check.list({ ffi.tonumber(number), reference.q }, { 6, 3 })
  check.raises("NULL reference", function() ffi.new "struct with_reference".r = 1 end)
  check.raises("expected, got", ffi.typeof, "int & *")
end

function case.a_structure_with_an_open_end_takes_a_length()
  ffi.cdef "struct open_end { int n; double y[]; };"
  local object = ffi.new("struct open_end", 3)
  object.y[2] = 1.5
  check.list({ object.n, object.y[0], object.y[2] }, { 0, 0.0, 1.5 })
  check.list(
    { ffi.sizeof(object), ffi.sizeof "struct open_end", ffi.sizeof("struct open_end", 3) },
    { 32, 8, 32 }
  )
  object = ffi.new("struct open_end", 2, { 5, { 10, 15 } })
  check.list({ object.n, object.y[0], object.y[1] }, { 5, 10.0, 15.0 })
  object = ffi.new("struct open_end", 2, { 5, 10, 15 })
  check.list({ object.n, object.y[0], object.y[1] }, { 5, 10.0, 15.0 })
  object = ffi.new("struct open_end", 2, 5, 10, 15)
  check.list({ object.n, object.y[0], object.y[1] }, { 5, 10.0, 15.0 })
  object = ffi.typeof "struct open_end"(2, { n = 5, y = { 10, 15 } })
  check.list({ object.n, object.y[0], object.y[1] }, { 5, 10.0, 15.0 })
  check.list({ ffi.new("struct open_end").n, ffi.new("struct open_end", { 7 }).n }, { 0, 7 })
  check.equal(ffi.sizeof(ffi.new "struct open_end"), 8)
  check.raises("too many initializers", ffi.new, "struct open_end", 2, { 5, 10, 15, 20 })
  check.raises("length of 0 or more", ffi.new, "struct open_end", -1)
  check.raises("are too many", ffi.new, "struct open_end", math.maxinteger)
end

function case.a_string_of_lua_is_a_string_of_c()
  check.list(
    {
      ffi.string "abc",
      ffi.string "a\0b",
      ffi.string "",
      ffi.string("abc", 2),
      ffi.string("a\0bc", 3),
    },
    { "abc", "a", "", "ab", "a\0b" }
  )
end

function case.a_pointer_is_null_or_not()
  check.that(
    ffi.isnull(ffi.nullptr)
      and ffi.isnull(ffi.new "char *")
      and ffi.isnull(ffi.cast("int (*)(void)", 0))
      and ffi.isnull(nil)
  )
  check.that(
    not ffi.isnull(ffi.cast("void *", 1))
      and not ffi.isnull(ffi.new "int[1]")
      and not ffi.isnull(ffi.new "struct { int a; }")
  )
  ffi.cdef "int abs(int n);"
  check.equal(ffi.isnull(ffi.C.abs), false)
  for _, wrong in ipairs { 0, "", true, {} } do
    check.raises("pointer expected", ffi.isnull, wrong)
  end
  check.raises("pointer expected", ffi.isnull, ffi.new "int")
  check.raises("value expected", ffi.isnull)
end

function case.metatypes_close_their_objects_and_have_a_name()
  local closed = {}
  local guard = ffi.metatype("struct { int id; }", {
    __close = function(object, why) closed[#closed + 1] = object.id .. " " .. tostring(why) end,
    __name = "Guard",
  })
  do
    local first <close> = guard(1)
    local second <close> = guard(2)
    check.list({ first.id, second.id }, { 1, 2 })
  end
  pcall(function()
    local _ <close> = guard(3)
    error("oh", 0)
  end)
  check.list(closed, { "2 nil", "1 nil", "3 oh" })
  check.matches(tostring(guard(1)), "^Guard: 0x%x+$")
  check.raises("__close", function() local _ <close> = ffi.new "struct { char c; }" end)
end

check.run(case)
