print("inner", ...)
return { name = "inner" }
