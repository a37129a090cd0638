variable n
: digit n @ 10 * + n ! ;
: three dup digit yield dup digit yield digit ;
: one 1 three ;
: two 2 three ;
' one 0 spawn drop  ' two 0 spawn drop  rest  n @ . cr
