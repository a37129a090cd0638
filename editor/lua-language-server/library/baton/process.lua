---@meta baton.process

-- Times are seconds, fractions allowed. A timeout that is left out (or math.huge) is for ever; zero or less does not
-- wait. What can wait returns true or its value, else nil and why. Misuse raises an error.

---Preemptive processes: threads of the interpreter's own, which share everything.
---@class baton.process
---@field main baton.process.Process the process that runs the main chunk
---@field params baton.process.Params parameters of the runtime, read and written by name
local process = {}

---Why a wait ended without a result. Objects that can be closed add `"closed"`.
---@alias baton.process.Failure "timeout" | "closed" | "dead"

---@alias baton.process.Status "running" | "runnable" | "waiting" | "sleeping" | "suspended" | "foreign" | "dead"

---@class (exact) baton.process.SpawnOptions
---@field name? string shown in messages; "process N" otherwise
---@field priority? integer 1 to 80, higher is more urgent; the caller's otherwise
---@field preemptible? boolean false: others run only when it waits or yields; true otherwise
---@field suspended? boolean true: it starts at its first `resume`
---@field daemon? boolean true: the program does not wait for its end
---@field quiet? boolean true: an error in it is not printed, and does not change the program's status
---@field thread? string run only on the native thread of this name; "main" is the program's first
---@field stack_size? integer bytes of its C stack, from 65536

---A process that calls `f(...)`. The caller goes on, unless the new one is more urgent.
---@param f fun(...): ...
---@param ... any
---@return baton.process.Process
---@overload fun(options: baton.process.SpawnOptions, f: (fun(...): ...), ...): baton.process.Process
function process.spawn(f, ...) end

---The calling process.
---@return baton.process.Process
function process.current() end

---All processes that have not ended.
---@return baton.process.Process[]
function process.list() end

---Lets processes of the same or a higher priority run first.
function process.yield() end

---Lets another process run at once, if it can and nobody is more urgent than it; else like `yield`.
---@param target baton.process.Process
---@return boolean alive, "dead"? why
function process.yield_to(target) end

---Calls `f(...)` while no other process of the program runs. Sections nest. Interrupts, timers and kills take effect
---after. A wait that would block raises, but for `process.suspend()`, which leaves the section until the process goes on.
---@param f fun(...): ...
---@param ... any
---@return any ... results of f
function process.critical(f, ...) end

---Calls `f(scope)`, and returns its results once all processes that were spawned by `scope:spawn` have ended. The first of them that fails ends the
---others, and its error is raised. An error in `f`, or a kill of the caller, ends them all.
---@param f fun(scope: baton.process.Scope): ...
---@return any ... results of f
function process.scope(f) end

---Spawns processes that do not outlive the call of `process.scope`.
---@class baton.process.Scope
local Scope = {}

---As `process.spawn`; raises after the scope's end, and after a failure.
---@param f fun(...): ...
---@param ... any
---@return baton.process.Process
---@overload fun(self: baton.process.Scope, options: baton.process.SpawnOptions, f: (fun(...): ...), ...): baton.process.Process
function Scope:spawn(f, ...) end

---Has `f(current, suggested)` called whenever a process has yielded, waits, ended or was preempted. It returns the process
---to run next, or nil for `suggested`, the one that would run without it; so it is if that process cannot run. `current` is nil
---if the last one has ended. It can look at processes and change them, but not wait; if it fails, it is said and not used again.
---@param f (fun(current: baton.process.Process?, suggested: baton.process.Process): baton.process.Process?)?
function process.set_scheduler(f) end

---Waits for some seconds.
---@param seconds number
---@return true
function process.sleep(seconds) end

---Waits until a point of time, as `process.now` gives it.
---@param time number
---@return true
function process.sleep_until(time) end

