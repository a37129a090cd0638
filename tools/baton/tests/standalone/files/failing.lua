error("in a module")
