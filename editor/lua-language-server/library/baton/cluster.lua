---@meta baton.cluster

-- Past one machine: messages, services, durable queues and tables over NATS. Queues, tables and
-- leases need a server with JetStream (`nats-server -js`). A function that waits stops only its own
-- process. What could not be done is `nil` and a reason: "offline", "timeout", "closed", or a text.

---Programs on several machines, connected by NATS.
---@class baton.cluster
local cluster = {}

---Options of `cluster.connect`.
---@class (exact) baton.cluster.ConnectOptions
---@field url? string one or more URLs, with commas between them; default "nats://127.0.0.1:4222"
---@field name? string what the server calls the connection; default the script's name
---@field credentials? string | baton.cluster.Credentials a file of credentials, as nsc writes it; or a user or token
---@field tls? boolean | baton.cluster.Tls whether the connection must be encrypted, and with what
---@field timeout? number seconds to wait for the first connection; default 30
---@field faults? baton.cluster.Faults of the network, in a simulated run

---Who a program is: a user with a password, or a token.
---@class (exact) baton.cluster.Credentials
---@field user? string
---@field password? string
---@field token? string

---Files in the format PEM.
---@class (exact) baton.cluster.Tls
---@field ca? string the certificates of authorities that are trusted besides the system's
---@field cert? string the program's own certificate
---@field key? string the key of that

---What goes wrong in a network of a simulated run (`baton --simulate`).
---@class (exact) baton.cluster.Faults
---@field delay? number seconds that something is on its way at most; default 0.001
---@field loss? number the chance, from 0 to 1, that something is lost
---@field duplication? number the chance that a message comes twice
---@field every? number the network is cut once in so many seconds
---@field lasts? number for so many seconds

---Connects to a server. Later the connection comes back by itself whenever it was lost. Returns nil
---and a reason if there is no connection. In a simulated run, the server is in memory.
---@param options? baton.cluster.ConnectOptions
---@return baton.cluster.Connection? connection
---@return string? why
function cluster.connect(options) end

---A connection. A `<close>` variable closes it.
---@class baton.cluster.Connection
local Connection = {}

---Whether the server can be reached now, as far as is known. In a fork's child, the parent's
---connections are "closed".
---@return "online" | "offline" | "closed"
function Connection:status() end

---Sends what was published, and ends the connection. What waits for it returns nil, "closed".
---@return true? done
---@return string? why
function Connection:close() end

---Sends a value to all that listen now. It may be lost. Values are those of MessagePack: booleans,
---numbers, strings, and tables of these without cycles; a table with the keys 1 to n is an array.
---Anything else raises an error that names it: "cannot send value.handle[3]: userdata FILE*".
---@param subject string words with dots between them, as "news.sport"
---@param value any
---@return true? sent
---@return string? why
function Connection:publish(subject, value) end

---Options of `Connection:subscribe`.
---@class (exact) baton.cluster.SubscribeOptions
---@field queue? string each message goes to one member of the group of this name
---@field max? integer how many messages may wait; default 1024
---@field subjects? boolean values are tables `{ subject =, value = }`

---Listens to a subject. In it, `*` stands for a word, and `>` for one or more words at the end.
---@param subject string
---@param options? baton.cluster.SubscribeOptions
---@return baton.cluster.Subscription? subscription
---@return string? why
function Connection:subscribe(subject, options) end

---What `Connection:subscribe` returns. A `<close>` variable closes it.
---@class baton.cluster.Subscription
---@field channel baton.process.Channel where the values come, for `process.select`
local Subscription = {}

---Waits for the next value.
---@param timeout? number
---@return any value
---@return "timeout" | "closed"? why
function Subscription:receive(timeout) end

---Iterates over the values, until the subscription is closed.
---@return fun(): any
function Subscription:values() end

---How many messages were lost here, as `max` of them waited; and how many were no values.
---@return integer lost
---@return integer unreadable
function Subscription:lost() end

---Ends the subscription.
function Subscription:close() end

---Options of `Connection:serve`.
---@class (exact) baton.cluster.ServeOptions
---@field concurrency? integer how many requests run at a time; default 64

---Offers functions under a name. Each request runs in a process of its own. Several programs may
---serve one name: a request goes to one that is free. The program goes on until `Service:close`.
---@param name string
---@param methods table<string, fun(...): ...>
---@param options? baton.cluster.ServeOptions
---@return baton.cluster.Service? service
---@return string? why
function Connection:serve(name, methods, options) end

---What `Connection:serve` returns. A `<close>` variable closes it.
---@class baton.cluster.Service
local Service = {}

---Takes no more requests. Those in progress go on.
function Service:close() end

---Calls a method of a service, and returns its results. An error is raised here, with the traceback
---of the service. If nobody serves, it returns nil, "no service" at once. The last argument may be
---a table with the field `timeout` alone: it limits the call.
---@param name string
---@param method string
---@param ... any
---@return any ... results; or nil and "no service", "timeout", "offline" or "closed"
function Connection:call(name, method, ...) end

