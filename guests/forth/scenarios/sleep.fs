: long 500 ms ." 500" cr ;
: short 100 ms ." 100" cr ;
: middle 300 ms ." 300" cr ;
' long 0 spawn drop  ' short 0 spawn drop  ' middle 0 spawn drop  rest
