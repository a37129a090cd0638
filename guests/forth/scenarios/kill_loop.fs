: loop ." looping" cr begin again ;
' loop 0 spawn  100 ms  dup kill join  ." ended" cr
