# SPDX-License-Identifier: MIT
"""`python -m toolchain VERB …`: each verb is a file of commands/, found by its name."""

from __future__ import annotations

import argparse
import ast
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kernelwright_toolchain import disk
from kernelwright_toolchain.errors import KwError

if TYPE_CHECKING:
    from collections.abc import Sequence

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PARENT = "KW_PARENT"  # the process without which a verb shall not go on: noxfile.py's
PARENT_ENDED = signal.SIGUSR1  # not one of the above, which a process may be told to ignore before it begins
_PR_SET_PDEATHSIG = 1
COMMANDS, VERBS = "commands", "verbs"  # of kernelwright's tree; of any project
PROGRAM = {COMMANDS: "python -m toolchain", VERBS: "kwt"}


def _about(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def verbs(folder: str = COMMANDS) -> dict[str, str]:
    """verb -> what it does. Read, not imported: one verb's needs are not another's."""
    place = Path(__file__).resolve().parent / folder
    files = sorted(path for path in place.glob("*.py") if not path.stem.startswith("_"))
    return {path.stem.replace("_", "-"): _about(path) for path in files}


def usage(folder: str = COMMANDS) -> str:
    known = verbs(folder)
    width = max(map(len, known), default=0)
    lines = [f"  {verb:<{width}}  {about}" for verb, about in known.items()]
    return "\n".join([f"usage: {PROGRAM[folder]} VERB [-h] ...", "", *lines])


def _ended(number: int, _frame: object) -> NoReturn:
    """Unwinds, so that what was started is ended and what is half done is cleaned up; once, however often it comes."""
    for other in (*SIGNALS, PARENT_ENDED):
        signal.signal(other, signal.SIG_IGN)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + (signal.SIGTERM if number == PARENT_ENDED else number))


def _end_with(parent: str) -> None:
    """Asks the kernel for a signal when the parent ends: nobody kills a verb, they kill what started it."""
    import ctypes

    signal.signal(PARENT_ENDED, _ended)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, PARENT_ENDED)
    if os.getppid() != int(parent):  # it has ended already
        sys.exit(128 + signal.SIGTERM)


def _listen() -> None:
    """Signals end this process in good order; one that is ignored already, as nohup does, stays so."""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _ended)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # noxfile.py keeps it waiting until here
    if parent := os.environ.pop(PARENT, ""):
        _end_with(parent)


def _parsed(parser: argparse.ArgumentParser, words: Sequence[str], *, forwards: bool) -> argparse.Namespace:
    """What a verb that forwards does not know is for the program that it runs: `rest`."""
    if not forwards:
        return parser.parse_args(words)
    given, rest = parser.parse_known_args(words)
    given.rest = rest
    return given


def main(argv: Sequence[str], folder: str = COMMANDS) -> int:
    verb = argv[0] if argv else ""
    if verb in {"-h", "--help"}:
        print(usage(folder))
        return 0
    if verb not in verbs(folder):
        print(f"{f'no verb {verb!r}' if verb else 'no verb given'}\n{usage(folder)}", file=sys.stderr)
        return 2
    command = import_module(f"kernelwright_toolchain.{folder}.{verb.replace('-', '_')}")
    parser = argparse.ArgumentParser(prog=f"{PROGRAM[folder]} {verb}", description=command.__doc__)
    command.add_arguments(parser)
    try:
        _listen()
        return int(command.run(_parsed(parser, argv[1:], forwards=getattr(command, "FORWARDS", False))))
    except (KwError, OSError) as error:
        told = disk.full(error) or disk.forbidden(error) or error
        if not isinstance(told, KwError):
            raise
        print(f"error: {told}", file=sys.stderr)
        return told.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


def command() -> int:
    """`kwt`."""
    return main(sys.argv[1:], VERBS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
