---@meta baton.inspect

-- The program looks into itself, and gets the same answers as `baton stacks`, `baton profile`,
-- `baton metrics` and `baton heap` give from outside. A process that asks waits for the answer, and
-- others go on. `BATON_ATTACH` does not matter. In a simulated run each function raises an error.

---What a running program does, as seen by itself.
---@class baton.inspect
local inspect = {}

---Options of `inspect.profile`.
---@class (exact) baton.inspect.ProfileOptions
---@field kind? "cpu" | "wall" | "waits" | "alloc" processor time (the default), all time, waits, or bytes that Lua allocates
---@field rate? integer samples for each second, from 1 to 1000; default 99; it does not matter for "alloc"
---@field path? string also writes the profile to a file: `.svg`, `.pb.gz`, `.json` or `.folded`

---Profiles the whole program for some seconds, from 0.01 to 3600, or while a function runs. Then it
---also returns what the function returns; an error of the function is raised after the profile.
---@param what number | fun(): ...
---@param options? baton.inspect.ProfileOptions
---@return baton.inspect.Profile
---@return any ... results of the function
function inspect.profile(what, options) end

---What each function cost.
---@class baton.inspect.Profile
---@field measure "cpu" | "wall" | "waits" | "alloc" what was measured
---@field unit "nanoseconds" | "bytes" the unit of all values
---@field total integer the sum of all values
---@field idle? integer for "waits": the part of it in which processes waited for work, or for a time
---@field count integer how many samples there are; for "alloc", about how many allocations
---@field period integer the mean distance of two samples, in the unit
---@field duration integer how long the profile lasted, in nanoseconds
---@field functions baton.inspect.FunctionCost[] the one with the greatest own value first
---@field waits baton.inspect.WaitCost[] what was waited for, if `measure` is "waits"

---What a function cost.
---@class baton.inspect.FunctionCost
---@field function string its name, or FILE:LINE if it has none; for C with the symbol of its library, if that is another one
---@field file string its source file, or its library; "" if that is not known
---@field line integer its first line; 0 if that is not known
---@field is_c boolean whether it is a function in C
---@field vm string the name of the VM; a function that several VMs run has a row for each
---@field self integer what was measured in itself
---@field total integer what was measured in it and in what it called
---@field count integer how many of the samples were in itself

---What an object cost those that waited for it.
---@class baton.inspect.WaitCost
---@field object string what was waited for, with its VM if that is not the first one
---@field class "object" | "idle" | "turn" others kept the processes waiting; they waited for work or for a time; or they could run
---@field total integer for how long, of all processes together, in nanoseconds
---@field count integer how many of the samples
---@field longest integer the longest wait that was seen, from its beginning, in nanoseconds; 0 if it is not known
---@field role string why the holders may end the waits, as "held by"
---@field holder string the process that had it for the greatest share; "" if there was none
---@field holders baton.inspect.HolderCost[] all that had it, the one with the greatest share first
---@field held_at baton.inspect.HeldPlace[] what these did meanwhile, the greatest share first

---How long others waited while one process had an object.
---@class baton.inspect.HolderCost
---@field holder string the process
---@field total integer for how long, of all processes together, in nanoseconds

---How long others waited while the holder of an object was at one place.
---@class baton.inspect.HeldPlace
---@field stack string[] its functions with their places, the innermost first
---@field total integer for how long, of all processes together, in nanoseconds

---Every process with its stacks, and what is waited for, as `baton stacks --json`. What processes
---wait for, and who holds it, is of one instant for each VM.
---@return baton.inspect.Process[]
---@return baton.inspect.Overview
function inspect.stacks() end

---A process.
---@class baton.inspect.Process
---@field vm string the name of its VM; "main" is the first one
---@field id integer its number, as `id` of its handle
---@field title string how messages name it
---@field state baton.process.Status what it does
---@field waits? string what it waits for, and who holds that
---@field object? string what it waits for, without who holds that
---@field has_moved_on? boolean true: it has run since the instant of the look, and its stacks are later
---@field since? number for how many seconds it has not run
---@field spawned_at? string where it was spawned, as FILE:LINE
---@field context? table<string, string> the fields of its context, with their values as texts
---@field running number seconds that it has run
---@field cpu number seconds of processor time, in its runs and in calls beside which others run
---@field stacks baton.inspect.Frame[][] the coroutines that it is in, the innermost first, and then its own stack; of each the innermost frame first

