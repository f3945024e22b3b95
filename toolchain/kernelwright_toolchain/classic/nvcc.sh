#!/bin/sh
# SPDX-License-Identifier: MIT
# Lies over nvcc in the build's namespace. Each compile is in a PID namespace of its own: nvcc is process 1 or near it, and
# its number, which it writes into every object, is always the same.
exec unshare --pid --mount --fork --kill-child /bin/sh /kw/shims/compile.sh "$@"
