return function(n) return 2 * n end
