# SPDX-License-Identifier: MIT
"""The program `python -m kernelwright`: the doctor and its tools, which need no torch, and the benchmark of a model."""

from __future__ import annotations

import importlib
import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# The verb, the module whose main() it is, and what --help says of it. Without a verb: the first.
_VERBS = {
    "doctor": ("doctor.report.command", "what is installed here, what this machine offers; runs every operator once"),
    "explain": ("doctor.explain._print", "names the cause in the log of a failed build or run, of any CUDA program"),
    "run": ("doctor.explain.run", "runs a program, and explains it if it fails"),
    "xray": ("doctor.xray.command", "what a CUDA wheel, library or folder holds, and where it will run"),
    "bench": ("bench.command", "a model in 4 bits and in bfloat16; with --against LIST operators beside others'"),
    "causes": ("doctor.report.causes", "everything that the doctor can name, with its fix"),
}
_INSIDE = {
    "bench": {
        "--against LIST": "operators beside bitsandbytes, flash_attn, liger, torch",
        "transformers": "the same model in transformers, beside bitsandbytes",
        "bitnet": "a stack of BitNet's blocks, ternary beside bfloat16",
    },
}


_FIX = "pip install --force-reinstall --no-deps kernelwright; if that does not end it, please report this"


def _tree() -> str:
    """Every verb, for who asks for help without one."""
    lines = ["usage: kernelwright [VERB] [OPTIONS]      (the same as python -m kernelwright)", ""]
    for verb, (_, words) in _VERBS.items():
        lines.append(f"  {verb:10}{words}")
        lines += [f"    {name:16}{what}" for name, what in _INSIDE.get(verb, {}).items()]
    first = next(iter(_VERBS))
    return "\n".join(
        [*lines, "", f"Without a verb: {first}. `kernelwright VERB --help` has a verb's options. --version"]
    )


def _print_anything() -> None:
    """A path of undecodable bytes, or a terminal that knows ASCII only, must not end a report."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _unwritten(error: OSError) -> int:
    """What is printed cannot be written: the reader, such as `| head`, went away, or the disk is full."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        print(f"kernelwright cannot write its report: {error}", file=sys.stderr)
    return 1


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] in (["--version"], ["-V"]):
        from kernelwright import __version__

        print(f"kernelwright {__version__}")
        return 0
    if given[:1] in (["--help"], ["-h"]):
        print(_tree())
        return 0
    verb = given.pop(0) if given and not given[0].startswith("-") else "doctor"
    if verb not in _VERBS:
        print(f"kernelwright has no verb {verb!r}; it has {', '.join(_VERBS)} (each with --help)", file=sys.stderr)
        return 2
    try:
        _print_anything()
        code = int(importlib.import_module(f"kernelwright.{_VERBS[verb][0]}").main(given))
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        return _unwritten(error)
    except Exception as error:  # noqa: BLE001 - files of the doctor itself are gone or damaged
        print(f"kernelwright {verb} failed itself ({type(error).__name__}: {error}); {_FIX}", file=sys.stderr)
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
