---@meta baton.process

-- Times are in seconds, and may have fractions. Every `timeout` is optional: without it, or with
-- `math.huge`, a call waits for ever; with zero or less it does not wait. A call that can wait
-- returns `true` or its value; if it fails, it returns `nil` and the reason. Wrong use raises
-- an error.

---Processes: preemptive threads of the interpreter. They share all data of the program.
---@class baton.process
---@field main baton.process.Process the main process, which runs the main chunk
---@field params baton.process.Params the parameters of the runtime, to read and to set
local process = {}

---Why a wait ended without a result. `"closed"` comes only from objects that can be closed.
---@alias baton.process.Failure "timeout" | "closed" | "dead"

---What a process is doing.
---@alias baton.process.Status "running" | "runnable" | "waiting" | "sleeping" | "suspended" | "foreign" | "dead"

---A case of `process.select`.
---@alias baton.process.Case baton.process.Channel | baton.process.Process | baton.process.Event | baton.process.Semaphore | baton.process.Mutex | baton.process.Alarm | baton.process.HasDescriptor | table

---Options of `process.spawn`.
---@class (exact) baton.process.SpawnOptions
---@field name? string used in messages; default "process N"
---@field priority? integer 1 to 80, higher is more urgent; default: the caller's
---@field preemptible? boolean default true; false: others run only where it waits or yields
---@field decay? boolean true: a whole slice makes it a level less urgent until it waits; not inherited
---@field suspended? boolean true: it starts when it is resumed
---@field daemon? boolean true: the program ends without waiting for it
---@field quiet? boolean true: its error is not printed, and does not change the exit status
---@field thread? string the native thread that it is bound to; "main" is the first one
---@field stack_size? integer bytes of its C stack, at least 65536
---@field time_left? number seconds that its work has at most, as `process.time_left` tells it; the process is not ended

---Starts a process that calls `f(...)`, and returns it. The caller runs on, unless the new process
---is more urgent.
---@param f fun(...): ...
---@param ... any
---@return baton.process.Process
---@overload fun(options: baton.process.SpawnOptions, f: (fun(...): ...), ...): baton.process.Process
function process.spawn(f, ...) end

---Returns the calling process.
---@return baton.process.Process
function process.current() end

---Returns all processes that have not ended.
---@return baton.process.Process[]
function process.list() end

---Lets other processes of the same or a higher priority run first.
function process.yield() end

---Switches to another process at once, if it is runnable and no process is more urgent. Otherwise
---it works like `yield`.
---@param target baton.process.Process
---@return boolean alive, "dead"? why
function process.yield_to(target) end

---Calls `f(...)` while no other process of the program runs, and returns its results. Sections
---nest. Interrupts, timers and kills take effect after the section. A call that would have to wait
---raises an error. Only `process.suspend()` may wait: it leaves the section until the process is
---resumed.
---@param f fun(...): ...
---@param ... any
---@return any ... results of f
function process.critical(f, ...) end

---Calls `f(...)`, and returns its results. A kill that comes meanwhile takes effect after `f`.
---Unlike in a critical section, `f` may wait, and others run. The kill waits for at most
---`process.params.shield` seconds. A second kill ends `f` at once, and so does a second one from
---outside (`baton kill`). Use it to take or to give back what must not be lost half way.
---@param f fun(...): ...
---@param ... any
---@return any ... results of f
function process.shield(f, ...) end

---Options of `process.pool`. The functions may wait, and run in the process that borrows.
---@class (exact) baton.process.PoolOptions
---@field make fun(): any, string? makes an object; nil and why, if it cannot
---@field size integer how many objects there may be at once
---@field check? fun(object: any): any whether an idle object can be lent; otherwise a new one is made
---@field close? fun(object: any) ends an object that is not lent any more

