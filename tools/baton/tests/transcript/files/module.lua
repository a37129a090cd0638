print("module", ...)
return { name = "module" }
