---@meta baton.log

-- Lines with a time, a level, a message and fields, to stderr or a file. A line is written in one
-- piece. Nobody waits for whoever reads it: lines wait in a buffer, and what does not fit is
-- dropped and counted. The fields of `process.context` are in each line.

---Logs.
---@class baton.log : baton.log.Logger
local log = {}

---@alias baton.log.Level "debug" | "info" | "warn" | "error" | "off"

---A function that writes a line, unless its level is below that of the log.
---@alias baton.log.Put fun(message: any, fields?: table<string, any>)

---What writes lines: the module itself, or what `log.with` returns.
---@class baton.log.Logger
---@field debug baton.log.Put
---@field info baton.log.Put
---@field warn baton.log.Put
---@field error baton.log.Put
local Logger = {}

---Returns a logger with these fields in each of its lines.
---@param fields table<string, any>
---@return baton.log.Logger
function Logger.with(fields) end

---Whether lines of this level are written.
---@param level baton.log.Level
---@return boolean
function Logger.enabled(level) end

---Returns a function that writes lines of this level, for what reports to a function, such as an
---access log. It takes a message and fields, or a table alone: those are the fields of a line
---"request".
---@param level? baton.log.Level default "info"
---@return fun(message: any, fields?: table)
function Logger.writer(level) end

---Settings of the log.
---@class (exact) baton.log.Settings
---@field to? string "stderr" (the default), or a path, which may have conversions of `os.date`
---@field format? "logfmt" | "json" default "logfmt"
---@field level? baton.log.Level default "info"
---@field buffer? integer bytes of lines that may wait to be written, from 1024; default 1048576
---@field hup? boolean default true: SIGHUP opens the file anew, for programs that rename it

---Changes the settings that are given, and returns all. Returns nil and why if a file cannot be
---opened; then nothing has changed. Settings are those of one VM. VMs may write to one file.
---@param settings? baton.log.Settings
---@return baton.log.Settings?
---@return string? why
function log.setup(settings) end

---Returns the level. With an argument, sets it first.
---@param level? baton.log.Level
---@return baton.log.Level
function log.level(level) end

---Opens the file anew: one that was renamed gets its last lines before, and the new file those
---after.
---@return boolean? done
---@return string? why
function log.reopen() end

---How many lines of this VM were dropped so far. A line says so, too, once there is room again.
---@return integer
function log.dropped() end

return log