---Makes a pool of objects that processes borrow, such as connections of a database. A kill loses
---none, wherever it comes:
---
---```lua
---local process = require "baton.process"
---
---local made = 0
---local pool = process.pool {
---  size = 2,
---  make = function()
---    made = made + 1
---    return "connection " .. made
---  end,
---}
---print(pool:with(function(connection) return connection end))
---local loan <close> = pool:take(1)
---print(loan.object, pool:stats().lent)
---```
---
---```text
---connection 1
---connection 1	1
---```
---
---An object whose borrower failed or was killed is closed, and the next one is made anew. With
---`check`, it is kept, and checked before it is lent again.
---@param options baton.process.PoolOptions
---@return baton.process.Pool pool
function process.pool(options) end

---What `process.pool` makes. A `<close>` variable closes it.
---@class baton.process.Pool
local Pool = {}

---Borrows an object, calls `f(object)`, gives the object back, and returns the results of `f`.
---Those who wait get their turns in order.
---@param f fun(object: any): ...
---@param timeout? number seconds to wait until one is free
---@return any ... results of f; or nil and "timeout", "closed" or what `make` has said
function Pool:with(f, timeout) end

---Borrows an object until the loan is closed or given back, or its process has ended.
---@param timeout? number seconds to wait until one is free
---@return baton.process.Loan? loan
---@return string? why "timeout", "closed" or what `make` has said
function Pool:take(timeout) end

---Closes all idle objects now, and the others when they are given back. Those who wait get nil and
---"closed".
function Pool:close() end

---Returns the figures of this instant.
---@return baton.process.PoolStats stats
function Pool:stats() end

---What `Pool:take` returns, for a `<close>` variable.
---@class baton.process.Loan
---@field object any what was borrowed; nil once it was given back
local Loan = {}

---Gives the object back.
---@return boolean done false: it was given back before
function Loan:give_back() end

---Gives it back as broken: it is closed, and the next one is made anew.
---@return boolean done false: it was given back before
function Loan:discard() end

---What `Pool:stats` returns.
---@class baton.process.PoolStats
---@field size integer how many objects there may be at once
---@field idle integer objects that wait to be lent
---@field lent integer borrowers
---@field waiting integer processes that wait for an object
---@field made integer objects made so far
---@field discarded integer objects closed so far

---Returns the context of the calling process: fields that follow its work, such as the number of a
---request. With a name, returns that field, or nil. Without one, returns a copy of all fields, or
---nil if there are none.
---
---A process begins with the context of the process that spawns it. So do those of timers, timeouts
---and scopes, calls of other VMs, and VMs. `baton.log` writes the fields into each line.
---@param name? string
---@return any
function process.context(name) end

---Returns how many seconds are left until the deadline of the caller's work: at least 0, or nil if
---there is none.
---
---The functions that `process.timeout` and `process.scope` call with a timeout have one, the
---handlers of `baton.http` with a `handler_timeout`, and the processes with the option `time_left`.
---It follows the work as the context does: to processes that are spawned, calls of other VMs, and
---calls of services on other machines. The earliest of several counts. What ends the work is not
---this, but the timeout.
---@return number?
function process.time_left() end

---Sets fields of the calling process's context, for itself and for what it spawns from now on.
---Other fields stay. `set_context(name, value)` sets one field, and nil removes it.
---`set_context(nil)` removes all. A value is a string of at most 1000 bytes, a number or a boolean.
---A context has at most 16 fields. Processes that have inherited it keep theirs.
---@param fields table<string, string | number | boolean>?
---@overload fun(name: string, value: string | number | boolean | nil)
function process.set_context(fields) end

---Calls `f(...)` with these fields in the context, and sets the context back afterwards, also after
---an error. Returns the results of `f`.
---@param fields table<string, string | number | boolean>
---@param f fun(...): ...
---@param ... any
---@return any ... results of f
function process.with_context(fields, f, ...) end

---Calls `f(scope)`, waits until all processes spawned by `scope:spawn` have ended, and returns the
---results of `f`. If one of the processes fails, the scope kills the others, and the call raises
---the error. An error in `f`, or a kill of the caller, kills them all.
---
---With options, `f` runs in a process of its own. The scope kills that one, too, at its timeout or
---by `scope:cancel`. Then the call returns `nil` and the reason.
---@param f fun(scope: baton.process.Scope): ...
---@return any ... results of f
---@overload fun(options: baton.process.ScopeOptions, f: (fun(scope: baton.process.Scope): ...)): ...
function process.scope(f) end

