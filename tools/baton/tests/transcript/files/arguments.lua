for i = -6, 6 do io.write(tostring(arg[i]), " ") end
print(#arg, select("#", ...), ...)
