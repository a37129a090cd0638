: wait 3600000 ms ." slept" cr ;
' wait 0 spawn  100 ms  dup kill join  ." ended" cr
