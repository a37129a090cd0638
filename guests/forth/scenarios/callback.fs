: loop begin again ;
: visit . cr 10 ms ;
' loop 0 spawn drop  3 ' visit call-back  ." returned" cr bye
