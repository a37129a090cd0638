# both
print("after both") error("x")
