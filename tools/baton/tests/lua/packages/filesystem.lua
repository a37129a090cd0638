-- LuaFileSystem: a tree of directories, links, times, locks.
local lfs = require "lfs"

local function write(path, text)
  local file = assert(io.open(path, "w"))
  assert(file:write(text))
  assert(file:close())
end

local function walk(dir, found)
  for name in lfs.dir(dir) do
    if name ~= "." and name ~= ".." then
      local path = dir .. "/" .. name
      found[#found + 1] = path
      if lfs.symlinkattributes(path, "mode") == "directory" then walk(path, found) end
    end
  end
  return found
end

local function remove_all(dir)
  local found = walk(dir, {})
  for i = #found, 1, -1 do assert(os.remove(found[i])) end
  assert(lfs.rmdir(dir))
end

return function(t)
  local top = t.scratch .. "/tree"
  assert(lfs.mkdir(top))
  for _, name in ipairs { "a", "a/b", "a/b/c", "d" } do assert(lfs.mkdir(top .. "/" .. name)) end
  for i = 1, 40 do write(top .. "/a/file" .. i, ("x"):rep(i)) end
  assert(lfs.link("file7", top .. "/a/soft", true))
  assert(lfs.link(top .. "/a/file7", top .. "/d/hard"))
  local found = walk(top, {})
  local size = 0
  for _, path in ipairs(found) do
    if lfs.symlinkattributes(path, "mode") == "file" then
      size = size + lfs.attributes(path, "size")
    end
  end
  t.say(
    #found,
    size,
    lfs.symlinkattributes(top .. "/a/soft").target,
    lfs.attributes(top .. "/d/hard", "nlink")
  )
  assert(lfs.touch(top .. "/d/hard", 86400, 172800))
  t.say(lfs.attributes(top .. "/a/file7", "access"), lfs.attributes(top .. "/a/file7").modification)
  t.say(lfs.attributes(top .. "/none"))
  t.say(select(2, lfs.mkdir(top)), select(2, pcall(lfs.dir, top .. "/none")))
  local file = assert(io.open(top .. "/a/file1", "r+"))
  t.say(lfs.lock(file, "w"), lfs.unlock(file), lfs.setmode(file, "binary"))
  file:close()
  local lock = assert(lfs.lock_dir(top))
  t.say(select(2, lfs.lock_dir(top)))
  lock:free()
  local iterator, state = lfs.dir(top)
  iterator(state)
  state:close()
  t.say(pcall(iterator, state))
  remove_all(top)
  t.say(lfs.attributes(top, "mode"))
end