---Declares how far calls of a compiled module's functions may overlap: all calls (`"concurrent"`), those about different
---userdata (`"object"`), one at a time while other processes run (`"serial"`), or none (`"exclusive"`, as for unknown ones).
---@param module string its name, as `require` takes it; loaded or not yet; at most 63 bytes
---@param policy "object" | "concurrent" | "serial" | "exclusive"
---@param options? { parks?: boolean } `parks`: its blocking system calls wait without a native thread; only if it holds no mutex meanwhile
function process.concurrent(module, policy, options) end

---Seconds on a clock that never goes back; its start means nothing.
---@return number
---@nodiscard
function process.now() end

---Stops the calling process, or the one given, until somebody resumes it.
---@param target? baton.process.Process
---@return boolean done, "dead"? why
function process.suspend(target) end

---Calls `f(...)` in a process of its own after some seconds.
---@param seconds number
---@param f fun(...)
---@param ... any
---@return baton.process.Timer
function process.after(seconds, f, ...) end

---Calls `f(...)` every so many seconds, each time in a process of its own, without drift. A firing that finds the last
---one still running is skipped.
---@param seconds number
---@param f fun(...)
---@param ... any
---@return baton.process.Timer
function process.every(seconds, f, ...) end

---The native thread that the caller runs on: its name, or a number if it has none.
---@return string | integer
function process.thread() end

---How many native threads run processes or calls at the moment.
---@return integer
function process.threads() end

---What this system offers to the runtime.
---@return baton.process.Features
function process.features() end

---Counters since the start of the program.
---@return baton.process.Stats
function process.stats() end

---A channel: whoever sends waits until there is room, or with capacity 0 until somebody receives.
---@param capacity? integer 0 if left out
---@return baton.process.Channel
---@nodiscard
function process.channel(capacity) end

---Waits until one of the cases can go on, and carries that one out. A case is a channel to receive from, or
---`{ channel, value }` to send. Returns the case's number, and the value received, or true if it sent; `i, nil, "closed"`
---if that channel is closed; `nil, "timeout"`. Among several ready cases a random one is taken.
---@param cases (baton.process.Channel | { [1]: baton.process.Channel, [2]: any })[]
---@param timeout? number
---@return integer? index
---@return any value
---@return "closed"? why
function process.select(cases, timeout) end

---A counting semaphore.
---@param count? integer 0 if left out
---@return baton.process.Semaphore
---@nodiscard
function process.semaphore(count) end

---A mutex; its owner inherits the priority of whoever waits. Not recursive.
---@return baton.process.Mutex
---@nodiscard
function process.mutex() end

---A condition variable that belongs to a mutex.
---@param mutex baton.process.Mutex
---@return baton.process.Condition
---@nodiscard
function process.condition(mutex) end

---An event, which is set or not.
---@return baton.process.Event
---@nodiscard
function process.event() end

---A lock for many readers or one writer. Who waits keeps later ones out, so that writers are not starved; all who hold it
---inherit the priority of whoever waits. Not recursive.
---@return baton.process.RwLock
---@nodiscard
function process.rwlock() end

---A barrier, at which processes wait for each other.
---@param count integer how many pass together, from 1
---@return baton.process.Barrier
---@nodiscard
function process.barrier(count) end

---@class baton.process.Process
---@field id integer its number, never used again
---@field name string
---@field daemon boolean
---@field data table a table for the program's own use
local Process = {}

---Waits for its end: `true, results...`; `false, err` if it failed or was killed; `nil, "timeout"`.
---@param timeout? number
---@return boolean? ended_well
---@return any ...
function Process:join(timeout) end

---Ends it: its `<close>` variables run, and no pcall stops it. It takes effect at the next instruction in Lua; a C
---function that it is in returns first.
---@param reason? any what join then returns; "killed" if left out
---@return boolean done, "dead"? why
function Process:kill(reason) end

---Stops it, whatever it is doing, until it is resumed. What it holds stays held.
---@return boolean done, "dead"? why
function Process:suspend() end