---Options of `process.scope`.
---@class (exact) baton.process.ScopeOptions
---@field timeout? number after so many seconds the call ends with `nil, "timeout"`
---@field name? string name of the process that runs `f`; others without a name become "NAME/1", ...

---Calls `f(...)` in a process of its own, for at most so many seconds. Returns `true, results...`.
---If the time is over, it kills the process, waits for its `<close>` variables, and returns
---`nil, "timeout"`. An error in `f` is raised in the caller: the same value, with the traceback of
---the process. The process has the priority of the caller, its context, and its `data`: the same
---table. It costs about 1.3 times what a spawn and a join cost.
---@param seconds number
---@param f fun(...): ...
---@param ... any
---@return true? in_time
---@return any ... results of `f`, or the reason
function process.timeout(seconds, f, ...) end

---A scope, which `process.scope` passes to its function. Its processes end before that call
---returns.
---@class baton.process.Scope
local Scope = {}

---Spawns a process of the scope, as `process.spawn` does. Raises an error after the end of the
---scope, and after one of its processes has failed.
---@param f fun(...): ...
---@param ... any
---@return baton.process.Process
---@overload fun(self: baton.process.Scope, options: baton.process.SpawnOptions, f: (fun(...): ...), ...): baton.process.Process
function Scope:spawn(f, ...) end

---Kills all processes of the scope, the caller included if it is one of them. The call of
---`process.scope` returns `nil` and the reason. If that call had no options, its function runs on
---until it returns.
---@param reason? any default "cancelled"; the first call's reason counts
---@return boolean done, "dead"? why
function Scope:cancel(reason) end

---Starts a supervisor: a process that starts its children in order, and restarts each by its rule.
---
---It ends when all children have ended by their rules. When it is killed, it stops them in reverse
---order. After more than `max` restarts within `within` seconds, it stops the others, and fails
---with the last error.
---@param children baton.process.Child[]
---@param options? baton.process.SuperviseOptions
---@return baton.process.Supervisor
function process.supervise(children, options) end

---A child of a supervisor: a function, a VM, or a supervisor with children of its own.
---
---A VM is started as `vm.spawn` does. Its child ends as the VM ends. When the child is stopped, the
---VM is killed, and has most of the time `stop` to end by itself.
---@class (exact) baton.process.Child
---@field name? string default "child N"
---@field start? function | table the function, or `{ f, arguments... }`
---@field vm? string | function | table in place of `start`: what `vm.spawn` calls, or `{ main, arguments... }`
---@field children? baton.process.Child[] in place of `start`
---@field options? baton.process.SuperviseOptions for those children
---@field restart? "always" | "failed" | "never" when it restarts after its end; default "failed"
---@field stop? number seconds that a stop may take before a second kill; default 5
---@field lease? fun(f: function, ...) runs `start` on one machine at a time: what `leasing` of a connection of baton.cluster returns

---Options of a supervisor.
---
---`strategy` says what restarts together with a child: `"one"`: nothing else; `"all"`: all others;
---`"rest"`: those after it in the list. The first number of `backoff` is the wait before a child's
---first restart. Each further wait is twice as long, up to the second number. After more than `max`
---restarts in `within` seconds, the supervisor stops its children and fails.
---@class (exact) baton.process.SuperviseOptions
---@field strategy? "one" | "all" | "rest" default "one"
---@field max? integer default 3
---@field within? number default 5
---@field backoff? { [1]: number, [2]: number } seconds before restarts: first and most
---@field name? string name of the supervisor's process
---@field quiet? boolean true: errors of the children and of the supervisor are not printed
---@field lasting? boolean true: it does not end by itself, and forgets children that have ended

---A supervisor. It also has the fields and methods of its process. In a `<close>` variable, it is
---killed and joined at the end of the block.
---@class baton.process.Supervisor : baton.process.Process
---@field process baton.process.Process the supervisor's process
local Supervisor = {}

---Returns the state of each child, as a copy.
---@return baton.process.ChildState[]
function Supervisor:children() end

