-- Buffers.
local check = require "check"
local process = require "baton.process"
local vm = require "baton.vm"
local ffi = require "baton.ffi"
local case = {}

function case.a_buffer_is_zero_or_a_copy_of_a_string()
  local b = vm.buffer(100)
  check.equal(#b, 100)
  check.equal(b:string(), ("\0"):rep(100))
  check.equal(vm.buffer("a\0b"):string(), "a\0b")
  check.equal(#vm.buffer(0), 0)
  check.equal(vm.buffer(""):string(), "")
end

function case.a_large_buffer_is_zero_at_both_ends()
  local size = 1 << 30
  local b = vm.buffer(size)
  check.equal(b:get(1), 0)
  check.equal(b:get(size), 0)
  b:set(size, 7)
  check.equal(b:get(size - 7, "u64"), 7 << 56)
end

function case.numbers_of_all_types_come_back()
  local b = vm.buffer(16)
  local values = {
    u8 = { 0, 255 },
    i8 = { -128, 127 },
    u16 = { 0, 65535 },
    i16 = { -32768, 32767 },
    u32 = { 0, 4294967295 },
    i32 = { -2147483648, 2147483647 },
    u64 = { math.mininteger, math.maxinteger },
    i64 = { math.mininteger, math.maxinteger },
    f32 = { -1.5, math.huge },
    f64 = { 0.1, -math.huge },
  }
  for type, list in pairs(values) do
    for _, value in ipairs(list) do
      b:set(3, value, type) -- not aligned
      check.equal(b:get(3, type), value, type)
    end
  end
  b:set(1, 65)
  check.equal(b:get(1), 65)
end

function case.a_number_that_does_not_fit_raises_and_writes_nothing()
  local b = vm.buffer(8)
  for type, value in pairs { u8 = 256, i8 = 128, u16 = -1, i16 = -32769, u32 = 1 << 32 } do
    check.raises("number does not fit", b.set, b, 1, value, type)
  end
  check.raises("number has no integer representation", b.set, b, 1, 1.5)
  check.equal(b:string(), ("\0"):rep(8))
end

function case.positions_out_of_the_buffer_raise()
  local b = vm.buffer(8)
  for _, place in ipairs { 0, 9, -1, math.mininteger, math.maxinteger } do
    check.raises("position is out of the buffer", b.get, b, place)
    check.raises("position is out of the buffer", b.set, b, place, 1)
  end
  check.raises("position is out of the buffer", b.get, b, 2, "u64")
  check.raises("position is out of the buffer", b.set, b, 8, 1, "u16")
  check.raises("position is out of the buffer", b.unpack, b, "b", 10)
  check.raises("position is out of the buffer", b.pack, b, "b", 0, 1)
  check.raises("the buffer is too short", b.pack, b, "i4", 6, 1)
  check.raises("data string too short", b.unpack, b, "i4", 6)
  check.equal(b:unpack("", 9), 9)
  check.equal(b:pack("", 9), 9)
end

-- Guards against gigabytes that are made only to find that there is no room for them.
function case.what_is_longer_than_the_buffer_is_not_made()
  local b = vm.buffer(16)
  local limited <close> = check.closing(function() collectgarbage "restart" end)
  collectgarbage()
  collectgarbage "stop"
  local before = collectgarbage "count"
  for _, format in ipairs {
    "c2000000000", "z c2000000000", "c2000000000 s4 z", "c2000000000 c2000000000", "s c17",
  } do
    check.raises("the buffer is too short", b.pack, b, format, 1, "abc", "abc", "abc")
  end
  check.within(collectgarbage "count" - before, 0, 100)
  check.equal(b:pack("z c2 s1", 1, "a", "bc", "d"), 7)
  check.results("unpack", { "a", "bc", "d", 7 }, b:unpack "z c2 s1")
  check.raises("invalid format option", b.pack, b, "c2 ?", 1, "bc")
  check.raises("invalid format option", b.pack, b, "?", 1, "bc")
end

function case.pack_and_unpack_are_those_of_string()
  local b = vm.buffer(1000)
  local formats = {
    { "<i4 >i4 =I2 b", -5, 6, 7, -8 },
    { "z s1 s2 s8", "zero", "one", "two", ("x"):rep(300) },
    { "d f n j", 0.1, 0.5, 1e300, math.mininteger },
    { "!8 b Xi8 i8", 1, 2 },
  }
  for _, position in ipairs { 1, 2, 500 } do
    for _, list in ipairs(formats) do
      local wanted = string.pack(table.unpack(list))
      local behind = b:pack(list[1], position, table.unpack(list, 2))
      check.equal(behind, position + #wanted)
      check.equal(b:string(position, behind - 1), wanted)
      local got = { b:unpack(list[1], position) }
      for i = 2, #list do check.equal(got[i - 1], list[i], list[1]) end
      check.equal(got[#list], behind)
    end
  end
end

function case.strings_of_any_length_are_unpacked()
  local long = ("y"):rep(100000)
  local b = vm.buffer(string.pack("s4zb", long, long, 5))
  local first, second, third, behind = b:unpack "s4zb"
  check.that(first == long and second == long)
  check.equal(third, 5)
  check.equal(behind, #b + 1)
  check.raises("unfinished string", function() vm.buffer(("x"):rep(1000)):unpack "z" end)
end

function case.ranges_are_those_of_string_sub()
  local text = "hello"
  local b = vm.buffer(text)
  for i = -7, 7 do
    for j = -7, 7 do
      check.equal(b:string(i, j), text:sub(i, j))
      check.equal(b:slice(i, j):string(), text:sub(i, j))
    end
  end
  check.equal(b:string(math.mininteger, math.maxinteger), text)
end

function case.a_slice_shares_the_bytes_and_keeps_them()
  local b = vm.buffer "0123456789"
  local part = b:slice(3, 6):slice(2, 3)
  check.equal(part:string(), "34")
  part:set(1, 65)
  check.equal(b:string(), "012A456789")
  check.raises("position is out of the buffer", part.set, part, 3, 1)
  b = nil
  collectgarbage()
  check.equal(part:string(), "A4")
end

function case.the_ffi_takes_a_buffer_as_a_pointer_to_its_bytes()
  ffi.cdef "void *memset(void *to, int byte, size_t size); size_t strlen(const char *text);"
  local b = vm.buffer(8)
  ffi.C.memset(b, 65, 3)
  check.equal(b:string(), "AAA\0\0\0\0\0")
  check.equal(ffi.C.strlen(b), 3)
  check.equal(ffi.C.strlen(b:slice(2)), 2)
  check.equal(ffi.string(ffi.cast("char *", b)), "AAA")
  check.equal(ffi.string(ffi.cast("char *", b:pointer())), "AAA")
  ffi.cast("uint16_t *", b)[1] = 0x4242
  check.equal(b:string(1, 4), "AABB")
  ffi.copy(b, "xyz")
  check.equal(b:string(1, 3), "xyz")
end

function case.a_frozen_buffer_is_read_only_and_sent_by_reference()
  local b, ch = vm.buffer "frozen", vm.channel()
  local part = b:slice(2, 3)
  check.equal(b:is_frozen(), false)
  check.equal(b:freeze(), b)
  check.equal(part:is_frozen(), true)
  check.raises("the buffer is frozen", b.set, b, 1, 1)
  check.raises("the buffer is frozen", b.pack, b, "b", 1, 1)
  check.raises("the buffer is frozen", part.set, part, 1, 1)
  check.raises("the buffer is frozen", ffi.cast, "char *", b)
  check.raises("the buffer is frozen", ffi.C.memset, b, 0, 1)
  check.equal(ffi.string(ffi.cast("const char *", b), 6), "frozen")
  ch:send { b, part }
  local got = ch:receive()
  check.equal(got[1]:string(), "frozen")
  check.equal(got[2]:string(), "ro")
  check.equal(got[1]:pointer(), b:pointer())
  check.raises("the buffer is frozen", got[1].set, got[1], 1, 1)
end
ffi.cdef "void *memset(void *to, int byte, size_t size);"

function case.a_buffer_that_is_neither_moved_nor_frozen_is_refused()
  local ch = vm.channel()
  local why = check.raises("cannot send value%.data%[1%]", ch.send, ch, { data = { vm.buffer(1) } })
  check.matches(why, "neither moved nor frozen: send vm%.move%(b%), or call b:freeze%(%)")
end

function case.a_moved_buffer_is_closed_with_its_slices_and_not_copied()
  local b, ch = vm.buffer "moved", vm.channel()
  local part, address = b:slice(2), b:pointer()
  ch:send { vm.move(b) }
  for _, x in ipairs { b, part } do
    check.raises("the buffer was moved", x.get, x, 1)
    check.raises("the buffer was moved", x.set, x, 1, 1)
    check.raises("the buffer was moved", x.string, x)
    check.raises("the buffer was moved", x.slice, x)
    check.raises("the buffer was moved", x.pack, x, "b", 1, 1)
    check.raises("the buffer was moved", x.unpack, x, "b")
    check.raises("the buffer was moved", x.pointer, x)
    check.raises("the buffer was moved", x.freeze, x)
    check.raises("the buffer was moved", function() return #x end)
    check.raises("the buffer was moved", ffi.cast, "char *", x)
    check.raises("the buffer was moved", vm.move, x)
    check.raises("it was moved", ch.send, ch, x)
    check.matches(tostring(x), "^baton.vm.buffer")
  end
  local got = ch:receive()[1]
  check.equal(got:string(), "moved")
  check.equal(got:pointer(), address)
  got:set(1, 77)
  ch:send(vm.move(got))
  check.equal(ch:receive():string(), "Moved")
end

function case.what_was_moved_and_never_received_comes_back()
  local b, ch = vm.buffer "back", vm.channel(1)
  ch:send "full"
  check.results("timeout", { n = 2, nil, "timeout" }, ch:send(vm.move(b), 0))
  check.equal(b:string(), "back")
  check.raises("cannot send value%[2%]", ch.send, ch, { vm.move(b), io.stdout })
  check.equal(b:string(), "back")
  check.equal(process.select({ { ch, vm.move(b) } }, 0), nil)
  check.equal(b:string(), "back")
  ch:receive()
  ch:send(vm.move(b))
  check.raises("the buffer was moved", b.string, b)
  ch = nil
  collectgarbage()
  check.equal(b:string(), "back")
end

function case.a_mover_is_good_for_one_message()
  local b, ch = vm.buffer(1), vm.channel()
  local mover = vm.move(b)
  check.equal(tostring(mover), "baton.vm.moved*")
  ch:send { mover, mover }
  local got = ch:receive()
  check.equal(got[1], got[2])
  check.raises("it was moved", ch.send, ch, mover)
  check.raises("it was moved", ch.send, ch, { vm.move(got[1]), vm.move(got[2]) })
  check.equal(#got[1], 1)
end

function case.memory_of_lost_buffers_is_given_back()
  for _ = 1, 2000 do vm.buffer(16 << 20):set(1, 1) end
  local file <close> = io.open "/proc/self/statm"
  local pages = file:read "n"
  check.that(pages * 4096 < 8 << 30, pages .. " pages of address space")
end

function case.misuse_raises()
  local b = vm.buffer(4)
  for _, name in ipairs {
    "get",
    "set",
    "string",
    "slice",
    "pack",
    "unpack",
    "pointer",
    "freeze",
    "is_frozen",
  } do
    check.raises("buffer expected, got no value", b[name])
    check.raises("buffer expected, got baton.vm.words", b[name], vm.shared(1))
  end
  check.raises("size must not be negative", vm.buffer, -1)
  check.raises("number expected, got nil", vm.buffer, nil)
  check.raises("number expected, got table", vm.buffer, {})
  check.raises("not enough memory", vm.buffer, math.maxinteger)
  check.raises("invalid option 'u7'", b.get, b, 1, "u7")
  check.raises("invalid option 'x'", b.set, b, 1, 1, "x")
  check.raises("number expected, got no value", b.get, b)
  check.raises("number expected, got nil", b.set, b, 1, nil)
  check.raises("string expected, got no value", b.pack, b)
  check.raises("number expected, got no value", b.pack, b, "b")
  check.raises("invalid format option", b.pack, b, "y", 1)
  check.raises("invalid format option", b.unpack, b, "y")
  check.raises("number expected, got string", b.string, b, "x")
  check.raises("buffer, file or socket expected, got table", vm.move, {})
  check.raises("value expected", vm.move)
end

check.run(case)
