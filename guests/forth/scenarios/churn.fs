variable n
: is-zero if 0 exit then 1 ;
: caller 500 begin 20 nap n @ 1 + n ! -1 + dup is-zero until drop ;
: one ' caller 0 spawn drop ;
one one one one one one one one rest n @ . cr
