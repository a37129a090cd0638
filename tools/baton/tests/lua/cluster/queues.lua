-- Tests durable queues.
local check = require "check"
local process = require "baton.process"
local connect = require "cluster.connected"

local case = {}

function case.a_job_is_stored_and_comes_to_one()
  local sender <close> = connect()
  local worker <close> = connect()
  local jobs = assert(sender:queue "jobs")
  check.results("send", { true }, jobs:send { path = "a.png" })
  local mine = assert(worker:queue "jobs")
  local job = mine:receive(5)
  check.equal(job.value.path, "a.png")
  check.equal(job.tries, 1)
  check.equal(job.why, nil)
  check.results("no other", { nil, "timeout", n = 2 }, jobs:receive(0))
  check.results("done", { true }, job:done())
  check.results("once", { nil, "over", n = 2 }, job:done())
  check.results("no more", { nil, "timeout", n = 2 }, mine:receive(0.05))
end

function case.a_job_has_the_context_of_its_sender()
  local c <close> = connect()
  local jobs, seen = c:queue "jobs", process.channel(2)
  process.with_context({ user = "ann" }, function() jobs:send(1) end)
  local job = jobs:receive(5)
  check.equal(job:context().user, "ann")
  check.equal(process.context(), nil)
  job:retry()
  local work <close> = jobs:work(1, function(value)
    seen:send { value, process.context "user", process.time_left() }
  end)
  check.list(seen:receive(5), { 1, "ann" })
  process.timeout(100, function() jobs:send(2) end)
  check.list(seen:receive(5), { 2 })
  check.results("over", { nil, "over", n = 2 }, job:context())
end

