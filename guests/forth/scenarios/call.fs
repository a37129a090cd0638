variable flag
: reader key . cr 1 flag ! ;
: look begin flag @ until ;
' reader 0 spawn drop  yield  ." beside" cr  look  ." done" cr
