error "cannot load this"
