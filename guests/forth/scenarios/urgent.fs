variable flag
: low ." low" cr ;
: high 50 ms ." high" cr 1 flag ! ;
: look begin flag @ until ;
' low 20 spawn drop  ' high 60 spawn drop  look ." main" cr rest
