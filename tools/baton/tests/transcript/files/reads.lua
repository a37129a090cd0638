print(io.read("n", "l"))
print(io.read(3))
for line in io.lines() do print("[" .. line .. "]") end
print(io.read("a") == "", io.read("l"))
