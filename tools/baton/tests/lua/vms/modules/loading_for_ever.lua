-- A module whose loading does not end. It tells by the channel in `arg.loading` of its end.
local loading = arg.loading
local guard <close> = setmetatable({}, { __close = function() loading:send "closed" end })
loading:send "loading"
while true do end
