-- libguestfs: the functions of its handle that need no virtual machine. No call may fail: the
-- library stores the error handler per native thread, and a process may be on another thread than
-- when it made its handle.
local guestfs = require "guestfs"

return function(t)
  local g = guestfs.create()
  t.say(g:version().major == 1, g:get_verbose(), g:get_autosync())
  g:set_verbose(false)
  g:set_memsize(600)
  g:set_tmpdir(t.scratch)
  t.say(g:get_memsize(), g:get_tmpdir())
  local disk = t.scratch .. "/disk.img"
  g:disk_create(disk, "raw", 1024 * 1024)
  t.say(io.open(disk):seek "end")
  g:add_drive(disk, { format = "raw", readonly = true })
  local events = {}
  local handle = g:set_event_callback(function(event) events[#events + 1] = event end, "close")
  t.say(handle ~= nil, #g:debug_drives())
  t.say(g:is_config(), g:is_launching(), g:is_ready())
  g:close()
  t.say(#events, (pcall(g.get_verbose, g)))
end