---What is waited for at an instant.
---@class baton.inspect.Overview
---@field objects baton.inspect.ObjectWaits[] those first that keep processes waiting, and that most wait for
---@field rings baton.inspect.WaitRing[] processes that wait for each other
---@field moved_on integer how many processes have run since the instant, before their stacks were read
---@field steps integer in how many steps the waits were read, those of each VM by themselves; with 1 the waits of a VM are of one instant
---@field span number how long these steps took, in seconds

---How many wait for an object.
---@class baton.inspect.ObjectWaits
---@field vm string the name of the VM that it is in
---@field object string what is waited for
---@field class "object" | "idle" | "turn" others keep the processes waiting; they wait for work or for a time; or they could run
---@field waiting integer how many processes wait
---@field longest? number for how many seconds the first of them has waited
---@field partners? baton.inspect.Partner[] those that may end the waits
---@field note? string what else is known, as a signal that woke nobody

---A process that may end waits.
---@class baton.inspect.Partner
---@field id integer its number; 0 if it has ended
---@field title string how messages name it
---@field role string why it may end them, as "held by" or "last received from by"

---Processes of which each waits for the next one, and the last one for the first.
---@class baton.inspect.WaitRing
---@field vm string the name of the VM that they are in
---@field is_certain boolean each has what the one before it waits for; false: a guess by who used channels and conditions last
---@field ids integer[] the numbers of the processes
---@field lines string[] a sentence for each

---A frame of a stack.
---@class baton.inspect.Frame
---@field source string the file or chunk; "[C]" for C
---@field line integer the present line; 0 if that is not known
---@field defined integer the line where the function begins; 0 if that is not known
---@field kind "main" | "guest" | "c" a main chunk, another function of Lua, or one in C
---@field called_as string what its caller calls it by, such as "method"; "" if that is not known
---@field name string the name that its caller uses; "" if that is not known
---@field symbol? string for C: the symbol that its library exports
---@field library? string for C: the file name of the library

---Counters and histograms. With "text", what `baton metrics` writes: text for Prometheus. With
---"openmetrics", the same as OpenMetrics text.
---@return baton.inspect.Metrics
---@overload fun(as: "text" | "openmetrics"): string
function inspect.metrics() end

---Counters and histograms.
---@class baton.inspect.Metrics
---@field counters baton.process.Stats as `process.stats` returns them
---@field histograms table<"lateness" | "slice_overrun" | "foreign_call", baton.inspect.Histogram> of times
---@field is_whole boolean false: a process kept the VM inside, so some counters are missing
---@field families baton.inspect.Family[] all other metrics: of the program as a process of the system, of what it does now, and its own
---@field vms table<string, baton.inspect.Metrics> the same of the VMs beside the first one, by name

---A metric with its values.
---@class baton.inspect.Family
---@field name string with its unit, and without the `_total` of a counter
---@field help string what it says
---@field kind "counter" | "gauge" | "histogram"
---@field points baton.inspect.Point[] one for each set of labels

---The value of a metric for a set of labels; or, of a histogram, bounds, counts and sum as in
---`baton.inspect.Histogram`.
---@class baton.inspect.Point
---@field labels table<string, string>
---@field value? number a number that is not finite is a string: "NaN", "+Inf" or "-Inf"
---@field bounds? number[]
---@field counts? integer[]
---@field sum? number

---A histogram of times in seconds.
---@class baton.inspect.Histogram
---@field bounds number[] the upper bound of each bucket but the last one, which has none
---@field series baton.inspect.Series[] one, or one for each function in C

---Times in buckets.
---@class baton.inspect.Series
---@field function? string the function, for "foreign_call"
---@field counts integer[] how many times were in each bucket, those before it not counted
---@field sum number the sum of all times

---A metric that only grows. It is shown among the program's metrics, with `_total` at the end of
---its name. All VMs of the program share metrics, by their names: the same call again returns the
---same metric. Names have letters, digits and `_`, such as "shop_orders".
---@param name string
---@param help string what it says, as a sentence
---@param options? baton.inspect.MetricOptions
---@return baton.inspect.Counter
function inspect.counter(name, help, options) end

