-- A module that kills its process while it is loaded.
require("baton.process").current():kill "by itself"
while true do end
