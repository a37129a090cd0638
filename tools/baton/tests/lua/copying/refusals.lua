-- What is not sent, and how the message says where it is.
local check = require "check"
local case = {}

local function refused(wanted, ...)
  local ok, message = pcall(copy, ...)
  check.equal(ok, false)
  check.equal(message, "cannot send " .. wanted)
end

function case.the_path_leads_to_the_value()
  refused("job: userdata FILE*", io.stdout)
  refused("job: thread", coroutine.create(print))
  refused("job.handle[3]: thread", { handle = { 1, 2, coroutine.create(print) } })
  refused("job[1][2][3].x: thread", { { 0, { 0, 0, { x = coroutine.create(print) } } } })
  refused("job.a.b: userdata FILE*", { a = { b = io.stdout } })
end

function case.keys_that_are_no_names_are_quoted()
  local bad = io.stdout
  refused('job["a b"]: userdata FILE*', { ["a b"] = bad })
  refused('job["end"]: userdata FILE*', { ["end"] = bad })
  refused('job["1x"]: userdata FILE*', { ["1x"] = bad })
  refused('job[""]: userdata FILE*', { [""] = bad })
  refused('job["a\\"\\\\\\010\\000b"]: userdata FILE*', { ['a"\\\n\0b'] = bad })
  refused(('job["%s..."]: userdata FILE*'):format(("x"):rep(40)), { [("x"):rep(1000)] = bad })
  refused("job._x1: userdata FILE*", { _x1 = bad })
  refused("job[1.5]: userdata FILE*", { [1.5] = bad })
  refused("job[-3]: userdata FILE*", { [-3] = bad })
  refused("job[true]: userdata FILE*", { [true] = bad })
  refused("job[false]: userdata FILE*", { [false] = bad })
  refused("job[table]: userdata FILE*", { [{}] = bad })
  refused("job[function]: userdata FILE*", { [print] = bad })
end

function case.keys_that_cannot_be_sent_are_named()
  refused("job[userdata key]: userdata FILE*", { [io.stdout] = 1 })
  refused("job[thread key]: thread", { [coroutine.create(print)] = 1 })
  refused("job.x[table key].y: thread", { x = { [{ y = coroutine.create(print) }] = 1 } })
  refused("job[function key]: C function that is not in Lua's libraries", { [copy] = 1 })
end

function case.the_argument_is_numbered_if_there_are_several()
  refused("job[1]: userdata FILE*", io.stdout, 1)
  refused("job[3]: userdata FILE*", 1, nil, io.stdout)
  refused("job[2].x: userdata FILE*", {}, { x = io.stdout })
end

function case.a_userdata_has_the_name_of_its_metatable()
  refused("job: userdata baton.event*", require("baton.process").event())
  local file = io.tmpfile()
  debug.setmetatable(file, nil)
  refused("job: userdata", file)
  debug.setmetatable(file, { __name = "luasql.cursor" })
  refused("job.handle[3]: userdata luasql.cursor", { handle = { 1, 2, file } })
  debug.setmetatable(file, { __name = 7 })
  refused("job: userdata", file)
  debug.setmetatable(file, getmetatable(io.stdout))
end

function case.the_table_of_globals_is_refused()
  refused("job.env: the table of globals", { env = _G })
end

function case.a_long_path_is_cut_in_the_middle()
  local bad = { last = io.stdout }
  for i = 1, 100000 do bad = { ["k" .. i % 10] = bad } end
  refused("job.k0.k9.k8.k7.k6.k5.k4.k3 ... .k7.k6.k5.k4.k3.k2.k1.last: userdata FILE*", bad)
  local wide = { io.stdout }
  for i = 15, 1, -1 do wide = { ["s" .. i] = wide } end
  refused("job.s1.s2.s3.s4.s5.s6.s7.s8.s9.s10.s11.s12.s13.s14.s15[1]: userdata FILE*", wide)
end

function case.a_refused_value_in_a_cycle_is_found()
  local job = { list = {} }
  job.list.back, job.list[1] = job, { job, job.list, file = io.stdout }
  refused("job.list[1].file: userdata FILE*", job)
end

function case.nothing_is_changed_by_a_refusal()
  local job = { a = { 1 }, b = coroutine.create(print) }
  for _ = 1, 1000 do check.that(not pcall(copy, job)) end
  job.b = nil
  check.equal(copy(job).a[1], 1)
end

check.run(case)
