variable n
variable i
: one yield n @ 1 + n ! ;
\ `until` ends the loop at a value that is not 0.
: is-zero if 0 exit then 1 ;
: all 1000 i ! begin ' one 0 spawn drop i @ -1 + dup i ! is-zero until ;
all rest n @ . cr
