#!/bin/sh
# SPDX-License-Identifier: MIT
# The real nvcc under its own name. Each source it is given has a fixed date: where a file has no external symbol, nvcc
# makes names out of its date. Each compile has a /kw/tmp of its own: all have the same process number, and two that
# meet in one directory count their files on, up to the number that objects are then named by.
mount --bind /kw/real/bin/nvcc /kw/cuda/bin/nvcc || exit 97
own=$(mktemp -d "${TMPDIR:-/tmp}/kw.XXXXXXXX") && mount --bind "$own" /kw/tmp || exit 97
dated=
what=
for word in "$@"; do
  case $word in
  *.cu | *.cc | *.cpp | *.cxx | *.c)
    if [ -f "$word" ]; then
      copy=$(mktemp "${TMPDIR:-/tmp}/kw.XXXXXXXX") || exit 97
      cat "$word" >"$copy" && touch -d @315532800 "$copy" && mount --bind "$copy" "$word" || exit 97
      dated="$dated $copy"
      what=$word
    fi
    ;;
  esac
done
began=$(date +%s%N)
TMPDIR=/kw/tmp /kw/cuda/bin/nvcc "$@"
code=$?
[ -z "$what" ] || echo "$(($(date +%s%N) - began)) ${what#/kw/source/}" >>/kw/build/compiles
for copy in $dated; do rm -f "$copy"; done
rm -rf "$own"
exit $code
