variable n
: is-zero if 0 exit then 1 ;
: descend dup if -1 + descend exit then drop 5000 nap ;
: rounds 10 begin swap dup descend swap n @ 1 + n ! -1 + dup is-zero until drop drop ;
: two 2 rounds ;
: four 4 rounds ;
: six 6 rounds ;
: eight 8 rounds ;
: loop begin again ;
' loop 0 spawn drop
' two 0 spawn ' four 0 spawn ' six 0 spawn ' eight 0 spawn  join join join join  n @ . cr bye