---A metric that grows and shrinks.
---@param name string
---@param help string
---@param options? baton.inspect.MetricOptions
---@return baton.inspect.Gauge
function inspect.gauge(name, help, options) end

---A metric that counts values by size. A name of times ends with `_seconds`, and their values are
---in seconds.
---@param name string
---@param help string
---@param options? baton.inspect.HistogramOptions
---@return baton.inspect.HistogramMetric
function inspect.histogram(name, help, options) end

---Options of `inspect.counter` and `inspect.gauge`.
---@class (exact) baton.inspect.MetricOptions
---@field labels? string[] names of labels, at most 16. Each method then takes as many values, in this order
---@field context? string[] fields of the caller's context that are labels, too, behind the others: their values are added at each call, and are empty if they are not set. `remove` takes all values
---@field max_sets? integer how many sets of values have a point of their own; default 1000, which is the most. The first call for a metric decides

---Options of `inspect.histogram`.
---@class (exact) baton.inspect.HistogramOptions
---@field labels? string[] names of labels, as above
---@field context? string[] fields of the context that are labels, as above
---@field max_sets? integer as above
---@field bounds? number[] the upper bounds of the buckets, ascending, at most 100; default from 0.005 to 10

---Values of labels are strings, numbers or booleans. After `max_sets` sets of values, further sets
---share one with the values `(others)`.
---@class baton.inspect.Counter
local Counter = {}

---Adds a number that is not negative; default 1.
---@param n? number
---@param ... string | number | boolean values of labels
function Counter:add(n, ...) end

---Forgets the value for these labels. Returns whether there was one.
---@param ... string | number | boolean
---@return boolean
function Counter:remove(...) end

---@class baton.inspect.Gauge
local Gauge = {}

---@param value number
---@param ... string | number | boolean values of labels
function Gauge:set(value, ...) end

---Adds a number, which may be negative; default 1.
---@param n? number
---@param ... string | number | boolean values of labels
function Gauge:add(n, ...) end

---Forgets the value for these labels. Returns whether there was one.
---@param ... string | number | boolean
---@return boolean
function Gauge:remove(...) end

---@class baton.inspect.HistogramMetric
local HistogramMetric = {}

---Counts a value.
---@param value number
---@param ... string | number | boolean values of labels
function HistogramMetric:observe(value, ...) end

---Forgets the values for these labels. Returns whether there were any.
---@param ... string | number | boolean
---@return boolean
function HistogramMetric:remove(...) end

---A summary of Lua's heap. With a path that ends with `.heapsnapshot`, all objects are written
---there, for Chrome's DevTools and `baton heap --diff`.
---@param path? string
---@return baton.inspect.Heap
function inspect.heap(path) end

---A summary of Lua's heap.
---@class baton.inspect.Heap
---@field objects integer how many objects are alive
---@field bytes integer their bytes
---@field garbage baton.inspect.Garbage what is not alive
---@field total integer the bytes of the heap, as the collector counts them
---@field pause number for how many seconds the program stood still
---@field classes baton.inspect.ObjectClass[] the largest first
---@field keepers baton.inspect.Keeper[] the single objects that keep most, the one with most first

---What the collector has not freed yet.
---@class baton.inspect.Garbage
---@field objects integer how many objects
---@field bytes integer their bytes

---Objects with one name.
---@class baton.inspect.ObjectClass
---@field class string the name
---@field objects integer how many
---@field bytes integer their bytes
---@field retained integer the bytes that would be free without them

---An object without which at least a hundredth of the heap would be free.
---@class baton.inspect.Keeper
---@field path string a shortest way to it, such as "(root)._G.cache"
---@field class string its class
---@field bytes integer its own bytes
---@field retained integer the bytes that would be free without it

---Calls a function, and writes what happens meanwhile in the whole program to a file, for
---<https://ui.perfetto.dev>. Returns what the function returns. An error of the function is raised
---after the file was written.
---@param f fun(): ...
---@param path string
---@return any ...
function inspect.trace(f, path) end

return inspect