---Stops a child and starts it again. This does not count towards `max`.
---@param name string
---@param timeout? number
---@return baton.process.Process | false | nil p, string? why
function Supervisor:restart(name, timeout) end

---Stops a child for good.
---@param name string
---@param timeout? number
---@return boolean? done, string? why
function Supervisor:stop(name, timeout) end

---Starts another child. It replaces a child of the same name that has ended.
---@param child baton.process.Child
---@param timeout? number
---@return baton.process.Process | false | nil p, string? why
function Supervisor:add(child, timeout) end

---What `Supervisor:children` returns for a child.
---@class baton.process.ChildState
---@field name string its name
---@field state "running" | "waiting" | "ended" | "stopped" "waiting": it is about to restart
---@field restarts integer how often it was restarted
---@field process baton.process.Process? its process, while it runs
---@field ended "returned" | "failed" | "killed" | nil how it last ended
---@field reason any its error, or the reason of its kill
---@field supervisor baton.process.Supervisor? its supervisor, if it has children
---@field vm baton.vm.VM? its VM, the present one or the last one

---Sets the scheduler hook; nil removes it. The runtime calls `f(current, suggested)` whenever a
---process has yielded, waits, has ended or was preempted. `f` returns the process that runs next.
---
---If `f` returns nil, or a process that cannot run, `suggested` runs: the process that would run
---without the hook. `current` is nil if the last process has ended. `f` may inspect and change
---processes, but it cannot wait. If `f` fails, its error is reported, and it is not called again.
---@param f (fun(current: baton.process.Process?, suggested: baton.process.Process): baton.process.Process?)?
function process.set_scheduler(f) end

---Waits for so many seconds.
---@param seconds number
---@return true
function process.sleep(seconds) end

---Waits until a time of the clock `process.now`.
---@param time number
---@return true
function process.sleep_until(time) end

---Declares which calls of a compiled module's functions may overlap:
---
--- - `"concurrent"`: all;
--- - `"object"`: calls about different userdata;
--- - `"serial"`: none, but other processes run meanwhile;
--- - `"exclusive"`: none, and no other process runs. This is the policy of unknown modules;
--- - `"loop"`: the same, but for an event loop: while one of its callbacks waits, all may.
---
---The module may be loaded already, or not yet.
---@param module string its name for `require`, at most 63 bytes
---@param policy "object" | "concurrent" | "serial" | "exclusive" | "loop"
function process.concurrent(module, policy) end

---Returns the seconds of a clock that never goes back. Only differences have a meaning.
---@return number
---@nodiscard
function process.now() end

---Stops the calling process, or the one given, until it is resumed.
---@param target? baton.process.Process
---@return boolean done, "dead"? why
function process.suspend(target) end

---Calls `f(...)` after so many seconds, in a process of its own. After `math.huge` seconds: never.
---@param seconds number | { [1]: number, name?: string } the name becomes that of the processes
---@param f fun(...)
---@param ... any
---@return baton.process.Timer
function process.after(seconds, f, ...) end

---Calls `f(...)` every so many seconds, each time in a process of its own. It does not drift. A
---firing is skipped if the last one still runs. The shortest period is 1e-9 seconds.
---@param seconds number | { [1]: number, name?: string } the name becomes that of the processes
---@param f fun(...)
---@param ... any
---@return baton.process.Timer
function process.every(seconds, f, ...) end

---Returns the native thread that the caller runs on: its name, or its number if it has no name.
---@return string | integer
function process.thread() end

---Returns how many native threads run processes or calls now.
---@return integer
function process.threads() end

---Returns what this system offers to the runtime.
---@return baton.process.Features
function process.features() end

---Returns counters since the start of the program.
---@return baton.process.Stats
function process.stats() end

---Makes a channel. A sender waits until there is room. With capacity 0, it waits until another
---process receives.
---@param capacity? integer | { [1]?: integer, name?: string } default 0; the name is for reports
---@return baton.process.Channel
---@nodiscard
function process.channel(capacity) end

