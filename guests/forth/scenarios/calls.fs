: reader ." in" cr key . cr ;
: one ' reader 0 spawn drop ;
one one one one rest ." done" cr
