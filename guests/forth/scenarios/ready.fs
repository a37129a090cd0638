: waiter ready key . cr ;
' waiter 0 spawn drop  50 ms  ." beside" cr  rest
