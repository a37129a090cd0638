#!/usr/bin/env ruby
# The peer Ruby for foreign calls, with Fiddle and threads. See ../README.md.
require "fiddle"

WARM_UP = 1000

def call(function, times, amount)
  times.times { function.call(amount) }
end

def call_together(function, times, amount)
  threads = Array.new(2) { Thread.new { call(function, times / 2, amount) } }
  threads.each(&:join)
end

# Without `need_gvl`, a call releases Ruby's VM lock.
def prepared(library, name)
  Fiddle::Function.new(library[name], [Fiddle::TYPE_INT], Fiddle::TYPE_INT)
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

def run(path, name, count, length)
  library = Fiddle.dlopen(path)
  spin, sleep = prepared(library, "calls_spin"), prepared(library, "calls_sleep")
  kind, way = name.split("_")
  function = kind == "short" ? spin : sleep
  if kind == "short"
    call(spin, WARM_UP, length)
  elsif way == "learned"
    call_together(sleep, 10, [length, 20_000].min)
  end
  start = now
  way == "sequential" ? call(function, count, length) : call_together(function, count, length)
  puts format('{"ms": %.6f}', (now - start) * 1e3)
end

if ARGV == ["version"]
  puts "Ruby #{RUBY_VERSION}"
elsif ARGV.size == 5 && ARGV[0] == "calls"
  run(ARGV[1], ARGV[2], Integer(ARGV[3]), Integer(ARGV[4]))
else
  abort "usage: peer version | calls LIBRARY CASE COUNT LENGTH"
end