---Makes a channel that receives the names of signals, without SIG: "TERM", "HUP", "USR1", ...
---
---Names come in the order of arrival. Each is in the channel at most once until it is received.
---Every channel for a signal receives it. While a channel for a signal is open, the signal's former
---action is off; for "INT", that is the error in the main process. The former action comes back
---when the channel is closed or collected. Faults, KILL, STOP and URG cannot be caught.
---@param name string
---@param ... string
---@return baton.process.Channel
---@nodiscard
function process.signals(name, ...) end

---Reports to the service manager, such as systemd: "READY=1", "STOPPING=1", "WATCHDOG=1",
---"STATUS=..." (sd_notify(3)). Other processes run if the manager does not read at once.
---@param text string
---@param timeout? number
---@return boolean? sent false: there is no manager (NOTIFY_SOCKET is not set)
---@return string? why
---@return integer? errno
function process.notify(text, timeout) end

---Returns the descriptors that the service manager has passed to this program, in order
---(sd_listen_fds(3)). Commands that the program runs do not inherit them.
---@return { fd: integer, name: string }[]
function process.listen_fds() end

---Waits until one of the cases is ready, and carries out that case only. If several are ready, it
---takes a random one of them. A case is one of:
---
--- - a channel, to receive; `{channel, value}`, to send;
--- - a process, until it has ended;
--- - an event, until it is set;
--- - a semaphore or a mutex, which it takes;
--- - a timer of `process.timer`, until it has fired;
--- - `{fd=n, "r"}`, until the descriptor is readable; `"w"`: writable; `"rw"`: either;
--- - an object with `getfd()`, until it is readable; `{object, "w"}`, until it is writable.
---
---Returns the number of the case, and what the single call would have returned: the value received;
---`true`; `true, "abandoned"` of a mutex; `true, results...` or `false, err` of a process;
---`nil, "closed"`. Returns `nil, "timeout"` if no case was ready in time.
---@param cases baton.process.Case[] at most 10000
---@param timeout? number
---@return integer? index
---@return any ...
function process.select(cases, timeout) end

---Makes a timer to wait for, by `wait` or in `process.select`. It fires once, after so many
---seconds, and stays ready. It calls no function, and does not keep the program from ending.
---@param seconds number | { [1]: number, name?: string } the name is shown in reports
---@return baton.process.Alarm
---@nodiscard
function process.timer(seconds) end

---Makes a counting semaphore.
---@param count? integer | { [1]?: integer, name?: string } default 0; the name is shown in reports
---@return baton.process.Semaphore
---@nodiscard
function process.semaphore(count) end

---Makes a mutex. Its owner inherits the priority of processes that wait for it. It is not
---recursive.
---@param options? { name?: string } the name is shown in reports
---@return baton.process.Mutex
---@nodiscard
function process.mutex(options) end

---Makes a condition variable that belongs to a mutex.
---@param mutex baton.process.Mutex | { [1]: baton.process.Mutex, name?: string } the name is shown in reports
---@return baton.process.Condition
---@nodiscard
function process.condition(mutex) end

---Makes an event, which is not set at first.
---@param options? { name?: string } the name is shown in reports
---@return baton.process.Event
---@nodiscard
function process.event(options) end

---Makes a lock for many readers or one writer. Processes that come later wait behind those that
---wait already, so writers are not starved. All processes that hold it inherit the priority of
---those that wait. It is not recursive.
---@param options? { name?: string } the name is shown in reports
---@return baton.process.RwLock
---@nodiscard
function process.rwlock(options) end

---Makes a barrier, at which processes wait for each other.
---@param count integer | { [1]: integer, name?: string } how many pass together; at least 1
---@return baton.process.Barrier
---@nodiscard
function process.barrier(count) end

---A process.
---@class baton.process.Process
---@field id integer its number, which no other process gets later
---@field name string its name, for messages
---@field daemon boolean whether the program ends without waiting for it
---@field data table a table for the program's own use
local Process = {}

---Waits for its end. Returns `true, results...`; `false, err` if it failed or was killed;
---`nil, "timeout"`.
---@param timeout? number
---@return boolean? ended_well
---@return any ...
function Process:join(timeout) end

