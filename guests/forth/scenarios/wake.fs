be-woken ." woken" cr
