-- Many callbacks at once; they take long on a busy machine.
local check = require "check"
local subject = require "ffi.subject"
local case = {}

function case.a_thread_calls_back_100000_times()
  local last = 0
  local sum = subject.subject_call_from_threads(function(_, i)
    last = i
    return 1
  end, 1, 100000)
  check.equal(sum, 100000)
  check.equal(last, 100000)
end

check.run(case)
