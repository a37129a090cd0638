-- A module with functions, whose loading waits for a message by the channel in `arg.loading`.
arg.loading:send "loading"
while arg.loading:receive() ~= "go on" do end
return { loaded = function() return true end }
