: call key . cr ;
' call 0 spawn  100 ms  dup kill  ." killed" cr  join  ." ended" cr
