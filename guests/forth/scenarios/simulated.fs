\ `until` ends a loop at a value that is not 0.
: is-zero if 0 exit then 1 ;
: rounds 100 begin -1 + dup is-zero until drop ;
: prints 10 begin rounds swap dup . cr swap -1 + dup is-zero until drop drop ;
: one 1 prints ;
: two 2 prints ;
: three 3 prints ;
' one 0 spawn drop  ' two 0 spawn drop  ' three 0 spawn drop
rest 3600000 ms ." done" cr
