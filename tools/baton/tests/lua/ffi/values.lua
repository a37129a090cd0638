-- C types and values.
local check = require "check"
local ffi = require "baton.ffi"
local process = require "baton.process"
local case = {}

-- Programs that find a module `ffi` take their interpreter for LuaJIT.
function case.the_name_ffi_is_found_only_if_the_program_gives_it()
  check.raises("BATON_FFI=1", require, "ffi")
  package.preload.ffi = function() return ffi end
  check.that(require "ffi" == ffi)
end

function case.the_module_names_its_system()
  check.equal(ffi.os == "Linux" or ffi.os == "OSX" or ffi.os == "BSD", true)
  check.that(ffi.arch == "x64" or ffi.arch == "arm64")
  check.that(ffi.abi "le" and ffi.abi "64bit" and not ffi.abi "32bit")
end

function case.sizes_alignments_and_offsets_are_those_of_c()
  ffi.cdef "struct layout { char a; double b; short c; struct { int d, e; } f; char g[3]; };"
  check.equal(ffi.sizeof "int", 4)
  check.equal(ffi.sizeof "long double", 16)
  check.equal(ffi.sizeof "struct layout", 32)
  check.equal(ffi.alignof "struct layout", 8)
  check.equal(ffi.offsetof("struct layout", "b"), 8)
  check.equal(ffi.offsetof("struct layout", "g"), 28)
  check.results("no such member", {}, ffi.offsetof("struct layout", "nothing"))
  check.results("unknown size", {}, ffi.sizeof "struct unknown")
  check.equal(ffi.sizeof("char[?]", 10), 10)
end

function case.bit_fields_are_read_and_written()
  ffi.cdef "struct bits { unsigned a : 3; int b : 5; unsigned long c : 40; bool d : 1; };"
  local bits = ffi.new("struct bits", 5, -3, 1 << 39, true)
  check.list({ bits.a, bits.b, bits.c, bits.d }, { 5, -3, 1 << 39, true })
  bits.a, bits.b, bits.c, bits.d = 9, 15, -1, false
  check.list({ bits.a, bits.b, bits.c, bits.d }, { 1, 15, (1 << 40) - 1, false })
  check.results("place", { 0, 3, 5 }, ffi.offsetof("struct bits", "b"))
end

function case.numbers_wrap_as_in_c()
  local small = ffi.new("int8_t[1]", 200)
  check.equal(small[0], -56)
  small[0] = 3.9
  check.equal(small[0], 3)
  check.equal(ffi.tonumber(ffi.cast("uint8_t", -1)), 255)
  check.equal(ffi.tonumber(ffi.cast("int", 2.5)), 2)
  check.equal(ffi.new("float[1]", 0.1)[0] == 0.1, false)
  check.equal(ffi.new("bool[2]", true, false)[1], false)
end

