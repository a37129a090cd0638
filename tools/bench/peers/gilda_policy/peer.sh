#!/bin/sh
# Baton with the policy of GildaVM's paper, for a comparison with our own: `peer script [args]`.
# Every 2 ms, the monitor retakes the VM from any foreign call, however short. This build uses the
# compare-and-swap lock, so every return into the VM costs a read-modify-write instruction with a
# full fence.
here=$(dirname "$0")
if [ "$1" = version ]; then
  exec "$here/build/dist/baton" -v
fi
BATON_WINDOW=0 exec "$here/build/dist/baton" "$@"
