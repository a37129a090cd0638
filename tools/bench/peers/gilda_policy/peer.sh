#!/bin/sh
# Baton made to follow the policy that GildaVM's paper publishes, for its tables to be measured beside ours: `peer script [args]`.
# A look every 2 ms takes the VM from whatever foreign call it finds, however young, and every return into the VM costs a
# read-modify-write instruction with a full fence: this build has the lock by compare-and-swap.
here=$(dirname "$0")
if [ "$1" = version ]; then
  exec "$here/build/release/baton" -v
fi
BATON_WINDOW=0 exec "$here/build/release/baton" "$@"
