-- A stale check: between the reader's lock and the writer's lock, another writer may come.
local process = require "baton.process"

local lock, free_seats, booked = process.rwlock(), 1, 0
local function book()
  lock:read()
  local has_seat = free_seats > 0
  lock:unlock()
  if has_seat then
    lock:write()
    free_seats = free_seats - 1
    booked = booked + 1
    lock:unlock()
  end
end
local one, other = process.spawn(book), process.spawn(book)
one:join()
other:join()
assert(booked == 1, "a seat was booked twice")