---Ends it. Its `<close>` variables run, and no `pcall` stops the kill. The kill ends a wait at
---once, and Lua code at the next instruction; a C function that it is in returns first.
---@param reason? any what `join` returns; default "killed"
---@return boolean done, "dead"? why
function Process:kill(reason) end

---Stops it in any state, until it is resumed. It keeps what it holds.
---@return boolean done, "dead"? why
function Process:suspend() end

---Lets it run again after `suspend`.
---@return boolean done, "dead"? why
function Process:resume() end

---Returns the priority that it was given, without what it inherits.
---@return integer priority 1 to 80
function Process:priority() end

---Sets its priority. The more urgent process runs at once.
---@param priority integer 1 to 80, higher is more urgent
---@return boolean done, "dead"? why
function Process:set_priority(priority) end

---Binds it to the native thread of that name; nil sets it free. The thread is made when it is first
---needed, and kept while a process is bound to it. `"main"` is the first thread of the program.
---@param thread string?
---@return boolean done, "dead"? why
function Process:bind(thread) end

---Returns what it is doing.
---@return baton.process.Status
function Process:status() end

---Returns the functions that it is in, as `debug.traceback` does. For a process that has failed,
---these are the functions that it was in at its failure.
---@return string
function Process:traceback() end

---Returns its times, its stack, and what it waits for.
---@return baton.process.ProcessStats
function Process:stats() end

---Sets its switch hooks, in place of earlier ones; nil removes them. `before(p)` is called when it
---is about to run; `after(p)` when it has yielded, waits or was preempted. Hooks cannot wait.
---@param before fun(p: baton.process.Process)?
---@param after? fun(p: baton.process.Process)
---@return boolean done, "dead"? why
function Process:on_switch(before, after) end

---Sets its exit hook, in place of an earlier one; nil removes it. The process itself calls `f(p)`
---at its end, however it ends, but not at `os.exit`. Processes that join it wait for the hook.
---@param f fun(p: baton.process.Process)?
---@return boolean done, "dead"? why
function Process:on_exit(f) end

---Links two processes: when one fails, the other is killed, and so are the processes linked with
---that one. A return or a kill ends the link.
---@param other? baton.process.Process default: the caller
---@return boolean done, "dead"? why
function Process:link(other) end

---Sends a message to the channel when the process has ended; at once if it has. The message comes
---even if the channel is full, and no process waits for room.
---@param channel baton.process.Channel
---@return true
function Process:monitor(channel) end

---The message that `Process:monitor` sends.
---@class baton.process.Ending
---@field process baton.process.Process the process that has ended
---@field ended "returned" | "failed" | "killed" how it ended
---@field reason any its error, or the reason of its kill

---What `Process:stats` returns. `cpu` leaves out the time in which the native thread of the process
---waits for a processor or is blocked. Of a call beside which other processes run, `cpu` has what
---the call's thread computes, and `running` nothing.
---@class baton.process.ProcessStats
---@field cpu number seconds of processor time
---@field running number seconds that it has run, by the wall clock
---@field stack_size integer bytes of address space of its C stack
---@field stack_used integer bytes of its C stack that it has used at most
---@field thread string | false the name of the native thread that it is bound to
---@field waits_for string | false what it waits for, as in reports: "for the mutex 'jobs'"
---@field spawned_at string | false where it was spawned: "file.lua:12"; false for the main process

---What `process.after` and `process.every` return.
---@class baton.process.Timer
local Timer = {}

---Cancels the timer: no firing begins after this.
function Timer:cancel() end

---Returns its counters.
---@return baton.process.TimerStats
function Timer:stats() end

---What `Timer:stats` returns.
---@class baton.process.TimerStats
---@field fired integer firings so far
---@field skipped integer firings that were skipped because the last one still ran

---An object with a descriptor, such as a socket of LuaSocket.
---@class baton.process.HasDescriptor
---@field getfd fun(object): integer the descriptor; -1 when it is closed
---@field dirty? fun(object): boolean whether it still holds data that it has read already

---What `process.timer` returns.
---@class baton.process.Alarm
local Alarm = {}

