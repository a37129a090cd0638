." waiting" cr suspend ." resumed" cr