---Lets it go on after `suspend`.
---@return boolean done, "dead"? why
function Process:resume() end

---@return integer priority 1 to 80
function Process:priority() end

---@param priority integer 1 to 80, higher is more urgent
---@return boolean done, "dead"? why
function Process:set_priority(priority) end

---Ties it to the native thread of a name, which is made at first use and kept while anybody is bound to it; with nil to none.
---`"main"` is the program's first.
---@param thread string?
---@return boolean done, "dead"? why
function Process:bind(thread) end

---@return baton.process.Status
function Process:status() end

---The functions that it is in, as debug.traceback has them; of a process that has failed, those that it was in then.
---@return string
function Process:traceback() end

---@return baton.process.ProcessStats
function Process:stats() end

---Has `before(p)` called whenever it is about to run, and `after(p)` when it has yielded, waits or was preempted. They cannot
---wait. They take the place of those before; nil for none.
---@param before fun(p: baton.process.Process)?
---@param after? fun(p: baton.process.Process)
---@return boolean done, "dead"? why
function Process:on_switch(before, after) end

---Has `f(p)` called by the process itself at its end, however it ends (but for `os.exit`), before those who join it go on.
---It takes the place of the one before; nil for none.
---@param f fun(p: baton.process.Process)?
---@return boolean done, "dead"? why
function Process:on_exit(f) end

---@class baton.process.ProcessStats
---@field cpu number seconds that it has run
---@field stack_size integer bytes of address space of its C stack
---@field stack_used integer bytes of it that have been used
---@field thread string | false the native thread that it is bound to
---@field waits_for string | false what it waits for, as reports say it: "for a mutex", "for the thread 'gui', ..."

---@class baton.process.Timer
local Timer = {}

---No firing begins after this.
function Timer:cancel() end

---@return baton.process.TimerStats
function Timer:stats() end

---@class baton.process.TimerStats
---@field fired integer
---@field skipped integer firings that found the last one still running

---@class baton.process.Channel
---@operator len: integer
local Channel = {}

---@param value any but nil
---@param timeout? number
---@return true?
---@return baton.process.Failure? why
function Channel:send(value, timeout) end

---What is in a closed channel still comes out.
---@param timeout? number
---@return any value or nil
---@return baton.process.Failure? why
function Channel:receive(timeout) end

---No more sends; receivers get what is left, then `nil, "closed"`.
function Channel:close() end

---Receives until the channel is closed and empty: `for value in channel:values() do`.
---@return fun(): any
function Channel:values() end

---@class baton.process.Semaphore
local Semaphore = {}

---Takes one, waiting while there is none.
---@param timeout? number
---@return true?
---@return baton.process.Failure? why
function Semaphore:wait(timeout) end

---Gives some back.
---@param count? integer 1 if left out
function Semaphore:signal(count) end

---@return integer
function Semaphore:count() end

---@class baton.process.Mutex
local Mutex = {}

---`true, "abandoned"` if its last owner ended without unlocking it.
---@param timeout? number
---@return true?
---@return baton.process.Failure | "abandoned" | nil note
function Mutex:lock(timeout) end

---By its owner only.
function Mutex:unlock() end

---Calls `f(...)` with the mutex locked and returns its results; unlocks it however `f` ends.
---@param f fun(...): ...
---@param ... any
---@return any ...
function Mutex:with(f, ...) end

---@class baton.process.Condition
local Condition = {}

---Unlocks the mutex, waits for a signal, and locks it again, as it does also after a timeout.
---@param timeout? number
---@return true?
---@return baton.process.Failure | "abandoned" | nil note
function Condition:wait(timeout) end

---Wakes one process that waits.
function Condition:signal() end

---Wakes all processes that wait.
function Condition:broadcast() end

---@class baton.process.Event
local Event = {}

---Wakes all that wait; nobody waits until it is cleared.
function Event:set() end

function Event:clear() end