function case.false_and_large_values_are_jobs_too()
  local c <close> = connect()
  local jobs = c:queue "jobs"
  jobs:send(false)
  jobs:send(("x"):rep(500000))
  local job = jobs:receive(5)
  check.equal(job.value, false)
  job:done()
  job = jobs:receive(5)
  check.equal(#job.value, 500000)
  job:done()
end

function case.a_second_job_with_the_same_id_is_dropped()
  local c <close> = connect()
  local jobs = c:queue "jobs"
  check.results("first", { true }, jobs:send(1, { id = "invoice-7" }))
  check.results("second", { true }, jobs:send(2, { id = "invoice-7" }))
  check.results("other", { true }, jobs:send(3, { id = "invoice-8" }))
  local values = {}
  for i = 1, 2 do
    local job = jobs:receive(5)
    values[i] = job.value
    job:done()
  end
  check.list(values, { 1, 3 })
  check.results("no more", { nil, "timeout", n = 2 }, jobs:receive(0.05))
end

function case.a_delayed_job_comes_later()
  local c <close> = connect()
  local jobs = c:queue "jobs"
  local began = process.now()
  jobs:send("later", { delay = 0.5 })
  jobs:send "now"
  local first, second = jobs:receive(5), jobs:receive(5)
  check.equal(first.value, "now")
  check.equal(second.value, "later")
  check.within(process.now() - began, 0.45, 5)
  check.equal(second.tries, 1)
  first:done()
  second:done()
end

function case.a_full_queue_makes_senders_wait()
  local c <close> = connect()
  local jobs = c:queue("small", { max = 2 })
  check.results("1", { true }, jobs:send(1))
  check.results("2", { true }, jobs:send(2))
  check.results("3", { nil, "full", n = 2 }, jobs:send(3, { timeout = 0 }))
  check.results("3", { nil, "full", n = 2 }, jobs:send(3, { timeout = 0.5 }))
  local sender = process.spawn(function() return jobs:send(3) end)
  check.results("it waits", { nil, "timeout", n = 2 }, sender:join(0.05))
  jobs:receive(5):done()
  check.results("it is sent", { true, true }, sender:join(5))
  local again, why = c:queue("small", { max = 3 })
  check.equal(again, nil)
  check.that(why:find("'small' is there with max = 2", 1, true), why)
end

function case.a_job_that_is_tried_again_counts_its_tries()
  local c <close> = connect()
  local jobs = c:queue("jobs", { tries = 3 })
  jobs:send "hard"
  for tries = 1, 3 do
    local job = jobs:receive(5)
    check.equal(job.tries, tries)
    job:retry()
  end
  local dead = c:queue "jobs-dead"
  local job = dead:receive(5)
  check.equal(job.value, "hard")
  check.equal(job.why, "it was tried too often")
  job:done()
  check.results("no more", { nil, "timeout", n = 2 }, jobs:receive(0.05))
end

function case.a_retry_may_wait()
  local c <close> = connect()
  local jobs = c:queue "jobs"
  jobs:send "again"
  jobs:receive(5):retry(0.3)
  local began = process.now()
  local job = jobs:receive(5)
  check.within(process.now() - began, 0.2, 5)
  check.equal(job.tries, 2)
  job:done()
end

function case.a_rejected_job_goes_to_the_dead_with_the_reason()
  local c <close> = connect()
  local jobs = c:queue("jobs", { dead = "graveyard" })
  jobs:send { broken = true }
  jobs:receive(5):reject "the picture\nis broken"
  local job = c:queue("graveyard", { dead = false }):receive(5)
  check.equal(job.value.broken, true)
  check.that(job.why:find "^the picture.is broken$", job.why)
  job:done()
end

function case.a_job_of_a_process_that_ends_is_given_back()
  local c <close> = connect()
  local jobs = c:queue "jobs"
  for i, ending in ipairs {
    function(p) p:kill() end,
    function() end, -- it returns
    function() end, -- it fails
  } do
    jobs:send(i)
    local holder = process.spawn({ quiet = true }, function()
      local job = jobs:receive(5)
      if i == 1 then process.suspend() end
      if i == 3 then error(job) end
    end)
    while i == 1 and holder:status() ~= "suspended" do process.sleep(0.001) end
    ending(holder)
    holder:join(5)
    local job = jobs:receive(5)
    check.equal(job.value, i)
    check.equal(job.tries, 2)
    job:done()
  end
end

function case.a_job_that_comes_too_late_is_not_lost()
  local c <close> = connect()
  local jobs = c:queue("jobs", { tries = 2 })
  for i = 1, 30 do
    local waiting = process.spawn(function() return jobs:receive() end)
    process.sleep(0.0005 * (i % 5))
    jobs:send(i)
    waiting:kill()
    waiting:join()
    local job = check.that(jobs:receive(5), "job " .. i)
    check.equal(job.value, i)
    job:done()
  end
end

function case.a_job_for_which_nobody_waits_any_more_was_not_tried()
  local c <close> = connect()
  local jobs = c:queue("jobs", { tries = 1 })
  local waiting = process.spawn(function() return jobs:receive() end)
  process.sleep(0.1) -- the server knows that somebody waits
  waiting:kill()
  waiting:join()
  jobs:send "work"
  process.sleep(0.1) -- it gives the job to the one who waited
  local job = check.that(jobs:receive(10))
  check.equal(job.tries, 1)
  job:done()
end

function case.a_job_is_kept_as_long_as_its_holder_lives()
  local c <close> = connect()
  local jobs = c:queue("jobs", { ack = 0.5 })
  jobs:send "long"
  local job = jobs:receive(5)
  check.results("it is kept", { nil, "timeout", n = 2 }, jobs:receive(1.5))
  job:done()
end

function case.workers_do_the_jobs()
  local c <close> = connect()
  local jobs = c:queue("jobs", { tries = 3 })
  local done, failed = {}, 0
  local work = jobs:work(4, function(value, job)
    if value == 3 then
      failed = failed + 1
      job:reject "bad"
    elseif value == 5 and job.tries == 1 then
      job:retry()
    else
      table.insert(done, value) -- in one step
    end
  end)
  for i = 1, 20 do jobs:send(i) end
  while #done < 19 do process.sleep(0.001) end
  work:close()
  table.sort(done)
  check.equal(failed, 1)
  check.equal(done[1], 1)
  check.equal(done[19], 20)
end

-- The processes that work on a queue.
local function workers_of(name)
  local found = {}
  for _, p in ipairs(process.list()) do
    if tostring(p.name):find("^worker %d+ of " .. name) then found[#found + 1] = p end
  end
  return found
end

function case.a_worker_that_is_killed_is_replaced()
  local c <close> = connect()
  local jobs = c:queue "jobs"
  local done, killed = {}, {}
  local work = jobs:work(2, function(value, job)
    if value <= 4 and not killed[value] then
      killed[value] = job.tries
      process.current():kill()
      process.suspend()
    end
    process.critical(function() done[#done + 1] = value end)
  end)
  for value = 1, 10 do jobs:send(value) end
  while #done < 10 do process.sleep(0.001) end
  table.sort(done)
  check.list(done, { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 })
  check.list(killed, { 1, 1, 1, 1 })
  local workers = workers_of "jobs"
  check.equal(#workers, 2)
  for _, worker in ipairs(workers) do worker:kill() end
  jobs:send(11)
  while #done < 11 do process.sleep(0.001) end
  check.equal(#workers_of "jobs", 2)
  work:close()
  check.equal(#workers_of "jobs", 0)
end

function case.all_workers_end_with_their_connection()
  local c = connect()
  local work = c:queue("jobs"):work(3, function() end)
  check.equal(#workers_of "jobs", 3)
  c:close()
  work:close()
  check.equal(#workers_of "jobs", 0)
end

-- Sends the numbers up to `count`, in this order if one process does.
local function send_all(jobs, count, senders)
  local all = {}
  for first = 1, senders do
    all[first] = process.spawn(function()
      for number = first, count, senders do assert(jobs:send(number)) end
    end)
  end
  for _, sender in ipairs(all) do assert(sender:join()) end
end

-- Receives so many jobs, each of which must be a first try, and ends them. Returns their values.
local function receive_all(jobs, count)
  local values = {}
  for i = 1, count do
    local job = check.that(jobs:receive(10), ("job %d of %d"):format(i, count))
    check.equal(job.tries, 1)
    values[i] = job.value
    job:done()
  end
  return values
end

-- Checks that two lists have the numbers up to `count`, each once.
local function check_once(count, ...)
  local seen = {}
  for _, values in ipairs { ... } do
    for _, value in ipairs(values) do
      check.equal(seen[value], nil)
      seen[value] = true
    end
  end
  check.equal(#seen, count)
end

function case.jobs_that_are_fetched_ahead_keep_their_order()
  local c <close> = connect()
  local jobs = c:queue "jobs"
  send_all(jobs, 200, 1)
  for i, value in ipairs(receive_all(jobs, 200)) do check.equal(value, i) end
  check.results("no more", { nil, "timeout", n = 2 }, jobs:receive(0))
end

function case.nothing_is_fetched_ahead_without_prefetch()
  local c <close> = connect()
  local jobs = c:queue("jobs", { prefetch = 0 })
  send_all(jobs, 50, 8)
  check_once(50, receive_all(jobs, 50))
end

-- Another one does not wait for the 30 seconds after which a lost program's jobs come again.
function case.what_a_receiver_has_fetched_goes_to_others_when_it_stops()
  local c <close> = connect()
  local other <close> = connect()
  local jobs, mine = c:queue "jobs", other:queue "jobs"
  send_all(jobs, 300, 8)
  local first = receive_all(jobs, 100)
  check_once(300, first, receive_all(mine, 200))
end

function case.what_a_closed_connection_has_fetched_goes_to_others()
  local other <close> = connect()
  local mine, first = other:queue "jobs", nil
  do
    local c <close> = connect()
    local jobs = c:queue "jobs"
    send_all(jobs, 300, 8)
    first = receive_all(jobs, 100)
  end
  check_once(300, first, receive_all(mine, 200))
end

function case.a_queue_that_is_opened_again_loses_nothing()
  local c <close> = connect()
  local jobs = c:queue "jobs"
  send_all(jobs, 300, 8)
  local first = receive_all(jobs, 100)
  local second = receive_all(assert(c:queue "jobs"), 100)
  check_once(300, first, second, receive_all(assert(c:queue("jobs", { tries = 7 })), 100))
end

function case.a_killed_process_gives_back_a_job_that_was_fetched_ahead()
  local c <close> = connect()
  local jobs = c:queue "jobs"
  send_all(jobs, 100, 8)
  local values = receive_all(jobs, 50)
  local holder = process.spawn({ quiet = true }, function()
    local job = jobs:receive()
    values.held = job.value
    process.suspend()
  end)
  while holder:status() ~= "suspended" do process.sleep(0.001) end
  holder:kill()
  holder:join()
  local tries = 0
  for i = 51, 100 do
    local job = check.that(jobs:receive(10))
    tries = tries + job.tries
    check.equal(job.tries == 2, job.value == values.held)
    values[i] = job.value
    job:done()
  end
  check.equal(tries, 51)
  check_once(100, values)
end

-- What has a single try left is fetched by itself, so that the others do not lose tries.
function case.a_job_that_fails_always_does_not_hinder_the_others()
  local c <close> = connect()
  local jobs = c:queue("jobs", { tries = 2 })
  send_all(jobs, 100, 8)
  local done = {}
  while #done < 99 do
    local job = check.that(jobs:receive(10))
    if job.value == 7 then
      job:retry()
    else
      check.equal(job.tries, 1)
      done[#done + 1] = job.value
      job:done()
    end
  end
  local dead = c:queue("jobs-dead", { dead = false })
  local rest = process.spawn(function()
    local job = jobs:receive()
    while job do
      job:retry()
      job = jobs:receive()
    end
  end)
  local job = check.that(dead:receive(10))
  check.equal(job.value, 7)
  job:done()
  rest:kill()
end

function case.misuse_is_an_error()
  local c <close> = connect()
  local jobs = c:queue "jobs"
  for text, wrong in pairs {
    ["option 'ack': number of seconds from 0.1"] = function() c:queue("jobs", { ack = 0 }) end,
    ["option 'prefetch': integer from 0"] = function() c:queue("jobs", { prefetch = -1 }) end,
    ["another queue expected"] = function() c:queue("jobs", { dead = "jobs" }) end,
    ["cannot send job[1]: function"] = function() jobs:send { print } end,
    ["unknown option 'ids'"] = function() jobs:send(1, { ids = 1 }) end,
    ["option 'id': a line of"] = function() jobs:send(1, { id = "a\nb" }) end,
    ["number of seconds expected, got x"] = function() jobs:receive "x" end,
    ["job expected"] = function() getmetatable(jobs).__index.send({}, 1) end,
    ["positive integer expected, got 0"] = function() jobs:work(0, print) end,
  } do
    local is_done, message = pcall(wrong)
    check.that(not is_done, text)
    check.that(message:find(text, 1, true) or text == "job expected", message)
  end
end

check.run(case)