---Waits until it has fired.
---@param timeout? number
---@return true?
---@return baton.process.Failure? why
function Alarm:wait(timeout) end

---Sets it again: it fires after so many seconds from now. Processes that wait for it wait on.
---@param seconds number
function Alarm:set(seconds) end

---Cancels it: it does not fire unless it is set again. Returns false if it had fired, or was
---cancelled before.
---@return boolean was_set
function Alarm:cancel() end

---Returns whether it has fired.
---@return boolean
function Alarm:has_fired() end

---A channel. `#channel` is the number of values in it.
---@class baton.process.Channel
---@operator len: integer
local Channel = {}

---Sends a value, and waits until there is room for it.
---@param value any except nil
---@param timeout? number
---@return true?
---@return baton.process.Failure? why
function Channel:send(value, timeout) end

---Receives a value, and waits until there is one. Values left in a closed channel still come out;
---then it returns `nil, "closed"`.
---@param timeout? number
---@return any value nil if there is none
---@return baton.process.Failure? why
function Channel:receive(timeout) end

---Closes the channel: sends fail. Receivers get the values that are left, then `nil, "closed"`.
function Channel:close() end

---Returns an iterator that receives until the channel is closed and empty:
---`for value in channel:values() do`.
---@return fun(): any
function Channel:values() end

---A counting semaphore.
---@class baton.process.Semaphore
local Semaphore = {}

---Waits until the count is above zero, and takes one off it.
---@param timeout? number
---@return true?
---@return baton.process.Failure? why
function Semaphore:wait(timeout) end

---Adds to the count.
---@param count? integer default 1
function Semaphore:signal(count) end

---Returns the count.
---@return integer
function Semaphore:count() end

---A mutex.
---@class baton.process.Mutex
local Mutex = {}

---Waits until the mutex is free, and locks it. Returns `true, "abandoned"` if its last owner ended
---without unlocking it.
---@param timeout? number
---@return true?
---@return baton.process.Failure | "abandoned" | nil note
function Mutex:lock(timeout) end

---Unlocks it. Only the owner may do so.
function Mutex:unlock() end

---Locks the mutex, calls `f(...)`, and returns its results. Unlocks the mutex however `f` ends.
---@param f fun(...): ...
---@param ... any
---@return any ...
function Mutex:with(f, ...) end

---A condition variable.
---@class baton.process.Condition
local Condition = {}

---Unlocks the mutex, waits for a signal, and locks the mutex again, also after a timeout.
---@param timeout? number
---@return true?
---@return baton.process.Failure | "abandoned" | nil note
function Condition:wait(timeout) end

---Wakes one process that waits.
function Condition:signal() end

---Wakes all processes that wait.
function Condition:broadcast() end

---An event: a flag to wait for.
---@class baton.process.Event
local Event = {}

---Sets it, and wakes all processes that wait. No process waits for it until it is cleared.
function Event:set() end

---Clears it: processes wait for it again.
function Event:clear() end

---Waits until it is set.
---@param timeout? number
---@return true?
---@return baton.process.Failure? why
function Event:wait(timeout) end

---Returns whether it is set.
---@return boolean
function Event:is_set() end

---A lock for many readers or one writer.
---@class baton.process.RwLock
local RwLock = {}

---Locks it for reading, beside other readers. Returns `true, "abandoned"` if a writer ended without
---unlocking it, and no other writer has held it since.
---@param timeout? number
---@return true?
---@return baton.process.Failure | "abandoned" | nil note
function RwLock:read(timeout) end

---Locks it for writing, alone. Returns `true, "abandoned"` if the last writer ended without
---unlocking it.
---@param timeout? number
---@return true?
---@return baton.process.Failure | "abandoned" | nil note
function RwLock:write(timeout) end

---Unlocks it. Only a process that holds it may do so.
function RwLock:unlock() end

---A barrier.
---@class baton.process.Barrier
local Barrier = {}

---Waits until as many processes wait as the barrier was made for. One of them gets `true, "last"`.
---@param timeout? number
---@return true?
---@return baton.process.Failure | "last" | nil note
function Barrier:wait(timeout) end

