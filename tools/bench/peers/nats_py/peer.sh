#!/bin/sh
# The client of NATS for Python, in the environment beside this file.
here=$(dirname "$0")
exec "$here/bin/python" -I "$here/peer.py" "$@"
