." hello" cr