function case.unsigned_64_bit_numbers_above_the_middle_are_cdata()
  local largest = ffi.cast("uint64_t", -1)
  check.equal(tostring(largest), "18446744073709551615ULL")
  check.equal(tostring(largest // 2), "9223372036854775807")
  check.equal(math.type(largest // 2), "integer")
  check.equal(tostring(largest * largest), "1")
  check.that(largest > 5 and largest > -1 and not (largest < 0))
  check.that(largest == ffi.cast("uint64_t", -1))
  check.equal(ffi.tonumber(largest), 2.0 ^ 64)
  check.equal(largest % 10, 5)
  check.equal(largest & 0xff, 0xff)
  check.equal(tostring(largest >> 1), "9223372036854775807")
  check.raises("divide by zero", function() return largest // 0 end)
end

function case.structures_are_initialized_by_lists_tables_and_copies()
  ffi.cdef "struct pair { int a; struct { double x, y; } b; };"
  local pair = ffi.new("struct pair", { 1, { 2, 3 } })
  check.list({ pair.a, pair.b.x, pair.b.y }, { 1, 2.0, 3.0 })
  pair = ffi.new("struct pair", { b = { y = 5 } })
  check.list({ pair.a, pair.b.x, pair.b.y }, { 0, 0.0, 5.0 })
  local copy = ffi.new("struct pair", pair)
  copy.b.y = 6
  check.equal(pair.b.y, 5.0)
  pair.b = { 7, 8 }
  check.equal(pair.b.x, 7.0)
  pair.b = copy.b
  check.equal(pair.b.y, 6.0)
  check.raises("too many initializers", ffi.new, "struct pair", 1, { 2, 3 }, 4)
  check.raises("no member 'z'", ffi.new, "struct pair", { z = 1 })
end

function case.unions_share_their_memory()
  local word = ffi.new "union { uint32_t whole; uint8_t bytes[4]; }"
  word.whole = 0x01020304
  check.list({ word.bytes[0], word.bytes[3] }, { 4, 1 })
end

function case.arrays_are_initialized_and_filled()
  local array = ffi.new("int[4]", { 1, 2 })
  check.list({ array[0], array[1], array[2], array[3] }, { 1, 2, 0, 0 })
  check.list({ ffi.new("int[3]", 9)[0], ffi.new("int[3]", 9)[2] }, { 9, 9 })
  check.equal(ffi.new("int[?]", 5, { [0] = 4, 5, 6 })[2], 6)
  check.equal(ffi.sizeof(ffi.new("double[?]", 7)), 56)
  local grid = ffi.new("int[2][3]", { { 1, 2, 3 }, { 4, 5, 6 } })
  check.equal(grid[1][2], 6)
  check.equal(ffi.sizeof(grid[0]), 12)
  check.equal(ffi.string(ffi.new("char[6]", "hello")), "hello")
  check.raises("does not fit", ffi.new, "char[3]", "hello")
  check.raises("too many initializers", ffi.new, "int[2]", 1, 2, 3)
end

-- A regression test: the first element was stored before the length was checked.
function case.too_many_initializers_change_nothing()
  local object = ffi.new("struct { int none[0]; int next; }", { next = 7 })
  check.raises("too many initializers", function() object.none = { [0] = 5 } end)
  check.equal(object.next, 7)
end

function case.structures_of_variable_length_have_room_for_their_tail()
  ffi.cdef "struct tail { int count; double values[?]; };"
  local tail = ffi.new("struct tail", 3, { 3 })
  tail.values[2] = 1.5
  check.list({ tail.count, tail.values[2] }, { 3, 1.5 })
  check.equal(ffi.sizeof("struct tail", 3), 32)
end

-- A regression test: the size of such an object was that of its head, and its tail took no
-- initializer.
function case.an_object_of_variable_length_has_the_size_that_it_was_made_with()
  local numbers = ffi.typeof "struct { int count; short values[?]; }"
  local a = numbers(3, { 5, { 1, 2, 3 } })
  check.list(
    { ffi.sizeof(numbers, 3), ffi.sizeof(a), ffi.sizeof(ffi.new(numbers, 0)) },
    { 10, 10, 4 }
  )
  check.list({ a.count, a.values[0], a.values[1], a.values[2] }, { 5, 1, 2, 3 })
  local b = numbers(3)
  ffi.copy(b, a, ffi.sizeof(a))
  check.list({ b.count, b.values[2] }, { 5, 3 })
  check.equal(numbers(3, { values = { 7, 8, 9 } }).values[2], 9)
  check.list(
    { numbers(3, a).values[2], numbers(2, a).values[1], ffi.sizeof(numbers(2, a)) },
    { 3, 2, 8 }
  )
  check.raises("too many initializers", numbers, 3, { 5, { 1, 2, 3, 4 } })
  local text = ffi.new("struct { int count; char text[?]; }", 10, { 3, "abc" })
  check.equal(ffi.string(text.text), "abc")
  check.equal(ffi.sizeof(ffi.cast(ffi.typeof("$ *", numbers), a)[0]), 4)
  local aligned = ffi.typeof "struct { int count; short values[?]; } __attribute__((aligned(64)))"
  check.equal(ffi.sizeof(aligned(100)), ffi.sizeof(aligned, 100))
end

function case.enumerations_are_numbers_and_take_names()
  ffi.cdef "enum fruit { APPLE, PEAR = 10, PLUM }; struct basket { enum fruit fruit; };"
  check.equal(ffi.C.PLUM, 11)
  local basket = ffi.new("struct basket", { "PEAR" })
  check.equal(basket.fruit, 10)
  basket.fruit = "PLUM"
  check.equal(basket.fruit, 11)
  check.raises("cannot convert 'string'", function() basket.fruit = "NUT" end)
  ffi.cdef "static const int SIZE = 3 * 4;"
  check.equal(ffi.C.SIZE, 12)
end

-- A regression test: a descriptor made before its type's definition kept the size -1 and the
-- alignment 1.
function case.a_type_that_was_used_before_its_definition_is_known_after_it()
  ffi.cdef "typedef struct late late; struct late_tail; enum late_fruit; extern late late_list[];"
  check.equal(tostring(ffi.typeof "late *"), "ctype<struct late *>")
  check.results("a constant one", {}, ffi.sizeof "const late")
  local list, tail, fruit =
    ffi.typeof "late[]", ffi.typeof "struct late_tail", ffi.typeof "enum late_fruit"
  ffi.cdef [[
    struct late { long a, b; }; struct late_tail { int n; int a[?]; };
    enum late_fruit { LATE_FIG = 3 };
  ]]
  check.list({ ffi.sizeof "const late", ffi.alignof "late", ffi.alignof(list) }, { 16, 8, 8 })
  check.equal(ffi.new("late[2]", { { 1 }, { 2, 3 } })[1].b, 3)
  check.equal(ffi.sizeof(tail, 3), 16)
  local made = ffi.new(tail, 3)
  made.a[2] = 7
  check.equal(made.a[2], 7)
  check.equal(ffi.tonumber(ffi.cast(fruit, "LATE_FIG")), 3)
  check.equal(ffi.tonumber(ffi.new(fruit, 3)), 3)
  local _ = ffi.typeof "struct half *"
  check.raises("got 'wrong'", ffi.cdef, "struct half { int a; }; int wrong wrong;")
  check.equal(ffi.sizeof "struct half", 4)
end

function case.a_predeclared_name_is_declared_by_the_program()
  check.list(
    { ffi.sizeof "off_t", tostring(ffi.typeof "FILE *") },
    { 8, "ctype<struct _IO_FILE *>" }
  )
  ffi.cdef "typedef int off_t; typedef struct FILE FILE; int fileno(FILE *file);"
  check.list({ ffi.sizeof "off_t", tostring(ffi.typeof "FILE *") }, { 4, "ctype<struct FILE *>" })
  check.equal(ffi.C.fileno(io.stderr), 2)
  check.raises("'off_t' is declared already, as typedef int off_t", ffi.cdef, "typedef long off_t;")
end

function case.a_type_without_a_definition_is_refused_where_a_size_is_needed()
  ffi.cdef "enum missing; struct absent; extern enum missing optind;"
  check.raises("size of 'enum missing' is not known", ffi.cast, "enum missing", 1)
  check.raises("size of 'enum missing' is not known", ffi.new, "enum missing", 1)
  check.raises("size of 'enum missing' is not known", function() return ffi.C.optind end)
  check.raises("size of 'enum missing' is not known", function() ffi.C.optind = 1 end)
  check.raises("size of 'struct absent' is not known", ffi.new, "struct absent[]", 2)
  check.raises("size of 'struct absent' is not known", ffi.alignof, "struct absent")
  check.raises("size of 'struct absent' is not known", ffi.alignof, "struct absent[]")
  check.results("sizeof", {}, ffi.sizeof "enum missing")
  check.list({ ffi.alignof "int[]", ffi.alignof "void *" }, { 4, 8 })
end

function case.pointers_are_compared_moved_and_subtracted()
  local array = ffi.new("int[4]", { 1, 2, 3, 4 })
  local p = ffi.cast("int *", array)
  check.equal(p[2], 3)
  check.equal((p + 2)[0], 3)
  check.equal((p + 3) - p, 3)
  check.that(p + 1 > p and p == ffi.cast("int *", array) and p ~= p + 1)
  p[1] = 20
  check.equal(array[1], 20)
  check.that(ffi.cast("void *", 0) == ffi.nullptr)
  check.that(ffi.new "char *" == ffi.nullptr)
  check.raises("NULL pointer", function() return ffi.new("int *")[0] end)
  check.raises("attempt to perform arithmetic", function() return p + p end)
  check.equal(ffi.tonumber(ffi.cast("uintptr_t", ffi.cast("char *", 4096))), 4096)
end

function case.a_pointer_to_a_structure_is_indexed_like_it()
  ffi.cdef "struct node { int value; struct node *next; };"
  local last = ffi.new("struct node", 2)
  local first = ffi.new("struct node", 1, last)
  check.equal(first.next.value, 2)
  first.next.value = 3
  check.equal(last.value, 3)
  check.that(last.next == ffi.nullptr)
  check.raises("NULL pointer", function() return last.next.value end)
end

function case.conversions_between_pointers_are_checked()
  local ints = ffi.new "int[2]"
  ffi.cdef "struct holder { double *p; const char *text; void *any; };"
  local holder = ffi.new "struct holder"
  check.raises("cannot convert 'int%[2%]' to 'double %*'", function() holder.p = ints end)
  holder.any = ints
  holder.p = ffi.cast("double *", ints)
  holder.p = nil
  check.that(holder.p == ffi.nullptr)
  check.raises("cannot convert 'const char %*'", function() holder.any = holder.text end)
  check.raises("cannot convert 'number'", function() holder.any = 5 end)
end

-- A regression test: a `uint8_t` buffer was refused where C takes a `char *`.
function case.pointers_to_integers_of_one_size_convert_whatever_their_signs()
  ffi.cdef [[
    struct signs {
      unsigned *p; const char *text; unsigned **deep; bool *flag; float *real; enum { SIGN } *sign;
    };
  ]]
  ffi.cdef "size_t strlen(const char *text); char *strcpy(char *to, const char *from);"
  check.equal(ffi.C.strlen(ffi.new("uint8_t[4]", "abc")), 3)
  local bytes = ffi.new "uint8_t[4]"
  check.equal(ffi.string(ffi.C.strcpy(bytes, "ab")), "ab")
  local signs, ints = ffi.new "struct signs", ffi.new("int[2]", 1, -1)
  signs.p = ints
  check.equal(signs.p[1], 4294967295)
  signs.deep = ffi.new("int *[1]", { ints })
  check.equal(signs.deep[0][0], 1)
  signs.sign = ints
  check.raises("cannot convert", function() signs.p = ffi.new "short[1]" end)
  check.raises("cannot convert", function() signs.p = ffi.new "float[1]" end)
  check.raises("cannot convert", function() signs.p = ffi.new "const int[1]" end)
  check.raises("cannot convert", function() signs.deep = ffi.new "const int *[1]" end)
  check.raises("cannot convert", function() signs.flag = bytes end)
  check.raises("cannot convert", function() signs.real = ints end)
end

function case.constants_are_not_written_to()
  local text = ffi.cast("const char *", "text")
  check.equal(text[0], ("t"):byte())
  check.raises("constant", function() text[0] = 1 end)
  check.raises("can be written to", ffi.copy, text, "x")
end

function case.strings_are_copied_between_lua_and_c()
  local buffer = ffi.new "char[16]"
  ffi.copy(buffer, "a\0b", 3)
  check.equal(ffi.string(buffer), "a")
  check.equal(ffi.string(buffer, 3), "a\0b")
  ffi.fill(buffer, 16, ("z"):byte())
  check.equal(ffi.string(buffer), ("z"):rep(16))
  ffi.fill(buffer, 16)
  check.equal(ffi.string(buffer), "")
  ffi.copy(buffer, "hello")
  check.equal(ffi.string(buffer + 1), "ello")
  check.raises("NULL", ffi.string, ffi.nullptr)
  check.raises("length", ffi.copy, buffer, ffi.new "char[4]")
end

-- A regression test: a length had to be a Lua number, so a cast `size_t` was refused.
function case.lengths_may_be_integers_of_c()
  local three, buffer = ffi.cast("size_t", 3), ffi.new "char[8]"
  check.equal(ffi.string("abcdef", three), "abc")
  ffi.copy(buffer, "abcdef", ffi.new("int8_t", 2))
  check.equal(ffi.string(buffer), "ab")
  ffi.fill(buffer, three, ffi.cast("uint8_t", ("z"):byte()))
  check.equal(ffi.string(buffer), "zzz")
  check.equal(ffi.sizeof(ffi.new("int[?]", three)), 12)
  check.equal(ffi.sizeof("int[?]", ffi.new("uint16_t", 3)), 12)
  check.equal(ffi.sizeof(ffi.typeof "double[?]"(ffi.cast("int64_t", 2))), 16)
  check.raises("length of 0 or more", ffi.string, "abc", ffi.new("int", -1))
  check.raises("no integer representation", ffi.new, "int[?]", ffi.cast("uint64_t", -1))
  check.raises("number expected", ffi.fill, buffer, buffer)
  check.raises("number expected", ffi.new, "int[?]", ffi.new("double", 3))
end

function case.types_are_values()
  local point = ffi.typeof "struct { int x, y; }"
  local p = point(1, 2)
  check.that(ffi.istype(point, p) and not ffi.istype("int", p))
  check.that(ffi.typeof(p) == point)
  check.equal(tostring(ffi.typeof "int *[3]"), "ctype<int *[3]>")
  check.equal(ffi.sizeof(ffi.typeof("$[$]", point, 3)), 24)
  check.equal(tostring(ffi.typeof("const $ *", ffi.typeof "long")), "ctype<const long *>")
  ffi.cdef("struct $ { $ inner; };", "made_up", point)
  check.equal(ffi.sizeof "struct made_up", 8)
end

function case.istype_ignores_qualifiers_and_follows_pointers_to_structures()
  local text = ffi.cast("char *", 0)
  for _, type in ipairs { "char *", "const char *", "char *const", "unsigned char *" } do
    check.that(ffi.istype(type, text))
  end
  for _, type in ipairs { "void *", "bool *", "short *", "char **", "char[3]" } do
    check.that(not ffi.istype(type, text))
  end
  check.that(not ffi.istype("const char **", ffi.new "char **"))
  check.that(ffi.istype("long long", ffi.new "int64_t") and ffi.istype("const int", ffi.new "int"))
  check.that(
    not ffi.istype("unsigned", ffi.new "int")
      and not ffi.istype("int", ffi.new "enum { OF_ISTYPE }")
  )
  check.that(
    ffi.istype("int[?]", ffi.new("int[?]", 3)) and ffi.istype("const int[3]", ffi.new "int[3]")
  )
  check.that(
    not ffi.istype("int[2]", ffi.new "int[3]") and not ffi.istype("float[?]", ffi.new("int[?]", 3))
  )
end

-- A regression test: a recursion made descriptors and overflowed the C stack of a process.
function case.a_type_may_be_derived_any_number_of_times()
  local text = { "typedef int *p0; typedef void (*f0)(void);" }
  for i = 1, 10000 do
    text[#text + 1] = ("typedef p%d *p%d; typedef f%d (*f%d)(int);"):format(i - 1, i, i - 1, i)
  end
  ffi.cdef(table.concat(text))
  local p = process.spawn(function() return ffi.typeof "p10000", ffi.typeof "const f10000" end)
  local ok, pointer, callback = p:join()
  check.that(ok)
  check.matches(tostring(pointer), "%*%*%*")
  check.equal(ffi.sizeof(callback), 8)
end

function case.metatypes_give_methods_and_operators()
  local log = {}
  local vector
  vector = ffi.metatype("struct { double x, y; }", {
    __index = { length = function(v) return math.sqrt(v.x * v.x + v.y * v.y) end },
    __add = function(a, b) return vector(a.x + b.x, a.y + b.y) end,
    __eq = function(a, b) return a.x == b.x and a.y == b.y end,
    __lt = function(a, b) return a:length() < b:length() end,
    __le = function(a, b) return a:length() <= b:length() end,
    __len = function() return 2 end,
    __call = function(v, by) return vector(v.x * by, v.y * by) end,
    __concat = function(a, b) return tostring(a) .. tostring(b) end,
    __tostring = function(v) return ("<%g, %g>"):format(v.x, v.y) end,
    __unm = function(v) return vector(-v.x, -v.y) end,
    __close = function() log[#log + 1] = "closed" end,
    __pairs = function(v) return next, { x = v.x, y = v.y } end,
  })
  local v = vector(3, 4)
  check.equal(v:length(), 5.0)
  check.that(v + v == vector(6, 8) and v == vector(3, 4) and v ~= vector(3, 5))
  check.that(vector(1, 1) < v and v <= v)
  check.equal(#v, 2)
  check.equal(tostring(v(2)), "<6, 8>")
  check.equal(v .. -v, "<3, 4><-3, -4>")
  do
    local _ <close> = v
  end
  check.list(log, { "closed" })
  local sum = 0
  for _, value in pairs(v) do sum = sum + value end
  check.equal(sum, 7.0)
  local reference = ffi.typeof("$ *", vector)(v) -- through a pointer, too
  check.equal(reference:length(), 5.0)
  check.raises("has a metatable already", ffi.metatype, vector, {})
  check.raises("no member 'z'", function() return ffi.new("struct { int a; }").z end)
end

-- A regression test: a library's __gc treated any argument as a library.
function case.metamethods_that_are_called_by_hand_check_what_they_are_given()
  check.equal(getmetatable(ffi.C), "ffi")
  local library = debug.getmetatable(ffi.C)
  for _, method in ipairs { "__gc", "__tostring", "__newindex" } do
    check.raises("library expected, got no value", library[method])
    check.raises("library expected, got FILE", library[method], io.stdout, "abs", 1)
  end
  local resolve = getmetatable(library.__index).__index
  check.raises("table expected, got nil", resolve, nil, "abs")
  for _, value in ipairs {
    ffi.C,
    library.__index,
    ffi.typeof "int",
    ffi.new "int[1]",
    ffi.gc(ffi.new "int[1]", type),
  } do
    for _, method in pairs(debug.getmetatable(value)) do
      if type(method) == "function" then
        pcall(method)
        pcall(method, io.stdout, "abs", 1)
      end
    end
  end
end

function case.a_metamethod_for_new_members_gets_three_arguments()
  local given
  local type =
    ffi.metatype("struct { int a; }", { __newindex = function(...) given = table.pack(...) end })
  local object = type()
  for _, arguments in ipairs {
    { object, "b", n = 2 },
    { object, "b", 1, n = 3 },
    { object, "b", 1, 2, n = 4 },
  } do
    debug.getmetatable(object).__newindex(table.unpack(arguments, 1, arguments.n))
    check.list({ given.n, given[1] == object, given[2], given[3] }, { 3, true, "b", arguments[3] })
  end
end

function case.a_library_that_was_closed_explicitly_is_not_searched()
  ffi.cdef "int subject_add(int, int);"
  local library = ffi.load(package.searchpath("ffi_subject", package.cpath))
  for _ = 1, 2 do debug.getmetatable(library).__gc(library) end
  check.raises("looked up in is closed", function() return library.subject_add end)
  check.raises("the library is closed", ffi.fn, "int subject_add(int, int)", library)
end

function case.finalizers_run_once_and_may_be_taken_back()
  local ended = {}
  local function finalizer(cdata) ended[#ended + 1] = ffi.tonumber(cdata[0]) end
  do
    local a = ffi.gc(ffi.new("int[1]", 1), finalizer)
    local b = ffi.gc(ffi.new("int[1]", 2), finalizer)
    local _ = a, ffi.gc(b, nil)
  end
  collectgarbage()
  collectgarbage()
  check.list(ended, { 1 })
  ffi.metatype("struct finalized { int a; }", { __gc = function(s) ended[#ended + 1] = s.a end })
  do
    local _ = ffi.new("struct finalized", 3)
  end
  collectgarbage()
  collectgarbage()
  check.list(ended, { 1, 3 })
end

-- A regression test: a finalizer that cannot be called was reported only at the object's end.
function case.a_finalizer_can_be_called()
  local wrongs = { 5, "x", {}, true, io.stdout, ffi.new "int", ffi.new "struct { int a; }" }
  for _, wrong in ipairs(wrongs) do
    check.raises("function, callable object or nil expected", ffi.gc, ffi.new "int[1]", wrong)
  end
  local ended = {}
  local function finalizer(_, cdata) ended[#ended + 1] = cdata[0] end
  local callable = ffi.metatype("struct { int a; }", { __call = finalizer })
  do
    local _ =
      ffi.gc(ffi.new("int[1]", 1), setmetatable({}, { __call = finalizer })),
      ffi.gc(ffi.new("int[1]", 2), callable())
    ffi.cdef "void free(void *p); void *malloc(size_t size);"
    _ = ffi.gc(ffi.C.malloc(1), ffi.C.free)
    _ = ffi.gc(ffi.C.malloc(1), ffi.cast("void (*)(void *)", ffi.C.free))
    _ = ffi.gc(ffi.new "int[1]", nil)
  end
  collectgarbage()
  collectgarbage()
  table.sort(ended)
  check.list(ended, { 1, 2 })
end

function case.a_member_keeps_its_structure_alive()
  ffi.cdef "struct outer { struct { int deep[4]; } inner; };"
  local deep
  do
    local outer = ffi.new "struct outer"
    outer.inner.deep[3] = 77
    deep = outer.inner.deep
  end
  for _ = 1, 20 do
    collectgarbage()
    ffi.new("char[?]", 1000)
  end
  check.equal(deep[3], 77)
end

function case.complex_numbers_have_parts()
  local z = ffi.new("complex double", 1, 2)
  check.list({ z.re, z.im }, { 1.0, 2.0 })
  z.im = 5
  check.equal(z.im, 5.0)
  check.equal(ffi.sizeof "complex float", 8)
end

function case.complex_numbers_and_their_types_are_written_as_by_luajit()
  local nan, inf = 0 / 0, 1 / 0
  for text, value in pairs {
    ["1+2i"] = ffi.new("complex", 1, 2),
    ["1.5-2i"] = ffi.new("complex float", 1.5, -2),
    ["0-0i"] = ffi.new("complex", 0, -0.0),
    ["nan+infI"] = ffi.new("complex", nan, inf),
    ["1e+100-infI"] = ffi.new("complex", 1e100, -inf),
    ["-3+nanI"] = ffi.new("double _Complex", -3, -nan),
  } do
    check.equal(tostring(value), text)
  end
  check.equal(tostring(ffi.typeof "double _Complex"), "ctype<complex>")
  check.equal(tostring(ffi.typeof "float _Complex"), "ctype<complex float>")
  check.equal(tostring(ffi.typeof "complex[3]"), "ctype<complex[3]>")
end

-- A regression test: the bytes of the number itself were taken for those of the string.
function case.a_number_is_no_address_of_memory()
  local message = "cannot convert '%s' to 'void %%*'"
  for type, name in pairs {
    uint32_t = "unsigned int", double = "double", bool = "bool", complex = "complex",
  } do
    local number, buffer = ffi.new(type, 1), ffi.new "char[16]"
    check.raises(message:format(name), ffi.string, number, 4)
    check.raises(message:format(name), ffi.copy, number, "abc", 3)
    check.raises(message:format(name), ffi.copy, buffer, number, 3)
    check.raises(message:format(name), ffi.fill, number, 3)
  end
  check.equal(ffi.string(ffi.new("uint32_t[1]", 0x41424344), 4), "DCBA")
end

function case.wrong_declarations_are_reported_with_line_and_column()
  check.raises("line 2, column 7: ';' or ',' expected, got 'int'", ffi.cdef, "int a;\nint b int c;")
  check.raises("line 1, column 1: unknown type 'nonsense'", ffi.new, "nonsense")
  check.raises("size of 'struct unknown' is not known", ffi.new, "struct unknown")
  check.raises("'void'", ffi.new, "void")
  check.raises("type of C", ffi.new, {})
  check.raises(
    "line 1.*'again' is defined already",
    ffi.cdef,
    "struct again { int a; }; struct again { int b; };"
  )
end

function case.misuse_is_reported()
  check.raises("cannot be indexed", function() return ffi.new("int[2]")[{}] end)
  check.raises("no function", function() ffi.new "int[2]" () end)
  check.raises("NULL pointer", function() ffi.new "int (*)(void)" () end)
  check.raises("cast to", ffi.cast, "struct { int a; }", 1)
  check.raises("length of 0 or more", ffi.new, "int[?]", -1)
  check.raises("are too many for", ffi.new, "int[?]", math.maxinteger)
  check.raises("__len", function() return #ffi.new "int[2]" end)
  check.raises("attempt to compare", function() return ffi.new "int[1]" < {} end)
  check.that(ffi.new "int[1]" ~= {})
end

check.run(case)