---@param timeout? number
---@return true?
---@return baton.process.Failure? why
function Event:wait(timeout) end

---@return boolean
function Event:is_set() end

---@class baton.process.RwLock
local RwLock = {}

---Locks for reading, beside other readers. `true, "abandoned"` if a writer ended without unlocking it, and no other one
---has held it since.
---@param timeout? number
---@return true?
---@return baton.process.Failure | "abandoned" | nil note
function RwLock:read(timeout) end

---Locks for writing, alone. `true, "abandoned"` if the last writer ended without unlocking it.
---@param timeout? number
---@return true?
---@return baton.process.Failure | "abandoned" | nil note
function RwLock:write(timeout) end

---By a process that holds it only.
function RwLock:unlock() end

---@class baton.process.Barrier
local Barrier = {}

---Waits until as many wait as the barrier was made for. One of them is told `"last"`.
---@param timeout? number
---@return true?
---@return baton.process.Failure | "last" | nil note
function Barrier:wait(timeout) end

---Parameters; `BATON_SLICE` and so on in the environment set them at the start.
---@class baton.process.Params
---@field slice number seconds after which equals take turns
---@field beat number seconds between two looks around in any case; 0: only when others need one
---@field window number seconds after which a call that blocks is taken to last, and others go on; 0: every 2 ms, whatever call there is
---@field spin "learned" | "ema" | "off" who decides whether to spin before waiting
---@field busy_loop_for number seconds that `"ema"` spins; 0: never
---@field spin_budget number share of all time, 0 to 1, that `"learned"` may spin for nothing, beside what its other spins have saved
---@field timer_slack number seconds that deadlines may be met late, to be met together
---@field max_threads integer how many native threads there may be
---@field thread_idle number seconds after which an unused native thread ends
---@field stack_size integer bytes of address space of a new process's C stack
---@field warn_blocked number seconds that a C function may keep all others waiting before it is named in a warning
---@field preemptive boolean false: processes change only where they wait or yield

---@class baton.process.Features
---@field membarrier boolean
---@field guard_pages "madvise" | "mprotect"
---@field poller "epoll_pwait2" | "timerfd" | "polling"
---@field clock string
---@field architecture string
---@field preemption boolean

---@class baton.process.Stats
---@field switches integer
---@field yields integer
---@field preemptions_by_urgency integer
---@field preemptions_by_slice integer
---@field wakes integer
---@field timeouts integer
---@field kills integer
---@field spawned integer
---@field ended integer
---@field timers_fired integer
---@field timers_skipped integer
---@field pinned_waits integer how often a process waited for the one thread that it can run on
---@field live integer processes that have not ended
---@field runnable integer
---@field sleeping integer
---@field foreign integer processes in a C call that others did not wait for
---@field waiting_for_thread integer
---@field beats integer
---@field signals integer
---@field retakes integer calls that lasted, so that others went on
---@field false_retakes integer
---@field exclusive_calls integer calls that lasted, and kept all others waiting
---@field moves integer calls through the ffi that were known to be long, and made on another native thread
---@field thread_bound_hits integer how often max_threads made a call wait
---@field idle_waits integer waits in the system
---@field descriptor_waits integer waits of processes for descriptors
---@field descriptors_registered integer descriptors registered for such waits, once each until they are closed
---@field spins_hit integer spins during which what was waited for came
---@field spins_failed integer spins for nothing
---@field parks_long integer waits without a spin that were longer than one
---@field parks_short integer waits without a spin that one would have met
---@field spin_time number seconds
---@field spin_budget_left number seconds that `"learned"` may spin for nothing now
---@field park_cost number seconds from a wake-up until the program runs, at most as a rule, as learned
---@field handovers integer
---@field threads integer
---@field threads_named integer threads that processes are bound to by name, main not counted
---@field threads_started integer
---@field threads_retired integer
---@field stacks_in_use integer
---@field stacks_free integer

return process
