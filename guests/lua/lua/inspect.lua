-- require "baton.inspect": the program looks into itself, and gets the same answers as observers.
-- `questions` has functions in C (c/modules/inspect.c).

local questions = ...
local process = require "baton.process"
local begin, take, descriptor, stop =
  questions.begin, questions.take, questions.descriptor, questions.stop
local refuse_argument = questions.refuse
local select, load, error, type, next = process.select, load, error, type, next
local pack, unpack, pcall, format = table.pack, table.unpack, pcall, string.format
local math_type, sort = math.type, table.sort

local inspect = {}

local LONGEST = 3600 -- seconds
local RATE = 99 -- samples for each second

-- Waits for the next event of a question. Others go on meanwhile.
local function await(question)
  while true do
    local event, value = take(question)
    if event then return event, value end
    select { { fd = descriptor(question), "r" } }
  end
end

-- The parts of an answer. An error is raised at the caller of the module's function, which is
-- `level` levels above.
local function parts_of(question, level)
  local parts = {}
  while true do
    local event, value = await(question)
    if event == "failure" then error(value, level + 1) end
    if event == "end" then return parts end
    if event == "part" then parts[#parts + 1] = load(value, "=inspect", "t", {})() end
  end
end

local function answer_to(what, path)
  local question <close> = begin(what, 0, 1, path)
  return parts_of(question, 3)
end

local function wrong(number, name, expected, got, level)
  refuse_argument(level or 3, number, name, format("%s expected, got %s", expected, got))
end

local function wrong_option(expected, got) wrong(2, "profile", expected, got, 5) end

local KINDS = { cpu = true, wall = true, waits = true, alloc = true }
local OPTIONS = { kind = true, rate = true, path = true }

local function check_options(options)
  if options == nil then return "cpu", RATE end
  if type(options) ~= "table" then wrong_option("table", type(options)) end
  for name in next, options do
    if not OPTIONS[name] then
      wrong_option("the options 'kind', 'rate' and 'path'", format("'%s'", name))
    end
  end
  local kind, rate, path = options.kind, options.rate, options.path
  if kind == nil then kind = "cpu" end
  if not KINDS[kind] then
    wrong_option("a kind 'cpu', 'wall', 'waits' or 'alloc'", format("'%s'", kind))
  end
  if rate == nil then rate = RATE end
  if math_type(rate) ~= "integer" or rate < 1 or rate > 1000 then
    wrong_option("a rate from 1 to 1000 samples a second", format("'%s'", rate))
  end
  if path ~= nil and type(path) ~= "string" then
    wrong_option("a path as a string", type(path))
  end
  return kind, rate, path
end

function inspect.profile(what, options)
  local is_function = type(what) == "function"
  if not is_function then
    if type(what) ~= "number" then wrong(1, "profile", "seconds or a function", type(what)) end
    if not (what >= 0.01 and what <= LONGEST) then
      wrong(1, "profile", "from 0.01 to 3600 seconds", format("%s", what))
    end
  end
  local kind, rate, path = check_options(options)
  local question <close> = begin(kind, is_function and LONGEST or what, rate, path)
  local event, why = await(question)
  if event == "failure" then error(why, 2) end
  if not is_function then return parts_of(question, 2)[1] end
  local results = pack(pcall(what))
  stop(question)
  local profile = parts_of(question, 2)[1]
  if not results[1] then error(results[2], 0) end
  return profile, unpack(results, 2, results.n)
end

local function comes_before(one, other) return one.id < other.id end

-- The last part is the overview.
function inspect.stacks()
  local all, parts = {}, answer_to "stacks"
  for number = 1, #parts - 1 do
    local part = parts[number]
    for i = 1, #part do all[#all + 1] = part[i] end
  end
  sort(all, comes_before)
  return all, parts[#parts]
end

function inspect.metrics(as)
  if as == "text" or as == "openmetrics" then return answer_to("metrics_" .. as)[1] end
  if as ~= nil then
    wrong(1, "metrics", "nothing, 'text' or 'openmetrics'", format("'%s'", as))
  end
  return answer_to("metrics")[1]
end

function inspect.heap(path)
  if path ~= nil and type(path) ~= "string" then
    wrong(1, "heap", "a path that ends with .heapsnapshot", type(path))
  end
  return answer_to("heap", path)[1]
end

-- The upper bounds of buckets that fit most times in seconds, as Prometheus' libraries have them.
local BOUNDS = { 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10 }

local function is_list_of(list, kind)
  if type(list) ~= "table" then return false end
  local count = 0
  for _, value in next, list do
    if type(value) ~= kind then return false end
    count = count + 1
  end
  return count == #list
end

local MOST_SETS = 1000 -- of labels

-- The names of labels with those of fields of the context behind them.
local function all_labels(labels, context)
  local all = {}
  for _, list in next, { labels, context } do
    for place = 1, #list do all[#all + 1] = list[place] end
  end
  return all
end

-- inspect.counter, inspect.gauge or inspect.histogram.
local function kind_of_metric(kind)
  local new = questions.metric
  local with_bounds = kind == "histogram"
  local known = { labels = true, context = true, max_sets = true, bounds = with_bounds or nil }
  local expected = "the options 'labels', 'context'"
    .. (with_bounds and ", 'max_sets' and 'bounds'" or " and 'max_sets'")
  return function(name, help, options)
    if type(name) ~= "string" then wrong(1, kind, "a name as a string", type(name)) end
    if type(help) ~= "string" or help == "" then
      wrong(2, kind, "a help text: what the metric says", help == "" and "''" or type(help))
    end
    if options == nil then options = {} end
    if type(options) ~= "table" then wrong(3, kind, "table", type(options)) end
    for option in next, options do
      if not known[option] then wrong(3, kind, expected, format("'%s'", option)) end
    end
    local labels, bounds = options.labels, options.bounds
    local context, most = options.context, options.max_sets
    if labels == nil then labels = {} end
    if context == nil then context = {} end
    if most == nil then most = MOST_SETS end
    if bounds == nil then bounds = with_bounds and BOUNDS or {} end
    if not is_list_of(labels, "string") then
      wrong(3, kind, "a list of names in 'labels'", type(labels))
    end
    if not is_list_of(context, "string") then
      wrong(3, kind, "a list of names of fields in 'context'", type(context))
    end
    if math_type(most) ~= "integer" or most < 1 or most > MOST_SETS then
      wrong(3, kind, "from 1 to 1000 sets of labels in 'max_sets'", format("'%s'", most))
    end
    if not is_list_of(bounds, "number") then
      wrong(3, kind, "a list of numbers in 'bounds'", type(bounds))
    end
    local fields = #context > 0 and { unpack(context) } or nil
    local metric, why = new(kind, name, help, all_labels(labels, context), bounds, fields, most)
    return metric or refuse_argument(2, 1, kind, why)
  end
end

inspect.counter = kind_of_metric "counter"
inspect.gauge = kind_of_metric "gauge"
inspect.histogram = kind_of_metric "histogram"

inspect.trace = questions.trace

return inspect
