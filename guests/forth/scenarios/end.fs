: reader key . cr ;
' reader 0 spawn drop  100 ms  ." end" cr bye
