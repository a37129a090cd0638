variable flag
: other 1 flag ! ;
: look begin flag @ until ;
' other 0 spawn drop look ." done" cr