---Parameters of the runtime. `BATON_SLICE` and so on in the environment set them at the start.
---@class baton.process.Params
---@field slice number seconds that a process runs while another of its priority is runnable
---@field beat number seconds between two heartbeats in any case; 0: only when needed
---@field window number seconds after which others may go on beside a call; 0: at each poll (2 ms)
---@field spin "learned" | "ema" | "off" the policy for spinning before a wait in the system
---@field busy_loop_for number seconds that `"ema"` spins; 0: it never spins
---@field spin_budget number share of all time, 0 to 1, that `"learned"` may spin in vain
---@field timer_slack number seconds that deadlines may be late, so that several are met together
---@field max_threads integer how many native threads there may be
---@field thread_idle number seconds after which a native thread without work ends
---@field stack_size integer bytes of address space of a new process's C stack
---@field warn_blocked number seconds that a C function may keep all others waiting unwarned
---@field shield number seconds that a shield may hold a kill back
---@field flight number seconds of events that are kept for a trace; 0: none are
---@field preemptive boolean false: processes switch only where they wait or yield
---@field deadlock "warn" | "raise" what happens when a lock would close a cycle of locks

---What `process.features` returns.
---@class baton.process.Features
---@field membarrier boolean whether the system has `membarrier`
---@field guard_pages "madvise" | "mprotect" how stacks get their guard pages
---@field poller "epoll_pwait2" | "timerfd" | "polling" how the program waits for deadlines
---@field clock string the clock of `process.now`
---@field architecture string the processor
---@field preemption boolean whether this build preempts processes

---What `process.stats` returns: counters since the start of the program, and present numbers.
---@class baton.process.Stats
---@field switches integer switches from one process to another
---@field yields integer of these: because a process yielded
---@field preemptions_by_urgency integer of these: because a more urgent process became runnable
---@field preemptions_by_slice integer of these: because a slice was over
---@field wakes integer waits that ended
---@field timeouts integer of these: because the time was over
---@field kills integer kills of living processes
---@field kills_held integer of these: held back by a shield, a section or a `__close` method
---@field holds_cut integer of these: second ones, which ended what held the first one back
---@field spawned integer processes spawned
---@field ended integer processes that have ended
---@field timers_fired integer firings of timers
---@field timers_skipped integer firings skipped: they were late, or the last one still ran
---@field pinned_waits integer waits of processes for the one native thread that they can run on
---@field live integer processes that have not ended
---@field runnable integer processes that are runnable
---@field sleeping integer processes that sleep
---@field foreign integer processes in a C call beside which others run
---@field waiting_for_thread integer processes that wait for their native thread
---@field beats integer preempt requests of the monitor
---@field signals integer signals sent because a preempt request was not noticed
---@field retakes integer calls that lasted, so that others went on
---@field false_retakes integer retakes given up because the call ended meanwhile
---@field gave_way_in_calls integer times that a C call gave way at the end of its slice
---@field exclusive_calls integer calls that lasted, and kept all others waiting
---@field moves integer offloaded calls: ffi calls known to be long, made on another native thread
---@field thread_bound_hits integer times that `max_threads` made a call wait
---@field idle_waits integer waits of the program in the system
---@field descriptor_waits integer waits of processes for descriptors
---@field descriptors_registered integer descriptors registered for these waits, each once
---@field spins_hit integer spins in which the event came
---@field spins_failed integer spins in vain
---@field parks_long integer waits without a spin that were longer than a spin
---@field parks_short integer waits without a spin that a spin would have met
---@field spin_time number seconds spun in all
---@field spin_budget_left number seconds that `learned` may spin in vain now
---@field park_cost number seconds from a wake-up until the program runs, in nearly all cases
---@field handovers integer times that a native thread gave the VM lock to another one; retakes are not counted
---@field threads integer native threads
---@field threads_named integer native threads with names, "main" not counted
---@field threads_started integer native threads started
---@field threads_retired integer native threads that ended for want of work
---@field stacks_in_use integer C stacks in use
---@field stacks_free integer C stacks kept for new processes

return process