---Options of `Connection:queue`.
---@class (exact) baton.cluster.QueueOptions
---@field max? integer how many jobs it holds at most; then `Queue:send` waits
---@field ack? number seconds after which a job of a program that was lost comes again; default 30
---@field tries? integer how often a job is tried; default 5
---@field dead? string | false the queue of jobs that were tried too often or rejected; default the name with "-dead"; false: they are dropped
---@field replicas? integer on how many servers it is stored; default 1
---@field prefetch? integer how many jobs a program that receives quickly fetches ahead, at most; default 256; 0: none

---Opens a durable queue. It is made if it is not there.
---@param name string
---@param options? baton.cluster.QueueOptions
---@return baton.cluster.Queue? queue
---@return string? why
function Connection:queue(name, options) end

---What `Connection:queue` returns.
---@class baton.cluster.Queue
---@field name string
local Queue = {}

---Options of `Queue:send`.
---@class (exact) baton.cluster.SendOptions
---@field id? string a second job with the same id within two minutes is dropped
---@field delay? number seconds until somebody may receive it
---@field timeout? number seconds to try; default: until it is stored

---Stores a job. Waits while the queue is full or the server cannot be reached. A job that was given
---up by "timeout" may have been stored.
---@param value any
---@param options? baton.cluster.SendOptions
---@return true? stored
---@return "full" | "offline" | "timeout" | string? why
function Queue:send(value, options) end

---Waits for a job. It belongs to this process: if the process ends before the job, the job is given
---back. Jobs that were fetched ahead come without a wait.
---@param timeout? number
---@return baton.cluster.Job? job
---@return string? why
function Queue:receive(timeout) end

---Has n processes call `f(value, job)` for each job. If f returns, the job is done; if it fails, it
---is tried again, and a warning says why. A process that is killed is replaced.
---@param n integer
---@param f fun(value: any, job: baton.cluster.Job)
---@return baton.cluster.Work
function Queue:work(n, f) end

---What `Queue:work` returns. A `<close>` variable closes it.
---@class baton.cluster.Work
local Work = {}

---Begins no more jobs, and waits for those in progress.
function Work:close() end

---A job.
---@class baton.cluster.Job
---@field value any what was sent
---@field tries integer how often it was given to somebody, with this time
---@field why? string of a dead job: why it was given up
local Job = {}

---The fields of the context that its sender had. `Queue:work` calls its function with them.
---@return table<string, string | number | boolean>? fields
---@return "over"? why
function Job:context() end

---The job is done, and is removed. An end of the server in this moment can bring it back.
---@return true? done
---@return "over" | "closed"? why
function Job:done() end

---Gives the job back, to be tried again after so many seconds.
---@param delay? number
---@return true? done
---@return "over" | "closed"? why
function Job:retry(delay) end

---Gives the job up: it goes to the queue of dead jobs.
---@param why? string
---@return true? done
---@return "over" | "closed"? why
function Job:reject(why) end

---Options of `Connection:table`.
---@class (exact) baton.cluster.TableOptions
---@field replicas? integer on how many servers it is stored; default 1

---Opens a table. It is made if it is not there.
---@param name string
---@param options? baton.cluster.TableOptions
---@return baton.cluster.Table? table
---@return string? why
function Connection:table(name, options) end

---What `Connection:table` returns. Keys have letters, digits and `_ / = . -`. Each write gives the
---entry a revision, which is greater than all before in the table.
---@class baton.cluster.Table
---@field name string
local Table = {}

---Returns the value and its revision. If there is none, returns nil and 0.
---@param key string
---@return any value
---@return integer | string revision or why it is not known
function Table:get(key) end

---Writes an entry.
---@param key string
---@param value any
---@return integer? revision
---@return string? why
function Table:put(key, value) end

---Writes an entry if it has this revision; 0: if there is none.
---@param key string
---@param revision integer
---@param value any
---@return integer? revision
---@return "changed" | string? why
function Table:compare(key, revision, value) end

---Deletes an entry; with a revision, if it has that.
---@param key string
---@param revision? integer
---@return true? done
---@return "changed" | string? why
function Table:delete(key, revision) end

---Iterates over entries whose keys begin like this: all that are there, and then each change, for
---ever: `for entry in t:watch "hosts."`.
---@param prefix? string default: all
---@return fun(): baton.cluster.Entry?
function Table:watch(prefix) end

---An entry of a table.
---@class baton.cluster.Entry
---@field key string
---@field value any nil if it was deleted
---@field revision integer
---@field error? string why there is no value, if it cannot be read

---Waits until this program has the lease of a name. It is extended until it is released, or the
---server cannot be reached for `ttl` seconds.
---@param name string
---@param ttl number seconds
---@param timeout? number
---@return baton.cluster.Lease? lease
---@return string? why
function Connection:lease(name, ttl, timeout) end

---What `Connection:lease` returns. A `<close>` variable releases it.
---@class baton.cluster.Lease
---@field token integer greater than the tokens of all earlier holders: give it to what the holder writes to, which can refuse a smaller one
local Lease = {}

---The event that is set when the lease is lost or released.
---@return baton.process.Event
function Lease:lost() end

---Gives the lease up.
function Lease:release() end

---For the field `lease` of a supervisor's child. The child runs as `start(lease, ...)` while this
---program has the lease. If it is lost, the process is killed, and runs again with the next lease.
---@param name string
---@param ttl number seconds
---@return fun(f: fun(lease: baton.cluster.Lease, ...), ...)
function Connection:leasing(name, ttl) end

return cluster
