/* cgo compiles the C files of the package's own directory. */
#include "../../c/calls.c"
