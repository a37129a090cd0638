#!/usr/bin/env lua
print("after the first line", ...)
error("line three")
