." ready" cr 3000 ms ." done" cr
